"""Several apps in one run: each has the host id that Azure would give it, and together they get one kind of work."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simulator.work.apps import App, AppFunction, check_app, together
from simulator.work.deployments import deployments_of, shares_by_itself
from simulator.work.scenario import Scenario, ScenarioError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WEBSITE_SITE_NAME", "AzureFunctionsWebHost__hostid", "AzureFunctionsJobHost__singleton__hostId"):
        monkeypatch.delenv(name, raising=False)


def app_in(folder: Path, *, host: str = "", **values: str) -> Path:
    folder.mkdir()
    (folder / "function_app.py").write_text("")
    (folder / "host.json").write_text(
        json.dumps({"version": "2.0", **({"singleton": {"hostId": host}} if host else {})})
    )
    (folder / "local.settings.json").write_text(json.dumps({"Values": values}))
    return folder


def ids(scenario: Scenario) -> list[tuple[str, str, str]]:
    return [(site.name, site.host_id, site.lock_id) for site in deployments_of(scenario)]


def test_a_run_of_one_folder_has_no_sites(tmp_path: Path) -> None:
    assert ids(Scenario(app=app_in(tmp_path / "shop", WEBSITE_SITE_NAME="shop-north"))) == []


def test_each_folder_has_the_id_of_its_site_by_the_hosts_rule(tmp_path: Path) -> None:
    north = app_in(tmp_path / "north", WEBSITE_SITE_NAME="Shop-North-In-A-Region-Far-Away-Indeed")
    south = app_in(tmp_path / "south", website_site_name="shop", WEBSITE_SLOT_NAME="staging")
    assert ids(Scenario(app=north, more=(south,))) == [
        (
            "Shop-North-In-A-Region-Far-Away-Indeed",
            "shop-north-in-a-region-far-away",
            "shop-north-in-a-region-far-away",
        ),
        ("shop", "shop-staging", "shop-staging"),
    ]


def test_a_folder_without_a_site_name_is_named_by_its_folder(tmp_path: Path) -> None:
    north, south = (app_in(tmp_path / name) for name in ("north", "South"))
    sites = deployments_of(Scenario(app=north, more=(south,)))
    assert [site.lock_id for site in sites] == ["north", "south"]
    assert sites[0].cause == "the folder's name, as no WEBSITE_SITE_NAME is set"


def test_an_explicit_id_of_the_host_is_the_id_of_the_locks(tmp_path: Path) -> None:
    north = app_in(tmp_path / "north", WEBSITE_SITE_NAME="n", AzureFunctionsWebHost__hostid="shop")
    south = app_in(tmp_path / "south", WEBSITE_SITE_NAME="s", AzureFunctionsWebHost__hostid="shop")
    sites = deployments_of(Scenario(app=north, more=(south,)))
    assert [(site.host_id, site.lock_id) for site in sites] == [("shop", "shop")] * 2
    assert sites[0].cause == "AzureFunctionsWebHost__hostid"
    assert shares_by_itself(north)


def test_the_option_hostid_is_for_locks_only(tmp_path: Path) -> None:
    north, south = (app_in(tmp_path / name, host="shop", WEBSITE_SITE_NAME=name) for name in ("north", "south"))
    assert ids(Scenario(app=north, more=(south,))) == [("north", "north", "shop"), ("south", "south", "shop")]
    assert shares_by_itself(north)
    assert not shares_by_itself(app_in(tmp_path / "alone", WEBSITE_SITE_NAME="alone"))


def test_one_folder_may_have_several_sites(tmp_path: Path) -> None:
    app = app_in(tmp_path / "shop", WEBSITE_SITE_NAME="mine")
    assert ids(Scenario(app=app, sites=("north", "south"))) == [
        ("north", "north", "north"),
        ("south", "south", "south"),
    ]


def test_settings_that_cant_be_read_are_refused(tmp_path: Path) -> None:
    north, south = app_in(tmp_path / "north"), app_in(tmp_path / "south")
    (south / "local.settings.json").write_text('{"IsEncrypted": true}')
    with pytest.raises(ScenarioError, match=r"south: local\.settings\.json is encrypted"):
        deployments_of(Scenario(app=north, more=(south,)))


def test_a_folder_of_apps_is_no_app_and_the_message_names_those(tmp_path: Path) -> None:
    app_in(tmp_path / "north")
    app_in(tmp_path / "south")
    with pytest.raises(ScenarioError, match=r"for the apps in it give --app \S+north --app \S+south$"):
        check_app(tmp_path)


SHIP = AppFunction(name="ship", trigger="queue", queue="orders", guarded=True, scope="Id", declared="[wait]")
CALL = AppFunction(name="call", trigger="timer", guarded=True)


def test_apps_together_have_the_functions_of_each(tmp_path: Path) -> None:
    apps = {tmp_path / "a": App(functions=(SHIP, CALL)), tmp_path / "b": App(functions=(SHIP,))}
    assert together(apps).functions == (SHIP, CALL)
    assert together(apps).queues == ("orders",)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (App(functions=(replace(SHIP, declared="[skip]"),)), "both have a function 'ship', and their declared differs"),
        (App(functions=(replace(SHIP, scope="Tenant"),)), "both have a function 'ship', and their scope differs"),
        (App(functions=(SHIP,), encoding="none"), "messageEncoding and the container of the locks must be equal"),
    ],
)
def test_apps_that_cant_get_one_kind_of_work_are_refused(tmp_path: Path, other: App, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        together({tmp_path / "a": App(functions=(SHIP,)), tmp_path / "b": other})

"""The lock that a check names is the one that an invocation takes, and that the specification asks for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import azure.functions as func
import pytest

from singleton.decorator import guards_of
from singleton.testing import check_app
from tests.support.checked import SETTINGS, imported
from tests.worlds.deployments.blob_names import expected_blob

if TYPE_CHECKING:
    from pathlib import Path

    from tests.worlds.deployments.blob_names import Layout

HOST = {"singleton": {"hostId": "shop"}}
BODY = b'{"Id": "k/1", "Order": {"Id": 7}}'


@pytest.mark.parametrize(
    ("arguments", "shown", "values", "layout"),
    [
        ("", "webjobshost/locks/shop/ship", [], "default"),
        ("scope='Id'", "webjobshost/locks/shop/ship.{Id}", ["k/1"], "default"),
        ("scope='Order:Id'", "webjobshost/locks/shop/ship.{Order:Id}", ["7"], "default"),
        ("scope_id='%REGION%-{Order.Id}'", "webjobshost/locks/shop/ship.north-{Order.Id}", ["north-7"], "default"),
        ("scope_id='a/b', level='host'", "webjobshost/locks/shop/~a%2Fb", ["a/b"], "default"),
        ("scope_id='{Id}', scope='Order:Id'", "webjobshost/locks/shop/ship.{Id}.{Order:Id}", ["k/1", "7"], "default"),
        ("scope='Id', layout='webjobs'", "azure-webjobs-hosts/locks/shop/Host.Functions.ship.{Id}", ["k/1"], "webjobs"),
        ("scope='Order:Id', layout='dequeueable'", "webjobshost/{Order:Id}", ["7"], "dequeueable"),
    ],
)
def test_the_lock_that_is_shown_is_the_one_that_is_taken(
    arguments: str,
    shown: str,
    values: list[str],
    layout: Layout,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REGION", "north")
    code = f"@queue()\n@singleton({arguments})\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    module = imported(tmp_path, code, HOST)
    report = check_app(module.app, settings={**SETTINGS, "REGION": "north"}, folder=tmp_path)
    assert report.lock("ship") == shown

    guard = guards_of(module.ship.build().get_user_function())[0]
    context = SimpleNamespace(function_name="ship", invocation_id="1")
    taken = guard.call({"msg": func.QueueMessage(body=BODY)}, context).lock
    of_the_host = "level='host'" in arguments
    assert taken == expected_blob(layout, "shop", "ship", values, of_the_host=of_the_host)
    for name, value in {"{Id}": "k/1", "{Order:Id}": "7", "{Order.Id}": "7"}.items():
        shown = shown.replace(name, value.replace("/", "%2F") if layout == "default" else value)
    assert shown.partition("/")[2] == taken


def test_what_is_not_known_here_is_named_by_a_word(tmp_path: Path) -> None:
    code = """
    @queue()
    @singleton(scope="Id", scope_hash=True)
    def ship(msg: func.QueueMessage) -> None: ...

    @queue()
    @singleton(mode="listener")
    def read(msg: func.QueueMessage) -> None: ...

    @queue()
    @once(key="Id")
    def pay(msg: func.QueueMessage) -> None: ...
    """
    report = check_app(imported(tmp_path, code).app, settings=SETTINGS, folder=tmp_path)
    assert report.lock("ship") == "webjobshost/locks/<hostId>/ship.{hash of Id}"
    assert report.lock("read", "listener") == "webjobshost/locks/<hostId>/read~listener"
    assert report.lock("pay") == "webjobshost/once/<hostId>/pay/{Id}"
    for asked, said in (
        (("shop", "function"), "the app has no function 'shop'; did you mean 'ship'?"),
        (("nobody", "function"), "the app has no function 'nobody'. It has 'ship', 'read', 'pay'"),
        (("read", "function"), "read has no guard with mode='function': it has only one with mode='listener'"),
    ):
        with pytest.raises(KeyError) as error:
            report.lock(*asked)
        assert error.value.args == (said,)


def test_the_slots_of_a_semaphore_are_shown(tmp_path: Path) -> None:
    code = """
    @queue()
    @singleton(limit=3)
    def call(msg: func.QueueMessage) -> None: ...

    @queue()
    @singleton(limit=1)
    def last(msg: func.QueueMessage) -> None: ...
    """
    report = check_app(imported(tmp_path, code).app, settings=SETTINGS, folder=tmp_path)
    assert report.lock("call") == "webjobshost/locks/<hostId>/call/slot-<0-2>"
    assert report.lock("last") == "webjobshost/locks/<hostId>/last/slot-0"


@pytest.mark.parametrize("layout", ["default", "webjobs"])
def test_of_a_long_name_the_hash_is_shown_only_where_it_is_known(layout: str, tmp_path: Path) -> None:
    for length in (1050 if layout == "webjobs" else 240, 1020 if layout == "webjobs" else 190):
        code = f"""
        @queue()
        @singleton(scope_id="{"x" * length}{{Id}}{{Id}}{{Id}}{"y" * 60}", layout={layout!r})
        def ship(msg: func.QueueMessage) -> None: ...

        @queue()
        @singleton(scope_id="{"x" * 1050}", layout={layout!r})
        def read(msg: func.QueueMessage) -> None: ...
        """
        app = imported(tmp_path / str(length), code).app
        report = check_app(app, settings=SETTINGS, folder=tmp_path)
        assert report.lock("ship").endswith(("x~<hash>", "}~<hash>"))
        assert report.lock("read").endswith("x~<hash>")
        known = {**SETTINGS, "AzureFunctionsWebHost__hostid": "shop"}
        report = check_app(app, settings=known, folder=tmp_path)
        assert report.lock("ship").endswith("~<hash>")
        guard = guards_of(vars(imported(tmp_path / "b", code, HOST))["read"].build().get_user_function())[0]
        context = SimpleNamespace(function_name="read", invocation_id="1")
        assert report.lock("read").partition("/")[2] == guard.call({"msg": func.QueueMessage(body=b"")}, context).lock


def test_where_the_app_runs_in_azure_the_host_id_is_known(tmp_path: Path) -> None:
    code = "@queue()\n@singleton\ndef ship(msg: func.QueueMessage) -> None: ...\n"
    settings = {**SETTINGS, "WEBSITE_SITE_NAME": "Contoso", "WEBSITE_INSTANCE_ID": "1"}
    report = check_app(imported(tmp_path, code).app, settings=settings, folder=tmp_path)
    assert report.lock("ship") == "webjobshost/locks/contoso/ship"

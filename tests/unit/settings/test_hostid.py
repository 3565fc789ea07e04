"""The Functions host's id for an app (H-1 to H-8)."""

from __future__ import annotations

import os
import re
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singleton.base.errors import ConfigurationError
from singleton.settings.hostid import host_id, is_machine_bound

APP = Path("/home/site/wwwroot")
LONG = "TEST-FUNCTIONS-" + "X" * 74


def azure(**changes: str) -> dict[str, str]:
    """An App Service's settings, as in the host's own tests."""
    settings = {
        "WEBSITE_INSTANCE_ID": "123123",
        "WEBSITE_SITE_NAME": "TEST-FUNCTIONS",
        "CONTAINER_NAME": "testContainer",
        "WEBSITE_HOSTNAME": "testsite.azurewebsites.net",
    }
    return {name: value for name, value in (settings | changes).items() if value}


@pytest.mark.parametrize(
    "name", ["AzureFunctionsWebHost__hostid", "AzureFunctionsWebHost:hostid", "AZUREFUNCTIONSWEBHOST__HOSTID"]
)
def test_an_explicit_id_is_used_unchanged(name: str) -> None:
    """H-1."""
    assert (
        host_id(azure() | {name: "Any Id, However-Long-It-May-Be-----"}, APP) == "Any Id, However-Long-It-May-Be-----"
    )
    assert host_id(azure() | {name: " "}, APP) == "test-functions"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (azure(), "test-functions"),  # H-2
        (azure(WEBSITE_SLOT_NAME="Production"), "test-functions"),
        (azure(WEBSITE_SLOT_NAME="Staging"), "test-functions-staging"),
        (azure(WEBSITE_SITE_NAME="TEST-FUNCTIONS--"), "test-functions"),  # H-6
        (azure(WEBSITE_SITE_NAME=LONG), "test-functions-xxxxxxxxxxxxxxxxx"),  # H-6: 32 characters
        (azure(WEBSITE_SITE_NAME="TEST-FUNCTIONS-XXXXXXXXXXXXXXXX-XXXX"), "test-functions-xxxxxxxxxxxxxxxx"),  # 31
        (azure(WEBSITE_INSTANCE_ID=""), "testsite"),  # H-3
        (azure(WEBSITE_INSTANCE_ID="", MANAGED_ENVIRONMENT="env", CONTAINER_NAME=""), "test-functions"),  # H-2
        ({"KUBERNETES_SERVICE_HOST": "h", "POD_NAMESPACE": "n", "WEBSITE_SITE_NAME": "K8"}, "k8"),  # H-2
    ],
)
def test_on_azure_the_id_is_the_name_of_the_site(settings: dict[str, str], expected: str) -> None:
    assert host_id(settings, APP) == expected


@pytest.mark.parametrize(
    ("site", "expected"),
    [
        ("myfunctionstestapp", "6606e225f163a70190e4f4357d3dad78"),
        (LONG, "9dd2d6d54f1135ee6db6116f084b29bd"),
        (LONG[:-1] + "A", "c842e18afa2a84eac2818a956687a72e"),
        (LONG[:-1] + "B", "b595edd5b794d34e79c81361c823487c"),
    ],
)
@pytest.mark.parametrize(
    "sku", [{"WEBSITE_SKU": "FlexConsumption"}, {"WEBSITE_POD_NAME": "p", "LEGION_SERVICE_HOST": "l"}]
)
def test_on_flex_consumption_it_is_a_hash_of_the_site(sku: dict[str, str], site: str, expected: str) -> None:
    """H-4."""
    assert host_id(sku | {"WEBSITE_SITE_NAME": site}, APP) == expected


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        ({"WEBSITE_INSTANCE_ID": "123123"}, "WEBSITE_SITE_NAME"),
        ({"CONTAINER_NAME": "c", "LEGION_SERVICE_HOST": "l"}, "WEBSITE_SITE_NAME"),
        ({"WEBSITE_SKU": "FlexConsumption", "WEBSITE_SLOT_NAME": "staging"}, "WEBSITE_SITE_NAME"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1", "POD_NAMESPACE": "shop"}, "WEBSITE_SITE_NAME"),
    ],
)
def test_a_site_without_a_name_has_no_id(settings: dict[str, str], missing: str) -> None:
    """H-7."""
    with pytest.raises(ConfigurationError, match=f"{missing} is not set; set hostId in the section singleton"):
        host_id(settings, APP)


def test_a_container_that_somebody_named_is_not_yet_azure() -> None:
    assert host_id({"CONTAINER_NAME": "dev"}, APP, machine="m") == host_id({}, APP, machine="m")


def test_a_name_of_nothing_but_dashes_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="empty host id: set hostId"):
        host_id(azure(WEBSITE_SITE_NAME="---"), APP)


def test_locally_it_is_the_machine_and_a_hash_of_the_folder() -> None:
    """H-5."""
    folder = PureWindowsPath(r"c:\testing\FUNCTIONS-TEST\test$#")
    assert host_id({}, folder, machine="My_Machine-7.") == "mymachine7-473716271"  # type: ignore[arg-type]


def test_locally_without_a_folder_the_current_one_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert host_id({}, None, machine="m") == host_id({}, Path(os.getcwd()), machine="m")  # noqa: PTH109


def test_locally_the_system_is_asked_for_the_machine() -> None:
    assert host_id({}, APP) == host_id({}, APP)
    assert host_id({}, APP, machine="other") != host_id({}, APP, machine="another")


def test_two_folders_of_one_machine_have_different_ids() -> None:
    ids = {host_id({}, Path(f"/apps/{number}"), machine="m") for number in range(2000)}
    assert len(ids) == 2000
    assert all(re.fullmatch(r"m-[0-9]+", found) for found in ids)  # half of the hashes are negative


@pytest.mark.parametrize(
    ("settings", "bound"),
    [
        ({}, True),
        ({"CONTAINER_NAME": "dev"}, True),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        ({"AzureFunctionsWebHost__hostid": "fleet"}, False),
        (azure(), False),
        (azure(WEBSITE_INSTANCE_ID=""), False),
        ({"WEBSITE_SKU": "FlexConsumption"}, False),
    ],
)
def test_an_id_that_other_machines_do_not_share_can_be_told(settings: dict[str, str], bound: bool) -> None:
    """B24."""
    assert is_machine_bound(settings) is bound


@given(st.text(min_size=1), st.text())
def test_a_derived_id_is_short_lower_case_and_ends_in_no_dash(site: str, slot: str) -> None:
    try:
        found = host_id({"WEBSITE_INSTANCE_ID": "1", "WEBSITE_SITE_NAME": site, "WEBSITE_SLOT_NAME": slot}, APP)
    except ConfigurationError:
        return
    assert found
    assert not found.endswith("-")
    assert found == found.lower()

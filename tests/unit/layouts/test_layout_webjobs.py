"""layout="webjobs": the blob that a .NET host of the WebJobs SDK locks, name for name (W-28 to W-33, W-43, W-45)."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.layouts import webjobs
from singleton.layouts.webjobs import WebJobsLayout
from singleton.settings.options import SingletonOptions

if TYPE_CHECKING:
    from singleton.base.kinds import Level

LAYOUT = WebJobsLayout()


@pytest.mark.parametrize(
    ("scopes", "level", "listener", "expected"),
    [
        ([], "function", False, "locks/hid/Host.Functions.Ship"),  # W-28, H-12
        (["testscope"], "function", False, "locks/hid/Host.Functions.Ship.testscope"),  # W-29
        (["testscope"], "host", False, "locks/hid/testscope"),  # W-30
        ([], "function", True, "locks/hid/Host.Functions.Ship.Listener"),  # W-33
        (["TestScopeTestValue"], "function", True, "locks/hid/Host.Functions.Ship.TestScopeTestValue.Listener"),  # W-44
        (["north\\3"], "function", False, "locks/hid/Host.Functions.Ship.north/3"),  # W-43
        (["north\\3"], "host", False, "locks/hid/north/3"),
        (["My.Jobs.Import", "42"], "host", False, "locks/hid/My.Jobs.Import.42"),  # a plain host's function (W-32)
        (["a", "b"], "function", False, "locks/hid/Host.Functions.Ship.a.b"),
        (["A b+c%2F?#é😀"], "function", False, "locks/hid/Host.Functions.Ship.A b+c%2F?#é😀"),
        (["a//b"], "function", False, "locks/hid/Host.Functions.Ship.a//b"),
        (["Acme Inc."], "function", False, "locks/hid/Host.Functions.Ship.Acme Inc."),
        (["x/"], "function", False, "locks/hid/Host.Functions.Ship.x"),  # .NET's client cuts it off
        (["x//"], "host", False, "locks/hid/x"),
        (["x\\"], "host", False, "locks/hid/x/"),  # it does not cut off these
        (["/x"], "host", False, "locks/hid//x"),
        (["y" * (1024 - 10)], "host", False, "locks/hid/" + "y" * (1024 - 10)),
    ],
)
def test_names_are_those_of_webjobs(scopes: list[str], level: Level, listener: bool, expected: str) -> None:
    assert LAYOUT.lock("hid", "Ship", scopes, level, listener=listener) == expected


@pytest.mark.parametrize(
    ("scope", "level", "begins"),
    [
        ("../other/Host.Functions.Ship", "host", "locks/hid/..%2Fother%2FHost.Functions.Ship~"),
        ("a/../../other", "function", "locks/hid/Host.Functions.Ship.a%2F..%2F..%2Fother~"),
        ("a\\..\\..\\other", "function", "locks/hid/Host.Functions.Ship.a%5C..%5C..%5Cother~"),
        ("a/./b", "function", "locks/hid/Host.Functions.Ship.a%2F.%2Fb~"),
        (".", "host", "locks/hid/.~"),
        ("..", "host", "locks/hid/..~"),
        ("...", "host", "locks/hid/...~"),
        ("/", "host", "locks/hid/%2F~"),
        ("\\", "host", "locks/hid/%5C~"),
        ("./.", "host", "locks/hid/.%2F.~"),
        ("host", "host", "locks/hid/host~"),  # H-13: the primary host has it
        ("host./", "host", "locks/hid/host.%2F~"),
        ("a\x00b", "host", "locks/hid/a%00b~"),
        ("a\nb", "host", "locks/hid/a%0Ab~"),
        ("\ud800", "host", "locks/hid/%ED%A0%80~"),
        ("\uffff", "host", "locks/hid/%EF%BF%BF~"),
        ("y" * (1024 - 9), "host", "locks/hid/yyyy"),
        ("/".join("a" * 253), "host", "locks/hid/a%2Fa%2F"),
    ],
)
def test_a_name_that_the_service_cannot_keep_in_its_folder_is_made_safe_and_hashed(
    scope: str, level: Level, begins: str
) -> None:
    name = LAYOUT.lock("hid", "Ship", [scope], level)
    assert name.startswith(begins)
    assert len(name) <= 250
    head, _, digest = name.rpartition("~")
    assert "/" not in head.removeprefix("locks/hid/")
    assert len(digest) == 40
    assert int(digest, 16)
    assert name != LAYOUT.lock("hid", "Ship", [scope + "!"], level)
    assert name != LAYOUT.lock("hid", "Ship", [scope], level, listener=True)


@pytest.mark.parametrize("host", ["a/b", "a\\b", "..", ".", "a\x00", "\ud800"])
def test_a_host_id_that_is_no_folder_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"host id .+ names no folder of its own"):
        LAYOUT.lock(host, "Ship", [])


def test_without_a_host_id_there_is_no_lock() -> None:
    """W-31."""
    with pytest.raises(ConfigurationError, match="host_id is empty"):
        LAYOUT.lock(" ", "Ship", [])


def test_an_empty_scope_is_refused_rather_than_merged_with_the_function_s_own_lock() -> None:
    """W-38."""
    with pytest.raises(ScopeError, match="empty value"):
        LAYOUT.lock("hid", "Ship", [""])
    with pytest.raises(ConfigurationError, match="level 'host' needs a scope"):
        LAYOUT.lock("hid", "Ship", [], "host")


def test_its_container_is_the_host_s_whatever_is_configured() -> None:
    """W-45, W-25: the durations are those of host.json, which both runtimes read."""
    adapted = LAYOUT.adapted(SingletonOptions(container="mine", lock_period=30))
    assert (adapted.container, adapted.lock_period) == ("azure-webjobs-hosts", 30)


def test_an_invocation_leaves_its_owner_on_the_blob_and_a_listener_nothing() -> None:
    """W-57, W-58."""
    assert LAYOUT.stamp() == "owner"
    assert LAYOUT.stamp(listener=True) == "none"


def test_the_examples_are_true() -> None:
    assert doctest.testmod(webjobs).failed == 0

"""layout="webjobs": the blob that a .NET host of the WebJobs SDK locks, name for name (W-28 to W-33, W-43, W-45)."""

from __future__ import annotations

import doctest
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.dotnet import webjobs
from singleton.dotnet.webjobs import WebJobsLayout, check_dotnet_name
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
        (["a/..."], "function", False, "locks/hid/Host.Functions.Ship.a/..."),
        (["..."], "host", False, "locks/hid/..."),
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
        ("a\x00b", "host", "locks/hid/a%00b~"),
        ("a\nb", "host", "locks/hid/a%0Ab~"),
        ("\ud800", "host", "locks/hid/%ED%A0%80~"),
        ("\uffff", "host", "locks/hid/%EF%BF%BF~"),
        ("y" * (1024 - 9), "host", "locks/hid/yyyy"),
        ("/".join("a" * 253), "host", "locks/hid/a%2Fa%2F"),
    ],
)
def test_a_name_that_no_request_can_carry_is_made_safe_and_hashed(scope: str, level: Level, begins: str) -> None:
    name = LAYOUT.lock("hid", "Ship", [scope], level)
    assert name.startswith(begins)
    assert len(name) <= 250
    head, _, digest = name.rpartition("~")
    assert "/" not in head.removeprefix("locks/hid/")
    assert len(digest) == 40
    assert int(digest, 16)
    assert name != LAYOUT.lock("hid", "Ship", [scope + "!"], level)
    assert name != LAYOUT.lock("hid", "Ship", [scope], level, listener=True)


@pytest.mark.parametrize(
    ("scope", "level"),
    [
        *((scope, "function") for scope in ("a/../../other", "a\\..\\..\\other", "a/./b", "a/..", "a/../b")),
        *((scope, "host") for scope in ("../other/Host.Functions.Ship", ".", "..", "/", "//", "\\", "./.")),
        *((scope, "host") for scope in ("host", "host./", "host/")),  # H-13: the primary host has it
    ],
)
def test_a_scope_for_which_net_leases_another_lock_s_blob_is_refused(scope: str, level: Level) -> None:
    """Facts §11."""
    with pytest.raises(
        ScopeError, match=r"the lock .+ can't be shared, because \.NET leases the blob of another lock"
    ) as caught:
        LAYOUT.lock("hid", "Ship", [scope], level)
    assert caught.value.reason == "name"


@pytest.mark.parametrize("host", ["a/b", "a\\b", "..", ".", "a\x00", "\ud800"])
def test_a_host_id_that_is_no_folder_is_refused(host: str) -> None:
    with pytest.raises(ConfigurationError, match=r"host id .+ can't be used with layout='webjobs'"):
        LAYOUT.lock(host, "Ship", [])


def test_without_a_host_id_there_is_no_lock() -> None:
    """W-31."""
    with pytest.raises(ConfigurationError, match="host_id is empty"):
        LAYOUT.lock(" ", "Ship", [])


@pytest.mark.parametrize("listener", [False, True])
def test_an_empty_scope_is_the_lock_of_the_whole_function_and_said_once(
    caplog: pytest.LogCaptureFixture, listener: bool
) -> None:
    """As .NET has it (facts §9)."""
    layout = WebJobsLayout()
    whole = layout.lock("hid", "Ship", [], listener=listener)
    assert caplog.messages == []
    for _ in range(3):
        assert layout.lock("hid", "Ship", [""], listener=listener) == whole
    assert [text.partition(",")[0] for text in caplog.messages] == ["Ship: its scope is empty"]


def test_a_blank_scope_is_a_scope() -> None:
    """As .NET has it (facts §9)."""
    assert LAYOUT.lock("hid", "Ship", [" "]) == "locks/hid/Host.Functions.Ship. "
    assert LAYOUT.lock("hid", "Ship", ["", "b"]) == "locks/hid/Host.Functions.Ship..b"


def test_at_level_host_an_empty_scope_names_no_lock() -> None:
    with pytest.raises(ScopeError, match="the scope of 'Ship' is empty: with level 'host' every message needs a value"):
        LAYOUT.lock("hid", "Ship", [""], "host")
    with pytest.raises(ConfigurationError, match="level 'host' needs a scope"):
        LAYOUT.lock("hid", "Ship", [], "host")


@pytest.mark.parametrize(
    ("scopes", "listener", "expected"),
    [
        ([], False, "Contoso.Shop.Orders.Ship"),
        (["42"], False, "Contoso.Shop.Orders.Ship.42"),
        ([""], False, "Contoso.Shop.Orders.Ship"),
        ([], True, "Contoso.Shop.Orders.Ship.Listener"),
        (["east"], True, "Contoso.Shop.Orders.Ship.east.Listener"),
    ],
)
def test_a_c_sharp_function_s_locks_are_named_after_its_method(
    scopes: list[str], listener: bool, expected: str
) -> None:
    """W-32, facts §10."""
    layout = WebJobsLayout("Contoso.Shop.Orders.Ship")
    assert layout.lock("hid", "ship_order", scopes, listener=listener) == f"locks/hid/{expected}"


@pytest.mark.parametrize(
    "name",
    [
        "Orders.Ship",
        "Contoso.Shop.Orders.Ship",
        "A.B+C.D",
        "A+B+C.D",
        "A.B`1[[System.Int32, System.Private.CoreLib, Version=8.0.0.0, Culture=neutral, PublicKeyToken=7c]].Ship",
        "A.B`1+C`1[[System.Int32, X],[A.D, Y]].Ship",
        "_A.É1._x",
        "A.Jobs.Ähm",
    ],
)
def test_a_full_name_of_a_method_is_taken(name: str) -> None:
    check_dotnet_name(name)


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "Ship", ".Ship", "Orders.", "Orders..Ship", " Orders.Ship", "Orders.Ship ", "Orders.Ship()"),
        *("Orders::Ship", "Orders/Ship", "Orders.Nested+Ship", "Orders+.Ship", "+Orders.Ship", "A.B`.C", "A.B`0.C"),
        *(
            "A.B<int>.C",
            "A.B`1.C",
            "A.B[[X]].C",
            "A.B`1[[X].C",
            "A.1B.C",
            "{A}.B",
            "A.B`1\n.C",
            "A.B`1[[X\n]].C",
            5,
            b"A.B",
        ),
    ],
)
def test_what_is_no_full_name_of_a_method_is_refused(name: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        check_dotnet_name(name)
    assert str(caught.value).startswith(f"dotnet_name is {name!r}: give the full name of the C# method")


def test_its_container_is_the_host_s_whatever_is_configured() -> None:
    """W-45, W-25: the durations are those of host.json, which both runtimes read."""
    adapted = SingletonOptions(container="mine", lock_period=30).replace(**LAYOUT.fixed_options)
    assert (adapted.container, adapted.lock_period) == ("azure-webjobs-hosts", 30)


def test_an_invocation_leaves_its_owner_on_the_blob_and_a_listener_nothing() -> None:
    """W-57, W-58."""
    assert LAYOUT.stamp() == "owner"
    assert LAYOUT.stamp(listener=True) == "none"


def test_the_examples_are_true() -> None:
    assert doctest.testmod(webjobs).failed == 0

"""Hostile scopes: whatever a message holds, its lock stays in its folder, has a legal name, and nothing crashes."""

from __future__ import annotations

import posixpath
import random
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singleton.base.errors import ScopeError
from singleton.base.kinds import Level
from singleton.base.names import check_blob_name, has_unsendable
from singleton.dotnet.dequeueable import DequeueableLayout, DequeueableOptions
from singleton.dotnet.webjobs import WebJobsLayout
from singleton.layouts.layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

FUZZED = 10_000
PIECES = (
    *("/", "\\", ".", "..", "~", "%", "%2F", "%2e", "%5C", " ", "+", "?", "#", ":", "a", "A", "é", "e\u0301", "😀"),
    *("\x00", "\n", "\x7f", "\x85", "\ud800", "\udfff", "\ufffe", "\u202e", "locks/", "host", "Host.Functions.g"),
    *(".Listener", "~listener", "/../", "//", "x" * 130, "é" * 70, "/" * 130),
)
FUNCTIONS = ("f", "g", "f-1", "F")
LEVELS: tuple[Level, ...] = ("function", "host")
SCOPE = st.lists(st.sampled_from(PIECES), min_size=1, max_size=12).map("".join) | st.text(min_size=1, max_size=40)
SCOPES = st.lists(SCOPE, min_size=1, max_size=2).map(tuple)

Parts = tuple[str, tuple[str, ...], Level, bool]
PARTS: st.SearchStrategy[Parts] = st.tuples(st.sampled_from(FUNCTIONS), SCOPES, st.sampled_from(LEVELS), st.booleans())
DEFAULT, WEBJOBS, DEQUEUEABLE = Layout(), WebJobsLayout(), DequeueableLayout(DequeueableOptions())


def as_careless_software_reads(name: str) -> str:
    """Unescape a name, make its slashes one kind, walk its dots, cut off what its end must not have."""
    path = unquote(quote(name, safe="/~")).replace("\\", "/")
    return posixpath.normpath(path).rstrip("/.")


def in_webjobs(parts: Parts) -> str:
    function, scopes, level, listener = parts
    try:
        name = WEBJOBS.lock("hid", function, scopes, level, listener=listener)
    except ScopeError as error:
        assert len(str(error)) < 500  # noqa: PT017 - it may or may not be refused
        return ""
    assert 1 <= len(name) <= 1024
    assert name.count("/") < 254
    assert not has_unsendable(name)
    read = as_careless_software_reads(name)
    assert read.startswith(f"locks/hid/Host.Functions.{function}" if level == "function" else "locks/hid/")
    assert len(read) > len("locks/hid/")
    return name


def in_dequeueable(parts: Parts) -> str:
    value = parts[1][0]
    try:
        name = DEQUEUEABLE.lock("hid", "f", [value])
    except ScopeError as error:
        assert len(str(error)) < 400  # noqa: PT017 - it may or may not be refused
        return ""
    assert name == value
    assert check_blob_name(name) == name
    assert as_careless_software_reads(name) == posixpath.normpath(name)
    assert not as_careless_software_reads(name).startswith(("locks/", "/", "../"))
    return name


def in_default(parts: Parts) -> str:
    function, scopes, level, listener = parts
    name = DEFAULT.lock("hid", function, scopes, level, listener=listener)
    assert check_blob_name(name) == name
    assert as_careless_software_reads(name) == name
    assert name.startswith("locks/hid/")
    assert len(name) <= 250
    return name


LAYOUTS = pytest.mark.parametrize("named", [in_webjobs, in_dequeueable, in_default])


@LAYOUTS
@settings(derandomize=True)
@given(parts=PARTS)
def test_a_hostile_scope_stays_where_it_belongs(named: Callable[[Parts], str], parts: Parts) -> None:
    named(parts)


@LAYOUTS
def test_ten_thousand_hostile_scopes_stay_where_they_belong(named: Callable[[Parts], str]) -> None:
    for parts in fuzzed():
        named(parts)


def test_in_the_default_layout_ten_thousand_hostile_scopes_have_as_many_blobs() -> None:
    meanings: dict[str, Parts] = {}
    for function, scopes, level, listener in fuzzed():
        meant: Parts = (function if level == "function" else "", scopes, level, listener)
        assert meanings.setdefault(in_default((function, scopes, level, listener)), meant) == meant
    assert len(meanings) > FUZZED * 0.8


@settings(derandomize=True)
@given(head=SCOPE, tail=SCOPE, level=st.sampled_from(LEVELS))
def test_a_near_miss_is_another_lock_in_the_default_layout(head: str, tail: str, level: Level) -> None:
    """Scopes that differ by where they are cut, or by what stands in names for a reason, are different."""
    names = {
        DEFAULT.lock("hid", "f", [head + tail], level),
        DEFAULT.lock("hid", "f", [head, tail], level),
        DEFAULT.lock("hid", "f", [f"{head}.{tail}"], level),
        DEFAULT.lock("hid", "f", [head + tail], level, listener=True),
        DEFAULT.lock("hid", "f", [f"{head}{tail}~listener"], level),
    }
    assert len(names) == 5


def fuzzed() -> list[Parts]:
    rng = random.Random(20)

    def scope() -> str:
        return "".join(rng.choices(PIECES, k=rng.randint(1, 7)))

    return [
        (
            rng.choice(FUNCTIONS),
            tuple(scope() for _ in range(rng.randint(1, 2))),
            rng.choice(LEVELS),
            rng.random() < 0.5,
        )
        for nth in range(FUZZED)
    ]

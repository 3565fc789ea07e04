"""The names of lock blobs can be read again: what a name was made of comes back, and nothing is read into others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from singleton.dotnet.webjobs import WebJobsLayout
from singleton.layouts.blob_name import LONGEST_NAME, lock_name
from singleton.operating.name_parts import NameParts, read_name

if TYPE_CHECKING:
    from singleton.base.kinds import Level

TEXTS = st.text(st.characters(codec=None, categories=None), min_size=1, max_size=30)
PARTS = st.tuples(
    TEXTS.filter(lambda text: text.strip() != ""),
    TEXTS,
    st.lists(TEXTS, max_size=2),
    st.sampled_from(["function", "host"]),
    st.booleans(),
)


@given(PARTS)
def test_a_name_reads_as_what_it_was_made_of(parts: tuple[str, str, list[str], Level, bool]) -> None:
    host, function, scopes, level, listener = parts
    scopes = scopes or ["x"] if level == "host" else scopes
    name = lock_name(host, function, scopes, level, listener=listener)
    read = read_name(name)
    assert read is not None
    if len(name) < LONGEST_NAME - 2 and "~" not in name.split("/")[1]:
        assert read == NameParts(
            app=host,
            function=function if level == "function" else None,
            scopes=tuple(scopes),
            level=level,
            listener=listener,
        )


@given(
    TEXTS.map(lambda text: text[:9]), st.text(st.characters(codec=None, categories=None), min_size=250, max_size=400)
)
def test_of_a_name_that_was_cut_the_beginning_is_read(function: str, scope: str) -> None:
    read = read_name(lock_name("app", function, [scope, "z"]))
    assert read is not None
    assert read.cut
    assert read.function == function
    assert scope.startswith(read.scopes[0])


@given(st.text(st.sampled_from("locks/a~.%4F-listener0123"), max_size=80))
def test_whatever_is_read_would_be_named_so_again(text: str) -> None:
    for name in (text, f"locks/{text}"):
        read = read_name(name)
        if read is not None and not read.cut and read.slot is None:
            made = lock_name(
                read.app, read.function or "", read.scopes, read.level or "function", listener=read.listener
            )
            assert made == name


@pytest.mark.parametrize(
    "name",
    [
        *("", "reports", "locks", "locks/", "locks/app", "locks/app/", "locks/app/a b", "locks/app/a/b", "x/app/job"),
        *("locks/app/job.", "locks/app/.x", "locks/app/job%4a", "locks/app/job%41", "locks/app/job%C3", "locks/app/~"),
        *("locks/app/job~", "locks/app/job~other", "locks/a.b/job", "deferred/abc", "locks/app/~listener"),
        *("locks/app/Contoso.Shop.Orders.Ship.42", "locks/app/~a.b.c"),  # a scope has two values at most
    ],
)
def test_a_name_that_no_layout_makes_is_not_read(name: str) -> None:
    assert read_name(name) is None


def test_the_slots_of_a_semaphore_are_told() -> None:
    read = read_name("locks/app/job.42/slot-7")
    assert read == NameParts(app="app", function="job", scopes=("42",), level="function", slot=7)
    assert read_name("reports/slot-7") is None


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("locks/app/Host.Functions.ship", NameParts(app="app", function="ship", level="function")),
        (
            "locks/app/Host.Functions.ship.a/b.c",
            NameParts(app="app", function="ship", scopes=("a/b.c",), level="function"),
        ),
        (
            "locks/app/Host.Functions.ship.Listener",
            NameParts(app="app", function="ship", level="function", listener=True),
        ),
        (
            "locks/app/Host.Functions.ship.eu.Listener",
            NameParts(app="app", function="ship", scopes=("eu",), level="function", listener=True),
        ),
        ("locks/app/Contoso.Shop.Orders.Ship.42", NameParts(app="app", scopes=("Contoso.Shop.Orders.Ship.42",))),
        ("locks/app/host", NameParts(app="app", scopes=("host",))),
        ("timers/app/Host.Functions.ship/status", None),
    ],
)
def test_names_of_webjobs_are_read_as_far_as_they_can_be(name: str, parts: NameParts | None) -> None:
    assert read_name(name, webjobs=True) == parts


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True), st.text("abc/ .ä", max_size=10))
@example("ship", "a/...")
def test_of_a_function_that_a_host_runs_webjobs_names_tell_function_and_scope(function: str, scope: str) -> None:
    assume({".", ".."}.isdisjoint(scope.split("/")))  # refused: .NET leases another lock's blob
    name = WebJobsLayout().lock("app", function, [scope] if scope else [])
    read = read_name(name, webjobs=True)
    assert read is not None
    assert read.function == function
    assert not read.listener

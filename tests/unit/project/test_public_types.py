"""What a type checker and `help` make of the public names: mypy reads this file like the rest."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import re
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from singleton import AsyncLockClient, ConfigurationError, Hold, LockClient, singleton
from tests.support.lock_thread import LockThread, an_app
from tools.docs_site import MODULES, public

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

PRIVATE = re.compile(r"\b_[A-Za-z]\w*")


@singleton
def ship(order: int, *, note: str) -> float:
    return order + len(note) / 10


@singleton(scope_id="reports", on_contention=lambda asked: "wait" if asked.dequeue_count < 3 else "skip")
async def report(day: str) -> str:
    return day


def test_a_guarded_function_keeps_its_signature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync: Callable[[int, Any], float] = lambda order, note: ship(order, note=note)  # noqa: E731
    later: Callable[[str], Coroutine[Any, Any, str]] = report
    an_app(tmp_path, monkeypatch)
    with LockThread():
        assert assert_type(ship(1, note="x"), float) == sync(1, "x")
        assert assert_type(asyncio.run(later("monday")), str) == "monday"


def test_both_clients_hand_out_the_same_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def asynchronous() -> None:
        locks = AsyncLockClient()
        async with locks.lock("a") as hold, locks.try_lock("b") as maybe, locks.lock_all(["c", "d"]) as holds:
            assert_type(hold, Hold)
            assert_type(maybe, Hold | None)
            assert_type(holds, tuple[Hold, ...])

    an_app(tmp_path, monkeypatch)
    with LockThread():
        locks = LockClient()
        with locks.lock("a") as hold, locks.try_lock("b") as maybe, locks.lock_all(["c", "d"]) as holds:
            assert_type(hold, Hold)
            assert_type(maybe, Hold | None)
            assert_type(holds, tuple[Hold, ...])
        asyncio.run(asynchronous())


def test_a_scope_given_without_its_name_is_a_type_error_too() -> None:
    with pytest.raises(ConfigurationError, match="name the argument"):

        @singleton("Id")  # type: ignore[call-overload, untyped-decorator, unused-ignore]
        def job(msg: str) -> None: ...


def functions(module: str, name: str) -> Iterator[tuple[str, Callable[..., Any], set[str]]]:
    """Yield the public functions of a name, each with the type variables of its class."""
    thing = getattr(importlib.import_module(module), name)
    if inspect.isroutine(thing):
        yield name, thing, set()
    if isinstance(thing, type):
        own = {variable.__name__ for variable in getattr(thing, "__parameters__", ())}
        for member, found in inspect.getmembers(thing):
            function = found.fget if isinstance(found, property) else found
            if (inspect.isfunction(function) or inspect.ismethod(function)) and not member.startswith("_"):
                yield f"{name}.{member}", function, own


def unexplained(function: Callable[..., Any], own: set[str]) -> set[str]:
    """Return the private names which stand once in a signature: such a name says nothing, unless the class has it."""
    names = PRIVATE.findall(str(inspect.signature(function)))
    return {name for name in names if names.count(name) == 1} - own


@pytest.mark.parametrize("module", MODULES)
def test_help_shows_no_private_type_that_says_nothing(module: str) -> None:
    seen = [
        (called, unexplained(function, own))
        for name in public(module)
        for called, function, own in functions(module, name)
    ]
    assert len(seen) > 2
    assert [(called, names) for called, names in seen if names] == []


@pytest.mark.parametrize(("client", "prefix"), [(LockClient, ""), (AsyncLockClient, "Async")])
def test_help_names_the_blocks_of_each_client(client: type[LockClient | AsyncLockClient], prefix: str) -> None:
    shown = {name: inspect.signature(getattr(client, name)).return_annotation for name in ("lock", "semaphore")}
    assert shown == dict.fromkeys(shown, f"{prefix}Block[Hold]")
    assert inspect.signature(client.try_lock).return_annotation == f"{prefix}TryBlock"
    assert inspect.signature(client.lock_all).return_annotation == f"{prefix}Block[tuple[Hold, ...]]"
    assert inspect.getdoc(client.lock)

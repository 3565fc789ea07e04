"""What a type checker makes of the public names: mypy reads this file like the rest; running it is the lesser half."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, assert_type

import pytest

from singleton import AsyncLockClient, ConfigurationError, Hold, LockClient, singleton

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

from tests.support.lock_thread import LockThread, an_app


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

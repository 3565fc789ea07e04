"""A block of a lock client: entered once, and as a decorator once for each call."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, LockClient, LockNotAcquired
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def test_a_lock_as_a_decorator_is_held_for_the_length_of_each_call() -> None:
    locks = LockClient()
    held = locks.lock("reports")

    @held
    def report(number: int) -> int:
        with pytest.raises(LockNotAcquired), LockClient().lock("reports", timeout=0):
            pass
        return number

    assert [report(1), report(2)] == [1, 2]
    with locks.lock("reports", timeout=0):
        pass


def test_an_async_lock_as_a_decorator_is_held_for_the_length_of_each_call() -> None:
    locks = AsyncLockClient()
    held = locks.lock("reports")

    @held
    async def report(number: int) -> int:
        with pytest.raises(LockNotAcquired):
            async with locks.lock("reports", timeout=0):
                pass
        return number

    async def run() -> list[int]:
        return [await report(1), await report(2)]

    assert asyncio.run(run()) == [1, 2]


def test_a_block_that_was_entered_is_not_entered_again() -> None:
    block = LockClient().lock("reports")
    with block:
        pass
    with pytest.raises(RuntimeError, match="entered before"), block:
        pass

"""A runner gets the lock only while his time lasts and the process is open; of any other end he is told."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, LockClient
from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError
from singleton.process.calls import Phase
from tests.support.relays import LOCK, begun_outside, eventually, running, soon

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.support.lock_thread import LockThread


def late(locks: LockClient, ends: list[object], timeout: float | None = None) -> threading.Thread:
    """Begin to ask for the lock in a thread; ``ends`` gets the hold, or the error."""

    def ask() -> None:
        try:
            ends.append(locks.acquire(LOCK, timeout=timeout, owner="late"))
        except SingletonError as error:
            ends.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    return thread


def test_a_runner_whose_time_is_over_does_not_get_the_lock_though_nobody_has_told_him(
    thread: LockThread, forever: None
) -> None:
    locks, ends = LockClient(), list[object]()
    with locks.lock(LOCK):
        waiting = late(locks, ends, timeout=5)
        eventually(lambda: running(thread) == 1)
        thread.push_clock(5.5)
    waiting.join(10)
    (error,) = ends
    assert isinstance(error, LockNotAcquired)
    assert "within 0:00:05" in str(error)
    assert thread.leased() == set()


def test_a_lock_that_is_released_while_the_process_closes_is_not_handed_on(thread: LockThread, forever: None) -> None:
    """The lock thread has not come to that yet, and the runner still waits."""
    locks, got = AsyncLockClient(), list[str]()

    async def late() -> None:
        with pytest.raises(LockClosed):
            async with locks.lock(LOCK):
                got.append("it")

    async def main() -> None:
        hold, busy = await locks.acquire(LOCK), threading.Event()
        waiting = begun_outside(late())
        await soon(lambda: running(thread) == 1)
        thread.runtime._loop.call_soon_threadsafe(busy.wait, 10)
        closing = asyncio.create_task(asyncio.to_thread(thread.runtime.close))
        await soon(lambda: thread.runtime.phase is Phase.CLOSING)
        releasing = asyncio.create_task(locks.release(hold))
        await asyncio.sleep(0)  # it has given the lock up, and waits for the lock thread
        busy.set()
        await asyncio.gather(waiting, releasing, closing)

    asyncio.run(main())
    assert not got


def test_a_runner_whose_move_to_the_lock_thread_is_cancelled_before_it_begins_is_told_of_as_failed(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the loop of a test, on which the locks are, ends in that moment."""
    locks, begin, ends = LockClient(), thread.runtime._begun, list[object]()

    def cancelled(coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = begin(coro)
        task.cancel()
        return task

    with locks.lock(LOCK):
        waiting = late(locks, ends)
        eventually(lambda: running(thread) == 1)
        with monkeypatch.context() as patch:
            patch.setattr(thread.runtime, "_begun", cancelled)
            thread.push_clock(2)
            waiting.join(10)
    assert [type(end) for end in ends] == [LockClosed]
    assert [event.kind for event in thread.events if event.owner == "late"] == ["waiting", "failed"]

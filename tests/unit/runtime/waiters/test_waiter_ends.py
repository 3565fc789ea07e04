"""A wait ends when the waiter gives up, and when anything goes wrong: nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, LockClient, LockEvent, subscribe
from singleton.base.errors import LockClosed, LockNotAcquired
from tests.support.waiters import LOCK, begun_outside, eventually, in_line, soon

if TYPE_CHECKING:
    from tests.support.lock_thread import LockThread


def test_a_waiter_times_out_when_his_time_is_over_with_the_words_of_the_line(thread: LockThread) -> None:
    locks, told = LockClient(), []

    def one() -> None:
        with pytest.raises(LockNotAcquired, match=r"within 0:00:05: it is in use by this process") as refused:
            locks.acquire(LOCK, timeout=5, owner="late")
        told.append(refused.value)

    with locks.lock(LOCK, owner="early"):
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: in_line(thread) == 1)
        thread.push_clock(5.5)
        waiting.join(10)
        assert told
        assert told[0].owner == "late"
        assert told[0].holder is not None
        assert told[0].holder.owner == "early"
    assert "contended:timeout" in thread.kinds()


def test_whoever_is_cancelled_while_he_waits_is_told_of_as_failed_and_nobody_waits_for_him(thread: LockThread) -> None:
    locks = AsyncLockClient()

    async def one() -> None:
        async with locks.lock(LOCK):
            pass

    async def both() -> None:
        async with locks.lock(LOCK):
            waiting = begun_outside(one())
            await soon(lambda: in_line(thread) == 1)
            waiting.cancel()
            await asyncio.wait({waiting})
            await soon(lambda: in_line(thread) == 0)

    asyncio.run(both())
    assert thread.kinds().count("failed:CancelledError") == 1
    assert thread.leased() == set()


def test_whoever_is_cancelled_just_as_the_lock_is_handed_to_him_hands_it_on(thread: LockThread) -> None:
    locks, served = AsyncLockClient(), []

    async def one(number: int) -> None:
        async with locks.lock(LOCK):
            served.append(number)

    async def all_of_them() -> None:
        async with locks.lock(LOCK):
            tasks = [begun_outside(one(number)) for number in range(3)]
            await soon(lambda: in_line(thread) == 3)
        tasks[0].cancel()  # it has been given the lock, and has not seen it
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()

    asyncio.run(all_of_them())
    assert served[-2:] == [1, 2]  # the first is inside before its cancellation if this thread had no CPU meanwhile
    assert thread.leased() == set()
    assert thread.kinds().count("acquired") == thread.kinds().count("released")


@pytest.mark.parametrize("whole", [False, True])
def test_a_waiter_is_told_at_once_when_his_client_or_the_process_closes(thread: LockThread, whole: bool) -> None:
    keeper, locks, told = LockClient(), LockClient(), []

    def one() -> None:
        try:
            locks.acquire(LOCK)
        except LockClosed as closed:
            told.append(closed)

    hold = keeper.acquire(LOCK)
    waiting = threading.Thread(target=one)
    waiting.start()
    eventually(lambda: in_line(thread) == 1)
    if whole:
        thread.runtime.close()
    else:
        locks.close()
    waiting.join(10)
    assert told
    keeper.release(hold)
    assert "failed:LockClosed" in thread.kinds()


def test_a_listener_that_raises_a_cancellation_holds_nobody_up(thread: LockThread) -> None:
    def listener(event: LockEvent) -> None:
        if event.kind == "released":
            raise asyncio.CancelledError

    locks = LockClient()
    unsubscribe = subscribe(listener)
    hold = locks.acquire(LOCK, timeout=5)
    waiting = threading.Thread(target=lambda: locks.release(locks.acquire(LOCK)))
    waiting.start()
    eventually(lambda: in_line(thread) == 1)
    locks.release(hold)
    waiting.join(10)
    unsubscribe()
    assert not waiting.is_alive()
    assert thread.leased() == set()

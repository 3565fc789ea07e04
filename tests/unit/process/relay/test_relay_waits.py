"""A runner's wait ends when he gives up, and when anything goes wrong: nobody waits for ever."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from singleton import AsyncLockClient, LockClient, LockEvent, SingletonError, subscribe
from singleton.base.errors import LockClosed, LockNotAcquired
from singleton.locking import relay
from singleton.locking.section import Turn
from singleton.process.answer import Answer
from singleton.process.running import Runner
from tests.support.relays import LOCK, begun_outside, eventually, in_line, relay_of, running, soon

if TYPE_CHECKING:
    from tests.support.lock_thread import LockThread


def test_a_runner_times_out_when_his_time_is_over_with_the_words_of_the_line(thread: LockThread) -> None:
    locks, told = LockClient(), []

    def one() -> None:
        with pytest.raises(LockNotAcquired, match=r"within 0:00:05: it is in use by this process") as refused:
            locks.acquire(LOCK, timeout=5, owner="late")
        told.append(refused.value)

    with locks.lock(LOCK, owner="early"):
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: running(thread) == 1)
        thread.push_clock(2)
        eventually(lambda: in_line(thread) == 1)
        thread.push_clock(3.5)
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
            await soon(lambda: running(thread) == 1)
            waiting.cancel()
            await asyncio.wait({waiting})
            assert running(thread) == 0

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
            await soon(lambda: running(thread) == 3)
        tasks[0].cancel()  # it has been given the lock, and has not seen it
        await asyncio.wait(tasks)
        assert tasks[0].cancelled()

    asyncio.run(all_of_them())
    assert served == [1, 2]
    assert thread.leased() == set()
    assert thread.kinds().count("acquired") == thread.kinds().count("released")


@pytest.mark.parametrize("whole", [False, True])
def test_a_runner_is_told_at_once_when_his_client_or_the_process_closes(
    thread: LockThread, forever: None, whole: bool
) -> None:
    keeper, locks, told = LockClient(), LockClient(), []

    def one() -> None:
        try:
            locks.acquire(LOCK)
        except LockClosed as closed:
            told.append(closed)

    hold = keeper.acquire(LOCK)
    waiting = threading.Thread(target=one)
    waiting.start()
    eventually(lambda: running(thread) == 1)
    if whole:
        thread.runtime.close()
    else:
        locks.close()
    waiting.join(10)
    assert told
    keeper.release(hold)
    assert "failed:LockClosed" in thread.kinds()


def test_who_asks_again_inside_a_hold_that_was_handed_to_him_is_told_at_once(thread: LockThread, forever: None) -> None:
    locks = AsyncLockClient()

    async def inner() -> None:
        async with locks.lock(LOCK):
            with pytest.raises(LockNotAcquired, match="would wait for itself"):
                async with asyncio.timeout(4):
                    await locks.acquire(LOCK)

    async def both() -> None:
        async with locks.lock(LOCK):
            waiting = begun_outside(inner())
            await soon(lambda: running(thread) == 1)
        await waiting

    asyncio.run(both())


@pytest.mark.parametrize(
    ("where", "what"), [(relay.Relay, "_relayed"), (Turn, "follow"), (Runner, "give"), (Answer, "give")]
)
def test_whoever_is_to_get_it_hears_of_that_when_the_thread_that_hands_it_on_is_interrupted(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch, where: type, what: str
) -> None:
    locks, heard = LockClient(), list[BaseException]()

    def wait() -> None:
        try:
            locks.release(locks.acquire(LOCK))
        except SingletonError as error:
            heard.append(error)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    hold = locks.acquire(LOCK)
    waiting = threading.Thread(target=wait)
    waiting.start()
    eventually(lambda: running(thread) == 1)
    with monkeypatch.context() as patch:
        patch.setattr(where, what, interrupted)
        with pytest.raises(KeyboardInterrupt):
            locks.release(hold)
    waiting.join(10)
    assert "interrupted" in str(heard[0])
    assert not hold.lost.is_set()
    assert "failed:SingletonError" in thread.kinds() or where is Answer, "of what he has acquired he hears no more"
    locks.release(hold)
    with locks.lock(LOCK, timeout=5):
        pass


def test_who_awaits_it_wakes_up_though_the_thread_that_gave_it_to_him_was_interrupted(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, call_all, calls = LockClient(), Answer._call_all, list[Answer[Any]]()

    def interrupted_once(self: Answer[Any]) -> None:
        calls.append(self)
        if len(calls) == 1:
            raise KeyboardInterrupt
        call_all(self)

    async def wait() -> None:
        async with AsyncLockClient().lock(LOCK):
            pass

    hold = locks.acquire(LOCK)
    waiting = threading.Thread(target=lambda: asyncio.run(wait()))
    waiting.start()
    eventually(lambda: running(thread) == 1)
    (runner,) = cast("list[Runner]", relay_of(thread)._runners)
    eventually(lambda: len(runner.answer._callbacks) > 0)  # he is to be woken
    with monkeypatch.context() as patch:
        patch.setattr(Answer, "_call_all", interrupted_once)
        with pytest.raises(KeyboardInterrupt):
            locks.release(hold)
        waiting.join(10)
    assert not waiting.is_alive()
    eventually(lambda: thread.leased() == set())


def test_who_is_interrupted_as_he_joins_leaves_the_time_outs_of_others_as_they_are(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks, told = LockClient(), list[BaseException]()

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    def late() -> None:
        try:
            locks.acquire(LOCK, timeout=5)
        except LockNotAcquired as error:
            told.append(error)

    with locks.lock(LOCK):
        with monkeypatch.context() as patch:
            patch.setattr(thread.runtime._loop, "call_soon_threadsafe", interrupted)
            with pytest.raises(KeyboardInterrupt):
                contextvars.Context().run(locks.acquire, LOCK)
        waiting = threading.Thread(target=late)
        waiting.start()
        eventually(lambda: running(thread) > 0)
        thread.push_clock(2)
        eventually(lambda: in_line(thread) == 1)
        thread.push_clock(3.5)
        waiting.join(10)
    assert told


def test_who_has_the_mutex_can_close_the_client_of_a_runner(thread: LockThread) -> None:
    """As a signal handler does, or what is collected in that moment."""
    locks, closed = LockClient(), list[BaseException]()

    def wait() -> None:
        try:
            locks.acquire(LOCK)
        except LockClosed as error:
            closed.append(error)

    def close() -> None:
        with relay_of(thread).mutex:
            locks.close()

    with LockClient().lock(LOCK):
        waiting = threading.Thread(target=wait)
        waiting.start()
        eventually(lambda: running(thread) == 1)
        closing = threading.Thread(target=close, daemon=True)
        closing.start()
        closing.join(10)
        assert not closing.is_alive(), "it waits for itself"
        waiting.join(10)
    assert closed


def test_a_listener_that_raises_a_cancellation_holds_nobody_up(thread: LockThread) -> None:
    def listener(event: LockEvent) -> None:
        if event.kind == "released":
            raise asyncio.CancelledError

    locks = LockClient()
    unsubscribe = subscribe(listener)
    hold = locks.acquire(LOCK, timeout=5)
    waiting = threading.Thread(target=lambda: locks.release(locks.acquire(LOCK)))
    waiting.start()
    eventually(lambda: running(thread) == 1)
    hold.hand_on = None  # type: ignore[attr-defined]  # it ends on the lock thread
    locks.release(hold)
    waiting.join(10)
    unsubscribe()
    assert not waiting.is_alive()
    assert thread.leased() == set()

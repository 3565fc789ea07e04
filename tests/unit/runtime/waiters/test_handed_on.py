"""A hold that was handed on is its own: it has a lease that is good, and its name, its loss and its end are its own."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, LockClient, SingletonOptions, subscribe
from singleton.base.errors import LockLost
from singleton.base.invocation import Invocation
from singleton.locking.lease import Lease
from tests.support.waiters import LOCK, begun_outside, eventually, in_line, lock_of, soon

if TYPE_CHECKING:
    from singleton.base.hold import Hold
    from singleton.base.holder_record import Holder
    from tests.support.lock_thread import LockThread


def test_nobody_gets_the_lock_under_a_lease_that_is_lost(thread: LockThread) -> None:
    locks, tokens = LockClient(), []

    def one() -> None:
        with locks.lock(LOCK) as hold:
            tokens.append((hold.lease_id, hold.lost.is_set()))

    with locks.lock(LOCK, on_loss="tell") as first:
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: in_line(thread) == 1)
        thread.push_clock(30)
        with pytest.raises(LockLost):
            first.raise_if_lost()
    waiting.join(10)
    assert tokens[0][0] != first.lease_id
    assert tokens[0][1] is False


def the_next_after(thread: LockThread, locks: LockClient) -> tuple[Hold, Hold]:
    """Return a hold whose deadline has passed before any timer ran, as on a machine that slept, and the next one."""
    got: list[Hold] = []

    def one() -> None:
        with locks.lock(LOCK) as hold:
            got.append(hold)

    with locks.lock(LOCK, on_loss="tell") as first:
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: in_line(thread) == 1)
        assert isinstance(first.lost._lease, Lease)
        first.lost._lease.deadline = 0.0
    waiting.join(10)
    return first, got[0]


def test_nobody_gets_the_lock_past_the_deadline_even_if_the_lock_thread_had_no_time_to_say_so(
    thread: LockThread,
) -> None:
    first, following = the_next_after(thread, LockClient())
    assert following.lease_id != first.lease_id


def test_nobody_gets_the_lock_past_the_deadline_of_its_last_touch_however_long_its_lease_is_good(
    thread: LockThread,
) -> None:
    """Others may have taken it from a holder that is silent for so long."""
    locks = LockClient(options=SingletonOptions(failover=5))
    first, following = the_next_after(thread, locks)
    assert following.lease_id != first.lease_id
    assert not following.lost.is_set()


def test_the_holder_is_named_by_the_function_that_has_it_and_not_by_the_one_that_handed_it_on(
    thread: LockThread,
) -> None:
    locks = AsyncLockClient()

    async def use(function: str, gate: asyncio.Event) -> None:
        with Invocation(f"id-{function}", None, function):
            async with locks.lock(LOCK, owner=function):
                await gate.wait()

    async def main() -> None:
        gates = asyncio.Event(), asyncio.Event()
        first = begun_outside(use("FunctionA", gates[0]))
        await soon(lambda: thread.kinds().count("acquired") == 1)
        second = begun_outside(use("FunctionB", gates[1]))
        await soon(lambda: in_line(thread) == 1)
        gates[0].set()
        await soon(lambda: thread.kinds().count("acquired") == 2)
        holder = await asyncio.to_thread(thread.do, held_by)
        assert holder is not None
        assert (holder.owner, holder.function) == ("FunctionB", "FunctionB")
        gates[1].set()
        await asyncio.wait([first, second])

    async def held_by() -> Holder | None:
        return lock_of(thread).guard.holder()

    asyncio.run(main())


def test_the_events_of_a_hold_that_was_handed_on_are_told_in_the_context_of_who_has_it(thread: LockThread) -> None:
    """A listener finds there in whose name to log, and in which span."""
    caller = contextvars.ContextVar("caller", default="another")
    told: list[tuple[str, str, str]] = []
    unsubscribe = subscribe(lambda event: told.append((event.owner, event.kind, caller.get())))
    locks = LockClient()

    def use() -> None:
        caller.set("me")
        with locks.lock(LOCK, owner="me"):
            pass

    with locks.lock(LOCK):
        waiting = threading.Thread(target=use)
        waiting.start()
        eventually(lambda: in_line(thread) == 1)
    waiting.join(10)
    unsubscribe()
    mine = [(kind, where) for owner, kind, where in told if owner == "me"]
    assert mine == [("waiting", "me"), ("acquired", "me"), ("released", "me")]


def test_a_waiter_is_told_of_the_loss_of_his_own_hold_and_the_one_before_is_not(thread: LockThread) -> None:
    locks, holds = AsyncLockClient(), []

    async def both() -> None:
        async def second() -> None:
            async with locks.lock(LOCK, owner="second", on_loss="tell") as hold:
                holds.append(hold)
                thread.deleted(LOCK)
                await asyncio.wait_for(asyncio.ensure_future(_lost(hold)), 10)

        async with locks.lock(LOCK, owner="first") as hold:
            holds.append(hold)
            waiting = begun_outside(second())
            await soon(lambda: in_line(thread) == 1)
        await waiting

    async def _lost(hold: Hold) -> None:
        await hold.lost

    asyncio.run(both())
    assert [hold.lost.is_set() for hold in holds] == [False, True]
    assert [event.owner for event in thread.events if event.kind == "lost"] == ["second"]


def handed_on(thread: LockThread, locks: LockClient) -> tuple[Hold, list[Hold]]:
    """Return a hold that a waiter was waiting behind, after its release; and in a list, alone, that of the waiter."""
    got: list[Hold] = []
    first = locks.acquire(LOCK)
    waiting = threading.Thread(target=lambda: got.append(locks.acquire(LOCK)))
    waiting.start()
    eventually(lambda: in_line(thread) == 1)
    locks.release(first)
    waiting.join(10)
    return first, got


def test_a_second_release_of_a_hold_that_was_handed_on_leaves_the_next_one_alone(thread: LockThread) -> None:
    locks = LockClient()
    first, got = handed_on(thread, locks)
    locks.release(first)
    assert not got[0].lost.ended
    assert first.lost.ended
    assert not first.lost.is_set()
    assert thread.leased() == {LOCK}
    locks.release(got[0])
    assert thread.leased() == set()


def test_a_hold_that_was_handed_on_and_dropped_is_given_back(thread: LockThread) -> None:
    _, got = handed_on(thread, LockClient())
    got.clear()
    gc.collect()
    eventually(lambda: not thread.leased())


def test_a_lock_that_idles_keeps_nothing_of_its_last_caller(thread: LockThread) -> None:
    class Request:
        pass

    of_the_caller: contextvars.ContextVar[Request] = contextvars.ContextVar("of_the_caller")
    known: list[weakref.ref[Request]] = []

    def use() -> None:
        request = Request()
        known.append(weakref.ref(request))
        of_the_caller.set(request)
        with LockClient().lock(LOCK):
            pass

    for _ in range(3):  # the first makes the lock
        using = threading.Thread(target=use)
        using.start()
        using.join()
        del using

    def forgotten() -> bool:
        gc.collect()
        return [each() for each in known] == [None] * 3

    eventually(forgotten)

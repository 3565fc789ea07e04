"""Callers of one process get a lock in the order in which they came, one at a time, and without the storage."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from singleton import AsyncLockClient, LockClient, SingletonOptions
from singleton.locking.section import Section
from singleton.runtime.lock_thread import runtime
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.waiters import LOCK, begun_outside, eventually, in_line, soon

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from singleton.base.hold import Hold
    from singleton.runtime.registry import Registry
    from tests.support.lock_thread import LockThread
    from tests.support.waiters import CountingStore


def test_sections_of_one_process_cost_no_call_to_the_storage(thread: LockThread, store: CountingStore) -> None:
    locks = AsyncLockClient()
    tokens: list[int] = []

    async def work() -> None:
        while len(tokens) < 3000:  # so that nobody is alone at the end
            async with locks.lock(LOCK) as hold:
                tokens.append(hold.token or 0)

    async def all_of_them() -> None:
        async with locks.lock(LOCK):
            tasks = [begun_outside(work()) for _ in range(10)]
            await soon(lambda: in_line(thread) == 10)
        await asyncio.wait(tasks)

    asyncio.run(all_of_them())
    assert 3000 <= len(tokens) < 3010
    assert tokens == sorted(set(tokens))
    assert store.asked.count("acquire") <= 5
    assert store.asked.count("write") <= 4, "a stamp for each thousand sections"
    assert thread.leased() == set()


def test_waiters_with_and_without_a_time_out_are_served_in_the_order_in_which_they_came(thread: LockThread) -> None:
    locks, served = AsyncLockClient(), []

    async def one(number: int) -> None:
        async with locks.lock(LOCK, timeout=1.5 if number % 3 == 0 else None):
            served.append(number)

    async def all_of_them() -> None:
        async with locks.lock(LOCK):
            tasks = []
            for number in range(9):
                tasks.append(begun_outside(one(number)))
                await soon(lambda: in_line(thread) == len(tasks))
        await asyncio.gather(*tasks)

    asyncio.run(all_of_them())
    assert served == [*range(9)]


def test_a_lock_whose_state_is_still_to_be_written_is_not_handed_on(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the write would be done in the next section, whose lease is the same."""
    locks, order = LockClient(), []
    put = MemoryLeaseStore.put

    async def noted_put(self: MemoryLeaseStore, *args: Any) -> str:
        order.append("written")
        return await put(self, *args)

    monkeypatch.setattr(MemoryLeaseStore, "put", noted_put)

    def follow() -> None:
        with locks.lock(LOCK):
            order.append("next")

    with locks.lock(LOCK) as hold:
        next_one = threading.Thread(target=follow)
        next_one.start()
        eventually(lambda: in_line(thread) == 1)
        assert isinstance(hold, Section)
        assert hold.fencing is not None
        record = hold.record
        in_order = hold.fencing._in_order()
        runtime().call(lambda _: in_order.acquire())  # as another request for its blob has it
        writer = threading.Thread(target=hold.state.write, args=(1,))
        writer.start()
        eventually(lambda: record.uses == 1)

        async def go_on(_: Registry) -> None:
            in_order.release()

        threading.Timer(0.1, runtime().call, args=(go_on,)).start()
    for each in (next_one, writer):
        each.join(10)
    assert order == ["written", "next"]
    with locks.lock(LOCK) as hold:
        assert hold.state.read() == 1


def test_after_the_handoff_window_the_lease_is_given_back_though_others_wait(
    thread: LockThread, store: CountingStore
) -> None:
    options = SingletonOptions(handoff_window=5, lock_acquisition_polling_interval=1)
    locks, got = LockClient(options=options), []

    def one() -> None:
        with locks.lock(LOCK) as hold:
            got.append(hold.lease_id)

    with locks.lock(LOCK) as first:
        waiting = threading.Thread(target=one)
        waiting.start()
        eventually(lambda: in_line(thread) == 1)
        thread.push_clock(6)

    def got_after_another_second() -> bool:
        thread.push_clock(1)
        return bool(got)

    eventually(got_after_another_second)
    waiting.join(10)
    assert got[0] != first.lease_id


def test_threads_and_loops_that_come_go_and_are_cancelled_exclude_one_another(thread: LockThread) -> None:
    inside, tokens = [0], [0]
    chance = random.Random(7)
    plans = [[chance.random() for _ in range(60)] for _ in range(8)]

    def enter(hold: Hold) -> None:
        inside[0] += 1
        assert inside[0] == 1
        assert hold.token is not None
        assert hold.token > tokens[0]
        tokens[0] = hold.token
        inside[0] -= 1

    def in_a_thread(plan: list[float]) -> None:
        locks = LockClient()
        for each in plan:
            with locks.lock(LOCK, timeout=None if each < 0.7 else 1.0 + 20 * each) as hold:
                enter(hold)

    async def use(locks: AsyncLockClient, each: float) -> None:
        async with locks.lock(LOCK) as hold:
            enter(hold)
            if each < 0.2:
                await asyncio.sleep(0)

    async def on_a_loop(plan: list[float]) -> None:
        locks = AsyncLockClient()
        tasks = []
        for each in plan:
            tasks.append(asyncio.create_task(use(locks, each)))
            await asyncio.sleep(0 if each < 0.8 else 0.001)
            if each > 0.6:
                tasks[int(each * len(tasks))].cancel()
        done, _ = await asyncio.wait(tasks, timeout=60)
        assert len(done) == len(tasks)
        for task in done:
            with suppress(asyncio.CancelledError):
                task.result()

    errors: list[BaseException] = []

    def guarded(run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:  # noqa: BLE001 - it is told below
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(lambda plan=plan: in_a_thread(plan),)) for plan in plans[:4]]
    threads += [
        threading.Thread(target=guarded, args=(lambda plan=plan: asyncio.run(on_a_loop(plan)),)) for plan in plans[4:]
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert not errors
    assert not any(each.is_alive() for each in threads)
    eventually(lambda: not thread.leased())
    kinds = thread.kinds()
    assert kinds.count("acquired") == kinds.count("released")
    assert kinds.count("waiting") == kinds.count("acquired") + kinds.count("failed:CancelledError")


def test_of_a_hold_that_was_handed_on_it_is_known_whose_it_is_since_when_and_how_long_he_waited(
    thread: LockThread,
) -> None:
    locks = AsyncLockClient()

    async def main() -> None:
        first = await locks.acquire(LOCK, owner="early")
        got: list[Hold] = []

        async def late() -> None:
            got.append(await locks.acquire(LOCK, owner="late"))

        waiting = begun_outside(late())
        await soon(lambda: in_line(thread) == 1)
        thread.push_clock(0.4)
        before = datetime.now(UTC)
        await locks.release(first)
        await waiting
        (second,) = got
        assert isinstance(second, Section)
        assert second.waited >= 0.4
        assert second.lease.owner == "late"
        holder = second.record.holder
        assert (holder.owner, holder.token) == ("late", second.token)
        assert holder.since is not None
        assert holder.since >= before
        await locks.release(second)

    asyncio.run(main())

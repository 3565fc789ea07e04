"""A sync wait on the thread of an event loop: refused at once where it certainly has no end, else told once a place."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, LockClient, LockNotAcquired, SingletonOptions, singleton
from singleton.runtime import blocked_loops
from singleton.testing import held_elsewhere, memory, memory_locks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCK = "job"


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(blocked_loops, "_warned", set())
    with memory_locks():
        yield


@singleton(name=LOCK)
def guarded(inside: Callable[[], object] = lambda: None) -> object:
    return inside()


@singleton(name=LOCK)
async def guarded_async(inside: Callable[[], Any]) -> object:
    return await inside()


def take_block(**how: Any) -> None:
    with LockClient().lock(LOCK, **how):
        pass


def take_set() -> None:
    with LockClient().lock_all([LOCK, "a"]):
        pass


def take_leadership() -> None:
    with LockClient().leadership(LOCK) as leadership:
        leadership.wait()


def take_by_hand() -> None:
    locks = LockClient()
    locks.release(locks.acquire(LOCK))


async def sync_holder(held: asyncio.Event, over: asyncio.Event) -> None:
    with LockClient().lock(LOCK):
        held.set()
        await over.wait()


async def async_holder(held: asyncio.Event, over: asyncio.Event) -> None:
    async with AsyncLockClient().lock(LOCK):
        held.set()
        await over.wait()


async def periodic_holder(held: asyncio.Event, over: asyncio.Event) -> None:
    async def work(_: object) -> None:
        held.set()
        await over.wait()

    async with AsyncLockClient().periodic(LOCK, work, every=60):
        await over.wait()


async def sync_leader(held: asyncio.Event, over: asyncio.Event) -> None:
    with LockClient().leadership(LOCK) as leadership:
        leadership.wait()
        held.set()
        await over.wait()


async def async_leader(held: asyncio.Event, over: asyncio.Event) -> None:
    async with AsyncLockClient().leadership(LOCK) as leadership:
        await leadership
        held.set()
        await over.wait()


def in_line() -> int:
    registry = memory.current().registry
    locks, semaphores = tuple(registry._locks.values()), tuple(registry._semaphores.values())
    return sum(len(each._line) for each in locks) + sum(len(each._line) for each in semaphores)


def until_in_line(number: int) -> None:
    """Wait until so many callers stand in line."""
    deadline = time.monotonic() + 60
    while in_line() < number:
        assert time.monotonic() < deadline
        time.sleep(0.001)


@contextmanager
def held_until_somebody_waits(name: str = LOCK, limit: int | None = None, waiters: int = 1) -> Iterator[None]:
    """Hold the lock on a thread without a loop, until somebody stands in line."""
    held, locks = threading.Event(), LockClient()

    def hold() -> None:
        hold = locks.acquire(name, limit=limit)
        held.set()
        until_in_line(waiters)
        locks.release(hold)

    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert held.wait(60)
        yield
    holding.result()


# --- certain: refused at once -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("holder", [sync_holder, async_holder, periodic_holder, sync_leader, async_leader])
@pytest.mark.parametrize("take", [take_block, take_by_hand, take_set, take_leadership])
async def test_who_waits_for_a_task_of_the_loop_that_the_wait_blocks_is_refused_at_once(holder: Any, take: Any) -> None:
    held, over = asyncio.Event(), asyncio.Event()
    holding = asyncio.create_task(holder(held, over))
    await held.wait()
    with pytest.raises(LockNotAcquired, match="AsyncLockClient") as told:
        take()
    assert told.value.reason == "event loop"
    assert "test_event_loops.py:" in str(told.value)
    over.set()
    await holding
    take()


@pytest.mark.parametrize("timeout", [60, 0.5])
async def test_so_is_a_wait_with_a_time_out_which_would_be_in_vain(timeout: float) -> None:
    async with AsyncLockClient().lock(LOCK):
        with pytest.raises(LockNotAcquired, match="runs on the event loop"):
            await asyncio.create_task(as_a_task(lambda: take_block(timeout=timeout)))


async def as_a_task(work: Callable[[], object]) -> object:
    return work()


async def test_so_is_a_guarded_function_that_a_coroutine_calls() -> None:
    held, over = asyncio.Event(), asyncio.Event()

    async def inside() -> None:
        held.set()
        await over.wait()

    holding = asyncio.create_task(guarded_async(inside))
    await held.wait()
    with pytest.raises(LockNotAcquired, match="make a guarded function `async def`"):
        guarded()
    over.set()
    await holding
    guarded()


async def test_so_is_who_stands_in_line_behind_a_task_of_the_loop() -> None:
    locks = AsyncLockClient()
    with held_elsewhere(LOCK):
        first = asyncio.create_task(locks.acquire(LOCK))
        await asyncio.sleep(0)
        with pytest.raises(LockNotAcquired, match="a waiter before"):
            take_block()
    await locks.release(await first)


async def test_so_is_who_waits_when_the_lock_is_handed_to_a_task_of_the_loop() -> None:
    locks, others = AsyncLockClient(), LockClient(options=SingletonOptions(lock_period=30))  # a line of their own
    with held_until_somebody_waits(waiters=2):
        first = asyncio.create_task(locks.acquire(LOCK))
        await asyncio.to_thread(until_in_line, 1)
        with pytest.raises(LockNotAcquired, match="runs on the event loop"), others.lock(LOCK):
            pass
    await locks.release(await first)


async def test_a_semaphore_refuses_where_every_slot_belongs_to_the_loop() -> None:
    locks = LockClient()
    with locks.semaphore("pool", 2), locks.semaphore("pool", 2):
        for _ in range(2):
            with pytest.raises(LockNotAcquired, match="'pool' was not acquired"):
                await asyncio.create_task(as_a_task(lambda: locks.acquire("pool", limit=2)))


@pytest.mark.parametrize("limit", [1, 2])
async def test_so_does_a_semaphore_whose_slots_belong_to_the_loop_by_another_limit(limit: int) -> None:
    locks = LockClient()
    with locks.semaphore("pool", 3), locks.semaphore("pool", 3), locks.semaphore("pool", 3):
        with pytest.raises(LockNotAcquired, match="'pool' was not acquired"):
            await asyncio.create_task(as_a_task(lambda: locks.acquire("pool", limit=limit)))
        with locks.semaphore("pool", 4):
            pass


async def test_so_is_who_waits_for_a_leadership_when_the_lock_is_handed_to_a_task_of_the_loop() -> None:
    def hold() -> None:
        with LockClient().lock(LOCK):
            held.set()
            while not all(guard.watches for guard in memory.current().registry._guards):
                time.sleep(0.001)

    held, locks = threading.Event(), AsyncLockClient()
    with ThreadPoolExecutor(1) as pool:
        holding = pool.submit(hold)
        assert held.wait(60)
        first = asyncio.create_task(locks.acquire(LOCK))
        await asyncio.to_thread(until_in_line, 1)
        with pytest.raises(LockNotAcquired, match="runs on the event loop"):
            take_leadership()
        holding.result()
    await locks.release(await first)


# --- not certain: it waits --------------------------------------------------------------------------------------------


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "blocks the event loop" in record.getMessage()]


async def test_a_holder_on_a_thread_is_waited_for_with_one_warning_a_place(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        with held_until_somebody_waits():
            take_block()
    (told,) = warnings(caplog)
    assert "test_event_loops.py:" in told
    assert "AsyncLockClient" in told
    with held_until_somebody_waits():
        take_by_hand()
    assert len(warnings(caplog)) == 2
    with held_until_somebody_waits(LockClient().lock_name(LOCK)):
        guarded()
    assert len(warnings(caplog)) == 3


async def test_so_is_a_holder_in_another_process(caplog: pytest.LogCaptureFixture) -> None:
    with ThreadPoolExecutor(1) as pool:
        elsewhere = held_elsewhere(LOCK)
        elsewhere.__enter__()
        pool.submit(until_in_line, 1).add_done_callback(lambda _: elsewhere.__exit__(None, None, None))
        take_block()
    assert len(warnings(caplog)) == 1


async def test_so_is_a_holder_on_another_loop() -> None:
    def hold() -> None:
        asyncio.run(keep())

    async def keep() -> None:
        async with AsyncLockClient().lock(LOCK):
            held.set()
            await asyncio.to_thread(until_in_line, 1)

    held = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(hold)
        held.wait(60)
        take_block()


async def test_so_is_a_semaphore_with_a_slot_of_a_thread() -> None:
    locks = LockClient()
    with locks.semaphore("pool", 2), held_until_somebody_waits("pool", 2):
        locks.release(await asyncio.create_task(as_a_task(lambda: locks.acquire("pool", limit=2))))  # type: ignore[arg-type]


async def test_so_is_a_lock_that_is_kept_after_its_block() -> None:
    async with AsyncLockClient().lock(LOCK, at_least=0.2):
        pass
    take_block()


async def test_who_asks_once_is_told_as_ever() -> None:
    async with AsyncLockClient().lock(LOCK):
        with pytest.raises(LockNotAcquired) as told:
            await asyncio.create_task(as_a_task(lambda: take_block(timeout=0)))
        assert told.value.reason == "in use here"


async def test_a_free_lock_is_taken_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    take_block()
    guarded()
    assert not warnings(caplog)


async def test_a_coroutine_waits_for_a_sync_holder_on_its_loop(caplog: pytest.LogCaptureFixture) -> None:
    held, over = asyncio.Event(), asyncio.Event()
    holding = asyncio.create_task(sync_holder(held, over))
    await held.wait()
    waiting = asyncio.create_task(async_holder(asyncio.Event(), over))
    await asyncio.to_thread(until_in_line, 1)
    over.set()
    await asyncio.gather(holding, waiting)
    assert not warnings(caplog)


async def test_a_wait_for_a_leadership_gives_up_in_time_and_asks_once_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with AsyncLockClient().lock(LOCK):
        with LockClient().leadership(LOCK) as leadership:
            assert leadership.wait(0) is None
    with held_elsewhere(LOCK), LockClient().leadership(LOCK) as leadership:
        assert leadership.wait(0.05) is None
    with LockClient().leadership("free") as leadership:
        assert leadership.wait() is leadership.wait() is leadership.hold
    assert not [each for each in warnings(caplog) if "free" in each]


def test_nothing_else_is_on_the_loop_of_a_periodic_worker_with_a_thread(caplog: pytest.LogCaptureFixture) -> None:
    done = threading.Event()

    def work(_: object) -> None:
        take_block()
        done.set()

    with held_until_somebody_waits(), LockClient().periodic("worker", work, every=60):
        assert done.wait(60)
    assert not warnings(caplog)


def test_a_candidate_that_a_coroutine_started_belongs_to_no_loop() -> None:
    leadership = LockClient().leadership(LOCK)

    async def main() -> None:
        leadership.start()
        await leadership
        with ThreadPoolExecutor(1) as pool:
            pool.submit(until_in_line, 1).add_done_callback(lambda _: leadership.stop())
            take_block()

    asyncio.run(main())

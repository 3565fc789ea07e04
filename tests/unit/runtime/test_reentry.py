"""Who waits for a lock that it has itself: told at once where that is certain, else after a while."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, Hold, LockClient, LockNotAcquired, SingletonOptions, singleton
from singleton.runtime import reentry
from singleton.testing import memory_locks, virtual_time
from tests.support.lock_thread import Context

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def in_memory() -> Iterator[None]:
    with memory_locks():
        yield


@singleton(scope_id="stock", level="host")
def count(context: Any = None) -> str:
    return "counted"


@singleton(scope_id="stock", level="host")
def ship(context: Any = None) -> str:
    return count()


@singleton(scope_id="stock", level="host", on_contention="skip")
def count_or_skip(context: Any = None) -> str:
    return "counted"


@singleton(scope_id="stock", level="host")
async def count_async(context: Any = None) -> str:
    return "counted"


@singleton(scope_id="stock", level="host")
async def ship_async(context: Any = None) -> str:
    return await count_async()


@singleton(scope_id="stock", level="host")
def ship_or_skip(context: Any = None) -> str | None:
    return count_or_skip()


# --- certain: told at once --------------------------------------------------------------------------------------------


def test_a_guarded_function_that_calls_another_of_its_lock_is_told_which_invocation_has_it(in_memory: None) -> None:
    with pytest.raises(
        LockNotAcquired, match="its caller holds it already as 'inv-7', and would wait for itself"
    ) as told:
        ship(context=Context("inv-7"))
    assert told.value.reason == "reentry"
    assert told.value.holder is not None
    assert told.value.holder.owner == "inv-7"
    assert count() == "counted"


async def test_so_is_a_coroutine(in_memory: None) -> None:
    with pytest.raises(LockNotAcquired, match="its caller holds it already as 'inv-7'"):
        await ship_async(context=Context("inv-7"))
    assert await count_async() == "counted"


def test_one_that_does_not_wait_skips_as_ever(in_memory: None) -> None:
    assert ship_or_skip() is None


def test_a_thread_that_enters_a_lock_twice_is_told(in_memory: None) -> None:
    locks = LockClient()
    with locks.lock("job", owner="me"):
        for timeout in (None, 60):
            with pytest.raises(LockNotAcquired, match="holds it already as 'me'"):
                locks.acquire("job", timeout=timeout)
        with pytest.raises(LockNotAcquired, match="holds it already"), locks.lock_all(["job", "other"]):
            pytest.fail("entered twice")
        with locks.try_lock("job") as second:
            assert second is None
    with locks.lock("job"):
        pass


async def test_a_task_that_enters_a_lock_twice_is_told(in_memory: None) -> None:
    locks = AsyncLockClient()
    async with locks.lock("job"):
        with pytest.raises(LockNotAcquired, match="would wait for itself"):
            await locks.acquire("job")
        with pytest.raises(LockNotAcquired, match="would wait for itself"):
            LockClient().acquire("job")


def test_the_work_of_a_periodic_worker_is_inside_its_lock(in_memory: None, caplog: pytest.LogCaptureFixture) -> None:
    locks = LockClient()
    with locks.periodic("job", lambda _: locks.acquire("job"), every=60) as worker:
        while "would wait for itself" not in caplog.text:
            assert worker._thread is not None
            worker._thread.join(0.01)


# --- not re-entry -----------------------------------------------------------------------------------------------------


def test_what_differs_in_name_or_account_is_another_lock(in_memory: None) -> None:
    with LockClient("One").lock("job"), LockClient("Two").lock("job"), LockClient("One").lock("other"):
        pass


def test_a_semaphore_is_another_thing_than_the_lock_of_its_name(in_memory: None) -> None:
    locks = LockClient()
    with locks.lock("job"), locks.semaphore("job", 3, timeout=60):
        pass


def test_another_thread_waits_as_ever(in_memory: None) -> None:
    locks = LockClient()
    with ThreadPoolExecutor(1) as pool:
        with locks.lock("job"):
            waiting = pool.submit(locks.acquire, "job")
        locks.release(waiting.result(60))


def test_a_task_of_a_loop_that_runs_inside_a_lock_may_outlive_its_block(in_memory: None) -> None:
    locks = AsyncLockClient()

    async def begin() -> asyncio.Task[Hold]:
        return asyncio.create_task(locks.acquire("job"))

    async def end(task: asyncio.Task[Hold]) -> None:
        await locks.release(await task)

    with asyncio.Runner() as runner:
        with LockClient().lock("job"):
            task = runner.run(begin())
        runner.run(end(task))


def test_a_lock_that_was_released_inside_its_block_can_be_taken_again(in_memory: None) -> None:
    locks = LockClient()
    with locks.lock("job") as hold:
        locks.release(hold)
        with locks.lock("job"):
            pass


@virtual_time
async def test_so_can_one_that_is_kept_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    locks = AsyncLockClient()
    async with locks.lock("job", at_least=60) as hold:
        await locks.release(hold)
        async with locks.lock("job"):
            pass
    assert "never ends" not in caplog.text, "nobody waits for himself"


def test_a_hold_without_a_block_may_be_released_by_another_thread(in_memory: None) -> None:
    locks = LockClient()
    hold = locks.acquire("job")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(locks.release, hold)
        locks.release(locks.acquire("job"))


def test_a_candidacy_that_begins_inside_its_lock_waits_for_the_end_of_the_block(in_memory: None) -> None:
    once = SingletonOptions(listener_lock_recovery_polling_interval=None, lock_acquisition_timeout=60)
    locks = LockClient(options=once)
    leadership = locks.leadership("job")
    with locks.lock("job"):
        leadership.start()
    assert leadership.wait(60) is not None
    leadership.stop()


async def test_what_is_known_of_holds_keeps_none_of_them_alive(in_memory: None) -> None:
    locks = AsyncLockClient()
    hold = await locks.acquire("job")
    known: weakref.ref[Hold] = weakref.ref(hold)
    await locks.release(hold)
    del hold
    for _ in range(500):  # the lock thread may be about to let go of it
        gc.collect()
        if known() is None:
            return
        await asyncio.sleep(0.01)
    pytest.fail("something keeps it alive")


def test_what_is_known_of_holds_does_not_grow(in_memory: None) -> None:
    locks = LockClient()
    with locks.leadership("leader") as leadership:
        for _ in range(20):
            leadership.wait()
            block = locks.lock("job")
            block.__enter__()
            contextvars.Context().run(block.__exit__, None, None, None)
        innermost = reentry._nesting.get()
        assert innermost is None or innermost.around is None


# --- uncertain: the line about a long wait says that this process has the lock ----------------------------------------


@virtual_time
async def test_a_task_that_was_started_inside_waits_and_after_half_a_minute_it_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    locks = AsyncLockClient()

    async def inner() -> None:
        async with locks.lock("job"):
            pass

    async with locks.lock("job", owner="me"):
        started = asyncio.create_task(inner())
        await asyncio.sleep(29)
        assert caplog.text == ""
        await asyncio.sleep(2)
    await started
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "lock job: somebody has waited for 30 s; it is held by 'me' in this process" in caplog.text


@virtual_time
async def test_so_is_who_holds_without_a_block(caplog: pytest.LogCaptureFixture) -> None:
    locks = AsyncLockClient()
    hold = await locks.acquire("job")
    again = asyncio.create_task(locks.acquire("job"))
    await asyncio.sleep(31)
    assert "has waited for 30 s; it is held in this process" in caplog.text
    await locks.release(hold)
    await locks.release(await again)


@virtual_time
async def test_so_is_who_leads(caplog: pytest.LogCaptureFixture) -> None:
    locks = AsyncLockClient()
    async with locks.leadership("job") as leadership:
        await leadership
        again = asyncio.create_task(locks.acquire("job"))
        await asyncio.sleep(31)
        assert "has waited for 30 s; it is held in this process" in caplog.text
    await locks.release(await again)


@virtual_time
async def test_a_thread_with_a_copy_of_the_context_waits(caplog: pytest.LogCaptureFixture) -> None:
    locks = AsyncLockClient()
    async with locks.lock("job"):
        waiting = asyncio.create_task(asyncio.to_thread(LockClient().acquire, "job"))
        await asyncio.sleep(31)
        assert "has waited for 30 s; it is held in this process" in caplog.text
    await locks.release(await waiting)

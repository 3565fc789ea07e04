"""Periodic workers: ticks, one instance at a time, errors that don't end them, and how they stop (S-9, S-10)."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, Hold, LockClient, LockClosed, SingletonOptions
from singleton.clients.periodic_worker import PeriodicWorker
from singleton.runtime.closing import Closing
from singleton.testing import lose, memory_locks
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import LockThread, an_app
from tests.support.network import LOST_REQUEST, answered
from tests.support.world import now, until, virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

OPTIONS = SingletonOptions(lock_acquisition_min_polling_interval=0.01)
JOB = "cleanup"


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def soon(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)


# --- ticks, on virtual time -------------------------------------------------------------------------------------------


@virtual
async def test_it_works_at_once_and_then_at_every_tick() -> None:
    times: list[float] = []

    async def work(hold: Hold) -> None:
        assert hold.lock == JOB
        times.append(round(now()))

    with InlineHost(MemoryLeaseStore()).here() as locks:
        async with locks.periodic(JOB, work, every=60):
            await until(200)
    assert times == [0, 60, 120, 180]


@virtual
async def test_ticks_that_fall_into_the_work_are_left_out_and_the_others_keep_their_times() -> None:
    times: list[float] = []

    async def work(_: Hold) -> None:
        times.append(round(now()))
        await asyncio.sleep(150 if len(times) == 1 else 1)

    with InlineHost(MemoryLeaseStore()).here() as locks:
        async with locks.periodic(JOB, work, every=60):
            await until(310)
    assert times == [0, 180, 240, 300]


@virtual
async def test_of_all_instances_one_works_and_when_it_dies_another_does_after_its_lease_and_a_tick() -> None:
    service, inside, times = MemoryLeaseStore(), [0], []
    hosts = [InlineHost(service, seed) for seed in range(3)]

    async def work(hold: Hold) -> None:
        inside[0] += 1
        assert inside[0] == 1
        times.append(now())
        try:
            await asyncio.sleep(5)
        finally:
            inside[0] -= 1

    workers, running = [], []
    for host in hosts:
        with host.here() as locks:
            workers.append(locks.periodic(JOB, work, every=10))
            running.append(asyncio.create_task(workers[-1].run()))
            await asyncio.sleep(0.5)
    await until(52)
    assert len(times) >= 5
    # the one inside dies: its requests get no further, and its work ends unheard
    alive = [host for host in hosts if not host.registry._locks or next(iter(host.registry._locks.values())).idle]
    dead = next(host for host in hosts if host not in alive)
    dead.network.fail_all(LOST_REQUEST)
    died = now()
    await until(died + 15 + 10 + 1)
    assert any(moment > died for moment in times)
    for worker in workers:
        worker.stop(cancel=True)
    await asyncio.sleep(20)
    assert all(task.done() for task in running)


@virtual
async def test_an_error_in_the_work_is_logged_and_the_next_tick_still_comes(caplog: pytest.LogCaptureFixture) -> None:
    times: list[float] = []

    async def work(_: Hold) -> None:
        times.append(round(now()))
        raise ZeroDivisionError("own")

    service = MemoryLeaseStore()
    with InlineHost(service).here() as locks:
        async with locks.periodic(JOB, work, every=10):
            await until(25)
            assert service.leased() == {}
    assert times == [0, 10, 20]
    assert sum("cleanup failed" in record.message for record in caplog.records) == 3
    assert "ZeroDivisionError: own" in caplog.text


@virtual
async def test_storage_that_fails_or_refuses_is_logged_and_the_next_tick_still_comes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    times: list[float] = []

    async def work(_: Hold) -> None:
        times.append(round(now()))

    host = InlineHost(MemoryLeaseStore())
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    with host.here() as locks:
        async with locks.periodic(JOB, work, every=10):
            await until(15)
    assert times == [10]
    assert "StorageDenied" in caplog.text


@virtual
async def test_work_whose_hold_is_lost_is_cancelled_and_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    service, ends = MemoryLeaseStore(), []

    async def work(_: Hold) -> None:
        try:
            await asyncio.sleep(100)
        finally:
            ends.append(now())

    with InlineHost(service).here() as locks:
        async with locks.periodic(JOB, work, every=10):
            await until(5)
            await service.break_(JOB)
            await until(9)
            assert len(ends) == 1
            await until(115)
    assert len(ends) == 2
    assert "LockLost" in caplog.text


@virtual
async def test_work_does_not_begin_under_a_hold_that_is_lost_already(caplog: pytest.LogCaptureFixture) -> None:
    worked: list[Hold] = []

    async def attempt(_: object) -> Hold:
        hold = Hold(JOB, lease=None)
        hold.lost.fire("expired")
        return hold

    with InlineHost(MemoryLeaseStore()).here():
        async with PeriodicWorker(JOB, worked.append, every=10, attempt=attempt, door=Closing()):
            await until(1)
    assert worked == []
    assert "LockLost" in caplog.text


# --- stopping ---------------------------------------------------------------------------------------------------------


@virtual
async def test_a_stop_ends_the_wait_at_once() -> None:
    calls: list[float] = []

    async def work(_: Hold) -> None:
        calls.append(now())

    with InlineHost(MemoryLeaseStore()).here() as locks:
        async with locks.periodic(JOB, work, every=3600):
            await until(7)
        assert now() == 7
    assert len(calls) == 1


@virtual
async def test_a_stop_ends_an_attempt_that_storage_does_not_answer() -> None:
    service = MemoryLeaseStore()
    host = InlineHost(service)
    host.network.fail_all(LOST_REQUEST)
    with host.here() as locks:
        async with locks.periodic(JOB, lambda _: pytest.fail("worked"), every=3600):
            await until(1)
        assert now() == 1


@virtual
async def test_a_stop_lets_the_work_end_and_gives_the_lock_back() -> None:
    service, ended = MemoryLeaseStore(), []

    async def work(_: Hold) -> None:
        await asyncio.sleep(30)
        ended.append(now())

    with InlineHost(service).here() as locks:
        async with locks.periodic(JOB, work, every=3600):
            await until(5)
        assert len(ended) == 1
        assert service.leased() == {}


@pytest.mark.parametrize("way", ["stop", "task"])
def test_work_can_be_cancelled_and_the_lock_is_given_back(way: str) -> None:
    @virtual
    async def run() -> None:
        service, ends = MemoryLeaseStore(), []

        async def work(_: Hold) -> None:
            try:
                await asyncio.sleep(3600)
            finally:
                await asyncio.sleep(1)
                ends.append(service.leased())

        with InlineHost(service).here() as locks:
            worker = locks.periodic(JOB, work, every=3600)
            running = asyncio.create_task(worker.run())
            await until(5)
            if way == "stop":
                worker.stop(cancel=True)
            else:
                running.cancel()
            await asyncio.wait({running})
            assert running.cancelled() is (way == "task")
            assert now() < 7
            assert [*ends[0]] == [JOB]
            await asyncio.sleep(1)
            assert service.leased() == {}

    run()


@virtual
async def test_a_closed_client_ends_the_worker() -> None:
    async def work(_: Hold) -> None:
        locks.close()

    with InlineHost(MemoryLeaseStore()).here() as locks:
        with pytest.raises(LockClosed):
            await locks.periodic(JOB, work, every=10).run()
        assert now() < 11


# --- in threads -------------------------------------------------------------------------------------------------------


def test_in_a_thread_it_works_under_the_lock_until_the_block_ends(thread: LockThread) -> None:
    seen: list[tuple[set[str], str]] = []

    def work(hold: Hold) -> None:
        seen.append((thread.leased(), threading.current_thread().name))

    with LockClient(options=OPTIONS).periodic(JOB, work, every=0.02):
        soon(lambda: len(seen) >= 3)
    ended = len(seen)
    assert set(map(str, seen)) == {str(({JOB}, "worker cleanup"))}
    assert thread.leased() == set()
    time.sleep(0.05)
    assert len(seen) == ended


def test_a_stop_from_another_thread_ends_the_wait_at_once_and_lets_sync_work_end(thread: LockThread) -> None:
    entered = threading.Event()
    ended: list[set[str]] = []

    def work(_: Hold) -> None:
        entered.set()
        soon(lambda: worker.stopping)
        time.sleep(0.05)
        ended.append(thread.leased())

    worker = LockClient(options=OPTIONS).periodic(JOB, work, every=3600)
    worker.start()
    assert entered.wait(60)
    assert worker.stop(timeout=0.001) is False
    assert worker.stop() is True
    assert ended == [{JOB}]
    assert thread.leased() == set()
    assert worker.stop() is True


def test_a_tick_is_skipped_while_another_process_has_the_lock(thread: LockThread) -> None:
    seen: list[str] = []
    thread.taken_by_another_process(JOB)
    asked = thread.memory.calls["acquire"]
    with LockClient(options=OPTIONS).periodic(JOB, lambda hold: seen.append(hold.lock), every=0.01):
        soon(lambda: thread.memory.calls["acquire"] > asked + 3)
        assert seen == []
        thread.given_back_by_the_other(JOB)
        soon(lambda: seen)


async def test_sync_work_on_an_event_loop_does_not_block_it_and_keeps_the_lock_until_it_ends(
    thread: LockThread,
) -> None:
    entered, leave, leased = threading.Event(), threading.Event(), []

    def work(_: Hold) -> None:
        entered.set()
        leave.wait(60)
        leased.append(thread.leased())

    running = asyncio.create_task(AsyncLockClient(options=OPTIONS).periodic(JOB, work, every=3600).run())
    await asyncio.to_thread(entered.wait, 5)
    running.cancel()
    await asyncio.sleep(0.05)
    assert not running.done()
    leave.set()
    await asyncio.wait({running})
    assert running.cancelled()
    assert leased == [{JOB}]
    assert thread.leased() == set()


def test_a_worker_of_a_closed_client_ends_its_thread(thread: LockThread) -> None:
    client = LockClient(options=OPTIONS)
    worker = client.periodic(JOB, lambda _: None, every=0.01)
    worker.start()
    client.close()
    soon(lambda: worker.stop(timeout=0))


# --- which work is async ----------------------------------------------------------------------------------------------


class Cleaner:
    """Work whose coroutine counts only when it has come to its end, under the lock."""

    def __init__(self) -> None:
        self.done: list[bool] = []

    async def clean(self, hold: Hold, pause: float = 0.0) -> None:
        await asyncio.sleep(pause)
        self.done.append(hold.owned)

    async def __call__(self, hold: Hold) -> None:
        await self.clean(hold)


def logged(work: Any) -> Any:
    @functools.wraps(work)
    def call(*arguments: Any) -> Any:
        return work(*arguments)

    return call


ASYNC: dict[str, Callable[[Cleaner], Any]] = {
    "a method": lambda cleaner: cleaner.clean,
    "an object": lambda cleaner: cleaner,
    "a lambda": lambda cleaner: lambda hold, pause=0.0: cleaner.clean(hold, pause),
    "a partial": lambda cleaner: functools.partial(Cleaner.clean, cleaner),
    "a partial of an object": functools.partial,
    "a decorated method": lambda cleaner: logged(cleaner.clean),
}


@pytest.mark.parametrize("made", ASYNC.values(), ids=ASYNC)
def test_whatever_is_async_runs_to_its_end_under_the_lock(
    made: Callable[[Cleaner], Any], thread: LockThread, caplog: pytest.LogCaptureFixture
) -> None:
    cleaner = Cleaner()
    with LockClient(options=OPTIONS).periodic(JOB, made(cleaner), every=0.01):
        soon(lambda: len(cleaner.done) > 1)

    async def main() -> None:
        async with AsyncLockClient(options=OPTIONS).periodic(JOB, made(cleaner), every=0.01):
            await asyncio.to_thread(soon, lambda: len(cleaner.done) > before + 1)

    before = len(cleaner.done)
    asyncio.run(main())
    assert all(cleaner.done)
    assert [record.message for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_coroutine_that_plain_work_returned_is_cancelled_at_the_loss_of_the_hold(
    caplog: pytest.LogCaptureFixture,
) -> None:
    holds: list[Hold] = []

    async def cleaning(hold: Hold) -> None:
        holds.append(hold)
        await asyncio.sleep(1000)

    with memory_locks(), LockClient("AzureWebJobsStorage").periodic(JOB, logged(cleaning), every=3600):
        soon(lambda: holds)
        lose(holds[0], "expired")
    assert "LockLost" in caplog.text


def yields(_: Hold) -> Iterator[int]:
    yield 1


yields_too = logged(yields)


def maps(_: Hold) -> object:
    return map(print, [1])


async def yields_async(_: Hold) -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize("work", [yields, yields_too, yields_async, maps])
def test_work_that_returns_a_generator_is_an_error_of_each_tick(
    work: Any, thread: LockThread, caplog: pytest.LogCaptureFixture
) -> None:
    with LockClient(options=OPTIONS).periodic(JOB, work, every=0.01):
        soon(lambda: sum("worker cleanup failed" in each.message for each in caplog.records) > 1)
    assert "and its body did not run: give a function without yield" in caplog.text


# --- errors of the work that look like errors of the worker -----------------------------------------------------------


@virtual
async def test_a_closed_client_of_the_works_own_is_an_error_of_the_tick(caplog: pytest.LogCaptureFixture) -> None:
    times: list[float] = []

    async def work(_: Hold) -> None:
        times.append(round(now()))
        other = AsyncLockClient("Other")
        other.close()
        await other.acquire("import")

    with InlineHost(MemoryLeaseStore()).here() as locks:
        async with locks.periodic(JOB, work, every=10):
            await until(25)
    assert times == [0, 10, 20]
    assert sum("cleanup failed" in record.message for record in caplog.records) == 3
    assert "its client is closed" in caplog.text


@virtual
async def test_a_worker_ends_at_once_if_the_work_meets_that_its_own_client_was_closed() -> None:
    with InlineHost(MemoryLeaseStore()).here() as locks:

        async def work(_: Hold) -> None:
            locks.close()
            await locks.acquire("import")

        with pytest.raises(LockClosed):
            await locks.periodic(JOB, work, every=10).run()
        assert now() < 1


@pytest.mark.parametrize("error", [StopIteration, SystemExit, asyncio.CancelledError])
@pytest.mark.parametrize("is_async", [False, True])
async def test_whatever_the_work_raises_on_the_apps_loop_is_an_error_of_the_tick(
    thread: LockThread, caplog: pytest.LogCaptureFixture, error: type[BaseException], is_async: bool
) -> None:
    ticks: list[int] = []

    def fails(_: Hold) -> None:
        ticks.append(1)
        if len(ticks) > 1:
            worker.stop()
        raise error

    async def fails_async(hold: Hold) -> None:
        fails(hold)

    worker = AsyncLockClient(options=OPTIONS).periodic(JOB, fails_async if is_async else fails, every=0.01)
    await worker.run()
    assert ticks == [1, 1]
    assert sum("worker cleanup failed" in each.message for each in caplog.records) == 2


def test_an_exit_in_the_work_is_an_error_of_the_tick(thread: LockThread, caplog: pytest.LogCaptureFixture) -> None:
    ticks: list[int] = []

    def exits(_: Hold) -> None:
        ticks.append(1)
        sys.exit("no connection")

    async def exits_async(hold: Hold) -> None:
        exits(hold)

    for work in (exits, exits_async):
        ticks.clear()
        with LockClient(options=OPTIONS).periodic(JOB, work, every=0.01):
            soon(lambda: len(ticks) > 2)
    assert "work raised SystemExit" in caplog.text


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_a_period_or_a_name_that_is_none(thread: LockThread, kind: type[LockClient | AsyncLockClient]) -> None:
    for every in (0, -1, "60", None):
        with pytest.raises(ConfigurationError, match="every is "):
            kind(options=OPTIONS).periodic(JOB, print, every=every)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="has 0 characters"):
        kind(options=OPTIONS).periodic("", print, every=60)


def test_a_worker_runs_once(thread: LockThread) -> None:
    worker = LockClient(options=OPTIONS).periodic(JOB, lambda _: None, every=60)
    with worker, pytest.raises(RuntimeError, match="started before"):
        worker.start()
    with pytest.raises(RuntimeError, match="started before"):
        asyncio.run(worker.run())


def test_errors_in_a_thread_are_logged(thread: LockThread, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)

    def work(_: Hold) -> None:
        raise KeyError("own")

    with LockClient(options=OPTIONS).periodic(JOB, work, every=0.01):
        soon(lambda: len(caplog.records) > 1)
    assert "KeyError: 'own'" in caplog.text

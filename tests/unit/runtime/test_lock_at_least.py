"""A lock that is kept for at least so long, however short its block is (ShedLock's lockAtLeastFor)."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, LockLost, SingletonOptions
from singleton.base.events import subscribe
from singleton.runtime.call_result import CallResult
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import LockThread, an_app
from tests.support.waiters import eventually as eventually_here
from tests.support.waiters import in_line
from tests.support.world import eventually, now, until, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton import Hold
    from singleton.runtime.registry import Registry

JOB = "report"


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


@pytest.mark.parametrize("seconds", [10, 100])
def test_the_block_ends_at_once_and_the_lock_stays_taken_here_and_elsewhere(seconds: float) -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()
        one, other = InlineHost(service, 1), InlineHost(service, 2)
        with one.here() as locks:
            async with locks.lock(JOB, at_least=seconds):
                taken = now()
                await asyncio.sleep(1)
            assert now() == taken + 1
        for host in (one, other, one, other):
            await asyncio.sleep(seconds / 5)
            with host.here() as locks:
                async with locks.try_lock(JOB) as hold:
                    assert hold is None
        with other.here() as locks:
            async with locks.lock(JOB):
                assert taken + seconds <= now() < taken + seconds + 5.1
        assert service.leased() == {}

    run()


@virtual
async def test_who_waits_in_the_same_process_gets_it_when_its_time_has_come() -> None:
    with InlineHost(MemoryLeaseStore()).here() as locks:
        async with locks.try_lock(JOB, at_least=10):
            taken = now()
        async with locks.lock(JOB):
            assert now() == pytest.approx(taken + 10)


@virtual
async def test_a_block_that_takes_longer_or_fails() -> None:
    service = MemoryLeaseStore()
    with InlineHost(service).here() as locks:
        async with locks.lock(JOB, at_least=10):
            await asyncio.sleep(11)
        assert service.leased() == {}
        with pytest.raises(KeyError):
            async with locks.lock(JOB, at_least=10):
                raise KeyError
        failed = now()
        await asyncio.sleep(9)
        assert set(service.leased()) == {JOB}
        await eventually(lambda: not service.leased())
        assert now() < failed + 10.1


@virtual
async def test_that_its_lock_is_lost_while_it_is_kept_is_told() -> None:
    service = MemoryLeaseStore()
    told: list[tuple[str, str | None]] = []
    unsubscribe = subscribe(lambda event: told.append((event.kind, event.reason)))
    with InlineHost(service).here() as locks:
        async with locks.lock(JOB, at_least=60) as hold:
            hold.lost.add_callback(lambda reason: told.append(("callback", reason)))
        await service.break_(JOB)
        await until(50)
    unsubscribe()
    assert told[2:] == [("lost", "broken"), ("callback", "broken"), ("released", None)]
    assert hold.lost.reason == "broken"


@virtual
async def test_releasing_again_does_not_end_it_sooner() -> None:
    service = MemoryLeaseStore()
    host = InlineHost(service)
    with host.here() as locks:
        async with locks.lock(JOB, at_least=10) as hold:
            pass
        for _ in range(3):
            await locks.release(hold)
        await until(9)
        assert set(service.leased()) == {JOB}
        await until(11)
        assert service.leased() == {}
        async with locks.lock(JOB):
            await locks.release(hold)
            assert set(service.leased()) == {JOB}


def test_the_hold_is_over_with_its_block_though_its_lock_is_kept(thread: LockThread) -> None:
    locks = LockClient(options=SingletonOptions(lock_acquisition_min_polling_interval=0.01))
    with locks.lock(JOB, at_least=0.5) as hold:
        hold.state.write("inside")
    for use in (lambda: hold.state.write("later"), hold.state.read, hold.raise_if_lost):
        with pytest.raises(LockLost, match="released"):
            use()
    assert not hold.lost.wait()
    with locks.lock(JOB) as following:
        assert following.state.read() == "inside"
    assert not hold.lost.is_set()


@virtual
async def test_a_hold_that_nobody_took_is_given_back_at_once() -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here() as locks:
        hold = await host.call_async(locks._acquire(JOB, None, "", at_least=100))
        await host.registry.drop(hold)
        assert host.network.service.leased() == {}


@virtual
async def test_short_work_of_several_instances_is_done_once_in_a_period() -> None:
    service, times = MemoryLeaseStore(), []
    hosts = [InlineHost(service, seed) for seed in range(3)]

    async def work(_: Hold) -> None:
        times.append(now())

    workers = []
    for host in hosts:
        with host.here() as locks:
            workers.append(await locks.periodic(JOB, work, every=60, at_least=50).__aenter__())
        await asyncio.sleep(17)
    await until(601)
    for worker in workers:
        await worker.__aexit__()
    assert len(times) == 11
    await asyncio.sleep(50)


def test_threads_too_and_the_end_of_the_process_does_not_wait_for_it(thread: LockThread) -> None:
    client = LockClient(options=SingletonOptions(lock_acquisition_min_polling_interval=0.01))
    with client.lock(JOB, at_least=1.0):
        start = time.monotonic()
    assert thread.leased() == {JOB}
    with client.lock(JOB):
        assert time.monotonic() - start > 0.9
    with client.try_lock(JOB, at_least=3600):
        pass
    thread.runtime.close()


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_thread_that_runs_behind_it_does_not_get_it_sooner(thread: LockThread, *, reentrant: bool) -> None:
    client = LockClient(options=SingletonOptions(lock_acquisition_min_polling_interval=0.01))
    got: list[float] = []

    def follow() -> None:
        with client.lock(JOB):
            got.append(time.monotonic())

    following = threading.Thread(target=follow)
    with client.lock(JOB, at_least=0 if reentrant else 0.6, reentrant=reentrant) as hold:
        start = time.monotonic()
        if reentrant:
            with client.lock(JOB, at_least=0.6, reentrant=True):
                pass
        following.start()
        eventually_here(lambda: in_line(thread, JOB) == 1)
        assert hold.owned
    following.join()
    assert got[0] - start > 0.5


@pytest.mark.parametrize("ended", [True, False])
def test_the_end_of_the_process_is_a_loss_only_where_somebody_works_under_the_lock(
    thread: LockThread, caplog: pytest.LogCaptureFixture, ended: bool
) -> None:
    client = LockClient()
    hold = client.acquire(JOB, at_least=3600)
    if ended:
        client.release(hold)
    thread.runtime.close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == ([] if ended else [f"lock {JOB}: hold lost (closed)"])


@pytest.mark.parametrize("moment", ["before it came", "as it came"])
async def test_what_comes_for_a_caller_that_is_gone_is_not_kept(thread: LockThread, moment: str) -> None:
    address = LockClient()._address(JOB)
    arrived = threading.Event()

    async def stubborn(registry: Registry) -> Hold:
        hold = await registry.acquire(address, timeout=None, owner="", at_least=3600)
        arrived.set()
        if moment == "before it came":
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
        return hold

    if moment == "before it came":
        calling = asyncio.create_task(thread.runtime.call_async(stubborn))
        await asyncio.to_thread(arrived.wait, 60)
        calling.cancel()
        await asyncio.wait({calling})
    else:
        answer: CallResult[Hold] = CallResult()
        assert answer.claim()
        answer.give(await thread.runtime.call_async(stubborn))
        thread.runtime._abandon(answer)
    end = time.monotonic() + 60
    while thread.leased():
        assert time.monotonic() < end
        await asyncio.sleep(0.001)


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_a_time_that_is_none(thread: LockThread, kind: type[LockClient | AsyncLockClient]) -> None:
    for wrong in (-1, "5", None):
        with pytest.raises(ConfigurationError, match="at_least is "):
            kind().lock(JOB, at_least=wrong)  # type: ignore[arg-type]

"""A lock client's hold that lasts for too long is lost (ShedLock's lockAtMostFor)."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any, cast

import pytest

from singleton import ConfigurationError, LockClient, LockLost, SingletonOptions
from singleton.runtime.hold_end import lose_after
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import LockThread, an_app
from tests.support.world import lock_on, now, until, virtual, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton import Hold
    from singleton.locking.section import Section

JOB = "report"


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


@pytest.mark.parametrize("way", ["lock", "try_lock", "semaphore"])
def test_the_hold_is_lost_and_the_lock_is_free_when_the_lease_has_run_out(way: str) -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()
        one, other = InlineHost(service, 1), InlineHost(service, 2)
        limit = {"limit": 1} if way == "semaphore" else {}
        with one.here() as locks:
            async with getattr(locks, way)(JOB, max_hold=20, on_loss="tell", **limit) as hold:
                taken = now()
                assert await hold.lost == "too long"
                assert now() == pytest.approx(taken + 20, abs=0.1)
                with pytest.raises(LockLost, match="max_hold"):
                    hold.raise_if_lost()
                assert service.leased() != {}, "it is not given back under the block"
                with other.here() as others:
                    async with others.lock(hold.lock):
                        assert 7 < now() - taken - 20 < 15 + 5.1
        assert service.leased() == {}

    run()


@virtual
async def test_acquire_and_its_release() -> None:
    with InlineHost(MemoryLeaseStore()).here() as locks:
        hold = await locks.acquire(JOB, max_hold=5, at_least=2)
        await asyncio.sleep(6)
        assert hold.lost.reason == "too long"
        await locks.release(hold)
        async with locks.lock(JOB, timeout=0):
            pass


@virtual
async def test_periodic_work_that_hangs_is_told_and_another_instance_goes_on() -> None:
    service, told = MemoryLeaseStore(), list[float]()
    began: list[float] = []

    async def hangs(hold: Hold) -> None:
        began.append(now())
        try:
            async with asyncio.timeout(30):
                await hold.lost
        finally:
            told.append(now() - began[-1])

    with InlineHost(service).here() as locks:
        async with locks.periodic(JOB, hangs, every=60, max_hold=10):
            await until(130)
    assert told == pytest.approx([10, 10, 10], abs=0.2)


@virtual
async def test_a_section_that_ends_at_the_very_moment_is_not_lost() -> None:
    lock = lock_on(MemoryLeaseStore())
    holds: list[Section] = []

    def end() -> None:
        holds[0].record.end()

    virtual_loop().call_at(10, end)
    holds.append(cast("Section", await lock.acquire()))
    lose_after(10, holds[0])
    await until(11)
    assert not holds[0].lost.is_set()
    await lock.aclose()


def test_a_thread_is_told_and_a_waiter_that_follows_has_its_own_time(thread: LockThread) -> None:
    client = LockClient(options=SingletonOptions(lock_acquisition_min_polling_interval=0.01))
    entered, lost = threading.Event(), list[Any]()

    def follow() -> None:
        with client.lock(JOB) as hold:
            entered.set()
            lost.append(hold.lost.wait(0.5))

    with client.lock(JOB, max_hold=0.3) as hold:
        following = threading.Thread(target=follow)
        following.start()
        assert not entered.wait(0.1)
    following.join()
    assert lost == [False]
    with client.lock(JOB, max_hold=0.1, on_loss="tell") as hold:
        assert hold.lost.wait(60)
        assert hold.lost.reason == "too long"
    assert thread.leased() == set()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"max_hold": 0}, "max_hold is 0"),
        ({"max_hold": 5, "at_least": 6}, "at_least is 6 seconds, more than max_hold, 5 seconds"),
    ],
)
@pytest.mark.parametrize("way", ["lock", "try_lock", "acquire"])
def test_what_can_not_be_is_refused(thread: LockThread, way: str, arguments: dict[str, Any], said: str) -> None:
    client = LockClient()
    with pytest.raises(ConfigurationError, match=said):
        getattr(client, way)(JOB, **arguments)
    with pytest.raises(ConfigurationError, match=said):
        client.periodic(JOB, print, every=60, **arguments)
    assert thread.leased() == set()

"""@singleton(mode="listener") where the storage fails or is silent: trouble is no other listener, and is told."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import pytest

from singleton import (
    LockLost,
    LockNotAcquired,
    SingletonError,
    StorageDenied,
    StorageUnavailable,
    singleton,
)
from singleton.base.hold import Hold
from singleton.runtime.reentry import BodyContext
from singleton.runtime.registry import Registry
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost, on
from tests.support.listeners import LOCK, NO_RECOVERY, a_timer, end, started, tick
from tests.support.lock_thread import Context
from tests.support.network import LOST_REQUEST, Network, answered
from tests.support.world import foreign_id, now, occupy, until, virtual

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.usefixtures("app")


@virtual
async def test_storage_that_refuses_is_never_taken_for_another_listener() -> None:
    host, job = InlineHost(MemoryLeaseStore()), a_timer()
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    for _ in range(2):
        with pytest.raises(StorageDenied):
            await tick(host, job)
    await until(25)
    assert await tick(host, job) == "done by inv"
    await end(host)


@virtual
async def test_trouble_is_forgotten_when_storage_says_that_another_listens() -> None:
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    host, job = InlineHost(service), a_timer()
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await tick(host, job)
    await until(25)
    assert await tick(host, job) is None
    await end(host)


@virtual
async def test_trouble_is_forgotten_when_storage_says_that_this_process_listens() -> None:
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer()
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await tick(host, job)
    await until(25)
    assert await tick(host, job) == "done by inv"
    await service.break_(LOCK)
    await occupy(service, LOCK)
    await until(33)  # it is told, and does not ask yet
    assert await tick(host, job) is None
    await end(host)


@virtual
async def test_whatever_an_attempt_raises_is_trouble_that_is_told_and_does_not_end_the_candidacy(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An invalid tenant makes azure-identity raise a ValueError where the store is opened."""
    host, job, failing = InlineHost(MemoryLeaseStore()), a_timer(), True

    def open_store(_: object) -> Network:
        if failing:
            raise ValueError("Invalid tenant id provided")
        return host.network

    host.registry = Registry(open_store, random.Random(1))
    for second in (0, 1, 21):
        await until(second)
        with pytest.raises(SingletonError, match="Invalid tenant id") as caught:
            await tick(host, job)
        assert isinstance(caught.value.__cause__, ValueError)
        assert not isinstance(caught.value, LockNotAcquired)
        assert caught.value.lock == LOCK
    assert len([record for record in caplog.records if "Invalid tenant" in record.getMessage()]) == 2
    failing = False
    await until(41)
    assert await tick(host, job) == "done by inv"
    await end(host)


@virtual
async def test_without_recovery_and_without_a_time_out_the_wait_is_the_candidacys_and_not_that_of_its_invocations(
    app: Path,
) -> None:
    (app / "host.json").write_text(NO_RECOVERY)
    service = MemoryLeaseStore()
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), -1)
    host, job = InlineHost(service), a_timer()
    assert await asyncio.wait_for(tick(host, job), 10.5) is None, "it is skipped: another process listens"
    started_at = now()
    assert await tick(host, job) is None
    assert now() == started_at, "each in its slot, for seconds"
    await service.release(LOCK, foreign_id())
    await until(20)
    assert await tick(host, job) == "done by inv"
    await end(host)


@virtual
async def test_without_recovery_and_without_a_time_out_an_outage_is_no_other_listener(app: Path) -> None:
    (app / "host.json").write_text(NO_RECOVERY)
    host, job = InlineHost(MemoryLeaseStore()), a_timer()
    host.network.fail_all(LOST_REQUEST)
    for second in (0, 11, 30, 70):
        await until(second)
        with pytest.raises(StorageUnavailable):
            await tick(host, job)
    host.network.heal()
    await until(140)
    assert await tick(host, job) == "done by inv"
    await end(host)


@virtual
async def test_without_recovery_and_without_a_time_out_trouble_is_forgotten_when_another_listens(app: Path) -> None:
    (app / "host.json").write_text(NO_RECOVERY)
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer()
    host.network.always("acquire", answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await tick(host, job)
    host.network.heal()
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), -1)
    await until(500)
    assert await tick(host, job) is None
    host.network.fail_all(LOST_REQUEST)
    await until(520)
    with pytest.raises((StorageDenied, StorageUnavailable)):
        await tick(host, job)
    await end(host)


@virtual
async def test_with_a_time_out_an_attempt_under_way_is_not_answered_by_the_trouble_of_the_attempt_before(
    app: Path,
) -> None:
    """The attempt asks for its twelve seconds, and the storage has said at once that another process listens."""
    (app / "host.json").write_text(NO_RECOVERY)
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer(timeout=12)
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await tick(host, job)
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), -1)
    await until(59)
    with pytest.raises(StorageDenied):
        await tick(host, job)
    await until(61)
    assert await tick(host, job) is None
    assert now() < 70.5, "the wait is the candidacy's, and not that of its invocations"
    started_at = now()
    assert await tick(host, job) is None
    assert now() == started_at
    await end(host)


@virtual
async def test_with_a_time_out_an_invocation_runs_if_the_attempt_after_trouble_gets_the_lock(app: Path) -> None:
    (app / "host.json").write_text(NO_RECOVERY)
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer(timeout=12)
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await tick(host, job)
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), -1)
    await until(61)
    waiting = started(host, job)
    await until(62)
    await service.release(LOCK, foreign_id())
    assert await waiting == "done by inv"
    await end(host)


@virtual
async def test_with_a_time_out_trouble_that_goes_on_is_told_as_trouble_within_ten_seconds(app: Path) -> None:
    (app / "host.json").write_text(NO_RECOVERY)
    host, job = InlineHost(MemoryLeaseStore()), a_timer(timeout=12)
    host.network.fail_all(LOST_REQUEST)
    with pytest.raises(StorageUnavailable):
        await tick(host, job)
    await until(73)
    with pytest.raises(StorageUnavailable):
        await tick(host, job)
    assert now() < 82.5
    await end(host)


@virtual
async def test_without_recovery_and_without_a_time_out_the_trouble_of_the_attempt_under_way_is_told(app: Path) -> None:
    """The storage denied access to the attempt before, and does not answer this one."""
    (app / "host.json").write_text(NO_RECOVERY)
    host, job = InlineHost(MemoryLeaseStore()), a_timer()
    host.network.plan("acquire", answered(403, "AuthorizationFailure"))
    with pytest.raises(StorageDenied):
        await tick(host, job)
    host.network.fail_all(LOST_REQUEST)
    await until(75)
    with pytest.raises(StorageUnavailable):
        await tick(host, job)
    await end(host)


@virtual
async def test_without_recovery_and_without_a_time_out_so_is_a_lease_that_ran_out(app: Path) -> None:
    (app / "host.json").write_text(NO_RECOVERY)
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer()
    assert await tick(host, job) == "done by inv"
    host.network.fail_all(LOST_REQUEST)
    await until(100)
    await service.acquire(LOCK, foreign_id(), -1)
    with pytest.raises(StorageUnavailable):
        await tick(host, job)
    host.network.heal()
    await until(200)
    assert await tick(host, job) is None
    await end(host)


@virtual
async def test_who_lost_the_lease_in_an_outage_takes_it_for_trouble_and_not_for_another_listener() -> None:
    host, job = InlineHost(MemoryLeaseStore()), a_timer()
    await tick(host, job)
    await until(7)
    host.network.fail_all(LOST_REQUEST)
    await until(21)
    ticks = [started(host, job, f"inv-{second}") for second in range(5)]
    for second in range(22, 60):
        await until(second)
        ticks.append(started(host, job, f"at {second}"))
    await asyncio.wait(ticks)
    ends = [one.exception() for one in ticks]
    assert {type(error) for error in ends} == {StorageUnavailable}
    host.network.heal()
    await until(100)
    assert await tick(host, job) == "done by inv"
    await end(host)


@virtual
async def test_a_lease_that_ran_out_is_asked_for_before_an_invocation_is_answered() -> None:
    """Who was away for a moment listens again: the invocation is neither skipped nor failed."""
    host, job = InlineHost(MemoryLeaseStore()), a_timer()
    await tick(host, job)
    await until(7)
    host.network.fail_all(LOST_REQUEST)
    await until(14.5)
    host.network.heal()
    assert await tick(host, job) == "done by inv"
    await end(host)


@virtual
async def test_who_lost_its_lease_in_an_outage_does_not_take_its_own_lease_for_another_listener(app: Path) -> None:
    """With a time-out it asks for once: it stood aside after its own run, and gave up for ever in the outage."""
    (app / "host.json").write_text(NO_RECOVERY)
    host, job = InlineHost(MemoryLeaseStore()), a_timer(timeout=12)
    assert await tick(host, job) == "done by inv"
    await until(70)
    host.network.fail_all(LOST_REQUEST)
    for second in (150, 160, 180):
        await until(second)
        with pytest.raises(StorageUnavailable):
            await tick(host, job)
    host.network.heal()
    await until(300)
    assert await tick(host, job) == "done by inv"
    await end(host)


def test_a_thread_that_waited_for_its_lock_does_not_run_its_body_when_its_process_listens_no_longer() -> None:
    released: list[Hold] = []
    ran: list[str] = []

    class Instant:
        def call(self, _: object) -> Hold:
            listening.lost.fire("expired")
            return Hold("lock", owner="inv")

        def release(self, hold: Hold) -> None:
            released.append(hold)

    @singleton(scope_id="all")
    def job(timer: object) -> None:
        ran.append("ran")

    listening = Hold(LOCK, owner="inv")
    with on(Instant()), BodyContext(listening), pytest.raises(LockLost):  # type: ignore[arg-type]
        job(timer=object(), context=Context("inv"))  # type: ignore[call-arg]
    assert (ran, len(released)) == ([], 1)

"""What the lock clients tell of their locks: the same events as guards, with times, uniformly for all that they do."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest

from singleton import LockNotAcquired, SingletonOptions
from singleton.base.clock import timed_by
from singleton.base.errors import StorageDenied
from singleton.base.events import LockEvent, subscribe
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.network import Fate, Request, answered
from tests.support.world import now, occupy, until, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def events() -> Iterator[list[LockEvent]]:
    told: list[LockEvent] = []
    unsubscribe = subscribe(told.append)
    with timed_by(lambda: asyncio.get_running_loop().time()):
        yield told
    unsubscribe()


def said(events: list[LockEvent]) -> list[str]:
    return [f"{event.kind}:{event.reason}" if event.reason else event.kind for event in events]


@virtual
async def test_a_lock_tells_each_step_with_its_duration(events: list[LockEvent]) -> None:
    service = MemoryLeaseStore()
    await occupy(service, "a", 15)
    with InlineHost(service).here() as locks:
        async with locks.lock("a", owner="me") as hold:
            await asyncio.sleep(3.0)
    assert said(events) == ["waiting", "acquired", "released"]
    asked, got, ended = events
    assert {event.lock for event in events} == {"a"}
    assert {event.owner for event in events} == {"me"}
    assert {event.mode for event in events} == {"lock"}
    assert asked.use == got.use == ended.use > 0
    assert got.token == ended.token == hold.token
    assert got.waited == pytest.approx(hold.waited, abs=0.01)
    assert ended.held == pytest.approx(3.0, abs=0.05)
    assert asked.at <= got.at <= ended.at


@virtual
async def test_a_hold_is_timed_until_it_was_given_up_and_not_until_the_release_was_answered(
    events: list[LockEvent],
) -> None:
    host = InlineHost(MemoryLeaseStore())
    host.network.always("release", Fate(up=3.0))
    with host.here() as locks:
        for _ in range(2):
            async with locks.lock("a"):
                await asyncio.sleep(1.0)
        await asyncio.sleep(10.0)
    assert [event.held for event in events if event.kind == "released"] == pytest.approx([1.0, 1.0], abs=0.01)


@virtual
async def test_two_uses_have_two_numbers(events: list[LockEvent]) -> None:
    with InlineHost(MemoryLeaseStore()).here() as locks:
        for _ in range(2):
            async with locks.lock("a"):
                pass
    assert len({event.use for event in events}) == 2


@virtual
async def test_who_gives_up_says_how(events: list[LockEvent]) -> None:
    service = MemoryLeaseStore()
    await occupy(service, "a")
    with InlineHost(service).here() as locks:
        async with locks.try_lock("a") as hold:
            assert hold is None
        for timeout in (0, 4):
            with pytest.raises(LockNotAcquired):
                await locks.acquire("a", timeout=timeout)
    assert said(events) == ["waiting", "contended:skip", "waiting", "contended:raise", "waiting", "contended:timeout"]
    assert events[-1].waited == pytest.approx(4.0)


@virtual
async def test_a_wait_that_ends_by_an_error_or_a_cancellation_has_failed(events: list[LockEvent]) -> None:
    host = InlineHost(MemoryLeaseStore())

    def denied(_: Request) -> Fate:
        return answered(403, "AuthorizationFailure")

    host.network.decide = denied
    with host.here() as locks, pytest.raises(StorageDenied):
        await locks.acquire("a")
    await occupy(other := MemoryLeaseStore(), "a")
    with InlineHost(other).here() as locks:
        waiting = asyncio.create_task(locks.acquire("a"))
        await asyncio.sleep(1.0)
        waiting.cancel()
        await asyncio.wait({waiting})
    assert said(events) == ["waiting", "failed:StorageDenied", "waiting", "failed:CancelledError"]


@virtual
async def test_a_hold_that_is_lost_tells_so_and_then_its_release(events: list[LockEvent]) -> None:
    service = MemoryLeaseStore()
    with InlineHost(service).here() as locks:
        async with locks.lock("a", on_loss="tell") as hold:
            await service.break_("a")
            await hold.lost
            await asyncio.sleep(2.0)
    assert said(events) == ["waiting", "acquired", "lost:broken", "released"]
    assert events[-1].held == pytest.approx((events[-2].held or 0) + 2.0, abs=0.1)


def test_a_hold_that_its_caller_drops_is_told_and_not_kept_alive(events: list[LockEvent]) -> None:
    @virtual
    async def dropping() -> None:
        with InlineHost(MemoryLeaseStore()).here() as locks:
            await locks.acquire("a")
            gc.disable()  # its caller's reference was the last
            await asyncio.sleep(1.0)
            assert said(events) == ["waiting", "acquired", "released"]

    try:
        dropping()
    finally:
        gc.enable()


@virtual
async def test_a_semaphore_tells_its_name_and_then_the_slot(events: list[LockEvent]) -> None:
    with InlineHost(MemoryLeaseStore()).here() as locks:
        async with locks.semaphore("s", 2):
            pass
    assert said(events) == ["waiting", "acquired", "released"]
    assert [event.lock.rpartition("-")[0] for event in events] == ["", "s/slot", "s/slot"]
    assert {event.mode for event in events} == {"semaphore"}


@virtual
async def test_each_lock_of_a_set_is_told(events: list[LockEvent]) -> None:
    service = MemoryLeaseStore()
    await occupy(service, "b")
    with InlineHost(service).here() as locks, pytest.raises(LockNotAcquired):
        await locks._do(locks._acquire_all(["a", "b"], 1.0, ""))
    assert [(event.kind, event.lock) for event in events] == [
        ("waiting", "a"),
        ("acquired", "a"),
        ("waiting", "b"),
        ("contended", "b"),
        ("released", "a"),
    ]


@virtual
async def test_a_leader_waits_once_however_often_it_polls(events: list[LockEvent]) -> None:
    service = MemoryLeaseStore()
    await occupy(service, "poller", 60)
    options = SingletonOptions(listener_lock_period=15, listener_lock_recovery_polling_interval=15)
    with InlineHost(service, options=options).here() as locks:
        async with locks.leadership("poller", owner="me") as leadership:
            await leadership
            assert now() > 45
            await asyncio.sleep(10.0)
    assert said(events) == ["waiting", "acquired", "released"]
    assert {event.mode for event in events} == {"leadership"}
    assert (events[1].waited or 0) > 45
    assert events[2].held == pytest.approx(10.0, abs=0.1)


@virtual
async def test_a_periodic_worker_tells_its_ticks(events: list[LockEvent]) -> None:
    service = MemoryLeaseStore()
    await occupy(service, "cleanup", 15)

    async def work(_: object) -> None: ...

    with InlineHost(service).here() as locks:
        async with locks.periodic("cleanup", work, every=10):
            await until(25.0)
    assert said(events) == [
        *("waiting", "contended:skip"),
        *("waiting", "contended:skip"),
        *("waiting", "acquired", "released"),
    ]
    assert {event.mode for event in events} == {"periodic"}

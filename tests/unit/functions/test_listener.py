"""@singleton(mode="listener"): one process runs the function for as long as it lives, the others leave it to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from singleton import (
    LockClosed,
    LockLost,
    LockNotAcquired,
    current_hold,
    singleton,
)
from singleton.base.events import LockEvent, subscribe
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.listeners import LOCK, NO_RECOVERY, a_listener, a_timer, deliver, end, started, tick
from tests.support.network import LOST_REQUEST
from tests.support.world import eventually, foreign_id, now, occupy, until, virtual

if TYPE_CHECKING:
    from pathlib import Path

    from singleton import Hold


pytestmark = pytest.mark.usefixtures("app")


# --- who runs ---------------------------------------------------------------------------------------------------------


@virtual
async def test_of_several_processes_one_runs_the_function_and_the_others_skip_their_timers() -> None:
    service, job = MemoryLeaseStore(), a_timer()
    hosts = [InlineHost(service, seed) for seed in range(3)]
    for minute in range(10):
        results = await asyncio.gather(*(tick(host, job, f"host {number}") for number, host in enumerate(hosts)))
        assert results == ["done by host 0", None, None]
        await until(60 * minute)
    await end(*hosts)
    assert service.leased() == {}


@virtual
async def test_nothing_is_asked_for_before_the_first_invocation() -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here():
        job = a_timer()
    await until(100)
    assert host.network.requests == []
    assert await tick(host, job) == "done by inv"
    await end(host)


@virtual
async def test_invocations_of_the_leading_process_run_at_the_same_time_each_with_a_hold_of_its_own() -> None:
    holds: list[Hold] = []

    async def body() -> None:
        holds.append(current_hold())
        await asyncio.sleep(5)

    host, job = InlineHost(MemoryLeaseStore()), a_timer(body)
    await asyncio.gather(*(tick(host, job, f"inv-{number}") for number in range(20)))
    assert 5 <= now() < 5.5
    assert [hold.owner for hold in holds] == [f"inv-{number}" for number in range(20)]
    assert len({hold.token for hold in holds}) == 1
    assert {hold.lock for hold in holds} == {LOCK}
    assert len(host.network.sent("acquire")) == 2  # the blob was missing
    await end(host)
    assert [await hold.lost for hold in holds] == [None] * 20


@virtual
async def test_a_process_that_does_not_listen_asks_once_in_a_recovery_interval_however_many_invocations_come() -> None:
    service = MemoryLeaseStore()
    await service.create(LOCK)
    await service.acquire(LOCK, foreign_id(), -1)
    host, job = InlineHost(service), a_timer()
    for second in range(101):
        await until(second)
        assert await tick(host, job) is None
    assert len(host.network.sent("acquire")) == 5
    await end(host)


@virtual
async def test_when_the_leader_dies_another_runs_within_its_lease_and_an_interval() -> None:
    service, job = MemoryLeaseStore(), a_timer()
    dead, alive = InlineHost(service, 1), InlineHost(service, 2)
    await tick(dead, job)
    assert await tick(alive, job) is None
    await until(7)  # at half of its lease it was renewed
    dead.network.fail_all(LOST_REQUEST)
    while await tick(alive, job) is None:
        await until(now() + 0.1)
    assert 15 <= now() <= 7.5 + 15 + 20
    await end(dead, alive)


@virtual
async def test_its_lease_lasts_for_a_minute_unless_told_otherwise(app: Path) -> None:
    (app / "host.json").write_text("{}")
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer()
    await tick(host, job)
    host.network.fail_all(LOST_REQUEST)
    await until(59)
    assert set(service.leased()) == {LOCK}
    await until(61)
    assert service.leased() == {}
    await end(host)


@virtual
async def test_a_lock_that_is_free_is_not_left_to_a_leader_of_another_function() -> None:
    service = MemoryLeaseStore()
    first, second = InlineHost(service, 1), InlineHost(service, 2)

    @singleton(mode="listener")
    async def other(timer: object) -> str:
        return "other"

    job = a_timer()
    assert await tick(first, job) == "done by inv"
    assert await tick(second, other) == "other"
    assert await tick(first, other) is None
    await end(first, second)


# --- what becomes of the invocations of the others --------------------------------------------------------------------


@virtual
async def test_whoever_waits_for_an_answer_is_told_that_another_process_listens() -> None:
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    host, job = InlineHost(service), a_listener()
    with pytest.raises(LockNotAcquired, match="job did not run here: another process is its listener") as caught:
        await deliver(host, job, "inv-7")
    assert (caught.value.lock, caught.value.owner) == (LOCK, "inv-7")
    await end(host)


@virtual
async def test_raise_fails_a_timer_too() -> None:
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    host, job = InlineHost(service), a_timer(on_contention="raise")
    with pytest.raises(LockNotAcquired):
        await tick(host, job)
    await end(host)


@virtual
async def test_without_recovery_the_first_attempt_waits_and_then_the_process_is_idle_until_its_end(app: Path) -> None:
    (app / "host.json").write_text(NO_RECOVERY)
    service = MemoryLeaseStore()
    await occupy(service, LOCK, 30)
    patient, hasty = InlineHost(service, 1), InlineHost(service, 2)
    waiting = started(hasty, a_timer(timeout=10))
    assert await tick(patient, a_timer(timeout=40)) == "done by inv"
    assert 30 <= now() < 36
    assert await waiting is None
    asked = len(hasty.network.requests)
    await end(patient)
    await until(200)
    assert await tick(hasty, a_timer(timeout=10)) is None
    assert len(hasty.network.requests) == asked
    await end(hasty)


# --- loss -------------------------------------------------------------------------------------------------------------


@virtual
async def test_bodies_are_cancelled_when_the_leadership_is_lost_and_the_lease_is_tried_for_again() -> None:
    cleaned: list[str | None] = []

    async def body() -> None:
        try:
            await asyncio.sleep(500)
        finally:
            cleaned.append(current_hold().lost.reason)

    service, job = MemoryLeaseStore(), a_timer(body)
    host = InlineHost(service)
    running = [started(host, job, f"inv-{number}") for number in range(3)]
    await until(10)
    host.network.fail_all(LOST_REQUEST)
    await asyncio.wait(running)
    assert now() < 10 + 15
    assert [type(each.exception()) for each in running] == [LockLost] * 3
    assert cleaned == ["expired"] * 3
    host.network.heal()
    await until(80)
    again = started(host, job)
    await until(90)
    assert not again.done()
    again.cancel()
    await asyncio.wait({again})
    await end(host)


@virtual
async def test_the_lease_is_not_given_back_under_a_body_that_was_told_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__cancelOnLoss", "false")

    async def body() -> None:
        await current_hold().lost
        host.network.heal()
        await asyncio.sleep(0.5)
        ended.append(now())

    ended: list[float] = []
    host, job = InlineHost(MemoryLeaseStore()), a_timer(body)
    running = started(host, job)
    await until(1)
    host.network.fail_all(LOST_REQUEST)
    await asyncio.wait({running})
    assert isinstance(running.exception(), LockLost)
    await until(now() + 1)
    (release,) = host.network.sent("release")
    assert release.sent >= ended[0]
    assert await tick(host, a_timer()) == "done by inv"
    await end(host)


@virtual
async def test_a_cancelled_invocation_does_not_cost_the_leadership() -> None:
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer(lambda: asyncio.sleep(100))
    cut_off, goes_on = started(host, job), started(host, job)
    await until(5)
    cut_off.cancel()
    await asyncio.wait({cut_off})
    assert cut_off.cancelled()
    await until(99)
    assert set(service.leased()) == {LOCK}
    await goes_on
    await end(host)


# --- the end of the process -------------------------------------------------------------------------------------------


@virtual
async def test_at_its_end_the_process_lets_bodies_end_and_then_gives_the_lease_back_once() -> None:
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer(lambda: asyncio.sleep(4))
    running = started(host, job)
    await until(1)
    ending = asyncio.get_running_loop().create_task(host.registry.aclose())
    await until(2)
    assert set(service.leased()) == {LOCK}
    with pytest.raises(LockClosed):
        await tick(host, job)
    await running
    assert 4 <= now() < 4.2
    await ending
    assert now() < 4.3
    assert len(host.network.sent("release")) == 1
    assert service.leased() == {}


@virtual
async def test_a_body_that_does_not_end_keeps_the_lease_from_being_given_back_under_it() -> None:
    told: list[str | None] = []

    async def body() -> None:
        hold = current_hold()
        told.append(await hold.lost)
        await asyncio.sleep(1)

    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer(body)
    running = started(host, job)
    await until(1)
    await host.registry.aclose()
    assert 5 <= now() < 7
    assert host.network.sent("release") == []
    await asyncio.wait({running})
    assert isinstance(running.exception(), LockLost)
    assert set(service.leased()) == {LOCK}
    await until(22)
    assert service.leased() == {}


@virtual
async def test_a_process_that_never_listened_has_nothing_to_end() -> None:
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    idle, waiting = InlineHost(service, 1), InlineHost(service, 2)
    await tick(waiting, a_timer())
    asked = len(waiting.network.requests)
    await end(idle, waiting)
    assert now() < 1
    await until(100)
    assert (idle.network.requests, len(waiting.network.requests)) == ([], asked)


@virtual
async def test_its_end_during_the_first_attempt_leaves_no_lease_and_nobody_waiting() -> None:
    service = MemoryLeaseStore()
    host, job = InlineHost(service), a_timer()
    first = started(host, job)
    await until(0.01)
    await end(host)
    await asyncio.wait({first}, timeout=5)
    assert first.done()
    assert isinstance(first.exception(), LockClosed)
    await eventually(lambda: service.leased() == {})


# --- what is told -----------------------------------------------------------------------------------------------------


@virtual
async def test_events_tell_of_the_process_without_an_owner_and_of_bodies_with_one() -> None:
    service, job = MemoryLeaseStore(), a_timer()
    leader, follower = InlineHost(service, 1), InlineHost(service, 2)
    events: list[LockEvent] = []
    unsubscribe = subscribe(events.append)
    await tick(leader, job, "a")
    await tick(leader, job, "b")
    await tick(follower, job, "c")
    await end(leader, follower)
    unsubscribe()
    assert {(event.lock, event.function, event.mode) for event in events} == {(LOCK, "job", "listener")}
    assert [(event.kind, event.owner, event.reason) for event in events] == [
        ("waiting", "", None),
        ("acquired", "", None),
        ("body_started", "a", None),
        ("body_ended", "a", "ok"),
        ("body_started", "b", None),
        ("body_ended", "b", "ok"),
        ("waiting", "", None),
        ("contended", "c", "skip"),
        ("released", "", None),
    ]


@virtual
async def test_switched_off_it_runs_everywhere_without_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__enabled", "false")
    hosts = [InlineHost(MemoryLeaseStore(), seed) for seed in range(2)]
    job = a_timer()
    assert [await tick(host, job) for host in hosts] == ["done by inv"] * 2
    assert [host.network.requests for host in hosts] == [[], []]

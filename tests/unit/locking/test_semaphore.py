"""A semaphore: never more than its limit, over hosts and faults; who waits, in which order, and at what cost."""

from __future__ import annotations

import asyncio
import math
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError, StorageDenied, StorageUnavailable
from singleton.locking.lock import release
from singleton.locking.semaphore import MOST
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Request, answered
from tests.support.semaphores import NAME, OPTIONS, Host, Judge, settled
from tests.support.world import foreign_id, now, until, virtual

if TYPE_CHECKING:
    from singleton.base.hold import Hold

# --- never more than the limit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "hosts"), [(1, 2), (3, 1), (3, 4), (10, 3)])
def test_there_are_never_more_inside_than_the_limit_and_as_many_where_there_is_demand(limit: int, hosts: int) -> None:
    @virtual
    async def run() -> None:
        service, judge, rng = MemoryLeaseStore(), Judge(limit), random.Random(3)
        fleet = [Host(service, seed) for seed in range(hosts)]

        async def work(host: Host) -> None:
            for _ in range(25):
                async with host.inside(limit) as hold, judge.watch(hold):
                    await asyncio.sleep(rng.uniform(0, 0.1))

        await asyncio.gather(*(work(host) for host in fleet for _ in range(10)))
        assert judge.counts == set(range(1, limit + 1))
        await settled(service, *fleet)

    run()


@virtual
async def test_when_all_are_taken_nobody_gets_one_until_one_is_given_back() -> None:
    service = MemoryLeaseStore()
    one, other = Host(service, 1), Host(service, 2)
    holds = [await (one, other)[number % 2].acquire(4, timeout=0) for number in range(4)]
    assert {hold.lock for hold in holds} == {f"reports/slot-{number}" for number in range(4)}
    await one.full(4)
    await other.full(4)
    await release(holds.pop())
    holds.append(await one.acquire(4, timeout=0))
    await other.full(4)
    await asyncio.gather(*(release(hold) for hold in holds))
    await settled(service, one, other)


@virtual
async def test_the_blob_of_a_slot_names_who_got_the_slot() -> None:
    service = MemoryLeaseStore()
    host = Host(service, 1)
    holds = await asyncio.gather(*(host.acquire(3, owner=f"caller {number}") for number in range(3)))
    await asyncio.sleep(10)
    named = [(await service.read(hold.lock)).metadata["FunctionInstance"] for hold in holds]
    assert named == [hold.owner for hold in holds] == ["caller 0", "caller 1", "caller 2"]
    await asyncio.gather(*(release(hold) for hold in holds))
    await settled(service, host)


@pytest.mark.parametrize("hosts", [1, 2])
def test_with_different_limits_on_one_name_the_highest_counts_in_all(hosts: int) -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()
        fleet = [Host(service, seed) for seed in range(hosts)]
        holds = [await fleet[0].acquire(2, timeout=0) for _ in range(2)]
        await fleet[0].full(2)
        holds.append(await fleet[-1].acquire(3, timeout=0))
        await fleet[-1].full(3)
        await fleet[0].full(2)
        await release(holds.pop(0))
        holds.append(await fleet[-1].acquire(3, timeout=0))
        await fleet[0].full(2)
        await asyncio.gather(*(release(hold) for hold in holds))
        await settled(service, *fleet)

    run()


@virtual
async def test_the_highest_limit_makes_no_more_blobs_than_holders_need() -> None:
    service = MemoryLeaseStore()
    fleet = [Host(service, seed) for seed in range(4)]
    long = "x" * 1000
    holds = [await fleet[number % 4].acquire(MOST, name=long, timeout=0) for number in range(100)]
    assert len({hold.lock for hold in holds}) == 100
    assert len(service.names()) <= 200
    await asyncio.gather(*(release(hold) for hold in holds))
    await settled(service, *fleet)


@virtual
async def test_a_high_limit_makes_no_new_blobs_in_the_course_of_time() -> None:
    service = MemoryLeaseStore()
    for generation in range(20):
        host = Host(service, generation)
        holds = [await host.acquire(1_000_000, timeout=0) for _ in range(12)]
        await asyncio.gather(*(release(hold) for hold in holds))
    assert len(service.names()) <= 16


@virtual
async def test_the_slots_of_a_host_that_dies_are_free_after_its_lease() -> None:
    service = MemoryLeaseStore()
    dead, alive = Host(service, 1), Host(service, 2)
    lost = [await dead.acquire(2) for _ in range(2)]
    dead.network.fail_all(LOST_REQUEST)
    died = now()
    holds = [await alive.acquire(2) for _ in range(2)]
    assert now() - died < OPTIONS.lock_period + OPTIONS.lock_acquisition_polling_interval + 0.1
    assert all(hold.lost.is_set() for hold in lost)
    await asyncio.gather(*(release(hold) for hold in (*holds, *lost)))
    await settled(service, alive)


@virtual
async def test_a_slot_that_is_broken_is_lost_to_its_holder_only() -> None:
    service = MemoryLeaseStore()
    host = Host(service)
    holds = [await host.acquire(2) for _ in range(2)]
    await service.break_(holds[0].lock)
    await asyncio.sleep(8)
    assert [hold.lost.reason for hold in holds] == ["broken", None]
    await asyncio.gather(*(release(hold) for hold in holds))
    await settled(service, host)


# --- who waits ------------------------------------------------------------------------------------------------------


@virtual
async def test_waiters_of_one_process_are_served_in_their_order_whichever_slot_is_free() -> None:
    service = MemoryLeaseStore()
    host, order = Host(service), []

    async def work(number: int) -> None:
        async with host.inside(3, owner=str(number)) as hold:
            assert hold.owner == str(number)
            order.append(number)
            await asyncio.sleep(random.Random(number).uniform(0.1, 1.0))

    workers = []
    for number in range(30):
        workers.append(asyncio.create_task(work(number)))
        await asyncio.sleep(0)
    await asyncio.gather(*workers)
    assert order == list(range(30))
    await settled(service, host)


@virtual
async def test_a_slot_is_handed_on_without_a_request() -> None:
    service = MemoryLeaseStore()
    host = Host(service)

    async def work() -> None:
        async with host.inside(2):
            await asyncio.sleep(0.1)

    await asyncio.gather(*(work() for _ in range(100)))
    assert len(host.network.sent("acquire")) <= 4  # each slot's first finds no blob
    assert len(host.network.sent("release")) == 2
    await settled(service, host)


@virtual
async def test_who_comes_later_gets_the_next_slot_of_this_process_at_once() -> None:
    service = MemoryLeaseStore()
    host = Host(service)
    holds = [await host.acquire(2) for _ in range(2)]
    waiting = asyncio.create_task(host.acquire(2))
    await asyncio.sleep(20)
    asked = len(host.network.sent("acquire"))
    released = now()
    await release(holds.pop())
    holds.append(await waiting)
    assert now() == released
    assert len(host.network.sent("acquire")) == asked
    await asyncio.gather(*(release(hold) for hold in holds))
    await settled(service, host)


@virtual
async def test_another_host_gets_its_turn() -> None:
    service = MemoryLeaseStore()
    greedy, other = Host(service, 1), Host(service, 2)

    async def work() -> None:
        while now() < 120:
            async with greedy.inside(2):
                await asyncio.sleep(0.5)

    workers = [asyncio.create_task(work()) for _ in range(8)]
    await until(5.0)
    async with other.inside(2):
        assert now() < OPTIONS.handoff_window + 0.5 + 1.1 * OPTIONS.lock_acquisition_polling_interval + 1
    await asyncio.gather(*workers)
    await settled(service, greedy, other)


@virtual
async def test_however_many_wait_in_one_process_they_poll_as_one() -> None:
    service = MemoryLeaseStore()
    for number in range(5):
        await service.create(f"reports/slot-{number}")
        await service.acquire(f"reports/slot-{number}", foreign_id(), -1)
    few, many = Host(service, 1), Host(service, 2)
    waiting = [asyncio.create_task(host.acquire(5, timeout=100)) for host in (few, *[many] * 50)]
    assert all(isinstance(each, LockNotAcquired) for each in await asyncio.gather(*waiting, return_exceptions=True))
    # five slots, a poll every 2.5 s at the soonest, after the first ones
    assert len(few.network.requests) < 5 * (100 / 2.5 + 10)
    assert len(many.network.requests) < 5 * (100 / 2.5 + 10)


@pytest.mark.parametrize(("limit", "free"), [(33, 32), (40, 39), (100, 77), (100, 99)])
def test_of_many_slots_that_are_taken_a_poll_asks_for_some_only_and_in_the_end_for_all(limit: int, free: int) -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()
        for number in range(limit):
            await service.create(f"reports/slot-{number}")
            await service.acquire(f"reports/slot-{number}", foreign_id(), -1)
        host = Host(service)
        waiting = asyncio.create_task(host.acquire(limit))
        await until(60)
        assert len(host.network.requests) < limit + 32 * (60 / 2.5 + 10)
        await service.release(f"reports/slot-{free}", foreign_id())
        hold = await asyncio.wait_for(waiting, 60)
        assert hold.lock == f"reports/slot-{free}"
        assert now() < 60 + math.ceil(limit / 32) * 5 + 1
        await release(hold)
        assert hold.lock not in service.leased()

    run()


# --- how a wait ends --------------------------------------------------------------------------------------------------


@virtual
async def test_a_time_out_ends_the_wait_in_time() -> None:
    service = MemoryLeaseStore()
    one, other = Host(service, 1), Host(service, 2)
    holds = [await one.acquire(2) for _ in range(2)]
    for host in (one, other):
        start = now()
        with pytest.raises(LockNotAcquired, match=r"'reports'.*all of its 2 slots are taken") as caught:
            await host.acquire(2, timeout=0.2, owner="me")
        assert now() - start == pytest.approx(0.2)
        assert caught.value.owner == "me"
    await asyncio.gather(*(release(hold) for hold in holds))
    await settled(service, one, other)


@pytest.mark.parametrize("seed", range(8))
def test_shortly_before_its_time_out_it_is_asked_for_once_more(seed: int) -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()
        one, other = Host(service, 1), Host(service, 100 + seed)
        hold = await one.acquire(1)
        start = now()
        waiting = asyncio.create_task(other.acquire(1, timeout=60))
        await until(start + 59.4)
        await release(hold)
        await release(await waiting)
        await settled(service, one, other)

    run()


@pytest.mark.parametrize("seed", range(8))
def test_who_becomes_the_first_in_line_shortly_before_its_time_out_is_asked_for(seed: int) -> None:
    @virtual
    async def run() -> None:
        service = MemoryLeaseStore()
        one, other = Host(service, 1), Host(service, 100 + seed)
        hold = await one.acquire(1)
        ahead = asyncio.create_task(other.acquire(1))
        await asyncio.sleep(60)
        await release(hold)
        behind = asyncio.create_task(other.acquire(1, timeout=0.3))
        await asyncio.sleep(0)
        if ahead.done():  # it polled in that moment
            await release(ahead.result())
        ahead.cancel()
        await release(await behind)
        await asyncio.wait({ahead})
        await settled(service, one, other)

    run()


@virtual
async def test_who_asks_once_does_not_stand_in_line() -> None:
    service = MemoryLeaseStore()
    one, other = Host(service, 1), Host(service, 2)
    hold = await one.acquire(1)
    waiting = asyncio.create_task(other.acquire(1))
    await asyncio.sleep(10)
    start = now()
    await other.full(1)
    assert now() == start
    await release(hold)
    await release(await waiting)
    await settled(service, one, other)


@virtual
async def test_a_slot_that_comes_in_the_moment_of_a_cancellation_is_given_back() -> None:
    service = MemoryLeaseStore()
    host = Host(service)
    await release(await host.acquire(1))
    semaphore = next(iter(host.registry._semaphores.values()))
    deliver = semaphore._deliver

    def deliver_to_one_who_leaves(number: int, hold: Hold) -> None:
        deliver(number, hold)
        waiting.cancel()

    semaphore._deliver = deliver_to_one_who_leaves  # type: ignore[method-assign]
    waiting = asyncio.create_task(host.acquire(1))
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    await settled(service, host)


@virtual
async def test_a_wait_that_is_cancelled_leaves_nothing_and_ends_the_polling() -> None:
    service = MemoryLeaseStore()
    one, other = Host(service, 1), Host(service, 2)
    hold = await one.acquire(1)
    waiting = [asyncio.create_task(host.acquire(1)) for host in (one, other, other)]
    await asyncio.sleep(7)
    for task in waiting:
        task.cancel()
    await asyncio.wait(waiting)
    asked = len(other.network.requests)
    await asyncio.sleep(20)
    assert len(other.network.requests) == asked
    await release(hold)
    await settled(service, one, other)


@pytest.mark.parametrize("seed", range(40))
def test_whenever_a_wait_is_cancelled_the_others_go_on_and_nothing_is_left(seed: int) -> None:
    @virtual
    async def run() -> None:
        service, judge, rng = MemoryLeaseStore(), Judge(2), random.Random(seed)
        fleet = [Host(service, number) for number in range(2)]
        entered = 0

        async def work(host: Host) -> None:
            nonlocal entered
            await asyncio.sleep(rng.uniform(0, 0.5))
            async with host.inside(2) as hold, judge.watch(hold):
                entered += 1
                await asyncio.sleep(rng.uniform(0, 0.2))

        doomed = [asyncio.create_task(work(rng.choice(fleet))) for _ in range(20)]
        staying = [asyncio.create_task(work(rng.choice(fleet))) for _ in range(5)]
        for task in doomed:
            await asyncio.sleep(rng.choice((0, 0.001, 0.01, 0.05)))
            task.cancel()
        await asyncio.wait(doomed)
        async with asyncio.timeout(60):
            await asyncio.gather(*staying)
        assert entered >= 5
        await settled(service, *fleet)

    run()


@virtual
async def test_storage_that_refuses_is_told_at_once_and_is_not_contention() -> None:
    host = Host(MemoryLeaseStore())
    host.network.always("acquire", answered(403, "AuthorizationFailure"))
    for timeout in (0, 5, None):
        waiting = [asyncio.create_task(host.acquire(3, timeout=timeout, owner=str(each))) for each in range(2)]
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        assert isinstance(errors[0], StorageDenied)
        assert isinstance(errors[1], StorageDenied | LockNotAcquired if timeout == 0 else StorageDenied)
        assert errors[0] is not errors[1]
    assert now() < 1


@virtual
async def test_storage_that_does_not_answer_is_told_after_a_minute_or_at_the_time_out() -> None:
    host = Host(MemoryLeaseStore())
    host.network.fail_all(LOST_REQUEST)
    for timeout, longest in ((0, 11), (3, 3), (20, 20), (None, 85)):
        start = now()
        with pytest.raises(StorageUnavailable):
            await host.acquire(3, timeout=timeout)
        assert now() - start <= longest
    host.network.heal()
    await release(await host.acquire(3, timeout=5))


@virtual
async def test_closing_ends_every_wait_and_what_is_held_is_lost() -> None:
    service = MemoryLeaseStore()
    host, other = Host(service, 1), Host(service, 2)
    hold, taken = await host.acquire(1), await other.acquire(1, name="others")
    waiting = [asyncio.create_task(host.acquire(1, name=name)) for name in (NAME, "others", "others")]
    await asyncio.sleep(30)
    start = now()
    await host.registry.aclose()
    assert now() == start
    await release(taken)
    assert [type(each.exception()) for each in waiting] == [LockClosed] * 3
    assert hold.lost.reason == "closed"
    with pytest.raises(LockClosed):
        await host.acquire(1)


@virtual
async def test_a_store_that_raises_what_no_store_should_ends_the_waits() -> None:
    host = Host(MemoryLeaseStore())

    def broken(number: int) -> object:
        raise KeyError(number)

    await release(await host.acquire(2))
    next(iter(host.registry._semaphores.values()))._slot = broken  # type: ignore[assignment]
    with pytest.raises(SingletonError, match="unexpected KeyError"):
        await host.acquire(2)


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(25))
def test_under_random_faults_there_are_never_more_than_the_limit_and_every_wait_ends(seed: int) -> None:
    @virtual
    async def run() -> None:
        rng = random.Random(seed)
        service, limit = MemoryLeaseStore(), rng.choice((1, 2, 3, 5))
        judge = Judge(limit)
        fleet = [Host(service, number) for number in range(3)]

        def fate(_: Request) -> Fate:
            if now() > 90 or rng.random() > 0.25:
                return Fate(up=rng.uniform(0, 0.05), down=rng.uniform(0, 0.05))
            return rng.choice((LOST_REQUEST, LOST_REPLY, answered(503), answered(500, executed=True), Fate(up=4.0)))

        for host in fleet:
            host.network.decide = fate

        async def work(host: Host) -> None:
            while now() < 90:
                with suppress(LockNotAcquired, StorageUnavailable):
                    timeout = rng.choice((0, 0.5, 20, None))
                    async with host.inside(limit, timeout=timeout) as hold, judge.watch(hold):
                        await asyncio.sleep(rng.choice((0, 0.5, 20)))
                await asyncio.sleep(rng.uniform(0, 2))

        workers = [asyncio.create_task(work(host)) for host in fleet for _ in range(4)]
        async with asyncio.timeout(300):
            await asyncio.gather(*workers)
        assert judge.counts
        await until(now() + 61)
        await settled(service, *fleet)

    run()

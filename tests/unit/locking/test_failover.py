"""Failover: a holder touches its lock, and a waiter takes it from one that has fallen silent, not sooner."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
from contextvars import ContextVar
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import LockNotAcquired
from singleton.base.failover_mark import LEASE_KEY, MARK_KEY, read_lease, read_mark
from singleton.locking.failover import Suspicion
from singleton.locking.holder import holder
from singleton.locking.lease import Lease
from singleton.locking.lock import Lock, release
from singleton.locking.phase import Timing
from singleton.runtime.address import Address
from singleton.runtime.holders import name_holder
from singleton.runtime.registry import Registry
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.stores.stamps import EPOCH_KEY, HELD_KEY, OWNER_KEY
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, answered
from tests.support.world import (
    NAME,
    eventually,
    foreign_id,
    held,
    lock_on,
    now,
    section,
    settled,
    until,
    virtual,
    virtual_loop,
)

if TYPE_CHECKING:
    from singleton.base.hold import Hold

F = 2.0
GOOD, SILENT, TOUCH = F * 14 / 15, F * 16 / 15, F / 3


def touched(network: Network, seed: int = 1, failover: float = F) -> Lock:
    return lock_on(network, seed, failover=failover)


def cut_off(network: Network) -> None:
    """Let nothing reach the storage any more: to others its process is dead."""
    network.decide = lambda _: LOST_REQUEST


async def metadata(service: MemoryLeaseStore) -> dict[str, str]:
    return dict((await service.read(NAME)).metadata)


async def waiting(lock: Lock, after: float = 0.0) -> asyncio.Task[Hold]:
    await asyncio.sleep(after)
    return asyncio.create_task(lock.acquire())


# --- the holder -------------------------------------------------------------------------------------------------------


@virtual
async def test_a_hold_begins_with_a_write_and_is_touched_three_times_in_its_failover() -> None:
    network = Network()
    lock = touched(network)
    async with held(lock, owner="me"):
        assert len(network.sent("write")) == 1
        await asyncio.sleep(10.0)
    writes = [request.sent for request in network.sent("write")]
    assert len(writes) == 16
    assert all(later - earlier == pytest.approx(TOUCH) for earlier, later in itertools.pairwise(writes))
    assert len(network.sent("renew")) == 1


@virtual
async def test_a_touch_carries_failover_and_epoch_and_who_has_the_lock_now() -> None:
    network = Network()
    lock = touched(network, failover=2.5)
    first = await lock.acquire(owner="one")
    before = await metadata(network.service)
    assert before[MARK_KEY] == f"2500/{before[EPOCH_KEY]}"
    assert before[LEASE_KEY] == f"{before[EPOCH_KEY]}/{network.service.leased()[NAME]}"
    next_one = asyncio.create_task(lock.acquire(owner="two"))
    await asyncio.sleep(0.1)
    await release(first)
    await asyncio.sleep(1.0)
    after = await metadata(network.service)
    assert after[OWNER_KEY] == "two"
    assert after | {OWNER_KEY: "one", HELD_KEY: "0"} == before
    await release(await next_one)


@virtual
async def test_without_failover_nothing_is_touched_and_no_mark_is_left() -> None:
    network = Network()
    await section(touched(network))
    network.requests.clear()
    await section(lock_on(network, 2), 4.0)
    assert network.calls() == ["acquire", "read", "write", "release"]
    assert MARK_KEY not in await metadata(network.service)


@virtual
async def test_a_warm_cycle_writes_all_the_same() -> None:
    """Somebody may have read the ETag of our last touch long ago."""
    network = Network()
    lock = touched(network)
    await section(lock)
    network.requests.clear()
    await section(lock)
    assert network.calls() == ["acquire", "write", "release"]


@virtual
async def test_a_hold_ends_so_long_after_its_last_touch_was_sent() -> None:
    network = Network()
    hold = await touched(network).acquire()
    await asyncio.sleep(5.0)
    last = network.sent("write")[-1].sent
    network.always("write", LOST_REQUEST)
    await hold.lost
    assert hold.lost.reason == "expired"
    assert now() == pytest.approx(last + GOOD)
    await release(hold)


@virtual
async def test_a_touch_does_not_extend_the_lease() -> None:
    network = Network()
    hold = await touched(network).acquire()
    acquired = network.sent("acquire")[-1].sent
    network.always("renew", LOST_REQUEST)
    await hold.lost
    assert hold.lost.reason == "expired"
    assert now() == pytest.approx(acquired + 14.0)
    await release(hold)


@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_REPLY, answered(503), answered(500, executed=True)])
@virtual
async def test_one_touch_that_goes_wrong_loses_nothing(fate: Fate) -> None:
    network = Network()
    async with held(touched(network)) as hold:
        for _ in range(4):
            await asyncio.sleep(1.5)
            network.plan("write", fate)
        await asyncio.sleep(3.0)
        assert not hold.lost.is_set()


@virtual
async def test_no_body_begins_when_its_first_touch_has_used_up_half_of_failover() -> None:
    """It would be told of the loss soon after. The lease is given back, and the lock asked for again."""
    network = Network()
    network.plan("write", Fate(down=F / 2 + 0.1))
    hold = await touched(network).acquire(timeout=5.0)
    writes = [request.sent for request in network.sent("write")]
    assert network.calls()[-4:] == ["write", "release", "acquire", "write"]
    assert hold.waited > F / 2
    network.always("write", LOST_REQUEST)
    await hold.lost
    assert now() == pytest.approx(writes[-1] + GOOD)
    await release(hold)


@virtual
async def test_a_touch_that_finds_an_earlier_one_of_its_own_writes_again() -> None:
    """That one was sent long ago: it is the next that the deadline counts from."""
    network = Network()
    async with held(touched(network)):
        await asyncio.sleep(TOUCH * 1.5)
        network.requests.clear()
        network.plan("write", LOST_REPLY)
        await asyncio.sleep(3.0)
        assert network.calls()[:4] == ["write", "write", "read", "write"]
        assert network.requests[3].sent - network.requests[2].sent < 0.1


@virtual
async def test_touches_that_fail_come_sooner_and_sooner() -> None:
    network = Network()
    hold = await touched(network).acquire()
    network.always("write", answered(503))
    await hold.lost
    sent = [request.sent for request in network.sent("write")[1:]]
    pauses = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert len(pauses) >= 3
    assert pauses[0] <= TOUCH / 2 + 0.02
    assert pauses[2] < pauses[0]
    await release(hold)


@virtual
async def test_a_touch_that_is_told_to_come_later_comes_before_the_hold_is_over() -> None:
    network = Network()
    async with held(touched(network)) as hold:
        await asyncio.sleep(1.5)
        network.plan("write", answered(503, retry_after=60.0))
        await asyncio.sleep(10.0)
        assert not hold.lost.is_set()


@virtual
async def test_a_touch_whose_reply_was_late_does_not_revive_a_hold() -> None:
    network = Network()
    hold = await touched(network).acquire()
    network.always("write", Fate(down=GOOD + 1.0))
    await hold.lost
    await asyncio.sleep(5.0)
    assert hold.lost.reason == "expired"
    await release(hold)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        *(("stolen", "stolen"), ("broken", "expired"), ("deleted", "blob gone"), ("made again", "stolen")),
        ("ended by its id", "expired"),
    ],
)
@virtual
async def test_a_touch_tells_what_became_of_the_lock(how: str, reason: str) -> None:
    network = Network()
    service = network.service
    hold = await touched(network).acquire()
    if how in ("stolen", "broken"):
        await service.break_(NAME)
    if how == "ended by its id":
        await service.evict(NAME, service.leased()[NAME], (await service.read(NAME)).etag)
    if how == "stolen":
        await section(lock_on(Network(service), 2), 1.0)
    if how in ("deleted", "made again"):
        service.delete(NAME)
    if how == "made again":
        await section(lock_on(Network(service), 2), 1.0)
    began = now()
    await hold.lost
    assert hold.lost.reason == reason
    assert now() - began < TOUCH + 0.1
    await release(hold)


@virtual
async def test_a_loss_that_a_touch_finds_is_told_in_the_context_of_who_has_the_lock() -> None:
    """A callback finds there in whose name to log, and in which span."""
    caller = ContextVar("caller", default="nobody")
    caller.set("me")
    network, told = Network(), list[str]()
    hold = await touched(network).acquire()
    hold.lost.add_callback(lambda _: told.append(caller.get()))
    network.service.delete(NAME)
    await hold.lost
    assert told == ["me"]
    await release(hold)


@virtual
async def test_a_touch_that_arrives_in_a_later_hold_changes_nothing() -> None:
    network = Network()
    lock = touched(network)
    hold = await lock.acquire()
    network.plan("write", Fate(up=1.0))
    await eventually(lambda: len(network.sent("write")) == 2)
    await release(hold)
    async with held(touched(Network(network.service), 2), owner="another"):
        before = await metadata(network.service)
        await asyncio.sleep(1.5)
        assert (await metadata(network.service)) | {HELD_KEY: "0"} == before
    await settled(network.service, lock)


@virtual
async def test_a_touch_never_puts_an_epoch_back() -> None:
    """An acquire of ours arrives a second time, after another process had the lock that an operator broke."""
    network = Network()
    service = network.service
    hold = await touched(network).acquire()
    await service.break_(NAME)
    await section(lock_on(Network(service), 2))
    await service.acquire(NAME, hold.lease_id or "", 15)
    before = await metadata(service)
    await asyncio.sleep(2.0)
    assert await metadata(service) == before
    assert hold.lost.reason == "stolen"
    await release(hold)


@virtual
async def test_an_answer_to_a_touch_revives_no_hold_that_is_overdue() -> None:
    """Its process stood still, and on waking it reads the answer before its timer has run."""
    service = MemoryLeaseStore()
    await service.create(NAME)
    lease = Lease(service, NAME, foreign_id(), sent=now(), period=15)
    lease.touched(now(), GOOD)
    virtual_loop().now += GOOD + 0.1
    lease.touched(now() - 1.0, GOOD)
    assert lease.lost == "expired"
    await lease.stop()


@virtual
async def test_touches_end_with_the_hold() -> None:
    network = Network()
    lock = touched(network)
    await section(lock, 1.0)
    writes = len(network.sent("write"))
    await asyncio.sleep(5.0)
    assert len(network.sent("write")) == writes


@virtual
async def test_an_acquisition_whose_first_touch_fails_begins_no_section() -> None:
    network = Network()
    network.always("write", LOST_REQUEST)
    lock = touched(network)
    with pytest.raises(Exception, match="no answer within"):
        await lock.acquire(timeout=4)
    network.heal()
    await settled(network.service, lock)


@virtual
async def test_who_has_waited_behind_another_lock_of_the_process_is_told_that_it_was_in_use_here() -> None:
    """His time is up before the first answer of the service."""
    network = Network()
    lock = lock_on(network)
    other = Lock(network, NAME, timing=Timing(failover=F), rng=random.Random(2), guard=lock.guard, wall=now)
    hold = await lock.acquire()
    waiter = asyncio.create_task(other.acquire(timeout=5.015))
    await asyncio.sleep(5.0)
    hold.record.end()  # type: ignore[attr-defined]
    with pytest.raises(LockNotAcquired, match="in use by this process"):
        await waiter
    await settled(network.service, lock, other)


# --- the waiter -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("failover", [2.0, 5.0])
@virtual
async def test_a_waiter_takes_the_lock_of_a_process_that_died(failover: float) -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network, failover=failover).acquire()
    waiter = await waiting(touched(other, 2), after=1.0)
    await asyncio.sleep(9.0)
    cut_off(network)
    died = now()
    hold = await waiter
    assert failover * 16 / 15 - failover / 3 < now() - died < failover * 16 / 15 + F / 4 + 0.2
    assert (hold.token or 0) > (dead.token or 0)
    assert dead.lost.is_set()
    await release(hold)
    await release(dead)


@virtual
async def test_the_second_reading_is_sent_so_long_after_the_reply_to_the_first() -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network).acquire()
    cut_off(network)
    other.always("read", Fate(up=0.2, down=0.2))
    hold = await touched(other, 2).acquire()
    reads = [request.sent for request in other.sent("read")]
    (broken,) = other.sent("evict")
    first_reply, second_sent = reads[0] + 0.4, broken.sent - 0.4
    assert second_sent - first_reply == pytest.approx(SILENT)
    await release(hold)
    await release(dead)


@virtual
async def test_a_waiter_counts_with_the_failover_of_the_holder_not_its_own() -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network, failover=8.0).acquire()
    cut_off(network)
    began = now()
    hold = await touched(other, 2).acquire()
    assert now() - began > 8 * 16 / 15
    await release(hold)
    await release(dead)


@virtual
async def test_a_holder_that_does_not_touch_keeps_its_lock() -> None:
    network, other = Network(), Network()
    other.service = network.service
    await section(touched(other, 2))
    async with held(lock_on(network)) as hold:
        waiter = await waiting(touched(other, 2))
        await asyncio.sleep(60.0)
        assert not hold.lost.is_set()
        assert not other.sent("evict")
    await release(await waiter)


@virtual
async def test_an_older_version_that_keeps_the_mark_has_another_epoch_and_keeps_its_lock() -> None:
    network, other = Network(), Network()
    other.service = network.service
    await section(touched(other, 2))
    state = await network.service.read(NAME)
    etag = await network.service.acquire(NAME, foreign_id(), 60)
    epoch = int(state.metadata[EPOCH_KEY]) + 1
    await network.service.write(NAME, foreign_id(), {**state.metadata, EPOCH_KEY: str(epoch)}, etag)
    waiter = await waiting(touched(other, 2))
    await asyncio.sleep(30.0)
    assert network.service.leased() == {NAME: foreign_id()}
    await network.service.release(NAME, foreign_id())
    await release(await waiter)


@virtual
async def test_a_lease_without_end_is_respected() -> None:
    network = Network()
    await section(touched(network))
    await network.service.acquire(NAME, foreign_id(), -1)
    network.requests.clear()
    with pytest.raises(LockNotAcquired):
        await touched(network, 2).acquire(timeout=20)
    assert not network.sent("evict")
    assert len(network.sent("acquire")) == 1, "it only looks"


@virtual
async def test_a_touch_on_its_way_wins_over_the_break() -> None:
    """It arrives between the second reading and the break."""
    network, other = Network(), Network()
    other.service = network.service
    hold = await touched(network).acquire()
    network.plan("write", Fate(up=1.75), *[LOST_REQUEST] * 20)
    other.plan("evict", Fate(up=0.3))
    waiter = await waiting(touched(other, 2))
    await eventually(lambda: bool(other.sent("evict")))
    etag, lease = (await network.service.read(NAME)).etag, network.service.leased()
    await asyncio.sleep(0.35)
    assert (await network.service.read(NAME)).etag != etag
    assert network.service.leased() == lease
    await release(hold)
    await release(await waiter)


@virtual
async def test_after_a_break_what_was_read_is_forgotten() -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network).acquire()
    cut_off(network)
    other.always("evict", LOST_REQUEST)
    waiter = await waiting(touched(other, 2))
    await asyncio.sleep(8.0)
    breaks = [request.sent for request in other.sent("evict")]
    assert len(breaks) >= 2
    assert all(later - earlier > SILENT for earlier, later in itertools.pairwise(breaks))
    other.heal()
    await release(await waiter)
    await release(dead)


@virtual
async def test_single_attempts_remember_what_was_read_before() -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network).acquire()
    cut_off(network)
    ticks = touched(other, 2)
    with pytest.raises(LockNotAcquired):
        await ticks.acquire(timeout=0)
    await asyncio.sleep(1.0)
    with pytest.raises(LockNotAcquired):
        await ticks.acquire(timeout=0)
    assert other.calls().count("acquire") == 1
    await asyncio.sleep(2.0)
    await release(await ticks.acquire(timeout=0))
    await release(dead)


@virtual
async def test_a_lock_that_was_free_meanwhile_is_not_taken_from_who_is_about_to_touch_it() -> None:
    network = Network()
    await section(touched(network))
    suspicion, free = Suspicion(), await network.service.read(NAME)
    taken = replace(free, lease="leased")
    assert suspicion.read(taken, sent=0.0, replied=0.1) is False
    assert suspicion.read(free, sent=1.0, replied=1.1) is False
    assert suspicion.read(taken, sent=SILENT + 1.0, replied=SILENT + 1.1) is False
    assert suspicion.read(taken, sent=2 * SILENT + 1.1, replied=2 * SILENT + 1.2) is True


@pytest.mark.parametrize(
    ("text", "failover"), [("2000/7", 2.0), ("10000/7", 10.0), ("1999/7", None), ("10001/7", None), ("0/7", None)]
)
def test_a_mark_that_we_would_not_write_makes_nobody_silent(text: str, failover: float | None) -> None:
    assert read_mark(text, 7) == failover


@pytest.mark.parametrize("text", ["", "7", "7/", f"8/{foreign_id()}", f"7/{foreign_id()}0", f"7/x\r\n{foreign_id()}"])
def test_a_lease_id_that_we_would_not_write_is_none(text: str) -> None:
    assert read_lease(f"7/{foreign_id()}", 7) == foreign_id()
    assert read_lease(text, 7) is None


@pytest.mark.parametrize("period", [15, 60])
@virtual
async def test_the_lease_of_somebody_who_leaves_no_stamp_is_waited_for_whatever_a_dead_holder_left(period: int) -> None:
    """As DistributedLock takes leases: nobody writes on the blob."""
    network, other = Network(), Network()
    other.service = network.service
    await section(touched(network))
    await network.service.acquire(NAME, foreign_id(), period)
    waiter = await waiting(touched(other, 2))
    for _ in range(8):
        await asyncio.sleep(5.0)
        assert await network.service.renew(NAME, foreign_id()) == foreign_id()
    assert len(other.sent("evict")) == 1, "its refusal says all"
    assert not other.sent("break")
    stopped = now()
    await release(await waiter)
    assert now() - stopped == pytest.approx(period, abs=0.6)


@virtual
async def test_a_refused_caller_is_not_told_the_name_of_an_earlier_holder_whose_mark_was_refuted() -> None:
    network, other = Network(), Network()
    other.service = network.service
    async with held(touched(network), owner="earlier"):
        pass
    await network.service.acquire(NAME, foreign_id(), 60)
    registry = Registry(lambda _: other, random.Random(2))
    job = Address(LockContainer(StorageAccount("UseDevelopmentStorage=true"), "locks"), NAME, Timing(failover=F))
    for timeout, owner in ((0, "earlier"), (2 * SILENT, None), (0, None)):
        with pytest.raises(LockNotAcquired) as refused:
            await registry.acquire(job, timeout=timeout, owner="")
        await name_holder(registry, job, refused.value, 1.0)
        assert refused.value.holder is not None
        assert refused.value.holder.owner == owner


@virtual
async def test_a_release_by_id_that_arrives_late_ends_nobody_elses_lease() -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network).acquire()
    cut_off(network)
    other.always("evict", Fate(up=20.0))
    await section(touched(other, 2))
    (late,) = {request.lease_id for request in other.sent("evict")}
    assert late == dead.lease_id
    await network.service.acquire(NAME, foreign_id(), 60)
    await asyncio.sleep(25.0)
    assert network.service.leased() == {NAME: foreign_id()}
    await release(dead)


@pytest.mark.parametrize("kept", [False, True], ids=["no id", "the id of an earlier epoch"])
@virtual
async def test_the_mark_of_an_older_version_names_no_lease_and_its_silent_holder_is_taken_over_all_the_same(
    kept: bool,
) -> None:
    network = Network()
    await section(touched(network))
    state = await network.service.read(NAME)
    etag = await network.service.acquire(NAME, foreign_id(), 60)
    epoch = int(state.metadata[EPOCH_KEY]) + 1
    written = {**state.metadata, EPOCH_KEY: str(epoch), MARK_KEY: f"2000/{epoch}"}
    if not kept:
        del written[LEASE_KEY]
    await network.service.write(NAME, foreign_id(), written, etag)
    began = now()
    hold = await touched(network, 2).acquire()
    assert now() - began < F * 16 / 15 + F / 4 + 0.2
    assert (len(network.sent("break")), len(network.sent("evict"))) == (1, 0)
    await release(hold)


@virtual
async def test_a_mark_without_a_lease_id_says_nothing_once_its_lease_must_be_over() -> None:
    network = Network()
    await section(touched(network))
    state = await network.service.read(NAME)
    etag = await network.service.acquire(NAME, foreign_id(), 15)
    written = {key: text for key, text in state.metadata.items() if key != LEASE_KEY}
    await network.service.write(NAME, foreign_id(), written, etag)
    await network.service.release(NAME, foreign_id())
    await asyncio.sleep(61.0)
    await network.service.acquire(NAME, foreign_id(), 60)
    with pytest.raises(LockNotAcquired):
        await touched(network, 2).acquire(timeout=20)
    assert network.service.leased() == {NAME: foreign_id()}
    assert not network.sent("break")


@virtual
async def test_who_got_the_lock_after_a_wait_does_not_read_it_at_the_next_acquisition() -> None:
    network, other = Network(), Network()
    other.service = network.service
    hold, lock = await touched(network).acquire(), touched(other, 2)
    waiter = await waiting(lock)
    await asyncio.sleep(3.0)
    await release(hold)
    await release(await waiter)
    other.requests.clear()
    await section(lock)
    assert other.calls() == ["acquire", "write", "release"]


@virtual
async def test_a_candidate_that_sleeps_looks_as_soon_as_the_silence_may_show() -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network).acquire()
    cut_off(network)
    registry = Registry(lambda _: other, random.Random(2))
    job = Address(LockContainer(StorageAccount("UseDevelopmentStorage=true"), "locks"), NAME, Timing(failover=F))
    with pytest.raises(LockNotAcquired):
        await registry.acquire(job, timeout=0, owner="")
    began = now()
    await registry.pause(job, 60.0)
    assert now() - began == pytest.approx(SILENT)
    await release(await registry.acquire(job, timeout=0, owner=""))
    await release(dead)


@virtual
async def test_what_an_attempt_read_is_known_to_the_next_whatever_else_the_process_locked_meanwhile() -> None:
    network, other = Network(), Network()
    other.service = network.service
    dead = await touched(network).acquire()
    cut_off(network)
    registry = Registry(lambda _: other, random.Random(2), keep=2)
    place = LockContainer(StorageAccount("UseDevelopmentStorage=true"), "locks")
    job = Address(place, NAME, Timing(failover=F))
    with pytest.raises(LockNotAcquired):
        await registry.acquire(job, timeout=0, owner="")
    for when in ("before it may be found silent", "after that"):
        for number in range(20):
            other_job = Address(place, f"{when}-{number}", Timing())
            await release(await registry.acquire(other_job, timeout=0, owner=""))
        await asyncio.sleep(SILENT + 1.0)
    await release(await registry.acquire(job, timeout=0, owner=""))
    await asyncio.sleep(100.0)
    for number in range(20):
        await release(await registry.acquire(Address(place, f"more-{number}", Timing()), timeout=0, owner=""))
    assert job not in registry._locks, "it is kept for ever"
    await release(dead)


@virtual
async def test_a_waiter_looks_four_times_in_its_failover_and_asks_once_it_is_free() -> None:
    network, other = Network(), Network()
    other.service = network.service
    hold = await touched(network).acquire()
    waiter = await waiting(touched(other, 2))
    await until(20.0)
    assert other.calls().count("acquire") == 1
    reads = [request.sent for request in other.sent("read") if request.sent > 5.0]
    gaps = [later - earlier for earlier, later in itertools.pairwise(reads)]
    assert max(gaps) < F / 4 + 0.05
    await release(hold)
    released = now()
    await release(await waiter)
    assert now() - released < F / 4 + 0.2


@virtual
async def test_a_lease_of_ours_that_was_granted_late_is_asked_for_and_not_waited_out() -> None:
    """The first attempt arrives when the second was refused already, just as the lock is given back."""
    network, other = Network(), Network()
    other.service = network.service
    hold = await touched(network).acquire()
    began = now()
    other.plan("acquire", Fate(up=7.0, down=math.inf))
    waiter = await waiting(touched(other, 2))
    await until(began + 6.985)
    await release(hold)
    mine = await waiter
    assert now() - began < 8.0
    assert network.service.leased() == {NAME: other.sent("acquire")[0].lease_id}
    assert not other.sent("evict")
    await release(mine)


@virtual
async def test_who_asked_again_for_a_lease_of_his_own_does_not_read_it_at_the_next_acquisition() -> None:
    """What he read as the last thing was that the lock is held: by himself, as he did not know yet."""
    network, other = Network(), Network()
    other.service = network.service
    hold, lock = await touched(network).acquire(), touched(other, 2)
    began = now()
    other.plan("acquire", Fate(up=7.0, down=math.inf))
    waiter = await waiting(lock)
    await until(began + 6.985)
    await release(hold)
    await release(await waiter)
    other.requests.clear()
    await section(lock)
    assert other.calls() == ["acquire", "write", "release"]


@virtual
async def test_a_blob_that_is_gone_is_made_again() -> None:
    network, other = Network(), Network()
    other.service = network.service
    hold = await touched(network).acquire()
    waiter = await waiting(touched(other, 2))
    await asyncio.sleep(2.0)
    network.service.delete(NAME)
    await release(await waiter)
    await hold.lost
    assert hold.lost.reason in ("blob gone", "stolen")
    await release(hold)


@virtual
async def test_trouble_while_looking_is_no_contention() -> None:
    network, other = Network(), Network()
    other.service = network.service
    async with held(touched(network)):
        ticks = touched(other, 2)
        with pytest.raises(LockNotAcquired):
            await ticks.acquire(timeout=0)
        other.always("read", Fate(up=math.inf))
        with pytest.raises(Exception, match="does not answer as it should"):
            await ticks.acquire(timeout=0)


@virtual
async def test_who_has_a_lock_that_is_touched_is_known_and_since_when() -> None:
    network = Network()
    async with held(touched(network), owner="me"):
        await asyncio.sleep(3.0)
        found = await holder(network.service, NAME)
    assert found is not None
    assert (found.owner, found.since) == ("me", datetime.fromtimestamp(0, UTC))

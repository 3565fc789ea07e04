"""Ask once, safely again (guarantee 1): acquisitions whose outcome is unknown, and the ids that they use."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from singleton.base.errors import LockNotAcquired, StorageError, StorageUnavailable
from singleton.locking.lock import release
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, answered, answered_in_between
from tests.support.world import (
    NAME,
    eventually,
    foreign_id,
    held,
    lock_on,
    now,
    occupy,
    section,
    settled,
    until,
    virtual,
)


@virtual
async def test_the_first_acquire_is_sent_at_once_without_a_probe() -> None:
    network = Network()
    await section(lock_on(network))
    assert network.requests[0].call == "acquire"
    assert network.requests[0].sent == 0.0


@virtual
async def test_a_lost_acquire_reply_is_asked_again_with_the_same_id_and_held() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", LOST_REPLY)
    async with held(lock) as hold:
        first, second = network.sent("acquire")
        assert first.lease_id == second.lease_id == hold.lease_id
        assert now() < 6.0, "waited for its own lease to lapse"
    await settled(network.service, lock)


@pytest.mark.parametrize("executed", [True, False])
@virtual
async def test_an_acquire_that_broke_off_is_asked_again_whether_it_was_carried_out_or_not(executed: bool) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", *[answered(executed=executed)] * 3)
    await section(lock)
    assert len({request.lease_id for request in network.sent("acquire")}) == 1
    assert now() < 2.0
    await settled(network.service, lock)


@pytest.mark.parametrize("call", ["create", "read", "write"])
@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST, answered(500), answered(executed=True)])
@virtual
async def test_any_step_of_an_acquisition_may_fail_once(call: str, fate: Fate) -> None:
    network = Network()
    if call != "create":  # a blob that is not ours
        await network.service.create(NAME)
    lock = lock_on(network)
    network.plan(call, fate)
    await section(lock)
    assert now() < 8.0
    await settled(network.service, lock)


@pytest.mark.parametrize("call", ["read", "write"])
@pytest.mark.parametrize(
    "fate", [LOST_REPLY, LOST_REQUEST, answered(403, "AuthorizationFailure"), answered(executed=True)]
)
@virtual
async def test_a_step_after_the_lease_was_got_that_keeps_failing_leaves_no_lease(call: str, fate: Fate) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.always(call, fate)
    with pytest.raises(Exception, match="storage"):
        await lock.acquire(timeout=12.0)
    await settled(network.service, lock)


@pytest.mark.parametrize("fate", [LOST_REPLY, answered(executed=True), Fate(up=2.0, down=2.0)])
@virtual
async def test_an_attempt_given_up_with_its_outcome_unknown_is_released_by_its_id(fate: Fate) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.always("acquire", fate)
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=0.3)
    await settled(network.service, lock, within=6.0)
    assert {request.lease_id for request in network.sent("release")} <= {
        request.lease_id for request in network.sent("acquire")
    }


@pytest.mark.parametrize("lost", ["acquire", "release"])
@virtual
async def test_who_is_refused_after_a_lost_release_is_told_that_its_own_process_may_have_left_the_lease(
    lost: str,
) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.always("release", LOST_REQUEST)
    if lost == "acquire":
        network.plan("acquire", LOST_REPLY)
        with pytest.raises(StorageUnavailable):
            await lock.acquire(timeout=0.3)
        await lock.at_rest()
    else:
        await section(lock)
    for timeout in (0.0, 1.0):
        with pytest.raises(LockNotAcquired, match="somebody else has it, or a lease is left on it that this process"):
            await lock.acquire(timeout=timeout)
    await until(30.0)
    await occupy(network.service)
    with pytest.raises(LockNotAcquired, match=r"somebody else has it$"):
        await lock.acquire(timeout=0)


@pytest.mark.parametrize("status", [400, 401, 403, 412])
@virtual
async def test_a_lease_whose_answer_became_a_page_of_something_in_between_is_released(status: int) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", answered_in_between(status))
    with pytest.raises(StorageError):
        await lock.acquire()
    await settled(network.service, lock, within=1.0)


@virtual
async def test_an_attempt_that_was_answered_no_is_given_up_without_a_request() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=0)
    assert network.calls() == ["acquire"]


@virtual
async def test_an_acquire_that_arrives_after_a_later_one_was_answered_no_is_released_too() -> None:
    """The first request is stuck on the way; the second hears that the lock is taken; then the first arrives."""
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    network.plan("acquire", LOST_REQUEST)
    waiting = asyncio.create_task(lock.acquire())
    await eventually(lambda: len(network.took) == 2)
    await network.service.release(NAME, foreign_id())
    await network.service.acquire(NAME, network.requests[0].lease_id or "", 15)
    waiting.cancel()
    await asyncio.wait({waiting})
    await settled(network.service, lock, within=6.0)


@virtual
async def test_every_acquisition_has_an_id_of_its_own() -> None:
    network = Network()
    locks = [lock_on(network, seed) for seed in range(5)]
    for _ in range(10):
        for lock in locks:
            await section(lock)
    ids = [request.lease_id for request in network.sent("release")]
    assert len(ids) == len(set(ids)) == 50
    assert all(uuid.UUID(one).version == 4 for one in ids if one)


@virtual
async def test_an_id_is_not_used_again_after_it_was_given_up() -> None:
    """A release that arrives late must find nothing that it could free (B8)."""
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", answered(500))
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=0.01)
    await settled(network.service, lock)
    given_up = network.sent("release")[-1].lease_id
    async with held(lock) as hold:
        assert hold.lease_id != given_up


@virtual
async def test_a_release_that_arrives_late_does_not_free_a_later_lease() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", LOST_REPLY)
    network.plan("release", Fate(up=20.0), Fate(up=20.0))
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=1.0)
    await until(11.0)
    assert lock.idle
    async with held(lock) as hold:
        assert now() < 25.0, "the late releases arrive during the section"
        await until(45.0)
        assert not hold.lost.is_set()
        assert set(network.service.leased()) == {NAME}
    await settled(network.service, lock)


@virtual
async def test_a_late_release_of_a_section_does_not_free_the_next_one() -> None:
    network = Network()
    lock = lock_on(network)
    network.plan("release", Fate(up=6.0), Fate(up=7.0))
    first = asyncio.create_task(section(lock, 1.0))
    await asyncio.wait({first})
    async with held(lock) as hold:
        await asyncio.sleep(20.0)
        assert not hold.lost.is_set()
    await settled(network.service, lock)


@virtual
async def test_an_acquisition_whose_stamp_failed_starts_over_with_a_new_id() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("write", answered(500))
    hold = await lock.acquire()
    ids = [request.lease_id for request in network.sent("acquire")]
    assert network.sent("release")[0].lease_id in ids[:-1]
    assert hold.lease_id == ids[-1] != network.sent("release")[0].lease_id
    await release(hold)


@virtual
async def test_waiters_who_come_while_an_attempt_is_given_up_are_served_after_it() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", LOST_REPLY)
    network.plan("release", Fate(up=1.0))
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=1.0)
    await until(5.5)
    async with held(lock) as hold:
        await asyncio.sleep(30.0)
        assert not hold.lost.is_set()
    await settled(network.service, lock)


@virtual
async def test_the_lease_of_an_acquire_whose_reply_was_lost_counts_from_the_one_that_was_answered() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network, fencing=False)
    network.plan("acquire", LOST_REPLY)
    hold = await lock.acquire()
    network.always("renew", LOST_REQUEST)
    sent = network.sent("acquire")[-1].sent
    assert await hold.lost == "expired"
    assert now() == pytest.approx(sent + 14.0)
    assert network.service.leased(), "the service's lease ended first"
    await release(hold)

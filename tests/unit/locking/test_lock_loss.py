"""How a holder learns that its lock is gone: stolen, broken, deleted, slept through; and what the lock does then."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import LockLost
from singleton.locking.line import Line
from singleton.locking.lock import release
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
    from singleton.base.kinds import LossReason
    from singleton.locking.line import Waiter
    from singleton.locking.section import Section


async def steal(network: Network) -> None:
    await network.service.break_(NAME)
    await network.service.acquire(NAME, foreign_id(), 15)


async def break_it(network: Network) -> None:
    await network.service.break_(NAME)


async def delete(network: Network) -> None:
    network.service.delete(NAME)


async def delete_and_make_again(network: Network) -> None:
    network.service.delete(NAME)
    await network.service.create(NAME)


async def delete_container(network: Network) -> None:
    network.service.delete(NAME)
    network.plan("renew", answered(404, "ContainerNotFound"))


HARMS = {
    "stolen": (steal, "stolen"),
    "broken": (break_it, "broken"),
    "blob deleted": (delete, "blob gone"),
    "blob deleted and made again": (delete_and_make_again, "stolen"),
    "container deleted": (delete_container, "blob gone"),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("moment", [0.2, 7.0, 7.505, 16.0])
@virtual
async def test_a_hold_that_was_taken_away_is_lost_within_half_a_period(harm: str, moment: float) -> None:
    do, reason = HARMS[harm]
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await until(moment)
    await do(network)
    start = now()
    assert await hold.lost in (reason, "expired")
    assert now() - start <= 7.5 + 0.1
    with pytest.raises(LockLost):
        hold.raise_if_lost()
    await release(hold)
    await asyncio.sleep(16.0)
    await section(lock, timeout=0)
    await settled(network.service, lock)


@virtual
async def test_a_machine_that_slept_through_its_lease_knows_before_its_next_step() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await until(3.0)
    virtual_loop().now += 13.0
    # Nothing of the lock has run since; the body's next step must see it all the same.
    assert hold.lost.is_set()
    assert hold.lost.reason == "expired"
    with pytest.raises(LockLost) as caught:
        hold.raise_if_lost()
    assert caught.value.reason == "expired"
    await release(hold)
    assert hold.lost.reason == "expired"
    await settled(network.service, lock)


@virtual
async def test_a_machine_that_slept_during_a_wait_acquires_after_it() -> None:
    for moment in (0.005, 0.015, 0.03, 0.045, 0.055):
        network = Network()
        await network.service.create(NAME)
        lock = lock_on(network)
        start = now()
        waiting = asyncio.create_task(lock.acquire())
        await until(start + moment)
        virtual_loop().now += 100.0
        hold = await waiting
        assert not hold.lost.is_set()
        assert network.service.leased() == {NAME: hold.lease_id}
        await release(hold)
        await settled(network.service, lock)


@virtual
async def test_nobody_gets_a_hold_whose_lease_is_already_past_its_deadline() -> None:
    """The machine sleeps between the service's answer and the next callback."""
    for millisecond in range(60):
        network = Network()
        await network.service.create(NAME)
        lock = lock_on(network)
        start = now()
        waiting = asyncio.create_task(lock.acquire())
        await until(start + millisecond / 1000)
        virtual_loop().now += 14.5
        hold = await waiting
        assert not hold.lost.is_set()
        await release(hold)
        await settled(network.service, lock)


@virtual
async def test_the_next_in_line_does_not_get_a_lease_that_was_lost_in_the_section_before() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    following = asyncio.create_task(lock.acquire())
    await network.service.break_(NAME)
    await until(9.0)
    assert hold.lost.reason == "broken"
    await release(hold)
    second = await following
    assert second.lease_id != hold.lease_id
    assert not second.lost.is_set()
    await release(second)


@pytest.mark.parametrize("steps", range(8))
@virtual
async def test_the_next_in_line_does_not_get_a_lease_that_lapses_in_the_very_step(
    steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine sleeps between the end of a section and the next one's begin."""
    network = Network()
    lock = lock_on(network)
    given = []
    grant = Line.grant

    def granted(line: Line, waiter: Waiter, hold: Section) -> None:
        given.append(hold.lost.is_set())
        grant(line, waiter, hold)

    monkeypatch.setattr(Line, "grant", granted)
    hold = await lock.acquire()
    following = asyncio.create_task(lock.acquire())
    await asyncio.sleep(1.0)
    releasing = asyncio.create_task(release(hold))
    for _ in range(steps):
        await asyncio.sleep(0)
    virtual_loop().now += 14.5
    await releasing
    await release(await following)
    assert given == [False, False]


@virtual
async def test_the_loss_reaches_only_the_section_that_runs() -> None:
    network = Network()
    lock = lock_on(network)
    before = await section(lock, 1.0)
    first = await lock.acquire()
    following = asyncio.create_task(lock.acquire())
    await asyncio.sleep(1.0)
    await release(first)
    second = await following
    await steal(network)
    assert await second.lost == "stolen"
    assert first.lost.reason is None
    assert before.lost.reason is None
    await release(second)


@virtual
async def test_a_loss_in_the_instant_of_the_handoff_is_told_to_the_next() -> None:
    network = Network()
    lock = lock_on(network)
    first = await lock.acquire()
    following = asyncio.create_task(lock.acquire())
    network.always("renew", LOST_REQUEST)
    await until(13.9)
    await release(first)
    second = await following
    assert await second.lost == "expired"
    assert first.lost.reason is None
    assert now() < 14.2
    await release(second)


@pytest.mark.parametrize("fate", [LOST_REPLY, answered(503, "ServerBusy"), answered(429), answered(403), answered()])
@virtual
async def test_an_outage_shorter_than_the_lease_is_not_noticed_by_a_body(fate: Fate) -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock) as hold:
        for _ in range(10):
            await asyncio.sleep(20.0)
            await eventually(lambda: len(network.sent("renew")) > 0)
            network.always("renew", fate)
            await asyncio.sleep(6.0)
            network.heal()
        assert not hold.lost.is_set()
    await settled(network.service, lock)


@pytest.mark.parametrize("fate", [LOST_REQUEST, answered(503, "ServerBusy"), answered(403, "AuthorizationFailure")])
@virtual
async def test_an_outage_longer_than_the_lease_loses_the_hold_before_anybody_else_gets_in(fate: Fate) -> None:
    service_side = Network()
    ours, theirs = Network(service_side.service), Network(service_side.service)
    lock, other = lock_on(ours, 1), lock_on(theirs, 2)
    hold = await lock.acquire()
    lost: list[tuple[LossReason, float]] = []
    hold.lost.add_callback(lambda reason: lost.append((reason, now())))
    waiting = asyncio.create_task(other.acquire())
    await until(40.0)
    ours.always("renew", fate)
    second = await waiting
    ((reason, when),) = lost
    assert reason == "expired"
    assert when < now() - 0.9, "the margin"
    assert second.token is not None
    assert hold.token is not None
    assert second.token > hold.token
    await release(second)
    ours.heal()
    await release(hold)
    await settled(ours.service, lock, other)


@virtual
async def test_a_late_renewal_that_reaches_the_service_after_the_section_revives_nothing() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.plan("renew", Fate(up=4.0))
    await until(8.0)
    await release(hold)
    await until(13.0)
    assert network.service.leased() == {}


@virtual
async def test_a_hold_counts_from_the_sending_of_its_acquire_however_late_the_reply() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", Fate(up=0.1, down=4.5))
    hold = await lock.acquire()
    network.always("renew", LOST_REQUEST)
    assert await hold.lost == "expired"
    assert now() == pytest.approx(14.0)
    assert network.service.leased(), "the service's lease ended first"
    await release(hold)


@virtual
async def test_the_late_end_of_a_section_leaves_the_next_holder_alone() -> None:
    network = Network()
    late, other = lock_on(network, 1), lock_on(network, 2)
    hold = await late.acquire()
    network.always("renew", LOST_REQUEST)
    assert await hold.lost == "expired"
    network.heal()
    async with held(other) as second:
        await release(hold)
        await asyncio.sleep(20.0)
        assert not second.lost.is_set()
        assert network.service.leased() == {NAME: second.lease_id}


@virtual
async def test_a_lease_that_is_being_broken_is_given_back_when_its_section_ends() -> None:
    """An operator broke it with a period of grace: until that is over, nobody else could take it."""
    network = Network()
    lock, other = lock_on(network, 1, period=60.0), lock_on(network, 2, period=60.0)
    hold = await lock.acquire()
    await network.service.break_(NAME, after=60)
    assert await hold.lost == "broken"
    await release(hold)
    start = now()
    async with held(other):
        assert now() - start < 0.2

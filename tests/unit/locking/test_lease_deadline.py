"""A lease stops before the service does (guarantee 2): its deadline, and that nothing but an answer moves it."""

from __future__ import annotations

import asyncio
import math

import pytest

from singleton.locking.lease import Lease
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network
from tests.support.world import NAME, foreign_id, now, until, virtual, virtual_loop

MINE = foreign_id(1)


async def take(network: Network, period: float = 15.0) -> Lease:
    """Acquire as a lock does: the clock starts before the request is sent."""
    await network.service.create(NAME)
    sent = now()
    await network.acquire(NAME, MINE, round(period))
    return Lease(network, NAME, MINE, sent=sent, period=period)


@virtual
async def test_the_deadline_of_a_fresh_lease_counts_from_the_sending_of_its_acquire() -> None:
    network = Network()
    network.plan("acquire", Fate(up=1.0, down=3.0))
    lease = await take(network)
    assert now() == pytest.approx(4.0)
    assert lease.deadline == pytest.approx(14.0)
    await lease.stop()


@virtual
async def test_a_renewal_moves_the_deadline_to_its_sending_however_late_its_reply() -> None:
    network = Network()
    lease = await take(network)
    network.plan("renew", Fate(up=0.1, down=3.0))
    await until(10.0)
    assert lease.deadline == pytest.approx(14.0), "moved before the reply"
    await until(11.0)
    assert network.sent("renew")[0].sent == pytest.approx(7.5)
    assert lease.deadline == pytest.approx(7.5 + 14.0)
    await lease.stop()


@pytest.mark.parametrize("period", [15.0, 30.0, 60.0])
@virtual
async def test_a_fifteenth_of_the_period_is_kept_as_margin(period: float) -> None:
    lease = await take(Network(), period)
    assert lease.deadline == pytest.approx(period * 14 / 15)
    await lease.stop()


@pytest.mark.parametrize("period", [15.0, 30.0, 60.0])
@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_REPLY], ids=["request", "reply"])
@virtual
async def test_renewals_that_hang_lose_the_lease_at_its_deadline_and_not_before(fate: Fate, period: float) -> None:
    network = Network()
    lease = await take(network, period)
    network.always("renew", fate)
    lost_at: list[float] = []
    lease.when_lost = lambda _: lost_at.append(now())
    await until(lease.deadline - 0.001)
    assert lease.alive()
    assert lease.lost is None
    await until(lease.deadline)
    assert not lease.alive()
    await until(lease.deadline + period)
    assert lost_at == [lease.deadline] == [pytest.approx(period * 14 / 15)]
    assert lease.lost == "expired"
    await lease.stop()


@virtual
async def test_no_renewal_is_waited_for_past_the_deadline() -> None:
    network = Network()
    lease = await take(network)
    network.always("renew", LOST_REQUEST)
    await until(30.0)
    assert len(network.took) > 3
    assert all(request.sent + took <= lease.deadline + 1e-9 for request, took in network.took)
    assert max(took for _, took in network.took[1:]) <= 5.0
    await lease.stop()


@virtual
async def test_a_renewal_that_is_answered_after_the_deadline_revives_nothing() -> None:
    network = Network()
    lease = await take(network)
    network.always("renew", LOST_REQUEST)
    await until(13.9)
    network.always("renew", Fate(up=0.01, down=0.5))
    await until(40.0)
    assert lease.lost == "expired"
    assert not lease.alive()
    await lease.stop()


@pytest.mark.parametrize("slept", [6.6, 8.0, 14.0, 100.0])
@virtual
async def test_a_reply_that_is_handled_after_the_machine_slept_past_the_deadline_revives_nothing(slept: float) -> None:
    """The reply is the first thing that is looked at after waking, before the deadline's timer (B3).

    The service may well have renewed the lease; but somebody may have asked meanwhile, and been told that it is lost.
    """
    network = Network()
    lease = await take(network)
    network.plan("renew", Fate(up=0.01, down=0.0))
    await until(7.5)
    loop = virtual_loop()

    def fall_asleep_right_after_the_answer() -> None:
        def sleep() -> None:
            loop.now += slept

        loop.call_soon(loop.call_soon, sleep)

    network.watchers.append(fall_asleep_right_after_the_answer)
    await until(7.511)
    assert now() > 14.0
    assert lease.lost == "expired"
    await lease.stop()


@virtual
async def test_a_machine_that_slept_knows_by_the_clock_before_its_loop_notices() -> None:
    lease = await take(Network())
    await until(2.0)
    virtual_loop().now += 12.0
    assert lease.lost is None, "no callback has run"
    assert lease.overdue()
    assert not lease.alive()
    await lease.stop()


@virtual
async def test_a_machine_that_slept_does_not_renew_a_lease_that_is_past_its_deadline() -> None:
    network = Network()
    lease = await take(network)
    await until(2.0)
    virtual_loop().now += 60.0
    await asyncio.sleep(5.0)
    assert lease.lost == "expired"
    assert network.sent("renew") == []
    await lease.stop()


@virtual
async def test_a_short_sleep_of_the_machine_is_survived() -> None:
    network = Network()
    lease = await take(network)
    await until(7.0)
    virtual_loop().now += 6.5
    await asyncio.sleep(0.1)
    assert lease.alive()
    assert lease.deadline == pytest.approx(13.5 + 14.0)
    await lease.stop()


@virtual
async def test_a_good_lease_lives_for_hours_at_one_renewal_each_half_period() -> None:
    network = Network()
    lease = await take(network)
    await until(3600.0)
    assert lease.alive()
    assert len(network.sent("renew")) == pytest.approx(3600 / 7.5, abs=2)
    assert set(network.service.leased()) == {NAME}
    await lease.stop()


@virtual
async def test_the_service_never_ends_a_lease_that_its_owner_believes_in() -> None:
    """Slow and lost requests of all kinds: at each instant, believed in means leased at the service (B4)."""
    network = Network()
    lease = await take(network)
    fates = [Fate(up=up, down=down) for up in (0.0, 1.0, 2.4, math.inf) for down in (0.0, 2.4, math.inf)]
    network.plan("renew", *fates)
    while not lease.lost and now() < 300:
        assert network.service.leased() == {NAME: MINE}
        await asyncio.sleep(0.05)
    await lease.stop()


@virtual
async def test_an_acquire_that_is_answered_past_its_own_deadline_is_dead_from_the_start() -> None:
    network = Network()
    await network.service.create(NAME)
    sent = now()
    await network.acquire(NAME, MINE, 15)
    virtual_loop().now += 20.0
    lease = Lease(network, NAME, MINE, sent=sent, period=15.0)
    assert not lease.alive()
    await asyncio.sleep(0.001)
    assert lease.lost == "expired"
    await lease.stop()

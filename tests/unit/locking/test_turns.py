"""The requests that keep many leases take turns: the nearest deadline first, and none behind one that hangs."""

from __future__ import annotations

import asyncio
import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from singleton.locking.lease import Lease
from singleton.locking.turns import FEWEST, PATIENCE, PLACES, Turns
from tests.support.network import FINE, LOST_REQUEST, Fate, Network, Request
from tests.support.world import foreign_id, now, pending_timers, until, virtual, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from contextvars import Context


async def taken(
    network: Network, number: int, turns: Turns, *, sent: float | None = None, period: float = 15.0
) -> Lease:
    name = f"locks/{number}"
    await network.service.create(name)
    await network.service.acquire(name, foreign_id(number), round(period))
    sent = now() if sent is None else sent
    return Lease(network, name, foreign_id(number), sent=sent, period=period, turns=turns)


async def stop(leases: list[Lease]) -> None:
    for lease in leases:
        await lease.stop()


@dataclass(frozen=True)
class Touching:
    """Touches a lease by calling this."""

    lease: Lease
    ask: Callable[[], Coroutine[Any, Any, float]]
    task_name = "touch"

    @property
    def context(self) -> Context:
        return self.lease.context

    def limit(self, now: float) -> float:
        del now
        return math.inf

    def arm(self) -> None:
        self.lease.arm()


class Busy(Network):
    """Notes how many requests are under way."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = self.most = 0

    async def renew(self, name: str, lease_id: str) -> str:
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            return await super().renew(name, lease_id)
        finally:
            self.under_way -= 1


@virtual
async def test_some_of_those_that_are_due_at_once_are_renewed_at_a_time_and_soon_all() -> None:
    network, turns = Busy(), Turns()
    leases = [await taken(network, number, turns) for number in range(1000)]
    network.always("renew", Fate(up=0.02, down=0.02))
    await until(8.5)
    assert network.most == PLACES
    assert len(network.sent("renew")) == len(leases)
    await until(60.0)
    assert all(lease.alive() for lease in leases)
    await stop(leases)


@virtual
async def test_where_answers_come_at_once_few_are_under_way_at_a_time() -> None:
    network, turns = Busy(), Turns()
    leases = [await taken(network, number, turns) for number in range(1000)]
    network.always("renew", Fate(up=0.004, down=0.004))
    await until(8.0)
    assert network.most == FEWEST
    assert len(network.sent("renew")) == len(leases)
    await stop(leases)


@virtual
async def test_who_has_the_nearest_deadline_goes_first() -> None:
    network, turns = Network(), Turns()
    mixed = [(number * 7919) % 1000 for number in range(1000)]
    leases = [await taken(network, number, turns, sent=number / 1000) for number in mixed]
    virtual_loop().now += 10.0  # the process stood still: all are due
    await asyncio.sleep(2.0)
    assert [each.name for each in network.sent("renew")] == [f"locks/{number}" for number in range(1000)]
    await stop(leases)


@virtual
async def test_who_has_the_nearest_deadline_goes_before_who_was_due_sooner() -> None:
    network, turns = Network(), Turns()
    leases = []
    for number in range(4 * PLACES):  # the long ones are due since five seconds, and have eight left
        long = number % 2 == 0
        leases.append(await taken(network, number, turns, sent=-20.0 if long else -10.0, period=30.0 if long else 15.0))
    await asyncio.sleep(2.0)
    sent = [int(each.name.partition("/")[2]) % 2 for each in network.sent("renew")]
    assert sent == [1] * 2 * PLACES + [0] * 2 * PLACES
    await stop(leases)


@virtual
async def test_of_two_who_are_due_at_one_time_the_nearer_deadline_goes_first() -> None:
    network, turns = Network(), Turns()
    far = await taken(network, 30, turns, sent=-7.5, period=30.0)
    near = await taken(network, 15, turns, sent=0.0, period=15.0)
    await until(8.0)
    assert [each.name for each in network.sent("renew")] == [near.name, far.name]
    await stop([near, far])


@virtual
async def test_after_slow_answers_there_are_few_places_again_and_only_leases_on_the_wheel() -> None:
    network, turns = Busy(), Turns()
    leases = [await taken(network, number, turns) for number in range(1000)]
    network.always("renew", Fate(up=0.02, down=0.02))
    await until(8.5)
    assert network.most == PLACES
    assert len(turns.wheel) == len(leases)
    network.always("renew", Fate(up=0.004, down=0.004))
    network.most = 0
    await until(30.0)
    assert network.most == FEWEST
    await stop(leases)


@virtual
async def test_a_touch_goes_before_renewals_by_the_deadline_of_its_own() -> None:
    network, turns = Network(), Turns()
    network.always("renew", Fate(up=0.15, down=0.15))
    others = [await taken(network, number, turns) for number in range(2000)]
    lease = await taken(network, 9999, turns, period=60.0)
    good, touches = 1.8, []

    async def touch() -> float:
        touches.append(now())
        lease.touched(now(), good)
        return now() + 0.6

    lease.touched(now(), good)
    lease.accompany(Touching(lease, touch), now() + 0.6)
    await until(30.0)
    assert lease.lost is None
    assert max(later - earlier for earlier, later in itertools.pairwise(touches)) < 1.0
    assert all(other.alive() for other in others)
    await stop([*others, lease])


@virtual
async def test_who_waits_for_the_turn_of_a_touch_is_told_at_its_deadline() -> None:
    network, turns = Network(), Turns()
    lease = await taken(network, 1, turns)
    told: list[float] = []
    lease.watch(lambda _: told.append(now()))

    async def touch() -> float:
        await asyncio.sleep(60.0)
        return now()

    lease.touched(now(), 1.8)
    lease.accompany(Touching(lease, touch), now() + 0.6)
    await until(5.0)
    assert told == [pytest.approx(1.8)]
    await lease.stop()


@virtual
async def test_a_renewal_that_has_waited_counts_from_when_it_was_sent() -> None:
    network, turns = Network(), Turns()
    leases = [await taken(network, number, turns) for number in range(3 * PLACES)]
    network.always("renew", Fate(up=0.03, down=0.03))
    await until(8.0)
    sent = {each.name: each.sent for each in network.sent("renew")}
    assert {lease.name: lease.deadline for lease in leases} == pytest.approx(
        {name: when + 14.0 for name, when in sent.items()}
    )
    times = [7.5 + 0.06 * turn + 0.01 * step for turn in range(3) for step in range(4)]  # more and more at a time
    assert sorted(set(sent.values())) == pytest.approx(times)
    await stop(leases)


@virtual
async def test_who_hangs_holds_up_the_others_for_a_moment_only() -> None:
    network, turns = Network(), Turns()
    hanging = [await taken(network, number, turns) for number in range(2 * PLACES)]
    await asyncio.sleep(0.01)
    late = await taken(network, 9999, turns)

    def decide(request: Request) -> Fate:
        return FINE if request.name == late.name else LOST_REQUEST

    network.decide = decide
    await until(10.0)
    (sent,) = [each.sent for each in network.sent("renew") if each.name == late.name]
    assert sent == pytest.approx(late.began + 7.5 + 2 * PATIENCE, abs=0.02)
    await stop([*hanging, late])


@virtual
async def test_a_renewal_that_waited_for_its_turn_and_hangs_is_cut_off_and_tried_again() -> None:
    network, turns = Network(), Turns()
    leases = [await taken(network, number, turns) for number in range(PLACES)]
    network.always("renew", LOST_REQUEST)
    await until(9.0)
    network.heal()
    await until(13.5)  # each has had its second try well before its deadline
    assert all(lease.lost is None and lease.deadline > 20.0 for lease in leases)
    await stop(leases)


@virtual
async def test_a_renewal_is_asked_for_while_a_touch_is_due() -> None:
    network, turns = Network(), Turns()
    lease = await taken(network, 1, turns)

    async def touch() -> float:
        lease.touched(now(), 1.8)
        return now() + 0.5  # one falls on each renewal

    lease.touched(now(), 1.8)
    lease.accompany(Touching(lease, touch), now() + 0.5)
    await until(8.0)
    (renewed,) = network.sent("renew")
    assert renewed.sent == pytest.approx(lease.began + 7.5)
    await lease.stop()


@virtual
async def test_those_who_are_due_one_after_the_other_have_no_more_places_than_there_are() -> None:
    network, turns = Busy(), Turns()
    leases = []
    for number in range(4 * FEWEST):
        leases.append(await taken(network, number, turns))
        await asyncio.sleep(0.00001)
    network.always("renew", Fate(up=0.004, down=0.004))
    await until(9.0)
    assert network.most == FEWEST
    assert turns._places == {}
    await stop(leases)


@virtual
async def test_a_service_that_answers_slowly_loses_no_lease() -> None:
    """A second for each answer, and more leases than there are places."""
    network, turns = Network(), Turns()
    network.always("renew", Fate(up=0.5, down=0.5))
    leases = []
    for number in range(2000):
        leases.append(await taken(network, number, turns))
        await asyncio.sleep(0.001)
    await until(60.0)
    assert all(lease.alive() for lease in leases)
    await stop(leases)


@virtual
async def test_a_loop_that_is_late_has_fewer_requests_under_way_until_it_is_in_time_again() -> None:
    """More would make it later: none would be answered in time."""
    network, turns = Busy(), Turns()
    leases = [await taken(network, number, turns) for number in range(1000)]
    virtual_loop().now += 10.0
    await asyncio.sleep(0.001)
    assert network.under_way == FEWEST
    await until(60.0)
    assert all(lease.alive() for lease in leases)
    network.most = 0
    await until(80.0)
    assert network.most > FEWEST
    await stop(leases)


@virtual
async def test_who_was_stopped_while_it_waited_makes_no_request() -> None:
    network, turns = Network(), Turns()
    network.always("renew", LOST_REQUEST)
    leases = [await taken(network, number, turns) for number in range(PLACES + 10)]
    await until(7.5)
    await asyncio.sleep(0.01)
    waiting = leases[PLACES:]
    await stop(waiting)
    await until(8.5)
    assert not {lease.name for lease in waiting} & {each.name for each in network.requests}
    await stop(leases)


@virtual
async def test_nothing_is_left_when_all_have_ended() -> None:
    network, turns = Network(), Turns()
    network.always("renew", LOST_REQUEST)
    leases = [await taken(network, number, turns) for number in range(2 * PLACES)]
    await until(7.55)
    await stop(leases)
    await asyncio.sleep(PATIENCE)
    assert len(turns.wheel) == 0
    assert turns._places == {}
    assert turns._waiting == []
    assert pending_timers() == []
    assert [*virtual_loop().leftover_tasks()] == [asyncio.current_task()]

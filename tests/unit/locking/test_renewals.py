"""Many leases of one store: each is renewed, or lost, on time; no request holds up another lease for long."""

from __future__ import annotations

import asyncio
import itertools
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from singleton.locking.lease import Lease
from singleton.locking.renewals import AT_A_TIME, LATE, PATIENCE, Renewable, Renewals
from tests.support.network import FINE, LOST_REQUEST, Fate, Network, Request
from tests.support.world import foreign_id, now, pending_timers, until, virtual, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.base.kinds import LossReason


async def taken(
    network: Network, number: int, renewals: Renewals, *, sent: float | None = None, period: float = 15.0
) -> Lease:
    name = f"locks/{number}"
    await network.service.create(name)
    await network.service.acquire(name, foreign_id(number), round(period))
    sent = now() if sent is None else sent
    return Lease(network, name, foreign_id(number), sent=sent, period=period, renewals=renewals)


async def kept_by(network: Network, count: int, renewals: Renewals, *, apart: float = 0.0) -> list[Lease]:
    """Acquire so many leases one after the other, for one process."""
    made = []
    for number in range(count):
        name = f"locks/{number}"
        await network.service.create(name)
        await network.service.acquire(name, foreign_id(number), 15)
        made.append(Lease(network, name, foreign_id(number), sent=now(), period=15.0, renewals=renewals))
        if apart:
            await asyncio.sleep(apart)
    return made


async def stop(leases: list[Lease]) -> None:
    for lease in leases:
        await lease.stop()


class Touching(Renewable):
    """Touches a lease by calling this."""

    task_name = "touch"

    def __init__(self, lease: Lease, touch: Callable[[], Coroutine[Any, Any, float]], due: float) -> None:
        super().__init__(due, lease.context)
        self._lease, self._touch = lease, touch

    async def renew(self) -> float:
        return await self._touch()

    def set_timer(self) -> None:
        self._lease.set_timer()


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
    network, renewals = Busy(), Renewals()
    leases = [await taken(network, number, renewals) for number in range(1000)]
    network.always("renew", Fate(up=0.02, down=0.02))
    await until(8.5)
    assert network.most == AT_A_TIME
    assert len(network.sent("renew")) == len(leases)
    await until(60.0)
    assert all(lease.alive() for lease in leases)
    await stop(leases)


@virtual
async def test_who_has_the_nearest_deadline_goes_first() -> None:
    network, renewals = Network(), Renewals()
    mixed = [(number * 7919) % 1000 for number in range(1000)]
    leases = [await taken(network, number, renewals, sent=number / 1000) for number in mixed]
    virtual_loop().now += 10.0  # the process stood still: all are due
    await asyncio.sleep(2.0)
    assert [each.name for each in network.sent("renew")] == [f"locks/{number}" for number in range(1000)]
    await stop(leases)


@virtual
async def test_who_has_the_nearest_deadline_goes_before_who_was_due_sooner() -> None:
    network, renewals = Network(), Renewals()
    leases = []
    for number in range(4 * AT_A_TIME):  # the long ones are due since five seconds, and have eight left
        long = number % 2 == 0
        leases.append(
            await taken(network, number, renewals, sent=-20.0 if long else -10.0, period=30.0 if long else 15.0)
        )
    await asyncio.sleep(2.0)
    sent = [int(each.name.partition("/")[2]) % 2 for each in network.sent("renew")]
    assert sent == [1] * 2 * AT_A_TIME + [0] * 2 * AT_A_TIME
    await stop(leases)


@virtual
async def test_of_two_who_are_due_at_one_time_the_nearer_deadline_goes_first() -> None:
    network, renewals = Network(), Renewals()
    far = await taken(network, 30, renewals, sent=-7.5, period=30.0)
    near = await taken(network, 15, renewals, sent=0.0, period=15.0)
    await until(8.0)
    assert [each.name for each in network.sent("renew")] == [near.name, far.name]
    await stop([near, far])


@virtual
async def test_a_touch_goes_before_renewals_by_the_deadline_of_its_own() -> None:
    network, renewals = Network(), Renewals()
    network.always("renew", Fate(up=0.15, down=0.15))
    others = [await taken(network, number, renewals) for number in range(2000)]
    lease = await taken(network, 9999, renewals, period=60.0)
    good, touches = 1.8, []

    async def touch() -> float:
        touches.append(now())
        lease.touched(now(), good)
        return now() + 0.6

    lease.touched(now(), good)
    lease.add_touches(Touching(lease, touch, now() + 0.6))
    await until(30.0)
    assert lease.lost is None
    assert max(later - earlier for earlier, later in itertools.pairwise(touches)) < 1.0
    assert all(other.alive() for other in others)
    await stop([*others, lease])


@virtual
async def test_who_waits_for_the_turn_of_a_touch_is_told_at_its_deadline() -> None:
    network, renewals = Network(), Renewals()
    lease = await taken(network, 1, renewals)
    told: list[float] = []
    lease.when_lost = lambda _: told.append(now())

    async def touch() -> float:
        await asyncio.sleep(60.0)
        return now()

    lease.touched(now(), 1.8)
    lease.add_touches(Touching(lease, touch, now() + 0.6))
    await until(5.0)
    assert told == [pytest.approx(1.8)]
    await lease.stop()


@virtual
async def test_a_renewal_that_has_waited_counts_from_when_it_was_sent() -> None:
    network, renewals = Network(), Renewals()
    leases = [await taken(network, number, renewals) for number in range(3 * AT_A_TIME)]
    network.always("renew", Fate(up=0.03, down=0.03))
    await until(8.0)
    sent = {each.name: each.sent for each in network.sent("renew")}
    assert {lease.name: lease.deadline for lease in leases} == pytest.approx(
        {name: when + 14.0 for name, when in sent.items()}
    )
    assert sorted(set(sent.values())) == pytest.approx([7.5, 7.56, 7.62])
    await stop(leases)


@virtual
async def test_who_hangs_holds_up_the_others_for_a_moment_only() -> None:
    network, renewals = Network(), Renewals()
    hanging = [await taken(network, number, renewals) for number in range(2 * AT_A_TIME)]
    await asyncio.sleep(0.01)
    late = await taken(network, 9999, renewals)

    def decide(request: Request) -> Fate:
        return FINE if request.name == late.name else LOST_REQUEST

    network.decide = decide
    await until(10.0)
    (sent,) = [each.sent for each in network.sent("renew") if each.name == late.name]
    assert sent == pytest.approx(late.began + 7.5 + 2 * PATIENCE, abs=0.02)
    await stop([*hanging, late])


@virtual
async def test_a_renewal_that_waited_for_its_turn_and_hangs_is_cut_off_and_tried_again() -> None:
    network, renewals = Network(), Renewals()
    leases = [await taken(network, number, renewals) for number in range(AT_A_TIME)]
    network.always("renew", LOST_REQUEST)
    await until(9.0)
    network.heal()
    await until(13.5)  # each has had its second try well before its deadline
    assert all(lease.lost is None and lease.deadline > 20.0 for lease in leases)
    await stop(leases)


@virtual
async def test_a_renewal_is_asked_for_while_a_touch_is_due() -> None:
    network, renewals = Network(), Renewals()
    lease = await taken(network, 1, renewals)

    async def touch() -> float:
        lease.touched(now(), 1.8)
        return now() + 0.5  # one falls on each renewal

    lease.touched(now(), 1.8)
    lease.add_touches(Touching(lease, touch, now() + 0.5))
    await until(8.0)
    (renewed,) = network.sent("renew")
    assert renewed.sent == pytest.approx(lease.began + 7.5)
    await lease.stop()


@virtual
async def test_those_who_are_due_one_after_the_other_have_no_more_places_than_there_are() -> None:
    network, renewals = Busy(), Renewals()
    leases = []
    for number in range(4 * AT_A_TIME):
        leases.append(await taken(network, number, renewals))
        await asyncio.sleep(0.00001)
    network.always("renew", Fate(up=0.004, down=0.004))
    await until(9.0)
    assert network.most == AT_A_TIME
    assert renewals._under_way == {}
    await stop(leases)


@virtual
async def test_a_service_that_answers_slowly_loses_no_lease() -> None:
    """A second for each answer, and more leases than there are places."""
    network, renewals = Network(), Renewals()
    network.always("renew", Fate(up=0.5, down=0.5))
    leases = []
    for number in range(2000):
        leases.append(await taken(network, number, renewals))
        await asyncio.sleep(0.001)
    await until(60.0)
    assert all(lease.alive() for lease in leases)
    await stop(leases)


@virtual
async def test_who_was_stopped_while_it_waited_makes_no_request() -> None:
    network, renewals = Network(), Renewals()
    network.always("renew", LOST_REQUEST)
    leases = [await taken(network, number, renewals) for number in range(AT_A_TIME + 10)]
    await until(7.5)
    await asyncio.sleep(0.01)
    waiting = leases[AT_A_TIME:]
    await stop(waiting)
    await until(8.5)
    assert not {lease.name for lease in waiting} & {each.name for each in network.requests}
    await stop(leases)


@virtual
async def test_nothing_is_left_when_all_have_ended() -> None:
    network, renewals = Network(), Renewals()
    network.always("renew", LOST_REQUEST)
    leases = [await taken(network, number, renewals) for number in range(2 * AT_A_TIME)]
    await until(7.55)
    await stop(leases)
    await asyncio.sleep(PATIENCE)
    assert renewals._under_way == {}
    assert renewals._queue == []
    assert pending_timers() == []
    assert [*virtual_loop().leftover_tasks()] == [asyncio.current_task()]


@virtual
async def test_a_lease_that_is_renewed_has_the_loop_wake_up_for_its_next_renewal_and_not_before() -> None:
    (lease,) = await kept_by(Network(), 1, Renewals())
    await until(8.0)
    assert pending_timers() == [pytest.approx(lease.deadline - 14.0 + 7.5)]
    await lease.stop()


@virtual
async def test_many_leases_that_idle_have_a_timer_each_and_no_task() -> None:
    network = Network()
    kept = await kept_by(network, 1000, Renewals(), apart=0.001)
    for when in (5.0, 12.0, 20.0, 28.0):
        await until(when)
        assert len(pending_timers()) == len(kept)
        assert [*virtual_loop().leftover_tasks()] == [asyncio.current_task()]
    assert all(lease.alive() for lease in kept)
    for lease in kept:
        await lease.stop()
    await until(37.0)  # the last one is never renewed again
    assert pending_timers() == []


@virtual
async def test_each_of_many_is_renewed_at_half_its_period() -> None:
    network = Network()
    kept = await kept_by(network, 300, Renewals(), apart=0.01)
    began = {lease.name: lease.began for lease in kept}
    await until(40.0)
    for lease in kept:
        sent = [each.sent for each in network.sent("renew") if each.name == lease.name]
        assert [each - before for before, each in itertools.pairwise([began[lease.name], *sent])] == pytest.approx(
            [7.5] * len(sent)
        )
        await lease.stop()


@virtual
async def test_each_of_many_is_lost_at_its_deadline_while_their_requests_hang_and_wait() -> None:
    network = Network()
    network.always("renew", LOST_REQUEST)
    kept = await kept_by(network, 3 * AT_A_TIME, Renewals(), apart=0.0001)
    lost: dict[str, float] = {}

    def note(name: str, _: LossReason) -> None:
        lost[name] = now()

    for lease in kept:
        lease.when_lost = partial(note, lease.name)
    await until(20.0)
    assert lost == {lease.name: lease.deadline for lease in kept}
    assert [lost[lease.name] - lease.began for lease in kept] == pytest.approx([14.0] * len(kept))
    for lease in kept:
        await lease.stop()


@virtual
async def test_a_lease_that_was_stopped_leaves_no_timer_and_the_others_alone() -> None:
    network = Network()
    stopped, kept, lost = await kept_by(network, 3, Renewals())
    await until(1.0)
    await stopped.stop()
    lost.lose("stolen")
    assert len(pending_timers()) == 1
    await until(30.0)
    assert kept.alive()
    assert {each.name for each in network.sent("renew")} == {kept.name}
    await kept.stop()
    await lost.stop()
    assert pending_timers() == []
    await until(37.6)
    assert pending_timers() == []
    assert not [each for each in network.sent("renew") if each.sent > 30.0]


@virtual
async def test_while_storage_answers_nobody_each_of_many_gets_its_tries_in_time() -> None:
    network, renewals = Network(), Renewals()
    network.always("renew", LOST_REQUEST)
    kept = await kept_by(network, 12 * AT_A_TIME, renewals)
    await until(7.5 + 11 * PATIENCE + 0.01)
    assert all(lease.lost is None for lease in kept)
    assert {each.name for each in network.sent("renew")} == {lease.name for lease in kept}
    await stop(kept)


@virtual
async def test_a_loop_that_is_late_waits_once_before_it_sends_more() -> None:
    """The answers may have come: more requests would make it later, until none is answered in time."""
    network, renewals = Network(), Renewals()
    network.always("renew", LOST_REQUEST)
    kept = await kept_by(network, 3 * AT_A_TIME, renewals)
    await until(7.5 + PATIENCE / 2)
    assert len(network.requests) == AT_A_TIME
    virtual_loop().now += PATIENCE / 2 + 1.1 * LATE  # the loop stands still past the end of the patience
    await until(7.5 + 2 * PATIENCE + LATE)
    assert len(network.requests) == AT_A_TIME
    await until(7.5 + 2 * PATIENCE + 1.2 * LATE)
    assert len(network.requests) == 2 * AT_A_TIME
    await stop(kept)


@virtual
async def test_a_loop_that_is_late_again_and_again_goes_on_sending() -> None:
    network, renewals = Network(), Renewals()
    network.always("renew", LOST_REQUEST)
    kept = await kept_by(network, 3 * AT_A_TIME, renewals)
    await until(7.5 + PATIENCE / 2)
    for _ in range(2):
        virtual_loop().now += PATIENCE + 1.1 * LATE  # the loop stands still past the end of the patience
        await asyncio.sleep(0.001)
    assert len(network.requests) == 2 * AT_A_TIME
    await stop(kept)


@virtual
async def test_a_lease_whose_deadline_passed_in_a_stall_is_lost_and_no_request_is_sent_for_it() -> None:
    network, renewals = Network(), Renewals()
    early, late = await kept_by(network, 2, renewals, apart=3.0)
    virtual_loop().now = 14.5  # the loop stands still until then
    await until(15.0)
    assert (early.lost, late.lost) == ("expired", None)
    assert [each.name for each in network.sent("renew")] == [late.name]
    await stop([early, late])


def test_a_watcher_that_raises_keeps_no_other_lease_from_being_renewed_or_lost() -> None:
    errors: list[str] = []

    def fail(_: LossReason) -> None:
        raise ValueError("what?")

    @virtual
    async def world() -> None:
        network = Network()
        kept = await kept_by(network, 3, Renewals())
        network.decide = lambda request: FINE if request.name == kept[2].name else LOST_REQUEST
        kept[0].when_lost = fail
        await until(20.0)
        assert [lease.lost for lease in kept] == ["expired", "expired", None]
        await stop(kept)
        errors.extend(str(each["exception"]) for each in virtual_loop().errors)
        virtual_loop().errors.clear()

    world()
    assert errors == ["what?"]

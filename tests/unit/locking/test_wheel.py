"""One timer for all leases of a store: each is looked at on time, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from singleton.locking.lease import Lease
from singleton.locking.turns import PLACES, Turns
from singleton.locking.wheel import Patience, Wheel
from tests.support.network import LOST_REQUEST, Network
from tests.support.world import foreign_id, now, pending_timers, until, virtual, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.kinds import LossReason


class Looked:
    """Something that a wheel looks at: it notes when, and asks to be looked at again at the times given."""

    def __init__(self, *again: float, do: Callable[[], None] = lambda: None) -> None:
        self.ticket = 0
        self.at: list[float] = []
        self._again = [*again]
        self._do = do

    def look(self, time: float) -> float:
        self.at.append(time)
        self._do()
        return self._again.pop(0) if self._again else math.inf


def a_wheel() -> Wheel:
    return Wheel(lambda _: None)


async def leases(network: Network, count: int, turns: Turns, *, apart: float = 0.0) -> list[Lease]:
    """Acquire so many leases one after the other, for one process."""
    made = []
    for number in range(count):
        name = f"locks/{number}"
        await network.service.create(name)
        await network.service.acquire(name, foreign_id(number), 15)
        made.append(Lease(network, name, foreign_id(number), sent=now(), period=15.0, turns=turns))
        if apart:
            await asyncio.sleep(apart)
    return made


# --- the wheel itself -------------------------------------------------------------------------------------------------


@virtual
async def test_it_looks_when_it_was_told_to_and_when_it_was_asked_to_again() -> None:
    wheel, what = a_wheel(), Looked(5.0, 5.5)
    wheel.look_at(what, 2.0)
    await until(10.0)
    assert what.at == [2.0, 5.0, 5.5]
    assert len(wheel) == 0
    assert pending_timers() == []


@virtual
async def test_the_time_named_last_is_the_one_that_counts() -> None:
    wheel, later, sooner, gone = a_wheel(), Looked(), Looked(), Looked()
    for what, when in ((later, 1.0), (later, 4.0), (sooner, 9.0), (sooner, 2.0), (gone, 3.0)):
        wheel.look_at(what, when)
    wheel.forget(gone)
    await until(10.0)
    assert (later.at, sooner.at, gone.at) == ([4.0], [2.0], [])


@virtual
async def test_an_earlier_time_is_kept_beside_later_ones() -> None:
    wheel = a_wheel()
    all_of_them = [Looked() for _ in range(50)]
    for number, what in enumerate(all_of_them):
        wheel.look_at(what, 100.0 - number)
    assert len(pending_timers()) == 1
    await until(200.0)
    assert [what.at for what in all_of_them] == [[100.0 - number] for number in range(50)]


@virtual
async def test_what_the_timer_was_set_for_takes_it_along_to_a_later_time_but_not_past_others() -> None:
    wheel, first, second = a_wheel(), Looked(), Looked()
    wheel.look_at(first, 1.0)
    wheel.look_at(second, 3.0)
    wheel.look_at(first, 5.0)
    assert pending_timers() == [3.0]
    wheel.look_at(second, 6.0)
    assert pending_timers() == [5.0]
    await until(10.0)
    assert (first.at, second.at) == ([5.0], [6.0])


@virtual
async def test_what_is_never_to_be_looked_at_keeps_no_timer_and_the_others_have_theirs() -> None:
    wheel, never, other = a_wheel(), Looked(), Looked()
    wheel.look_at(never, 1.0)
    wheel.look_at(never, math.inf)
    wheel.look_at(other, 2.0)
    await until(10.0)
    assert pending_timers() == []
    assert (never.at, other.at) == ([], [2.0])


@virtual
async def test_after_a_stall_it_is_late_no_more_also_while_nobody_is_left_to_look_at() -> None:
    wheel = a_wheel()
    wheel.look_at(Looked(), 1.0)
    virtual_loop().now += 15.0
    await asyncio.sleep(0.001)
    assert wheel.late == pytest.approx(14.0)
    for _ in range(30):
        what = Looked()
        wheel.look_at(what, now() + 5.0)
        wheel.forget(what)
        await asyncio.sleep(10.0)
    assert wheel.late < 0.001


@virtual
async def test_an_hour_after_a_stall_in_which_nothing_was_looked_at_it_is_late_no_more() -> None:
    wheel = a_wheel()
    wheel.look_at(Looked(), 1.0)
    virtual_loop().now += 15.0
    await asyncio.sleep(0.001)
    await asyncio.sleep(3600.0)
    wheel.look_at(Looked(), now() + 1.0)
    await asyncio.sleep(2.0)
    assert wheel.late < 0.001


@virtual
async def test_each_turn_forgets_half_of_how_late_it_was() -> None:
    wheel = a_wheel()
    wheel.look_at(Looked(), 1.0)
    virtual_loop().now += 15.0
    await asyncio.sleep(0.001)
    for left in (7.0, 3.5, 1.75):
        wheel.look_at(Looked(), now() + 0.001)
        await asyncio.sleep(0.002)
        assert wheel.late == pytest.approx(left, rel=0.02)


@virtual
async def test_those_for_one_time_are_looked_at_in_the_order_in_which_they_came() -> None:
    wheel = a_wheel()
    order: list[int] = []
    for number in range(20):
        wheel.look_at(Looked(do=partial(order.append, number)), 1.0)
    await until(2.0)
    assert order == [*range(20)]


def test_what_raises_keeps_nobody_from_being_looked_at() -> None:
    errors: list[str] = []

    def fail() -> None:
        raise ValueError("what?")

    @virtual
    async def world() -> None:
        wheel, others = a_wheel(), [Looked(7.0), Looked()]
        wheel.look_at(others[0], 1.0)
        wheel.look_at(Looked(do=fail), 1.0)
        wheel.look_at(others[1], 1.0)
        await until(10.0)
        assert [what.at for what in others] == [[1.0, 7.0], [1.0]]
        errors.extend(str(each["exception"]) for each in virtual_loop().errors)
        virtual_loop().errors.clear()

    world()
    assert errors == ["what?"]


@virtual
async def test_times_that_count_no_more_do_not_pile_up() -> None:
    wheel, what, another = a_wheel(), Looked(), Looked()
    wheel.look_at(another, 1.0)
    for number in range(10_000):
        wheel.look_at(what, 1000.0 + number)
    assert len(wheel._tickets) < 200
    wheel.forget(what)
    wheel.forget(another)
    assert wheel._tickets == []


# --- the leases on it -------------------------------------------------------------------------------------------------


@virtual
async def test_a_lease_that_is_renewed_has_the_loop_wake_up_for_its_next_renewal_and_not_before() -> None:
    (lease,) = await leases(Network(), 1, Turns())
    await until(8.0)
    assert pending_timers() == [pytest.approx(lease.deadline - 14.0 + 7.5)]
    await lease.stop()


@virtual
async def test_many_leases_that_idle_have_one_timer_and_no_task() -> None:
    turns, network = Turns(), Network()
    kept = await leases(network, 1000, turns, apart=0.001)
    for when in (5.0, 12.0, 20.0, 28.0):
        await until(when)
        assert len(pending_timers()) == 1
        assert [*virtual_loop().leftover_tasks()] == [asyncio.current_task()]
        assert len(turns.wheel) == len(kept)
    assert all(lease.alive() for lease in kept)
    for lease in kept:
        await lease.stop()
    await until(37.0)  # the last one is never renewed again
    assert pending_timers() == []


@virtual
async def test_each_of_many_is_renewed_at_half_its_period() -> None:
    network = Network()
    kept = await leases(network, 300, Turns(), apart=0.01)
    began = {lease.name: lease.began for lease in kept}
    await until(40.0)
    for lease in kept:
        sent = [each.sent for each in network.sent("renew") if each.name == lease.name]
        assert [each - before for before, each in pairwise([began[lease.name], *sent])] == pytest.approx(
            [7.5] * len(sent)
        )
        await lease.stop()


@virtual
async def test_each_of_many_is_lost_at_its_deadline_while_their_requests_hang_and_wait() -> None:
    network = Network()
    network.always("renew", LOST_REQUEST)
    kept = await leases(network, 3 * PLACES, Turns(), apart=0.0001)
    lost: dict[str, float] = {}

    def note(name: str, _: LossReason) -> None:
        lost[name] = now()

    for lease in kept:
        lease.watch(partial(note, lease.name))
    await until(20.0)
    assert lost == {lease.name: lease.deadline for lease in kept}
    assert [lost[lease.name] - lease.began for lease in kept] == pytest.approx([14.0] * len(kept))
    for lease in kept:
        await lease.stop()


@virtual
async def test_a_lease_that_was_stopped_leaves_nothing_on_the_wheel_and_the_others_alone() -> None:
    network, turns = Network(), Turns()
    stopped, kept, lost = await leases(network, 3, turns)
    await until(1.0)
    await stopped.stop()
    lost.lose("stolen")
    assert len(turns.wheel) == 1
    await until(30.0)
    assert kept.alive()
    assert {each.name for each in network.sent("renew")} == {kept.name}
    await kept.stop()
    await lost.stop()
    assert len(turns.wheel) == 0
    await until(37.6)
    assert pending_timers() == []
    assert not [each for each in network.sent("renew") if each.sent > 30.0]


# --- waits that end in time -------------------------------------------------------------------------------------------


@virtual
async def test_a_wait_ends_at_its_time_and_is_no_cancellation_of_its_task() -> None:
    with pytest.raises(TimeoutError), Patience(a_wheel(), 5.0):
        await asyncio.sleep(60.0)
    assert now() == 5.0
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


@virtual
async def test_a_wait_that_is_over_in_time_is_not_ended_later_and_has_no_timer_of_its_own() -> None:
    wheel, timers = a_wheel(), []
    for _ in range(20):
        with Patience(wheel, now() + 5.0):
            await asyncio.sleep(0.1)
        timers.append(len(pending_timers()))
    await asyncio.sleep(60.0)
    assert set(timers) == {1}
    assert pending_timers() == []


@pytest.mark.parametrize("after", [0.0, 5.0])
@virtual
async def test_a_cancellation_from_elsewhere_stays_one_even_at_the_same_time(after: float) -> None:
    async def wait() -> None:
        with Patience(a_wheel(), 5.0):
            await asyncio.sleep(60.0)

    waiting = asyncio.create_task(wait())
    await asyncio.sleep(after)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


@virtual
async def test_an_error_that_comes_of_the_end_of_a_wait_is_passed_on() -> None:
    async def wait() -> None:
        try:
            await asyncio.sleep(60.0)
        except asyncio.CancelledError:
            raise LookupError from None

    with pytest.raises(LookupError), Patience(a_wheel(), 5.0):
        await wait()
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()
    await asyncio.sleep(1.0)

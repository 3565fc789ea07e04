"""The seat of a lock: who may leave, while who waits. ``locking/seat.py`` has the claim that these tests try."""

from __future__ import annotations

import asyncio
import random

import pytest

from singleton.base.errors import StorageUnavailable
from singleton.locking.phase import Timing
from singleton.locking.seat import Seat, seat_name
from singleton.stores.stamps import WORD_KEY
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, answered
from tests.support.world import NAME, foreign_id, now, until, virtual

SEAT = seat_name(NAME)


def seat_on(network: Network, seed: int) -> Seat:
    """Make the seat as one host sees it."""
    return Seat(network, NAME, timing=Timing(), rng=random.Random(seed))


def two_hosts() -> tuple[Network, Seat, Network, Seat]:
    """Return two hosts in front of one service, each with a network of its own."""
    here = Network()
    there = Network(here.service)
    return here, seat_on(here, 1), there, seat_on(there, 2)


async def word(network: Network) -> str | None:
    """Return the word on the seat's blob."""
    return (await network.service.read(SEAT)).metadata.get(WORD_KEY)


@virtual
async def test_another_arrival_leaves_while_one_waits_and_not_after_its_body_may_begin() -> None:
    here, waiter, _, other = two_hosts()
    assert await waiter.take("first", again=False) is True
    assert await other.take("second", again=False) is False
    await waiter.begin()
    assert await word(here) == "begun"
    assert await other.take("third", again=False) is None
    await waiter.leave()
    assert here.service.leased() == {}
    assert await other.take("fourth", again=False) is True
    await other.leave()


@virtual
async def test_a_seat_takes_two_requests_to_learn_of_and_four_to_use_whoever_had_it_last() -> None:
    here, waiter, there, other = two_hosts()
    await waiter.take("makes the blob", again=False)
    await waiter.leave()
    for network, taker, beside, refused in ((there, other, here, waiter), (here, waiter, there, other)):
        network.requests.clear()
        await taker.take("waits", again=False)
        beside.requests.clear()
        await refused.take("leaves", again=False)
        assert beside.calls() == ["acquire", "read"]
        await taker.begin()
        await taker.leave()
        assert network.calls() == ["acquire", "write", "write", "release"]


@virtual
async def test_within_a_process_an_arrival_leaves_without_a_request_until_the_lock_is_granted() -> None:
    network = Network()
    seat = seat_on(network, 1)
    await seat.take("first", again=False)
    network.requests.clear()
    assert await seat.take("second", again=False) is False
    assert await seat.take("third", again=True) is None
    assert network.requests == []
    begins = asyncio.ensure_future(seat.begin())
    await asyncio.sleep(0)
    assert seat.waits is False
    assert await seat.take("fourth", again=False) is None
    await begins
    await seat.leave()


@virtual
async def test_a_repeated_delivery_does_not_leave_for_the_word_of_the_dead_waiter_that_it_was() -> None:
    _, waiter, _, other = two_hosts()
    await waiter.take("first", again=False)
    assert await other.take("again", again=True) is None


@virtual
async def test_a_lease_without_the_word_is_nobody_who_waits() -> None:
    here, waiter, _, other = two_hosts()
    await waiter.take("first", again=False)
    await waiter.begin()
    await waiter.leave()
    await here.service.acquire(SEAT, foreign_id(), 15)  # a late acquire of a host that has died
    assert await other.take("second", again=False) is None


@virtual
async def test_the_word_of_a_lease_that_has_ended_lets_nobody_leave() -> None:
    here, waiter, _, other = two_hosts()
    await waiter.take("first", again=False)
    here.fail_all(LOST_REQUEST)
    await until(30.0)
    assert await other.take("second", again=False) is True
    await other.leave()
    here.heal()
    await waiter.leave()


@virtual
async def test_begun_is_written_under_a_new_lease_if_the_old_one_has_expired() -> None:
    here, waiter, _, _ = two_hosts()
    await waiter.take("first", again=False)
    here.fail_all(LOST_REQUEST)
    await until(30.0)
    here.heal()
    assert await word(here) == "waiting"
    await waiter.begin()
    assert await word(here) == "begun"
    await waiter.leave()
    assert here.service.leased() == {}


@virtual
async def test_the_word_of_a_later_waiter_stands() -> None:
    here, waiter, _, other = two_hosts()
    await waiter.take("first", again=False)
    here.fail_all(LOST_REQUEST)
    await until(30.0)
    here.heal()
    assert await other.take("second", again=False) is True
    await waiter.begin()
    assert await word(here) == "waiting"
    await waiter.leave()
    await other.begin()
    assert await word(here) == "begun"
    await other.leave()


@virtual
async def test_a_body_does_not_begin_while_a_lease_without_a_stamp_keeps_the_old_word_on_the_seat() -> None:
    here, waiter, _, _ = two_hosts()
    await waiter.take("first", again=False)
    here.fail_all(LOST_REQUEST)
    await until(30.0)
    here.heal()
    await here.service.acquire(SEAT, foreign_id(), 60)
    with pytest.raises(StorageUnavailable, match="another lease is on it"):
        await waiter.begin()
    await waiter.leave()


@virtual
async def test_a_body_does_not_begin_without_the_answer_to_begun() -> None:
    here, waiter, _, _ = two_hosts()
    await waiter.take("first", again=False)
    here.always("write", LOST_REQUEST)
    began = now()
    with pytest.raises(StorageUnavailable):
        await waiter.begin()
    assert now() - began <= 5.0
    here.heal()
    await waiter.leave()


@virtual
async def test_a_lost_answer_to_begun_is_asked_again() -> None:
    here, waiter, _, _ = two_hosts()
    await waiter.take("first", again=False)
    here.plan("write", LOST_REPLY)
    await waiter.begin()
    assert await word(here) == "begun"
    await waiter.leave()
    assert here.service.leased() == {}


@pytest.mark.parametrize("call", ["acquire", "read"])
@virtual
async def test_trouble_is_no_word(call: str) -> None:
    _, waiter, there, other = two_hosts()
    await waiter.take("first", again=False)
    there.plan(call, *[answered(503)] * 3)
    with pytest.raises(StorageUnavailable):
        await other.take("second", again=False)
    await waiter.leave()


@virtual
async def test_a_blob_that_is_made_says_nothing_before_its_maker_has_the_lease() -> None:
    here = Network()
    seat = seat_on(here, 1)
    here.plan("acquire", answered(404, "BlobNotFound"), answered(409, "LeaseAlreadyPresent"))
    assert await seat.take("first", again=False) is None
    assert await word(here) is None


@virtual
async def test_a_retry_in_the_process_does_not_leave_for_a_lease_that_could_not_be_released() -> None:
    here, waiter, _, _ = two_hosts()
    await waiter.take("first", again=False)
    here.always("release", LOST_REQUEST)
    here.always("write", LOST_REQUEST)
    await waiter.leave()
    here.heal()
    assert await word(here) == "waiting"
    assert await waiter.take("retry", again=False) is None


@virtual
async def test_renewals_of_the_seat_keep_the_word() -> None:
    here, waiter, _, other = two_hosts()
    await waiter.take("first", again=False)
    here.requests.clear()
    await until(100.0)
    assert set(here.calls()) == {"renew"}
    assert await other.take("second", again=False) is False
    await waiter.begin()
    await waiter.leave()
    assert here.service.leased() == {}


@virtual
async def test_a_caller_who_goes_away_while_it_asks_leaves_no_lease() -> None:
    here, waiter, _, _ = two_hosts()
    asking = asyncio.ensure_future(waiter.take("first", again=False))
    await asyncio.sleep(0.045)
    asking.cancel()
    await asyncio.wait({asking})
    await waiter.leave()
    await asyncio.sleep(1.0)
    assert here.service.leased() == {}


@virtual
async def test_a_closing_waits_five_seconds_for_a_request_for_the_seat_and_leaves_no_lease() -> None:
    here, waiter, _, _ = two_hosts()
    for call in ("acquire", "create", "write"):
        here.always(call, Fate(up=2.0, down=2.0))
    asking = asyncio.ensure_future(waiter.take("first", again=False))
    await asyncio.sleep(1.0)
    began = now()
    await waiter.aclose()
    assert now() - began < 6.0
    with pytest.raises(StorageUnavailable):
        await asking
    assert here.service.leased() == {}

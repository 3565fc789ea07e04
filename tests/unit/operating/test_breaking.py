"""An operator takes a lock away: who had it stops before anybody else gets in, or it is said for how long not."""

from __future__ import annotations

import asyncio
import math

import pytest

from singleton.base.errors import ConfigurationError, StorageDenied
from singleton.locking.lock import release
from singleton.operating.breaking import Broken, break_hold
from singleton.stores.memory import MemoryLeaseStore
from tests.support.network import LOST_REPLY, LOST_REQUEST, Network, answered
from tests.support.world import NAME, held, lock_on, now, virtual

FOREIGN = "99999999-9999-4999-8999-999999999999"


@virtual
async def test_by_default_the_rest_of_the_lease_runs_out_and_its_holder_stops_before_anybody_gets_in() -> None:
    network = Network()
    hold = await lock_on(network).acquire(owner="me")
    lost: list[float] = []
    hold.lost.add_callback(lambda _: lost.append(now()))
    await asyncio.sleep(20)  # renewed twice: at 7.5 and 15
    broken = await break_hold(network, NAME)
    assert broken is not None
    assert (broken.lock, broken.holder.owner, broken.together) == (NAME, "me", 0)
    assert 9 <= broken.free_in <= 10
    waiting = asyncio.create_task(lock_on(network).acquire())
    other = await waiting
    assert lost
    assert lost[0] < now() <= 31
    assert hold.lost.reason == "broken"
    assert (other.token or 0) > (hold.token or 0)
    await release(hold)
    await release(other)


@virtual
async def test_a_holder_that_cannot_be_reached_stops_before_anybody_gets_in_as_well() -> None:
    service = MemoryLeaseStore()
    network, mine = Network(service), Network(service)
    hold = await lock_on(mine).acquire()
    lost: list[float] = []
    hold.lost.add_callback(lambda _: lost.append(now()))
    mine.fail_all(LOST_REQUEST)
    await asyncio.sleep(3)
    assert await break_hold(network, NAME) is not None
    other = await lock_on(network).acquire()
    assert lost
    assert lost[0] < now()
    assert hold.lost.reason == "expired"
    await release(hold)
    await release(other)


@virtual
async def test_a_shorter_notice_says_for_how_long_two_may_be_inside() -> None:
    service = MemoryLeaseStore()
    network, mine = Network(service), Network(service)
    hold = await lock_on(mine).acquire()
    mine.fail_all(LOST_REQUEST)
    await asyncio.sleep(3)
    broken = await break_hold(network, NAME, 4)
    assert broken is not None
    assert broken.free_in == 4
    assert 7 <= broken.together <= 8
    other = await lock_on(network).acquire()
    entered = now()
    assert await hold.lost == "expired"
    assert 0 < now() - entered <= broken.together
    await release(hold)
    await release(other)


@virtual
async def test_a_notice_longer_than_the_lease_changes_nothing_and_zero_frees_at_once() -> None:
    network = Network()
    async with held(lock_on(network)):
        broken = await break_hold(network, NAME, 60)
        assert broken is not None
        assert (broken.free_in, broken.together) == (15, 0)
    async with held(lock_on(network)):
        broken = await break_hold(network, NAME, 0)
        assert broken is not None
        assert (broken.free_in, broken.together) == (0, 15)
        assert await break_hold(network, NAME, 0) is None, "nobody has it any more"


@virtual
@pytest.mark.parametrize(("notice", "free_in"), [(2, 2), (None, 4), (60, 4)])
async def test_of_a_lease_that_was_being_broken_already_the_most_is_said_that_its_holder_may_have_left(
    notice: float | None, free_in: float
) -> None:
    """A break leaves no mark: what was cut off by the one before can't be read."""
    service = MemoryLeaseStore()
    network, mine = Network(service), Network(service)
    hold = await lock_on(mine).acquire()
    mine.fail_all(LOST_REQUEST)
    first = await break_hold(network, NAME, 4)
    again = await break_hold(network, NAME, notice)
    assert first is not None
    assert again is not None
    assert (first.before, again.before) == (False, True)
    assert (again.free_in, again.together) == (free_in, 60 - free_in)
    other = await lock_on(network).acquire()
    entered = now()
    assert await hold.lost == "expired"
    assert 0 < now() - entered <= again.together
    await release(hold)
    await release(other)


@virtual
async def test_nobody_is_broken_who_got_the_lock_after_it_was_looked_at() -> None:
    """The break names the ETag of the stamp that was read."""
    network = Network()
    first = await lock_on(network).acquire()
    arrive = network.service.shorten

    async def too_late(name: str, after: int | None, etag: str | None = None) -> int:
        await release_now.wait()
        return await arrive(name, after, etag)

    release_now = asyncio.Event()
    network.shorten = too_late  # type: ignore[method-assign]
    breaking = asyncio.create_task(break_hold(network, NAME))
    await asyncio.sleep(0.1)
    await release(first)
    second = await lock_on(network).acquire()
    release_now.set()
    assert await breaking is None
    await asyncio.sleep(60)
    second.raise_if_lost()
    await release(second)


@virtual
async def test_a_lease_without_end_is_not_broken_without_a_notice() -> None:
    network = Network()
    await network.service.create(NAME)
    await network.service.acquire(NAME, FOREIGN, -1)
    with pytest.raises(ConfigurationError, match=r"never ends by itself.*give the seconds of notice, or 0"):
        await break_hold(network, NAME)
    assert set(network.service.leased()) == {NAME}
    broken = await break_hold(network, NAME, 10)
    assert broken is not None
    assert (broken.free_in, broken.together) == (10, math.inf)


@virtual
async def test_a_lock_that_is_free_or_was_never_there_is_nobodys() -> None:
    network = Network()
    assert await break_hold(network, NAME) is None
    async with held(lock_on(network)):
        pass
    assert await break_hold(network, NAME) is None


@virtual
async def test_a_break_whose_answer_is_lost_is_asked_for_again() -> None:
    network = Network()
    async with held(lock_on(network)):
        network.plan("shorten", answered(503), LOST_REPLY)
        broken = await break_hold(network, NAME)
        assert isinstance(broken, Broken)
        assert 0 < broken.free_in < 15


@virtual
async def test_storage_that_denies_is_no_free_lock() -> None:
    network = Network()
    async with held(lock_on(network)):
        network.plan("shorten", answered(403, "AuthorizationPermissionMismatch"))
        with pytest.raises(StorageDenied, match="denies access"):
            await break_hold(network, NAME)

"""Two things at one instant, and what hardly ever happens: nothing of it may go wrong."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pytest

from singleton import LockClosed, LockNotAcquired, StorageDenied, StorageUnavailable
from singleton.locking.lock import release
from singleton.stores.protocol import StoreFailure
from tests.support.network import Fate, Network, answered
from tests.support.world import NAME, foreign_id, held, lock_on, now, occupy, settled, until, virtual, virtual_loop

if TYPE_CHECKING:
    from singleton.base.hold import Hold


@pytest.mark.parametrize("early", [-0.001, 0.0, 0.001])
@virtual
async def test_a_grant_in_the_instant_of_a_time_out_is_had_or_given_back(early: float) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network, fencing=False)
    network.plan("acquire", Fate(up=0.5, down=0.5 + early))
    asked = asyncio.create_task(lock.acquire(timeout=1.0))
    await asyncio.wait({asked})
    if (error := asked.exception()) is None:
        await release(asked.result())
    else:
        assert isinstance(error, LockNotAcquired | StorageUnavailable)
    await settled(network.service, lock)
    async with held(lock, timeout=1.0):
        pass
    await settled(network.service, lock)


@virtual
async def test_a_grant_in_the_instant_of_the_first_one_s_time_out_goes_to_the_second() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network, fencing=False)
    network.plan("acquire", Fate(up=0.5, down=0.5))
    first = asyncio.create_task(lock.acquire(timeout=1.0))
    await asyncio.sleep(0)
    second = asyncio.create_task(lock.acquire(timeout=10.0))
    await asyncio.wait({first})
    assert now() == 1.0
    hold = await second if isinstance(first.exception(), StorageUnavailable | LockNotAcquired) else first.result()
    await release(hold)
    if not second.done():
        await release(await second)
    await settled(network.service, lock)


@virtual
async def test_who_is_refused_in_the_instant_of_the_grant_is_passed_over_for_the_next() -> None:
    """The reply's timer is older than the alarm's: the lock sees a waiter who has been refused and not left yet."""
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network, fencing=False)
    network.plan("acquire", Fate(up=0.5, down=0.5))
    asked = asyncio.create_task(lock.acquire())
    await until(0.6)
    refused = asyncio.create_task(lock.acquire(timeout=0.4))
    await until(0.7)
    asked.cancel()
    third = asyncio.create_task(lock.acquire(timeout=20.0))
    await asyncio.wait({refused})
    assert now() == 1.0
    assert isinstance(refused.exception(), LockNotAcquired | StorageUnavailable)
    await release(await third)
    await settled(network.service, lock)


@virtual
async def test_who_is_told_twice_in_one_instant_hears_the_first_and_nothing_goes_wrong(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network, fencing=False)
    network.plan("acquire", Fate(up=0.5, down=0.5, failure=StoreFailure(403), executed=False))
    asked = asyncio.create_task(lock.acquire())
    await until(0.6)
    refused = asyncio.create_task(lock.acquire(timeout=0.4))
    await asyncio.wait({asked, refused})
    assert now() == 1.0
    assert isinstance(asked.exception(), StorageDenied)
    assert isinstance(refused.exception(), StorageDenied | StorageUnavailable | LockNotAcquired)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@virtual
async def test_a_lease_that_ended_while_the_machine_slept_is_not_handed_on() -> None:
    network = Network()
    lock = lock_on(network)
    first = await lock.acquire()
    second: asyncio.Task[Hold] = asyncio.create_task(lock.acquire())
    await until(1.0)
    virtual_loop().now += 14.5
    await release(first)
    hold = await second
    assert hold.lease_id != first.lease_id
    hold.raise_if_lost()
    await release(hold)
    await settled(network.service, lock)


@virtual
async def test_who_waits_when_the_lock_thread_is_torn_down_is_told() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire())
    await until(1.0)
    assert lock._server is not None
    lock._server.cancel()
    with pytest.raises(LockClosed):
        await waiting


@virtual
async def test_a_lock_that_is_closed_while_its_answer_is_on_its_way_leaves_no_lease() -> None:
    """The making of the blob has used up the time that closing waits; the lease is had by a request given up."""
    network = Network()
    lock = lock_on(network)
    network.plan("create", Fate(up=0.01, down=4.8))
    network.plan("acquire", Fate(), Fate(up=0.01, down=3.0))
    asked = asyncio.create_task(lock.acquire())
    await until(0.05)
    await lock.aclose()
    assert isinstance(asked.exception(), LockClosed)
    await until(7.0)
    assert [request.call for request in network.requests] == ["acquire", "create", "acquire", "release"]
    assert network.service.leased() == {}


@virtual
async def test_a_release_that_storage_refuses_for_a_while_is_asked_again_some_times_only() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock):
        network.always("release", answered(503))
    assert 4 <= len(network.sent("release")) <= 10
    network.heal()
    await until(30.0)
    assert network.service.leased() == {}


@virtual
async def test_a_lock_whose_blob_is_gone_is_given_back_with_one_request_and_without_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.service.delete(NAME)
    with caplog.at_level(logging.WARNING, "singleton"):
        await release(hold)
    assert len(network.sent("release")) == 1
    assert not caplog.records


@virtual
async def test_a_lease_that_went_to_somebody_else_is_left_alone() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await network.service.break_(NAME)
    await network.service.acquire(NAME, foreign_id(), 60)
    await until(8.0)
    assert hold.lost.reason == "stolen"
    await release(hold)
    assert network.service.leased() == {NAME: foreign_id()}
    assert network.sent("release") == []

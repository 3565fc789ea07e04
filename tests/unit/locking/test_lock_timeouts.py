"""Every wait ends when it should (guarantee 9), and its error says what is known."""

from __future__ import annotations

import asyncio

import pytest

from singleton.base.errors import LockNotAcquired, StorageUnavailable
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, answered
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
async def test_a_try_once_for_a_lock_that_is_taken_is_refused_after_one_request() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    with pytest.raises(LockNotAcquired) as caught:
        await lock.acquire(timeout=0, owner="me")
    assert now() < 0.1
    assert network.calls() == ["acquire"]
    assert caught.value.lock == NAME
    assert caught.value.owner == "me"


@virtual
async def test_a_try_once_for_a_lock_in_use_by_this_process_is_refused_without_a_request() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock):
        sent = len(network.requests)
        with pytest.raises(LockNotAcquired) as caught:
            await lock.acquire(timeout=0, owner="me")
        assert len(network.requests) == sent
        assert caught.value.owner == "me"
    assert now() < 1.0


@virtual
async def test_a_try_once_does_not_jump_the_queue() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = asyncio.create_task(section(lock))
    await asyncio.sleep(2.0)
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=0)
    assert now() == 2.0
    await network.service.release(NAME, foreign_id())
    await waiting


@virtual
async def test_a_try_once_rides_out_a_hiccup_of_the_storage() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("acquire", answered(500), LOST_REPLY, answered(503, retry_after=1.0))
    await section(lock, timeout=0)


@pytest.mark.parametrize("fate", [LOST_REQUEST, answered(503), answered()])
@virtual
async def test_a_try_once_on_dead_storage_ends_after_ten_seconds_and_says_so(fate: Fate) -> None:
    network = Network()
    network.fail_all(fate)
    lock = lock_on(network)
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=0)
    assert now() == pytest.approx(10.0)
    network.heal()
    await settled(network.service, lock)


@pytest.mark.parametrize("timeout", [0.001, 0.3, 0.5, 1.0, 3.0, 7.7, 50.0])
@virtual
async def test_a_time_out_is_exact_when_somebody_else_has_the_lock(timeout: float) -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    with pytest.raises((LockNotAcquired, StorageUnavailable)) as caught:
        await lock.acquire(timeout=timeout, owner="me")
    assert now() == pytest.approx(timeout)
    # Before the first answer there is no evidence that anybody has it.
    assert isinstance(caught.value, StorageUnavailable if timeout == 0.001 else LockNotAcquired)
    assert caught.value.owner == "me"
    await settled_but(network, lock)


async def settled_but(network: Network, lock: object) -> None:
    """The lease of the other one is still there, and none of ours."""
    await asyncio.sleep(10.0)
    assert set(network.service.leased().values()) <= {foreign_id()}


@pytest.mark.parametrize("timeout", [0.3, 1.0, 3.0, 5.0, 7.7, 50.0])
@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_REPLY, answered(500), answered(executed=True)])
@virtual
async def test_a_time_out_is_exact_when_the_storage_does_not_answer(timeout: float, fate: Fate) -> None:
    network = Network()
    await occupy(network.service)
    network.fail_all(fate)
    lock = lock_on(network)
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=timeout)
    assert now() == pytest.approx(timeout)
    network.heal()
    await settled_but(network, lock)


@virtual
async def test_a_time_out_is_exact_when_this_process_has_the_lock() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock):
        start = now()
        with pytest.raises(LockNotAcquired):
            await lock.acquire(timeout=3.0)
        assert now() - start == pytest.approx(3.0)


@pytest.mark.parametrize("timeout", [0.6, 2.0, 4.0, 9.0, 31.0])
@virtual
async def test_the_lock_is_asked_for_once_more_shortly_before_a_time_out(timeout: float) -> None:
    for seed in range(5):
        network = Network()
        await occupy(network.service)
        lock = lock_on(network, seed)
        start = now()
        waiting = asyncio.create_task(section(lock, timeout=timeout))
        await until(start + timeout - 0.51)
        await network.service.release(NAME, foreign_id())
        await waiting
        assert now() < start + timeout


@virtual
async def test_a_waiter_whose_time_is_up_does_not_hold_up_those_behind_it() -> None:
    network = Network()
    lock = lock_on(network)
    async with held(lock):
        impatient = asyncio.create_task(lock.acquire(timeout=1.0))
        patient = asyncio.create_task(section(lock))
        await asyncio.wait({impatient})
        assert isinstance(impatient.exception(), LockNotAcquired)
        assert not patient.done()
    start = now()
    await patient
    assert now() == pytest.approx(start, abs=0.1)


@virtual
async def test_who_became_first_in_line_is_asked_for_before_its_time_is_up() -> None:
    """The first one leaves in the middle of a long pause between polls; the next has but a moment left."""
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    first = asyncio.create_task(lock.acquire())
    await asyncio.sleep(20.0)
    sent = len(network.requests)
    await eventually(lambda: len(network.requests) > sent)
    await asyncio.sleep(0.1)
    await network.service.release(NAME, foreign_id())
    second = asyncio.create_task(section(lock, timeout=0.4))
    await asyncio.sleep(0.05)
    first.cancel()
    await second
    await asyncio.wait({first})


@virtual
async def test_a_try_once_right_after_a_waiter_left_is_answered_at_once() -> None:
    """It comes in the same turn of the loop in which the last waiter went; the poller sleeps a long pause."""
    for refuse in (True, False):
        network = Network()
        await occupy(network.service)
        lock = lock_on(network)
        start = now()
        before = asyncio.create_task(lock.acquire(timeout=20.0 if refuse else None))
        await until(start + 20.0)
        if not refuse:
            before.cancel()
        await asyncio.sleep(0)
        with pytest.raises(LockNotAcquired):
            await lock.acquire(timeout=0)
        assert now() - start < 20.2
        await asyncio.gather(before, return_exceptions=True)

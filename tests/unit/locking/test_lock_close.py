"""Closing a lock, at each of its states (guarantee 9)."""

from __future__ import annotations

import asyncio

import pytest

from singleton.base.errors import LockClosed
from singleton.locking.lock import release
from tests.support.network import LOST_REQUEST, Fate, Network, answered
from tests.support.world import NAME, foreign_id, held, lock_on, now, occupy, until, virtual


@virtual
async def test_a_closed_lock_refuses_and_can_be_closed_again() -> None:
    lock = lock_on(Network())
    await lock.aclose()
    for timeout in (None, 0, 5.0):
        with pytest.raises(LockClosed) as caught:
            await lock.acquire(timeout=timeout, owner="me")
        assert caught.value.lock == NAME
        assert caught.value.owner == "me"
    await lock.aclose()
    assert now() == 0.0


@pytest.mark.parametrize("moment", [0.0, 0.005, 0.01, 0.02, 0.03, 0.1, 1.0, 9.0, 27.0])
@virtual
async def test_closing_refuses_those_who_wait_at_once_and_leaves_nothing(moment: float) -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = [asyncio.create_task(lock.acquire(owner=f"{number}")) for number in range(3)]
    await asyncio.sleep(moment)
    closing = asyncio.create_task(lock.aclose())
    await asyncio.wait(waiting)
    assert now() == moment
    for number, one in enumerate(waiting):
        error = one.exception()
        assert isinstance(error, LockClosed)
        assert error.owner == f"{number}"
    await closing
    assert now() - moment < 0.1
    assert lock.idle
    assert network.service.leased() == {NAME: foreign_id()}


@pytest.mark.parametrize("moment", [step / 200 for step in range(28)])
@virtual
async def test_closing_at_any_moment_of_an_acquisition_leaves_no_lease(moment: float) -> None:
    network = Network()
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(moment)
    await lock.aclose()
    assert lock.idle
    assert waiting.done()
    if waiting.exception() is None:
        assert waiting.result().lost.reason == "closed"
        await release(waiting.result())
        await asyncio.sleep(15.0)
    else:
        assert isinstance(waiting.exception(), LockClosed)
    assert network.service.leased() == {}


@pytest.mark.parametrize("moment", [step / 4 for step in range(32)])
@virtual
async def test_closing_at_any_moment_of_a_slow_acquisition_leaves_no_lease(moment: float) -> None:
    network = Network()
    await network.service.create(NAME)
    network.fail_all(Fate(up=1.2, down=1.2))
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(moment)
    await lock.aclose()
    assert lock.idle
    if waiting.exception() is None:
        await release(waiting.result())
        await asyncio.sleep(15.0)
    await asyncio.sleep(1.2)  # the last request arrives
    assert network.service.leased() == {}


@pytest.mark.parametrize("call", ["acquire", "create", "read", "write"])
@pytest.mark.parametrize("fate", [LOST_REQUEST, Fate(up=2.0, down=2.0), answered(500)])
@virtual
async def test_closing_on_dead_storage_ends_in_bounded_time(call: str, fate: Fate) -> None:
    network = Network()
    if call in ("read", "write"):  # a blob that is not ours
        await network.service.create(NAME)
    network.always(call, fate)
    network.always("release", fate)
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(1.0)
    start = now()
    await lock.aclose()
    assert now() - start <= 10.5
    assert lock.idle
    assert isinstance(waiting.exception(), LockClosed)
    await asyncio.sleep(20.0)
    assert network.service.leased() == {}


@virtual
async def test_a_running_section_learns_that_its_lock_was_closed_and_its_lease_lapses_by_itself() -> None:
    network = Network()
    lock, other = lock_on(network, 1), lock_on(network, 2)
    hold = await lock.acquire()
    await asyncio.sleep(1.0)
    start = now()
    await lock.aclose()
    assert now() == start
    assert hold.lost.reason == "closed"
    assert network.sent("release") == [], "given back under a running section"
    assert set(network.service.leased()) == {NAME}
    async with held(other):
        assert now() >= 15.0
        await release(hold)
        assert hold.lost.reason == "closed"


@pytest.mark.parametrize("late", [0.0, 0.001, 0.005, 0.01, 0.015, 0.019])
@virtual
async def test_a_release_that_has_just_begun_is_not_cut_off_by_a_close(late: float) -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await asyncio.sleep(3.0)
    releasing = asyncio.create_task(release(hold))
    await asyncio.sleep(late)
    await lock.aclose()
    await releasing
    assert network.service.leased() == {}
    assert hold.lost.reason is None


@virtual
async def test_who_releases_while_the_lock_is_closed_on_dead_storage_does_not_wait_for_ever() -> None:
    for ahead in (0.0, 0.001, 1.0, 4.99):
        network = Network()
        lock = lock_on(network)
        hold = await lock.acquire()
        network.always("release", LOST_REQUEST)
        releasing = asyncio.create_task(release(hold))
        await asyncio.sleep(ahead)
        start = now()
        await lock.aclose()
        assert now() - start <= 5.1
        async with asyncio.timeout(10.0):
            await releasing


@virtual
async def test_closing_twice_at_once_and_cancelling_one_leaves_nothing() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    closing = [asyncio.create_task(lock.aclose()) for _ in range(3)]
    await asyncio.sleep(0)
    closing[0].cancel()
    await asyncio.wait(closing)
    assert now() == pytest.approx(0.1, abs=0.1)
    assert hold.lost.reason == "closed"
    async with asyncio.timeout(1.0):
        await release(hold)
    assert lock.idle


@virtual
async def test_closing_while_a_lease_is_handed_on_leaves_the_next_in_line_out() -> None:
    for steps in range(8):
        network = Network()
        lock = lock_on(network)
        first = await lock.acquire()
        second = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0.5)
        releasing = asyncio.create_task(release(first))
        for _ in range(steps):
            await asyncio.sleep(0)
        await lock.aclose()
        async with asyncio.timeout(1.0):
            await releasing
            await asyncio.wait({second})
        if second.exception() is None:
            assert second.result().lost.reason == "closed"
            await release(second.result())
            await asyncio.sleep(16.0)
        assert network.service.leased() == {}


@virtual
async def test_a_lost_hold_keeps_its_reason_when_the_lock_is_closed() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    await network.service.break_(NAME)
    assert await hold.lost == "broken"
    await lock.aclose()
    assert hold.lost.reason == "broken"
    await release(hold)


@virtual
async def test_closing_on_a_section_that_outlived_its_lease_returns_at_once() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    network.fail_all(LOST_REQUEST)
    await until(50.0)
    await lock.aclose()
    assert now() == pytest.approx(50.0)
    assert hold.lost.reason == "expired"
    await release(hold)

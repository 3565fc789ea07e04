"""A semaphore that several ask once, and what an outage looks like to them."""

from __future__ import annotations

import asyncio

import pytest

from singleton.base.errors import LockNotAcquired, StorageUnavailable
from singleton.locking.lock import release
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import FINE, LOST_REQUEST, Fate, answered
from tests.support.semaphores import OPTIONS, Host, outcomes, settled
from tests.support.world import now, virtual


@pytest.mark.parametrize(("limit", "inside"), [(100, 3), (2, 2), (1, 1)])
def test_as_many_of_those_who_ask_once_get_in_as_there_are_free_slots(limit: int, inside: int) -> None:
    @virtual
    async def run() -> None:
        host = Host(MemoryLeaseStore())
        asking = [asyncio.create_task(host.acquire(limit, timeout=0)) for _ in range(3)]
        assert sorted(await outcomes(*asking)) == ["LockNotAcquired"] * (3 - inside) + ["inside"] * inside
        for task in asking[:inside]:
            await release(task.result())
        await settled(host.network.service, host)

    run()


@pytest.mark.parametrize("fate", [answered(503), LOST_REQUEST])
def test_those_who_ask_once_while_the_storage_fails_are_told_so_and_nobody_of_contention(fate: Fate) -> None:
    @virtual
    async def run() -> None:
        host = Host(MemoryLeaseStore())
        host.network.always("acquire", fate)
        asking = [asyncio.create_task(host.acquire(100, timeout=0)) for _ in range(3)]
        assert await outcomes(*asking) == ["StorageUnavailable"] * 3
        assert now() <= 10.1

    run()


@virtual
async def test_who_asks_once_beside_a_waiter_that_was_refused_is_told_at_once_without_a_request() -> None:
    service = MemoryLeaseStore()
    other, host = Host(service, 1), Host(service, 2)
    async with other.inside(1):
        waiting = asyncio.create_task(host.acquire(1))
        await asyncio.sleep(1.0)
        sent, start = len(host.network.requests), now()
        await host.full(1)
        assert (now(), len(host.network.requests)) == (start, sent)
    await release(await waiting)


@virtual
async def test_who_asks_once_in_an_outage_is_told_of_it_beside_a_waiter_for_the_slot_that_the_process_had() -> None:
    """Such a waiter stands by in the slot's line, which says nothing of who has the slot now."""
    host = Host(MemoryLeaseStore())
    hold = await host.acquire(1)
    waiting = asyncio.create_task(host.acquire(1))
    await asyncio.sleep(OPTIONS.handoff_window + 1.0)
    host.network.always("acquire", LOST_REQUEST)
    await release(hold)
    await asyncio.sleep(20.0)
    for _ in range(3):
        start = now()
        asking = asyncio.create_task(host.acquire(1, timeout=0))
        assert await outcomes(asking) == ["StorageUnavailable"]
        assert now() - start <= 10.1
    waiting.cancel()
    host.network.heal()
    await asyncio.wait({waiting})
    await settled(host.network.service, host)


@virtual
async def test_who_asks_once_hears_the_storages_own_words() -> None:
    host = Host(MemoryLeaseStore())
    host.network.always("acquire", answered(503, "ServerBusy"))
    with pytest.raises(StorageUnavailable, match="503 ServerBusy"):
        await host.acquire(3, timeout=0)


@virtual
async def test_an_error_names_the_owner_who_gets_it_and_no_other() -> None:
    service = MemoryLeaseStore()
    other, host = Host(service, 1), Host(service, 2)
    async with other.inside(1):
        asking = [asyncio.create_task(host.acquire(1, timeout=0, owner=owner)) for owner in ("", "b")]
        await asyncio.wait(asking)
        assert [getattr(task.exception(), "owner", None) for task in asking] == ["", "b"]


@virtual
async def test_who_asks_once_while_the_slots_are_slow_gets_the_free_one_however_long_it_takes() -> None:
    service = MemoryLeaseStore()
    other, host = Host(service, 1), Host(service, 2)
    held = [await other.acquire(12) for _ in range(11)]
    host.network.always("acquire", Fate(up=1.0, down=1.0))
    hold = await host.acquire(12, timeout=0)
    assert now() > 10.0
    for each in (*held, hold):
        await release(each)


@virtual
async def test_an_outage_shorter_than_a_minute_is_waited_out() -> None:
    host = Host(MemoryLeaseStore())
    host.network.always("acquire", answered(503))
    waiting = asyncio.create_task(host.acquire(3))
    await asyncio.sleep(45.0)
    assert not waiting.done()
    host.network.heal()
    await release(await waiting)


@virtual
async def test_slots_that_answer_keep_up_the_patience_with_one_that_does_not() -> None:
    """One blob out of order is no outage: the others may become free."""
    service = MemoryLeaseStore()
    other, host = Host(service, 1), Host(service, 2)
    held = [await other.acquire(2) for _ in range(2)]
    host.network.decide = lambda request: answered(500) if request.name == "reports/slot-1" else FINE
    waiting = asyncio.create_task(host.acquire(2))
    await asyncio.sleep(150.0)
    assert not waiting.done()
    for each in held:
        await release(each)
    await release(await waiting)


@virtual
async def test_of_many_slots_all_are_asked_for_before_who_asks_once_is_refused() -> None:
    service = MemoryLeaseStore()
    other, host = Host(service, 1), Host(service, 2)
    held = [await other.acquire(70) for _ in range(70)]
    host.network.always("acquire", answered(503))
    waiting = asyncio.create_task(host.acquire(70))
    await asyncio.sleep(15.0)
    host.network.heal()
    await release(held.pop(40))
    once = asyncio.create_task(host.acquire(70, timeout=0))
    done, _ = await asyncio.wait({waiting, once}, return_when=asyncio.FIRST_COMPLETED)
    assert waiting in done, "the first in line gets the free one"
    assert await outcomes(once) == ["LockNotAcquired"]
    for each in (*held, waiting.result()):
        await release(each)


@virtual
async def test_a_slot_that_is_got_for_somebody_who_has_left_is_given_back() -> None:
    host = Host(MemoryLeaseStore())
    host.network.always("acquire", Fate(up=0.1, down=0.1))
    leaves, stays = (asyncio.create_task(host.acquire(5)) for _ in range(2))
    await asyncio.sleep(0.15)
    leaves.cancel()
    hold = await stays
    await release(hold)
    assert {request.name for request in host.network.requests if request.call == "release"} == {
        request.name for request in host.network.requests if request.call == "acquire"
    }
    await settled(host.network.service, host)


@virtual
async def test_what_an_earlier_wait_saw_is_forgotten_when_nobody_waits_any_more() -> None:
    service = MemoryLeaseStore()
    other, host = Host(service, 1), Host(service, 2)
    held = [await other.acquire(2) for _ in range(2)]
    with pytest.raises(LockNotAcquired):
        await host.acquire(2, timeout=8.0)
    for each in held:
        await release(each)
    await asyncio.sleep(100.0)
    asking = [asyncio.create_task(host.acquire(2, timeout=0)) for _ in range(2)]
    assert await outcomes(*asking) == ["inside"] * 2
    for task in asking:
        await release(task.result())


@virtual
async def test_who_asks_once_as_the_waiter_before_leaves_gets_the_free_one_of_many_slots() -> None:
    service = MemoryLeaseStore()
    other, host = Host(service, 1), Host(service, 2)
    held = [await other.acquire(60) for _ in range(60)]
    host.network.fail_all(answered(503))
    waiting = asyncio.create_task(host.acquire(60))
    await asyncio.sleep(0.1)
    host.network.heal()
    await asyncio.sleep(20.0)
    await release(held.pop())
    once = asyncio.create_task(host.acquire(60, timeout=0))
    waiting.cancel()
    assert await outcomes(once) == ["inside"]
    for each in (*held, once.result()):
        await release(each)

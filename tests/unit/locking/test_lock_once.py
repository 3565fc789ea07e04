"""Asking once (``timeout=0``) behind others of this process: taken and failing are told apart for them, too.

What skips a message when the lock is taken must not skip it when nobody knows (B12): its invocation has to fail.
"""

from __future__ import annotations

import asyncio

import pytest

from singleton.base.errors import LockNotAcquired, SingletonError, StorageDenied, StorageUnavailable
from tests.support.network import LOST_REQUEST, Fate, Network, answered
from tests.support.world import NAME, foreign_id, held, lock_on, now, occupy, section, settled, until, virtual


async def outcomes(*tasks: asyncio.Task[object]) -> list[type[BaseException] | None]:
    await asyncio.wait(tasks)
    return [type(error) if (error := task.exception()) else None for task in tasks]


@pytest.mark.parametrize(
    ("fate", "error"),
    [
        (answered(403, "AuthorizationFailure"), StorageDenied),
        (answered(409, "LeaseAlreadyPresent"), LockNotAcquired),
        (Fate(up=1.0, down=1.0, failure=answered(403).failure, executed=False), StorageDenied),
        (answered(503), StorageUnavailable),
        (LOST_REQUEST, StorageUnavailable),
    ],
)
@virtual
async def test_all_who_ask_once_get_the_answer_of_the_request_that_is_under_way(
    fate: Fate, error: type[SingletonError]
) -> None:
    network = Network()
    network.always("acquire", fate)
    lock = lock_on(network)
    tasks: list[asyncio.Task[object]] = []
    for number in range(10):
        tasks.append(asyncio.create_task(lock.acquire(timeout=0)))
        await asyncio.sleep(0.001 if number > 5 else 0)
    assert await outcomes(*tasks) == [error] * 10
    assert now() <= 10.02
    await settled(network.service, lock)


@virtual
async def test_many_who_ask_once_ask_once_between_them() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    tasks: list[asyncio.Task[object]] = [asyncio.create_task(lock.acquire(timeout=0)) for _ in range(50)]
    assert await outcomes(*tasks) == [LockNotAcquired] * 50
    assert len(network.requests) == 1


@virtual
async def test_one_of_many_who_ask_once_gets_a_free_lock_and_the_others_hear_at_once_that_it_is_in_use() -> None:
    network = Network()
    lock = lock_on(network)
    tasks: list[asyncio.Task[object]] = [
        asyncio.create_task(section(lock, 10.0, timeout=0, owner=f"{number}")) for number in range(5)
    ]
    await asyncio.sleep(0.2)
    assert not tasks[0].done()
    assert await outcomes(*tasks[1:]) == [LockNotAcquired] * 4
    assert now() == 0.2
    assert [getattr(task.exception(), "owner", None) for task in tasks[1:]] == ["1", "2", "3", "4"]
    await tasks[0]
    await settled(network.service, lock)


@virtual
async def test_those_who_ask_once_do_not_keep_those_behind_them_from_waiting() -> None:
    network = Network()
    lock = lock_on(network)
    first = asyncio.create_task(section(lock, 1.0))
    await asyncio.sleep(0.001)
    once = asyncio.create_task(lock.acquire(timeout=0))
    await asyncio.sleep(0.001)
    last = asyncio.create_task(section(lock, 1.0))
    assert await outcomes(first, once, last) == [None, LockNotAcquired, None]


@virtual
async def test_who_asks_once_behind_one_that_hears_of_trouble_hears_of_it_too() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = asyncio.create_task(section(lock))
    await until(20.0)
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=0)
    assert now() == 20.0, "it is known to be taken"
    network.fail_all(answered(503))
    await until(30.0)
    with pytest.raises(StorageUnavailable):
        await lock.acquire(timeout=0)
    assert now() == pytest.approx(40.0)
    network.heal()
    await until(50.0)
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=0)
    assert now() == 50.0
    await network.service.release(NAME, foreign_id())
    await waiting


@virtual
async def test_who_asks_once_moves_up_when_the_one_before_leaves() -> None:
    network = Network()
    network.plan("acquire", Fate(up=2.0, down=2.0))
    lock = lock_on(network)
    first = asyncio.create_task(lock.acquire())
    await asyncio.sleep(1.0)
    once = asyncio.create_task(section(lock, timeout=0))
    await asyncio.sleep(1.0)
    first.cancel()
    assert await outcomes(once) == [None]
    assert now() < 5.0
    await settled(network.service, lock)


@virtual
async def test_who_asks_once_while_this_process_stands_back_behind_another_is_refused_at_once() -> None:
    network = Network()
    lock = lock_on(network)
    while now() < 29.9:
        await section(lock, 0.5)
    behind = asyncio.create_task(section(lock))
    await asyncio.sleep(0.5)
    start = now()
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=0)
    assert now() == start
    await behind


@virtual
async def test_who_asks_once_while_the_lock_goes_back_is_refused_or_served_but_not_left_alone() -> None:
    for step in range(40):
        network = Network()
        lock = lock_on(network)
        hold = asyncio.create_task(section(lock, 0.1))
        await asyncio.sleep(0.1 + step * 0.005)
        start = now()
        try:
            async with held(lock, timeout=0):
                pass
        except LockNotAcquired:
            assert now() == start
        assert now() - start < 0.2
        await hold
        await settled(network.service, lock)

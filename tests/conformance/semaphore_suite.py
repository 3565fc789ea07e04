"""DistributedLock's abstract semaphore suite (M-57 to M-66), on each store.

M-57, the object that reports its count, has no counterpart: the limit is an argument of each call. M-62, a deadlock of
a connection with itself, can't happen: a lease knows no connection (M-63 to M-65).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from singleton import LockNotAcquired
from singleton.locking.semaphore import MOST

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton import Hold
    from tests.conformance.mutex_suite import Host


async def take(host: Host, name: str, limit: int, timeout: float | None = 30) -> Hold:
    with host.here() as locks:
        return await locks.acquire(name, limit=limit, timeout=timeout)


async def full(host: Host, name: str, limit: int, timeout: float = 0) -> bool:
    try:
        hold = await take(host, name, limit, timeout)
    except LockNotAcquired:
        return True
    await give(host, hold)
    return False


async def give(host: Host, *holds: Hold) -> None:
    with host.here() as locks:
        await asyncio.gather(*(locks.release(hold) for hold in holds))


async def _concurrency(host: Host, name: str, limit: int, tasks: int, rounds: int, seconds: float) -> set[int]:
    inside, seen = 0, set()

    async def work() -> None:
        nonlocal inside
        for _ in range(rounds):
            hold = await take(host, name, limit)
            inside += 1
            seen.add(inside)
            await asyncio.sleep(seconds)
            inside -= 1
            await give(host, hold)

    async with asyncio.timeout(30):
        await asyncio.gather(*(work() for _ in range(tasks)))
    assert inside == 0
    return seen


async def concurrency_is_what_the_limit_allows(one: Host, _: Host, name: str) -> None:
    """M-58: limit 3, 10 times 25 rounds: there are 1, 2 and 3 inside, and never more."""
    assert await _concurrency(one, name, 3, 10, 25, 0.002) == {1, 2, 3}


async def parallelism(one: Host, _: Host, name: str) -> None:
    """M-61: limit 10, 100 times 30 ms within 30 s: never above 10, reaches 10, ends at none."""
    seen = await _concurrency(one, name, 10, 100, 1, 0.03)
    assert max(seen) == 10


async def drain(one: Host, other: Host, name: str) -> None:
    """M-59: all four taken through two hosts: both get none; one freed can be had again."""
    holds = [(host, await take(host, name, 4)) for host in (one, other, one, other)]
    assert await full(one, name, 4)
    assert await full(other, name, 4)
    host, hold = holds.pop()
    await give(host, hold)
    assert not await full(one, name, 4)
    assert not await full(other, name, 4)
    for host, hold in holds:
        await give(host, hold)


async def high_limit(one: Host, _: Host, name: str) -> None:
    """M-60: the highest limit, a long name: a hundred can be held and released."""
    holds = await asyncio.gather(*(take(one, f"{name}{'x' * 150}", MOST) for _ in range(100)))
    assert len({hold.lock for hold in holds}) == 100
    await give(one, *holds)


async def waits_end(one: Host, other: Host, name: str) -> None:
    """M-63 to M-65: who waits for what it holds itself just waits, until its time-out or cancellation."""
    hold = await take(one, name, 1)
    loop = asyncio.get_running_loop()
    for host in (one, other):
        start = loop.time()
        assert await full(host, name, 1, timeout=0.2)
        assert 0.19 < loop.time() - start < 0.5
        waiting = asyncio.create_task(take(host, name, 1, timeout=20))
        await asyncio.sleep(0.2)
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=5)
        assert waiting.cancelled()
    await give(one, hold)


async def different_limits(one: Host, other: Host, name: str) -> None:
    """M-66: limits 2 and 3 on one name: three in all; when one is freed, the higher limit lets somebody in."""
    for second in (one, other):
        holds = [
            (one, await take(one, name, 2)),
            (one, await take(one, name, 2)),
            (second, await take(second, name, 3)),
        ]
        for host in (one, other):
            assert await full(host, name, 2)
            assert await full(host, name, 3)
        host, hold = holds.pop()
        await give(host, hold)
        assert not await full(second, name, 3)
        for host, hold in holds:
            await give(host, hold)


SCENARIOS: tuple[Callable[[Host, Host, str], Coroutine[Any, Any, None]], ...] = (
    concurrency_is_what_the_limit_allows,
    parallelism,
    drain,
    high_limit,
    waits_end,
    different_limits,
)

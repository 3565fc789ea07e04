"""What the tests of the core share: tests on virtual time, locks of several hosts, sections and who was inside."""

from __future__ import annotations

import asyncio
import functools
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, ParamSpec

from simulator.virtual.time.loop import VirtualLoop
from singleton.locking.lock import Lock, release
from singleton.locking.phase import Timing
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.base.kinds import Stamp
    from singleton.stores.lock_keeping import BlobStore
    from singleton.testing.storage.memory_store import MemoryLeaseStore

_P = ParamSpec("_P")

NAME = "locks/host/job"


def virtual(test: Callable[_P, Coroutine[Any, Any, None]]) -> Callable[_P, None]:
    """Run a coroutine test on a fresh virtual loop.

    It fails if a task is left a quarter of a minute after its end, or an error that nobody handled.
    """

    @functools.wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> None:
        run_virtual(_wound_up(test(*args, **kwargs)))

    return run


async def _wound_up(test: Coroutine[Any, Any, None]) -> None:
    me = asyncio.current_task()
    try:
        await test
    except BaseException:
        for task in virtual_loop().leftover_tasks():
            if task is not me:
                task.cancel()
        await asyncio.sleep(60.0)
        raise
    if left := [task for task in virtual_loop().leftover_tasks() if task is not me]:
        await asyncio.wait(left, timeout=15.0)


def now() -> float:
    """Return the virtual time."""
    return asyncio.get_running_loop().time()


def virtual_loop() -> VirtualLoop:
    """Return the loop that the test runs on."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def pending_timers() -> list[float]:
    """Return the times of the loop's timers that are neither due yet nor cancelled."""
    loop = virtual_loop()
    places = [*loop._near, *(place for shelf in loop._far.values() for place in shelf.values())]
    return [-minus_due for minus_due, _, timer in places if not timer.cancelled()]


async def until(when: float) -> None:
    """Sleep until this virtual time."""
    await asyncio.sleep(max(0.0, when - now()))


async def eventually(condition: Callable[[], bool], *, within: float = 60.0) -> None:
    """Wait for the condition to be true, looking each millisecond of virtual time."""
    end = now() + within
    while not condition():
        assert now() < end, "it never became true"
        await asyncio.sleep(0.001)


def lock_on(store: BlobStore, seed: int = 1, *, name: str = NAME, fencing: bool = True, **timing: float) -> Lock:
    """Make the lock of one host; each host has a seed of its own."""
    stamp: Stamp = "token" if fencing else "none"
    return Lock(store, name, timing=Timing(**timing), rng=random.Random(seed), stamp=stamp, wall=lambda: 1e9 + now())


@asynccontextmanager
async def held(lock: Lock, *, timeout: float | None = None, owner: str = "") -> AsyncIterator[Hold]:
    """Hold the lock for the length of the block."""
    hold = await lock.acquire(timeout=timeout, owner=owner)
    try:
        yield hold
    finally:
        await release(hold)


async def section(lock: Lock, seconds: float = 0.0, *, timeout: float | None = None, owner: str = "") -> Hold:
    """Go through one section."""
    async with held(lock, timeout=timeout, owner=owner) as hold:
        await asyncio.sleep(seconds)
    return hold


async def settled(service: MemoryLeaseStore, *locks: Lock, within: float = 12.0) -> None:
    """Wait until nobody does anything here any more; fail if that takes long, or if a lease is left."""
    await eventually(lambda: all(lock.idle for lock in locks), within=within)
    assert service.leased() == {}, "a lease was left behind"


def foreign_id(number: int = 0) -> str:
    """Return the lease id of somebody else."""
    return f"00000000-0000-4000-8000-{number:012x}"


async def occupy(service: MemoryLeaseStore, name: str = NAME, duration: int = 60) -> None:
    """Let somebody else have the lease."""
    await service.create(name)
    await service.acquire(name, foreign_id(), duration)

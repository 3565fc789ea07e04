"""The semaphores of several hosts, each behind a network of its own, and who counts those inside."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import LockNotAcquired
from singleton.locking.lock import release
from singleton.runtime.address import Address
from singleton.runtime.registry import Registry
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.settings.options import SingletonOptions
from tests.support.network import Network
from tests.support.world import eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from singleton.base.hold import Hold
    from singleton.testing.storage.memory_store import MemoryLeaseStore

PLACE = LockContainer(StorageAccount("UseDevelopmentStorage=true"), "webjobshost")
OPTIONS = SingletonOptions()
NAME = "reports"


class Host:
    """The semaphores of one process, behind a network of its own."""

    def __init__(self, service: MemoryLeaseStore, seed: int = 1, options: SingletonOptions = OPTIONS) -> None:
        self.network = Network(service)
        self.registry = Registry(lambda _: self.network, random.Random(seed))
        self._options = options

    async def acquire(self, limit: int, *, timeout: float | None = None, owner: str = "", name: str = NAME) -> Hold:
        address = Address.of(PLACE, name, self._options)
        return await self.registry.acquire(address, timeout=timeout, owner=owner, limit=limit)

    @asynccontextmanager
    async def inside(self, limit: int, *, timeout: float | None = None, owner: str = "") -> AsyncIterator[Hold]:
        hold = await self.acquire(limit, timeout=timeout, owner=owner)
        try:
            yield hold
        finally:
            await release(hold)

    async def full(self, limit: int) -> None:
        with pytest.raises(LockNotAcquired):
            await self.acquire(limit, timeout=0)


class Judge:
    """Counts who is inside with a hold that is good."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.holds: set[Hold] = set()
        self.counts: set[int] = set()

    @asynccontextmanager
    async def watch(self, hold: Hold) -> AsyncIterator[None]:
        self.holds.add(hold)
        good = [each for each in self.holds if not each.lost.is_set()]
        assert len(good) <= self.limit
        assert len({each.lock for each in good}) == len(good)
        self.counts.add(len(good))
        try:
            yield
        finally:
            self.holds.discard(hold)


async def settled(service: MemoryLeaseStore, *hosts: Host) -> None:
    """Wait until nothing goes on any more; fail if a lease is left."""
    locks = [lock for host in hosts for lock in host.registry._locks.values()]
    waiting = [each for host in hosts for each in host.registry._semaphores.values()]
    await eventually(lambda: all(each.idle for each in locks) and all(each.idle for each in waiting), within=12.0)
    assert service.leased() == {}, "a lease was left behind"


async def outcomes(*asking: asyncio.Task[Hold]) -> list[str]:
    await asyncio.wait(asking)
    return [type(error).__name__ if (error := task.exception()) else "inside" for task in asking]

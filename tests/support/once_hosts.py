"""Several processes that do operations once, on virtual time and one model of the service."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from singleton import AsyncLockClient, SingletonError, SingletonOptions
from singleton.base.clock import timed_by
from singleton.runtime.calls import Calls
from singleton.runtime.registry import Registry
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import CONNECTION, on
from tests.support.network import Network
from tests.support.world import now

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

START = 1_000_000.0
"""Where the service's clock begins: results are dated by it."""


class Host:
    """One process: its lock runtime, behind a network of its own."""

    def __init__(self, service: MemoryLeaseStore, seed: int, options: SingletonOptions | None = None) -> None:
        self.network = Network(service)
        self.runtime = Calls(
            Registry(lambda _: self.network, random.Random(seed), wall=now), asyncio.get_running_loop()
        )
        self.locks = AsyncLockClient(CONNECTION, options=options)

    def start(self, work: Callable[[AsyncLockClient], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        """Begin to run this in the process."""
        with on(self.runtime):
            return asyncio.get_running_loop().create_task(work(self.locks))

    async def run(self, work: Callable[[AsyncLockClient], Coroutine[Any, Any, Any]]) -> Any:
        """Run this in the process."""
        return await self.start(work)

    async def run_caught(self, work: Callable[[AsyncLockClient], Coroutine[Any, Any, Any]]) -> Any:
        """Run this in the process; return an error of ours as it is raised."""
        try:
            return await self.start(work)
        except SingletonError as error:
            return error


@asynccontextmanager
async def hosts(
    count: int = 2, *, service: MemoryLeaseStore | None = None, options: SingletonOptions | None = None, seed: int = 1
) -> AsyncIterator[list[Host]]:
    """Start processes, and close their locks at the end."""
    service = service or MemoryLeaseStore()
    with timed_by(asyncio.get_running_loop().time):
        started = [Host(service, seed * 100 + number, options) for number in range(count)]
        try:
            yield started
        finally:
            for host in started:
                host.network.heal()
            await asyncio.gather(*(host.runtime.registry.aclose() for host in started))

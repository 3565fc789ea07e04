"""Lock clients on virtual time: hosts whose lock runtime is the test's own loop, on one model of the service."""

from __future__ import annotations

import asyncio
import contextvars
import random
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from singleton import AsyncLockClient, SingletonOptions
from singleton.runtime.provided import provide_runtime
from singleton.runtime.registry import Registry
from tests.support.network import Network

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

    from singleton.base.hold import Hold
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Calls
    from singleton.testing.storage.memory_store import MemoryLeaseStore

_T = TypeVar("_T")
CONNECTION = "UseDevelopmentStorage=true"
_here: contextvars.ContextVar[Any] = contextvars.ContextVar("lock_runtime_of_this_host")


@contextmanager
def on(runtime: Calls | InlineHost) -> Iterator[None]:
    """Have what the block starts, tasks too, use this lock runtime, as if in a process of its own."""
    token = _here.set(runtime)
    provide_runtime(_here.get)
    try:
        yield
    finally:
        _here.reset(token)


class InlineHost:
    """One process: a registry behind a network of its own, and what ``process.runtime`` is to a real one."""

    def __init__(self, service: MemoryLeaseStore, seed: int = 1, options: SingletonOptions | None = None) -> None:
        self.network = Network(service)
        self.registry = Registry(lambda _: self.network, random.Random(seed))
        self.locks = AsyncLockClient(CONNECTION, options=options)

    @contextmanager
    def here(self) -> Iterator[AsyncLockClient]:
        """Have what the block starts, tasks too, run in this process."""
        with on(self):
            yield self.locks

    async def acquire_async(self, address: Address, *, timeout: float | None, owner: str) -> Hold:
        return await self.call_async(lambda registry: registry.acquire(address, timeout=timeout, owner=owner))

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        return await work(self.registry)

    async def release_async(self, hold: Hold) -> None:
        await asyncio.shield(asyncio.get_running_loop().create_task(self.registry.release(hold)))

    # What threads call, who would stop the one loop that all run on: their code is tested on a real lock thread.

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        raise NotImplementedError("a thread can't wait for a lock on one loop: use LockThread")

    def release(self, hold: Hold) -> None:
        raise NotImplementedError("a thread can't wait for a lock on one loop: use LockThread")

"""For tests with several callers of one lock: a store that counts, the number of waiters, and waits for threads."""

from __future__ import annotations

import asyncio
import contextvars
import time
from typing import TYPE_CHECKING, Any

from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.locking.lock import Lock
    from tests.support.lock_thread import LockThread

LOCK = "shared"


class CountingStore(MemoryLeaseStore):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def acquire(self, *args: Any) -> str:
        self.asked.append("acquire")
        return await super().acquire(*args)

    async def release(self, *args: Any) -> None:
        self.asked.append("release")
        await super().release(*args)

    async def write(self, *args: Any) -> str:
        self.asked.append("write")
        return await super().write(*args)


def lock_of(thread: LockThread, name: str = LOCK) -> Lock:
    return next(lock for lock in thread.runtime.registry._locks.values() if lock.name == name)


def in_line(thread: LockThread, name: str = LOCK) -> int:
    """Return how many wait for the lock."""
    return len(lock_of(thread, name)._line)


def eventually(condition: Callable[[], bool]) -> None:
    """Wait, on this thread, for something that other threads do."""
    end = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


async def soon(condition: Callable[[], bool]) -> None:
    """Wait, on a loop, for something that other threads do."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.001)


def begun_outside(coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Begin a task that knows nothing of the block that it is begun in."""
    return asyncio.create_task(coro, context=contextvars.Context())

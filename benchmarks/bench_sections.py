"""Sections a second of one process on one lock: tasks on one loop, and threads; and what they ask of the storage."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, machine, say, table
from singleton import AsyncLockClient, LockClient
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.provided import provide_runtime
from singleton.runtime.registry import Registry
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.measuring import Tables
    from singleton.stores.lock_keeping import BlobStore

_ACCOUNT: Final = "UseDevelopmentStorage=true"
_TASKS: Final = (1, 10, 1_000)
_THREADS: Final = (2, 20)
_SECTIONS: Final = 20_000
_ALONE: Final = 2_000
"""Sections of one task alone: each of them takes a lease, and gives it back."""


class _Counting(MemoryLeaseStore):
    """The model of the service, which counts what is asked of it."""

    asked = 0

    async def acquire(self, name: str, lease_id: str, seconds: int) -> str:
        self.asked += 1
        return await super().acquire(name, lease_id, seconds)

    async def release(self, name: str, lease_id: str) -> None:
        self.asked += 1
        await super().release(name, lease_id)

    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        self.asked += 1
        return await super().write(name, lease_id, metadata, etag)


def main() -> Tables:
    """Measure what each kind of crowd gets done."""
    heading("Sections of one process on one lock (storage in memory)")
    say(machine())
    crowds = [(f"{number:,} tasks of one loop", partial(_run_tasks, number)) for number in _TASKS]
    crowds += [(f"{number} threads", partial(_threads, number)) for number in _THREADS]
    rows = [("sections of one lock", "a second", "CPU µs", "calls"), *(_measured(what, run) for what, run in crowds)]
    table(rows)
    return {"sections": rows}


def _measured(what: str, run: Callable[[int], None]) -> tuple[str, ...]:
    store = _Counting()
    runtime = Runtime(Registry(lambda _: _as_store(store)))
    provide_runtime(lambda: runtime)
    sections = _ALONE if what.startswith("1 ") else _SECTIONS
    try:
        run(100)
        store.asked = 0
        began, worked = time.perf_counter(), time.process_time()
        run(sections)
        took, used = time.perf_counter() - began, time.process_time() - worked
    finally:
        provide_runtime(None)
        runtime.close()
    return what, f"{sections / took:,.0f}", f"{1e6 * used / sections:.0f}", f"{store.asked / sections:.4f}"


def _as_store(store: _Counting) -> BlobStore:
    return store


def _run_tasks(number: int, sections: int) -> None:
    asyncio.run(_tasks(number, sections))


async def _tasks(number: int, sections: int) -> None:
    locks = AsyncLockClient(_ACCOUNT)

    async def work() -> None:
        for _ in range(max(1, sections // number)):
            async with locks.lock("one"):
                pass

    await asyncio.gather(*(work() for _ in range(number)))


def _threads(number: int, sections: int) -> None:
    locks = LockClient(_ACCOUNT)

    def work() -> None:
        for _ in range(sections // number):
            with locks.lock("one"):
                pass

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()

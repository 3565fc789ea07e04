"""What do requests of our own cost beside azure-storage-blob's? On an Azurite of its own, all in one run, in turns.

The measure is the bare SDK: acquire and release, with its clients kept, on the caller's own loop. Beside it: requests
of ours without a lock; whole guarded calls, with token and owner, through the lock thread; a scope value that is new
each time. Then the CPU of one request, and what the first lock of a process takes.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measuring import heading, machine, say, table
from simulator.azurite.server import Azurite
from singleton import AsyncLockClient, LockClient, SingletonOptions, singleton
from singleton.process.opening import open_container, open_through_sdk
from singleton.settings.connection import StorageAccount

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    Cycle = Callable[[], Awaitable[None]]

_SDK: Final = "bare SDK: acquire, release"
_WARM: Final = 30
_OPTIONS: Final = SingletonOptions(handoff_window=1e9, container="bench")
_FIRST: Final = """
import time, azure.functions
began, cpu = time.perf_counter(), time.process_time()
from singleton import LockClient, SingletonOptions
with LockClient("AzureWebJobsStorage", options=SingletonOptions(container="bench", http={http!r})).lock("first"):
    print(time.perf_counter() - began, time.process_time() - cpu)
"""


def _leases(store: Any, name: str) -> Cycle:
    """Acquire and release through a store of ours."""
    lease = str(uuid.UUID(int=random.Random(name).getrandbits(128), version=4))

    async def cycle() -> None:
        await store.acquire(name, lease, 15)
        await store.release(name, lease)

    return cycle


def _bare_sdk(blob: Any) -> Cycle:
    async def cycle() -> None:
        lease = await blob.acquire_lease(lease_duration=15)
        await lease.release()

    return cycle


def _async_client(locks: AsyncLockClient, names: Callable[[], str]) -> Cycle:
    async def cycle() -> None:
        async with locks.lock(names()):
            pass

    return cycle


def _on_thread(act: Callable[[], object]) -> Cycle:
    async def cycle() -> None:
        act()

    return cycle


def _sync_client(locks: LockClient) -> Callable[[], object]:
    def act() -> None:
        with locks.lock("sync"):
            pass

    return act


def _guarded_sync() -> Callable[[], object]:
    @singleton(scope_id="guarded")
    def job(timer: object) -> None: ...

    return lambda: job(None)


def _guarded_async() -> Cycle:
    @singleton(scope_id="guarded-async")
    async def job(timer: object) -> None: ...

    async def cycle() -> None:
        await job(None)

    return cycle


async def _walls(connection_string: str, cycles: int) -> dict[str, list[float]]:
    account = StorageAccount(connection_string=connection_string)
    direct, sdk = open_container(account, "bench"), open_through_sdk(account, "bench")
    for name in ("sdk", "direct", "sync"):
        await sdk.create(name)
    locks, names = AsyncLockClient(connection_string, options=_OPTIONS), itertools.count()
    kinds: dict[str, Cycle] = {
        _SDK: _bare_sdk(sdk.container.get_blob_client("sdk")),
        "bare requests of ours: acquire, release": _leases(direct, "direct"),
        "AsyncLockClient, warm": _async_client(locks, lambda: "async"),
        "LockClient, warm": _on_thread(_sync_client(LockClient(connection_string, options=_OPTIONS))),
        "guarded async function, warm": _guarded_async(),
        "guarded sync function, warm": _on_thread(_guarded_sync()),
        "AsyncLockClient, a new name each time": _async_client(locks, lambda: f"new/{next(names)}"),
    }
    taken: dict[str, list[float]] = {kind: [] for kind in kinds}
    rng = random.Random(1)
    try:
        for number in range(cycles + _WARM):
            for kind in rng.sample(list(kinds), len(kinds)):
                began = time.perf_counter()
                await kinds[kind]()
                if number >= _WARM:
                    taken[kind].append(time.perf_counter() - began)
    finally:
        await direct.aclose()
        await sdk.aclose()
    return taken


async def _cpu(connection_string: str, cycles: int) -> dict[str, float]:
    """Return the CPU seconds of one request, of each way."""
    account = StorageAccount(connection_string=connection_string)
    ways = {"azure-storage-blob": open_through_sdk(account, "bench"), "ours": open_container(account, "bench")}
    spent: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(cycles // 20):
        for way, store in ways.items():
            await store.create("cpu") if not number else None
            cycle = _leases(store, "cpu")
            began = time.process_time()
            for _ in range(20):
                await cycle()
            spent[way].append((time.process_time() - began) / 40)
    for store in ways.values():
        await store.aclose()
    return {way: statistics.median(times) for way, times in spent.items()}


def _firsts(connection_string: str, times: int) -> dict[str, list[tuple[float, float]]]:
    """Return seconds and CPU seconds from after ``import azure.functions`` to inside the first lock."""
    found: dict[str, list[tuple[float, float]]] = {"sdk": [], "direct": []}
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "AzureWebJobsStorage": connection_string, "PYTHONPATH": str(Path(__file__).parents[1])}
        for _ in range(times):
            for http, taken in found.items():
                command = [sys.executable, "-c", _FIRST.format(http=http)]
                wall, cpu = subprocess.check_output(command, env=env, cwd=folder, text=True).split()
                taken.append((float(wall), float(cpu)))
    return found


def main(cycles: int = 400) -> None:
    """Measure, and show."""
    heading("Requests of our own, beside azure-storage-blob (Azurite)")
    say(machine())
    with Azurite(say) as azurite:
        os.environ["AzureWebJobsStorage"] = azurite.connection_string
        os.environ["AzureFunctionsJobHost__singleton__container"] = "bench"
        os.environ["AzureFunctionsJobHost__singleton__handoffWindow"] = "10:00:00"
        walls = asyncio.run(_walls(azurite.connection_string, cycles))
        cpu = asyncio.run(_cpu(azurite.connection_string, cycles))
        firsts = _firsts(azurite.connection_string, 7)
    _show("cycle", walls, _SDK)
    say()
    rows = [("CPU of a request", "median", "to SDK")]
    rows += [(way, f"{each * 1e3:.2f} ms", f"{each / cpu['azure-storage-blob']:.2f}") for way, each in cpu.items()]
    table(rows)
    say()
    for number, what in enumerate(("first lock of a process, after import azure.functions", "the same, CPU")):
        _show(what, {http: [each[number] for each in taken] for http, taken in firsts.items()}, "sdk")


def _show(what: str, taken: dict[str, list[float]], measure: str) -> None:
    medians = {kind: statistics.median(times) for kind, times in taken.items()}
    rows = [(what, "median", "to SDK")]
    rows += [(kind, f"{each * 1e3:.2f} ms", f"{each / medians[measure]:.2f}") for kind, each in medians.items()]
    table(rows)


if __name__ == "__main__":
    main()

"""What does a lock cost on storage? Whole cycles on an Azurite of its own: take, and give back, nobody else waiting.

Ours is the shipped lock. The others are the sequences of requests of WebJobs (read, acquire, read, write the owner,
release) and of Dequeueable (read, acquire, release), written out with the same SDK, on the same connection, with its
clients kept: the best that they could be in Python. All take turns in one run, in random order, each on a blob of its
own; what counts is the ratio.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from typing import TYPE_CHECKING, Any, Final

from benchmarks.measuring import heading, machine, say, table
from simulator.azurite.server import Azurite
from singleton.locking.lock import Lock, release
from singleton.locking.timing import Timing
from singleton.process.opening import open_through_sdk
from singleton.settings.connection import StorageAccount

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from azure.storage.blob.aio import BlobClient

    from singleton.stores.azure_blob import AzureBlobLeaseStore

    Cycle = Callable[[], Awaitable[None]]

_TIMING: Final = Timing(handoff_window=1e9)
"""Never stand back: nobody else waits here."""
_OWNER: Final = "00000000-0000-4000-8000-000000000001"
_OURS: Final = "ours, without tokens"
_WARM: Final = 20


def _ours(store: AzureBlobLeaseStore, name: str, *, fencing: bool) -> Cycle:
    lock = Lock(store, name, timing=_TIMING, rng=random.Random(1), stamp="token" if fencing else "none")

    async def cycle() -> None:
        await release(await lock.acquire(owner=_OWNER))

    return cycle


def _webjobs(blob: BlobClient) -> Cycle:
    """Read the state (W-52), acquire, read the metadata and write the owner into it (W-57), release."""

    async def cycle() -> None:
        await blob.get_blob_properties()
        lease = await blob.acquire_lease(lease_duration=15)
        seen = await blob.get_blob_properties()
        metadata = {**(seen.metadata or {}), "FunctionInstance": _OWNER}
        await blob.set_blob_metadata(metadata, lease=lease)
        await lease.release()

    return cycle


def _dequeueable(blob: BlobClient) -> Cycle:
    """Read the state (D-24), acquire, release."""

    async def cycle() -> None:
        await blob.get_blob_properties()
        lease = await blob.acquire_lease(lease_duration=15)
        await lease.release()

    return cycle


async def measure(connection_string: str, cycles: int) -> dict[str, list[float]]:
    """Return the seconds of each cycle of each kind."""
    store = open_through_sdk(StorageAccount(connection_string=connection_string), "webjobshost")
    kinds: dict[str, Cycle] = {}
    try:
        for name in ("webjobs", "dequeueable"):
            await store.create(f"locks/bench/{name}")
        blobs: Any = {name: store._client(f"locks/bench/{name}") for name in ("webjobs", "dequeueable")}  # noqa: SLF001
        kinds[_OURS] = _ours(store, "locks/bench/plain", fencing=False)
        kinds["ours, with tokens and owner"] = _ours(store, "locks/bench/tokens", fencing=True)
        kinds["Dequeueable's three calls"] = _dequeueable(blobs["dequeueable"])
        kinds["WebJobs' five calls, with owner"] = _webjobs(blobs["webjobs"])
        return await _in_turns(kinds, cycles)
    finally:
        await store.aclose()


async def _in_turns(kinds: dict[str, Cycle], cycles: int) -> dict[str, list[float]]:
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    rng = random.Random(1)
    for number in range(cycles + _WARM):
        for name in rng.sample(list(kinds), len(kinds)):
            began = time.perf_counter()
            await kinds[name]()
            if number >= _WARM:
                taken[name].append(time.perf_counter() - began)
    return taken


def main(cycles: int = 400) -> None:
    """Measure, and show."""
    heading("A lock's cycle on storage (Azurite)")
    say(machine())
    with Azurite(say) as azurite:
        taken = asyncio.run(measure(azurite.connection_string, cycles))
    ours = statistics.median(taken[_OURS])
    rows = [("cycle", "median", "p95", "to ours")]
    for name, times in taken.items():
        median, p95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
        rows.append((name, f"{median * 1e3:.1f} ms", f"{p95 * 1e3:.1f} ms", f"{median / ours:.2f}"))
    table(rows)


if __name__ == "__main__":
    main()

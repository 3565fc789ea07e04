"""What do ten thousand leases of 15 seconds cost the process that keeps them? Against a stub of the service.

    python -m benchmarks.bench_leases --leases 10000 --seconds 60

The client is a process of its own, with an ``AsyncLockClient`` as an app has one; the stub is another. Each hold has an
owner of its own. Measured is the steady state: all are held, none comes or goes. CPU is that of all of the client's
threads; memory, what it has more than after its first lock.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

import psutil

from benchmarks.measuring import heading, machine, say, table

if TYPE_CHECKING:
    from benchmarks.measuring import Rows, Tables
    from singleton import AsyncLockClient, Hold

_AT_ONCE: Final = 16
"""Acquisitions under way."""
_SETTLED: Final = 15.0
"""Seconds after the last acquisition from which it is measured: each lease has been renewed, and its hold signed."""


async def keep(connection_string: str, leases: int, seconds: float) -> dict[str, float]:
    """Hold so many locks for so long; return what that took."""
    from singleton import AsyncLockClient, SingletonOptions

    async with AsyncLockClient(connection_string, options=SingletonOptions(container="bench", lock_period=15)) as locks:
        async with locks.lock("first"):
            pass
        process = psutil.Process()
        before = _memory(process)
        began = time.perf_counter()
        holds = await _acquired(locks, leases)
        acquiring = time.perf_counter() - began
        await asyncio.sleep(_SETTLED)
        began, cpu = time.perf_counter(), time.process_time()
        await asyncio.sleep(seconds)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
        lost = sum(hold.lost.is_set() for hold in holds)
        found = {
            "share": share,
            "memory": _memory(process) - before,
            "lost": lost,
            "acquiring": acquiring,
            "threads": process.num_threads(),
            "connections": len(process.net_connections()),
        }
        for first in range(0, leases, _AT_ONCE):
            await asyncio.gather(*map(locks.release, holds[first : first + _AT_ONCE]))
        return found


async def _acquired(locks: AsyncLockClient, leases: int) -> list[Hold]:
    holds: list[Hold] = []
    numbers = iter(range(leases))

    async def some() -> None:
        asked = ((f"tenant/{number}", f"host-1/invocation-{number:06}") for number in numbers)
        holds.extend([await locks.acquire(name, owner=owner) for name, owner in asked])

    await asyncio.gather(*(some() for _ in range(_AT_ONCE)))
    return holds


def _memory(process: psutil.Process) -> float:
    gc.collect()
    return process.memory_info().rss / 1e6


def measure(leases: int, seconds: float) -> dict[str, float]:
    """Run the stub and the client; return what both found."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.stub"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as stub:
        assert stub.stdout is not None
        port = stub.stdout.readline().strip()
        client = [sys.executable, "-m", "benchmarks.bench_leases", "--client", port]
        client += ["--leases", str(leases), "--seconds", str(seconds)]
        began = time.perf_counter()
        found = json.loads(subprocess.check_output(client, text=True))
        took = time.perf_counter() - began
        counted, _ = stub.communicate()
        return {**json.loads(counted), **found, "took": took}


def main(leases: int = 10_000, seconds: float = 60.0) -> Tables:
    """Measure, and show."""
    heading(f"{leases:,} leases of 15 s kept by one process (a stub service beside it)")
    say(machine())
    found = measure(leases, seconds)
    rows: Rows = [
        ("leases", "of a core", "MB more", "lost", "renewals a second", "CPU ms a renewal"),
        (
            f"{leases:,}",
            f"{found['share']:.0%}",
            f"{found['memory']:.0f}",
            f"{found['lost']:.0f}",
            f"{leases / 7.5:,.0f}",
            f"{found['share'] / (leases / 7.5) * 1e3:.2f}",
        ),
    ]
    table(rows)
    say(f"  All acquired in {found['acquiring']:.1f} s; {found['connections']:.0f} connections are open.")
    say(f"  {found['renew']:,.0f} renewals in all, {found.get('renewed after its end', 0):.0f} of them too late.")
    return {"leases": rows}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_leases")
    parser.add_argument("--leases", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--client", metavar="PORT", help="keep leases of the stub on this port, and write what it took")
    given = parser.parse_args()
    if given.client:
        account = f"AccountName=stub;AccountKey=c3R1Yg==;BlobEndpoint=http://127.0.0.1:{given.client}/stub"
        measured = asyncio.run(keep(f"DefaultEndpointsProtocol=http;{account}", given.leases, given.seconds))
        sys.stdout.write(json.dumps(measured))
    else:
        main(given.leases, given.seconds)

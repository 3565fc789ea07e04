"""What does a lock cost if the storage is some milliseconds away? Azurite, with a delay before each request.

The contestants of ``storage`` that a user would choose between, beside .NET's locks. Those can't run here: their time
without a delay was measured beside the same SDK, and each call adds the delay.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from benchmarks import ours
from benchmarks.bench_storage import MEASURE, calls_of, rivals_on
from benchmarks.measuring import heading, in_turns, machine, say, table
from benchmarks.slow_network import delayed
from simulator.azurite.server import Azurite

if TYPE_CHECKING:
    from benchmarks.measuring import Rows, Tables, Taken

DELAYS: Final = (0, 1, 5, 20)
"""Milliseconds: none, within a zone, within a region, and between regions that are near each other."""
_DOTNET: Final = (
    ("acquire and release, Azure.Storage.Blobs (.NET)", 2, 0.31),
    ("DistributedLock, warm (.NET)", 3, 0.41),
    ("WebJobs `[Singleton]`, warm (.NET)", 5, 0.81),
    ("WebJobs `[Singleton]`, a new scope value (.NET)", 7, 1.38),
)
"""Calls and ratio, measured on 2026-11-27 beside the same SDK on one Azurite: see docs/performance.md."""
_SHOWN: Final = (
    *(ours.GUARDED, ours.NEW, ours.AFTER_OTHERS, ours.WEBJOBS, ours.WEBJOBS_NEW, MEASURE),
    *("Dequeueable's three calls, azure-storage-blob", "WebJobs' five calls, azure-storage-blob"),
)


def measure(loop: asyncio.AbstractEventLoop, azurite: Azurite, delay: float, rounds: int) -> dict[str, Taken]:
    """Let them take turns, all behind the same delay."""
    with delayed(azurite.blob_port, delay) as port:
        through = azurite.connection_string.replace(f":{azurite.blob_port}/", f":{port}/")
        with rivals_on(loop, through, port) as others, ours.contestants(through) as own:
            return in_turns(loop, [each for each in [*own, *others] if each.name in _SHOWN], rounds, block=3, warm=3)


def main(rounds: int = 40) -> Tables:
    """Measure, and show."""
    heading("A lock's cycle on storage (Azurite) with a delay before each request")
    say(machine())
    loop = asyncio.new_event_loop()
    try:
        with Azurite(say) as azurite:
            calls = calls_of(loop, azurite)
            walls = {
                delay: {name: each.wall * 1e3 for name, each in measure(loop, azurite, delay, rounds).items()}
                for delay in DELAYS
            }
    finally:
        loop.close()
    unit = {delay: found[MEASURE] for delay, found in walls.items()}
    rows: Rows = [("a cycle", "calls", *(f"+{delay} ms a call" for delay in DELAYS))]
    for name in _SHOWN:
        shown = [f"{found[name]:.1f} ms, {found[name] / unit[delay]:.2f}" for delay, found in walls.items()]
        rows.append((name, f"{calls[name]:.3g}", *shown))
    added = {delay: (found - unit[0]) / calls[MEASURE] for delay, found in unit.items()}
    rows.append(("what each call of azure-storage-blob took more", "", *(f"{each:.1f} ms" for each in added.values())))
    for name, count, ratio in _DOTNET:
        computed = [(ratio * unit[0] + count * added[delay]) / unit[delay] for delay in DELAYS]
        rows.append((name, str(count), f"{ratio:.2f}", *(f"{each:.2f} computed" for each in computed[1:])))
    table(rows)
    return {"network": rows}


if __name__ == "__main__":
    main()

"""What does the first lock of a process take, its imports included? In processes of their own, taking turns.

The measure is what an app pays anyway: ``import azure.functions``.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.measuring import heading, machine, say, table
from simulator.azurite.server import Azurite
from singleton import SingletonOptions

if TYPE_CHECKING:
    from benchmarks.measuring import Rows, Tables

_APP: Final = "azure.functions, imported alone"
_CODE: Final = """
import sys, time
def now(): return time.perf_counter(), time.process_time()
start = now()
import azure.functions
imported = now()
from singleton import LockClient, SingletonOptions
with LockClient("AzureWebJobsStorage", options=SingletonOptions(container="bench", **{options})).lock("first"):
    inside = now()
print(*(after - before for a, b in ((start, imported), (imported, inside)) for before, after in zip(a, b)))
"""


def measure(azurite: Azurite, times: int) -> dict[str, list[tuple[float, float]]]:
    """Return the seconds and CPU seconds of each; the first process of each kind doesn't count."""
    ways: dict[str, dict[str, str]] = {"the first lock, after that": {}}
    if hasattr(SingletonOptions(), "http"):
        ways['the first lock, `http="sdk"`, after that'] = {"http": "sdk"}
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in (_APP, *ways)}
    root = str(Path(__file__).parents[1])
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "AzureWebJobsStorage": azurite.connection_string, "PYTHONPATH": root}
        for number in range(times + 1):
            for name, options in ways.items():
                command = [sys.executable, "-c", _CODE.format(options=options)]
                numbers = subprocess.check_output(command, env=environment, cwd=folder, text=True).split()
                wall, cpu, more, more_cpu = map(float, numbers)
                if number:
                    found[_APP].append((wall, cpu))
                    found[name].append((more, more_cpu))
    return found


def main(times: int = 7) -> Tables:
    """Measure, and show."""
    heading("The first lock of a process (Azurite)")
    say(machine())
    with Azurite(say) as azurite:
        found = measure(azurite, times)
    rows: Rows = [("", "ms", "of these, least and most", "CPU ms", "to importing azure.functions")]
    measured = statistics.median(wall for wall, _ in found[_APP])
    for name, taken in found.items():
        walls, cpus = zip(*taken, strict=True)
        wall = statistics.median(walls)
        spread = f"{min(walls) * 1e3:.0f} … {max(walls) * 1e3:.0f}"
        rows.append(
            (name, f"{wall * 1e3:.0f}", spread, f"{statistics.median(cpus) * 1e3:.0f}", f"{wall / measured:.2f}")
        )
    table(rows)
    return {"first": rows}


if __name__ == "__main__":
    main()

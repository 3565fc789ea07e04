"""What does the decorator's import cost a worker, and a test its `memory_locks`? CPU time, in processes of their own.

A worker imports `azure.functions` in any case, so this import is measured apart, and that of the decorator after it.
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

if TYPE_CHECKING:
    from benchmarks.measuring import Rows

_IMPORTS: Final = """
import sys, time
def now(): return time.process_time(), len(sys.modules)
start = now()
import azure.functions
functions = now()
from singleton import singleton
ours = now()
print(*(after - before for a, b in ((start, functions), (functions, ours)) for before, after in zip(a, b)))
"""
_MEMORY: Final = """
import time
from singleton import singleton
from singleton.testing import memory_locks
@singleton
def pay(): return "paid"
def test():
    with memory_locks(): pay()
test()
start = time.process_time()
for _ in range(20): test()
print((time.process_time() - start) / 20)
"""


def main(times: int = 9) -> None:
    """Measure, and show. The first process of each kind compiles the sources, and does not count."""
    heading("What an import costs, and a test with locks in memory")
    say(machine())
    with tempfile.TemporaryDirectory() as folder:
        imports = [_numbers(_IMPORTS, folder) for _ in range(times + 1)][1:]
        tests = [_numbers(_MEMORY, folder) for _ in range(times + 1)][1:]
    functions, loaded, ours, more = zip(*imports, strict=True)
    rows: Rows = [("", "CPU ms", "of these, least and most", "modules")]
    measured = (
        ("import azure.functions", functions, f"{loaded[0]:.0f}"),
        ("from singleton import singleton, after that", ours, f"{more[0]:.0f}"),
        ("a test with memory_locks", [each[0] for each in tests], ""),
    )
    for name, seconds, modules in measured:
        median, least, most = (1e3 * number for number in (statistics.median(seconds), min(seconds), max(seconds)))
        rows.append((name, f"{median:.1f}", f"{least:.1f} … {most:.1f}", modules))
    table(rows)


def _numbers(code: str, bytecode: str) -> list[float]:
    """Run the code in a new interpreter that keeps its bytecode in this folder, as an installed package has it."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    environment["PYTHONPYCACHEPREFIX"] = bytecode
    command = [sys.executable, "-W", "ignore", "-c", code]
    root = Path(__file__).parents[1]
    return [*map(float, subprocess.check_output(command, cwd=root, env=environment, text=True).split())]


if __name__ == "__main__":
    main()

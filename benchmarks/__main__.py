"""``make bench``: all benchmarks but the long ones, in one run; their tables go into docs/performance.md.

    make bench                                     all of them, and the page
    make bench ARGS="storage first"                some, and the page stays as it is
    make bench ARGS="storage --write"              some, and their tables in the page
    make bench ARGS="days --price 0.005 --writes-price 0.06"

A benchmark is a module ``bench_NAME.py`` with a function ``main``, which shows what it measured, and may return tables
for the page, by their names there.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks import bench_days, drift, page
from benchmarks.measuring import machine, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.measuring import Tables

    Benchmark = Callable[[], Tables | None]

_FIRST: Final = ("storage", "first", "days")
"""Those about a lock; the others follow by their names."""
_LONG: Final = {"sweep"}
"""Those that take hours: only when asked for."""


def benchmarks(price: float, writes_price: float) -> dict[str, Benchmark]:
    """Return all benchmarks that there are, by name."""
    names = sorted(file.stem.removeprefix("bench_") for file in Path(__file__).parent.glob("bench_*.py"))
    found = {name: importlib.import_module(f"benchmarks.bench_{name}").main for name in [*_FIRST, *names]}
    return found | {"drift": drift.main, "days": functools.partial(bench_days.main, price, writes_price)}


def listed() -> str:
    """Return a line for each benchmark: its name, and what its module says first."""
    lines = []
    for name, run in benchmarks(bench_days.OTHER, bench_days.WRITES).items():
        main_of = run.func if isinstance(run, functools.partial) else run
        first = re.match(r".*?[.?](?=\s|$)", sys.modules[main_of.__module__].__doc__ or "")
        long = " Takes hours: only when asked for." if name in _LONG else ""
        lines.append(f"  {name:<10} {first[0] if first else ''}{long}")
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    """Run the benchmarks that are asked for, or all that are not long."""
    parser = argparse.ArgumentParser(
        prog="make bench",
        description="Measure, and write docs/performance.md.",
        epilog=f"benchmarks:\n{listed()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", help="which; all but the long ones by default")
    parser.add_argument("--write", action="store_true", help="put the tables of these into docs/performance.md")
    parser.add_argument("--price", type=float, default=bench_days.OTHER, help="dollars for 10,000 other operations")
    parser.add_argument("--writes-price", type=float, default=bench_days.WRITES, help="dollars for 10,000 writes")
    given = parser.parse_args(arguments)
    known = benchmarks(given.price, given.writes_price)
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"{unknown[0]!r} is no benchmark: give some of {', '.join(known)}, or nothing for all")
    for name in given.names or [name for name in known if name not in _LONG]:
        tables = known[name]() or {}
        if given.write or not given.names:
            for section, rows in tables.items():
                page.write(section, rows, f"{time.strftime('%Y-%m-%d')}, {machine()}.")
                say(f"  written into {page.PAGE.name}, {section}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Write tests/simulation/planted_bugs.md: which planted bug was found by whom, and after how many scenarios.

python -m tests.simulation.mutant_table          scenarios in order: the first that finds it (half an hour)
python -m tests.simulation.mutant_table --moved  only those anew that are no longer found where the page says
"""

from __future__ import annotations

import re
import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.simulation.mutants import MUTANTS
from tests.simulation.planting import ROOT, SCENARIOS, Catch, Hunter

if TYPE_CHECKING:
    from tests.simulation.planted.mutant import Mutant

_FILE = ROOT / "tests" / "simulation" / "planted_bugs.md"
_ROW = re.compile(r"^\| ([^|]+?) \|", re.MULTILINE)
_AFTER = re.compile(r"^\| ([^|]+?) \|[^|]*\|[^|]*\| (\d+) \|", re.MULTILINE)
_HEAD = """# Planted bugs

This page lists {count} small changes of the shipped source. Each of them breaks a promise: it is a planted bug. The
tests plant the bugs one by one, and explore the broken code as `make explore` does (seed 1, 5 hosts, all
faults, all workloads). Exploring finds {explored} of them: {half} within {median} scenarios, all within {most}. The
other {tested} can't be shown in a virtual world. Tests find them, and the last column says why. If the last column
names a workload, only worlds of that workload are explored (`--workload`); of a workload with small worlds each point
is struck in its order (`--all`). If it names the wire, all worlds run over the virtual wire (`--wire`), and else none.

`.venv/bin/python -m tests.simulation.mutant_table` writes this page. The numbers are those of Python {python}.

| planted bug | what it breaks | found by | after scenario | remark |
| --- | --- | --- | ---: | --- |
"""


def names_in(text: str) -> list[str]:
    """Return the names of the planted bugs in the page, in order."""
    return [name for name in _ROW.findall(text) if name not in ("planted bug", "---")]


def found_after(text: str) -> dict[str, int]:
    """Return the scenario that found each planted bug when the page was written."""
    return {name: int(number) for name, number in _AFTER.findall(text)}


def page(catches: list[tuple[Mutant, Catch]]) -> str:
    """Return the page for these results."""
    after = sorted(catch.after for mutant, catch in catches if not mutant.by)
    head = _HEAD.format(
        count=len(catches),
        explored=len(after),
        half=sum(number <= statistics.median_high(after) for number in after),
        median=statistics.median_high(after),
        most=after[-1],
        tested=len(catches) - len(after),
        python=f"{sys.version_info.major}.{sys.version_info.minor}",
    )
    return head + "".join(_row(mutant, catch) for mutant, catch in catches)


def _row(mutant: Mutant, catch: Catch) -> str:
    if mutant.by:
        found, after = catch.text.rpartition("/")[2].split("[")[0].replace("::", ": "), ""
    else:
        found, after = str(catch.check), str(catch.after)
    ways = [f"among `{mutant.among}`"] * bool(mutant.among) + ["over the wire"] * mutant.wire
    remark = ", ".join(ways) or mutant.why
    return f"| {mutant.name} | {mutant.breaks} | {found} | {after} | {remark} |\n"


def main(arguments: list[str]) -> int:
    """Hunt all planted bugs, two at a time, and write the page."""
    known = found_after(_FILE.read_text(encoding="utf-8")) if "--moved" in arguments else {}

    def hunt(mutants: tuple[Mutant, ...]) -> list[Catch]:
        with Hunter() as hunter:
            return [hunter.hunt(mutant, first=known.get(mutant.name, 1)) for mutant in mutants]

    with ThreadPoolExecutor(2) as pool:
        halves = list(pool.map(hunt, (MUTANTS[::2], MUTANTS[1::2])))
    found = dict(zip((*MUTANTS[::2], *MUTANTS[1::2]), (*halves[0], *halves[1]), strict=True))
    catches = [(mutant, found[mutant]) for mutant in MUTANTS]
    for mutant, catch in catches:
        if catch.check is None:
            print(f"{mutant.name}: nobody noticed in {SCENARIOS} scenarios", file=sys.stderr)  # noqa: T201 - a tool
    if any(catch.check is None for _, catch in catches):
        return 1
    _FILE.write_text(page(catches), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

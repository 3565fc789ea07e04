"""What the benchmarks share: contestants that take turns, a line of output, a table, and how busy the machine is."""

from __future__ import annotations

import inspect
import os
import platform
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    Rows = list[tuple[str, ...]]
    Tables = dict[str, Rows]
    """What is written into docs/performance.md, by the name of its place there; the first row is the head."""


@dataclass(frozen=True, slots=True)
class Contestant:
    """Something that is measured beside others.

    Attributes:
        name: what it is called in tables.
        cycle: does it once; a coroutine function runs on the benchmark's loop, another one without a loop.
        sections: how many sections one cycle has; the time is divided by it.
    """

    name: str
    cycle: Callable[[], Any]
    sections: int = 1


@dataclass(slots=True)
class Taken:
    """What the cycles of one contestant took: seconds a section."""

    walls: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)

    @property
    def wall(self) -> float:
        """The median."""
        return statistics.median(self.walls)

    @property
    def cpu(self) -> float:
        """The median, of the whole process."""
        return statistics.median(self.cpus)

    @property
    def spread(self) -> str:
        """Between which a half of them was."""
        low, _, high = statistics.quantiles(self.walls, n=4)
        return f"{low * 1e3:.1f} … {high * 1e3:.1f}"


def in_turns(
    loop: asyncio.AbstractEventLoop, contestants: Sequence[Contestant], rounds: int, *, block: int = 5, warm: int = 5
) -> dict[str, Taken]:
    """Let all of them have a block of cycles in each round, in random order, so that a busy machine hurts all alike.

    The first ``warm`` rounds don't count.
    """
    taken = {each.name: Taken() for each in contestants}
    rng = random.Random(1)
    for number in range(warm + rounds):
        for each in rng.sample(list(contestants), len(contestants)):
            walls, cpu = _block(loop, each.cycle, block)
            if number >= warm:
                taken[each.name].walls += [wall / each.sections for wall in walls]
                taken[each.name].cpus.append(cpu / each.sections)
    return taken


def _block(loop: asyncio.AbstractEventLoop, cycle: Callable[[], Any], times: int) -> tuple[list[float], float]:
    """Return the seconds of each cycle, and the CPU seconds of one."""

    async def coroutines() -> tuple[list[float], float]:
        walls = []
        cpu = time.process_time()
        for _ in range(times):
            began = time.perf_counter()
            await cycle()
            walls.append(time.perf_counter() - began)
        return walls, (time.process_time() - cpu) / times

    if inspect.iscoroutinefunction(cycle):
        return loop.run_until_complete(coroutines())
    walls = []
    cpu = time.process_time()
    for _ in range(times):
        began = time.perf_counter()
        cycle()
        walls.append(time.perf_counter() - began)
    return walls, (time.process_time() - cpu) / times


def say(line: str = "") -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def heading(title: str) -> None:
    """Begin a part."""
    say()
    say(title)
    say("=" * len(title))


def table(rows: Sequence[Sequence[str]]) -> None:
    """Write rows in columns, the first to the left and the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = (
            text.ljust(width) if column == 0 else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        say("   ".join([f"  {first}", *others]).rstrip())


def machine() -> str:
    """Say what it is measured on, and how much else runs there."""
    return f"Python {platform.python_version()}, {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"

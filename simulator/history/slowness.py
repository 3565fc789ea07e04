"""How slow the machine was: for how long it kept the hosts waiting, measured where no lock can take part.

Each host measures its own machine, and one process of the run measures the storage (`simulator.host.machine_measure`,
`simulator.host.storage_measure`). Both write a record only for a second with delays.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.history.journal import Record, Write

STORAGE: Final = "storage"
"""The writer of the delays of the storage: all hosts share one storage."""
_TOGETHER: Final = 1.0
"""Seconds of measures in one record."""
_TOLD: Final = 0.1
"""Seconds of delay from which a record is worth writing."""


class SlownessLog:
    """Writes ``machine_slow``: of each measure of about a second how long it took, and the delay in it."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._measures: list[tuple[float, float]] = []

    def add(self, seconds: float, late: float) -> None:
        """Take the next measure, over the last so many seconds, and the seconds of delay in it."""
        late = min(max(late, 0.0), seconds)
        self._measures.append((round(seconds, 3), round(late, 3)))
        if sum(each for each, _ in self._measures) >= _TOGETHER:
            self.flush()

    def flush(self) -> None:
        """Write what is left."""
        measures, self._measures = self._measures, []
        if sum(late for _, late in measures) >= _TOLD:
            self._write("machine_slow", measures=measures)


@dataclass(frozen=True, slots=True)
class _Measure:
    start: float
    end: float
    late: float


@dataclass(slots=True)
class Slowness:
    """The delays of a run. ``measured``: hosts of this run measure them, as the journals of older runs do not."""

    measured: bool = False
    _of: dict[str, list[_Measure]] = field(default_factory=lambda: defaultdict(list))

    def take(self, record: Record, paused: Callable[[str, float, float], bool]) -> None:
        """Take a record of delays. While the run itself lets a host stand still, the machine is not to blame."""
        measures, end = [], record.t
        for seconds, late in reversed(record.get("measures") or ()):
            if late and not paused(record.host, end - seconds, end):
                measures.append(_Measure(end - seconds, end, late))
            end -= seconds
        self._of[record.host] += reversed(measures)

    def late(self, *hosts: str, start: float, end: float) -> float:
        """Return for how many of the seconds between these two the machine kept these hosts waiting.

        One host may have waited for another, or for `STORAGE`: their delays add up.
        """
        return min(max(end - start, 0.0), sum(self._late(host, start, end) for host in {*hosts}))

    def _late(self, host: str, start: float, end: float) -> float:
        measures = self._of.get(host, [])
        seconds = 0.0
        for each in measures[bisect_left(measures, start, key=attrgetter("end")) :]:
            if each.start >= end:
                break
            seconds += min(each.late, min(each.end, end) - max(each.start, start))
        return seconds

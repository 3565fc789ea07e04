"""When a host, or the loop of one of its workers, did nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.journal import Record


@dataclass(slots=True, kw_only=True)
class Pause:
    """A host stood still for a time, and went on."""

    host: str
    start: float
    end: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A time in which the loop of a worker did nothing: something blocked it, or the whole process."""

    host: str
    worker: int
    start: float
    end: float


def standstill(record: Record) -> Standstill:
    """Read a record of a loop that goes on: it is written at the end."""
    worker, start = int(record.get("worker") or 1), record.t - float(record.get("seconds") or 0)
    return Standstill(host=record.host, worker=worker, start=start, end=record.t)


def covered(spans: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Return how much of the time between these two is in the spans."""
    seconds, known = 0.0, start
    for since, until in sorted(spans):
        seconds += max(0.0, min(until, end) - max(since, known))
        known = max(known, until)
    return seconds

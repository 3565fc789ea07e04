"""What struck hosts from outside, and when hosts did nothing: faults of a nemesis, pauses, loops that stood still."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.journal import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault of a nemesis.

    Attributes:
        id: its number, from 1.
        kind: what it does; ``unknown`` is a kind that this version does not know, and excuses nothing.
        hosts: whom it hits.
        lock: the path of a lock's blob, if it is about one lock.
        way: of a partition: what does not get through, ``both``, ``requests`` or ``replies``.
        aim: what it struck: ``holder``, ``renewal``, ``release``, ``waiters`` or ``anybody``.
        meant: what it was to strike; something else if that moment did not come in time.
        what: one sentence for people.
        start: when it began.
        end: when it was over; infinity while it lasts.
        seconds: how long it was to last; None for an instant.
        hits: how many requests it hit.
    """

    id: int
    kind: str
    hosts: tuple[str, ...] = ()
    lock: str = ""
    way: str = ""
    aim: str = ""
    meant: str = ""
    what: str = ""
    start: float
    end: float = math.inf
    seconds: float | None = None
    hits: int = 0


@dataclass(slots=True, kw_only=True)
class PauseSpan:
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

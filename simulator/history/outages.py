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
        kind: the kind of fault; ``unknown`` is a kind that this version does not know, and excuses nothing.
        hosts: the hosts that are hit.
        lock: the path of a lock's blob, for a fault about one lock.
        way: the direction that a partition blocks, ``both``, ``requests`` or ``replies``.
        aim: the moment of the strike: ``holder``, ``renewal``, ``release``, ``waiters`` or ``anybody``.
        meant: the planned moment: another than ``aim`` if the planned moment did not come in time.
        what: one sentence for people.
        start: the begin.
        end: infinity while the fault lasts.
        seconds: the planned length; None for an instant.
        hits: how many requests were hit.
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

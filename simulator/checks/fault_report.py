"""What each fault of a run did, and what of the run it excused: for the verdict."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.checks.excuses.causes import behind_failure, behind_loss, behind_overlap, behind_return
from simulator.checks.excuses.hindrance import ASKED
from simulator.checks.findings import count

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from simulator.checks.exclusion import Overlap
    from simulator.history.facts import History
    from simulator.history.outages import Strike


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultReport:
    """One fault of a nemesis.

    Attributes:
        at: the begin, in seconds from the start of the run.
        seconds: the length; None: until the end of the run.
        lock: the path of the lock's blob, for a fault about one lock.
        aim: the moment of the strike: ``holder``, ``renewal``, ``release``, ``waiters`` or ``anybody``.
        meant: the planned moment: another than ``aim`` if the planned moment did not come in time.
        what: one sentence for people.
        hits: how many requests were hit.
        excused: the excused effects, in words; empty if there are none.
    """

    id: int
    kind: str
    at: float
    seconds: float | None
    hosts: tuple[str, ...]
    lock: str
    aim: str
    meant: str
    what: str
    hits: int
    excused: str


def report_faults(history: History, caught: Sequence[Overlap]) -> tuple[FaultReport, ...]:
    """Return a report for each fault, in order."""
    excused: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
    for faults, one, many in _excused(history, caught):
        if faults:  # several may be behind it: the last to begin is named
            excused[max(faults, key=lambda fault: fault.start).id][one, many] += 1
    return tuple(
        FaultReport(
            id=fault.id,
            kind=fault.kind,
            at=fault.start - history.start,
            seconds=None if fault.end == math.inf else fault.end - fault.start,
            hosts=fault.hosts,
            lock=fault.lock,
            aim=fault.aim,
            meant=fault.meant or fault.aim,
            what=fault.what,
            hits=fault.hits,
            excused=", ".join(count(number, *words) for words, number in excused[fault.id].items()),
        )
        for fault in history.faults
    )


def _excused(history: History, caught: Sequence[Overlap]) -> Iterator[tuple[list[Strike], str, str]]:
    """Yield what went wrong, with the faults behind it."""
    for overlap in caught:
        faults = behind_overlap(history, overlap.first, overlap.second)
        yield faults or _stood(history, overlap), "overlap", "overlaps"
    for section in history.bodies:
        if section.told is not None:
            faults = behind_loss(history, section) or _of(history, "pause", section.host, section.start, section.told)
            yield faults, "lost hold", "lost holds"
        elif section.ending == "killed":
            yield _ended(history, section.host, section.end), "body cut", "bodies cut"
    for call in history.invocations:
        if call.ending == "error" and call.blames:
            faults = behind_failure(history, call) or _of(history, "pause", call.host, call.start, call.end)
            yield faults, "failed invocation", "failed invocations"
    for message in history.messages.values():
        for call in message.invocations[:-1]:
            if call.ending in {"killed", "crashed"}:
                yield _ended(history, call.host, call.end), "repeated message", "repeated messages"
            elif call.ending == "ok":
                faults = behind_return(history, message, call) or _of(
                    history, "pause", call.host, call.start - ASKED, call.end + ASKED
                )
                yield faults, "repeated message", "repeated messages"


def _stood(history: History, overlap: Overlap) -> list[Strike]:
    pair = (overlap.first, overlap.second)
    return [fault for body in pair for fault in _of(history, "pause", body.host, body.start - 60, overlap.second.start)]


def _ended(history: History, host: str, t: float) -> list[Strike]:
    """Return the kill or the drain by which a host ended."""
    return _of(history, "kill", host, t - 1, t + 1) or _of(history, "drain", host, t - 60, t)


def _of(history: History, kind: str, host: str, start: float, end: float) -> list[Strike]:
    return [
        fault
        for fault in history.faults
        if fault.kind == kind and host in fault.hosts and fault.start <= end and fault.end >= start
    ]

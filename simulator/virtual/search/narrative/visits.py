"""What callers did with locks: read from the records of a run.

A caller asks for a lock, acquires the lock or not, works, and releases.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from simulator.history.journal import Record
    from simulator.history.leases import Lease


_ENDS: Final = ("released", "contended", "coalesced", "deferred", "poisoned")


@dataclass(slots=True, eq=False)
class Visit:
    """A caller's visit to a lock, as believed by the host; ``lock`` is empty while a semaphore's slot is sought."""

    host: str
    owner: str
    lock: str
    function: str = ""
    began: Record | None = None  # the caller's record before the request: is a candidate, or wants a slot
    resumed: float | None = None  # since when a former leader is a candidate again
    asked: Record | None = None
    got: Record | None = None
    entered: Record | None = None
    left: Record | None = None
    lost: Record | None = None
    done: Record | None = None  # when the caller let go or gave up; the body under the lease ends with ``left``
    over: float | None = None  # when nothing more can come: the visit is done, or the call or the host has ended
    outcome: Record | None = None  # the end of the call, if recorded
    lease: Lease | None = None  # the lease of the hold
    others: list[Record] = field(default_factory=list)

    @property
    def start(self) -> float:
        """When it began to ask, as far as that was told."""
        if self.resumed is not None:
            return self.resumed
        first = self.began or self.asked or self.got or self.entered
        return first.t if first is not None else min((record.t for record in self.others), default=0.0)

    @property
    def last(self) -> float:
        """When the last record about it was written."""
        told = (self.asked, self.got, self.entered, self.left, self.lost, self.done)
        return max((record.t for record in (*told, *self.others) if record is not None), default=self.start)

    @property
    def has(self) -> bool:
        """Whether it has, or had, the lock."""
        return self.got is not None or self.entered is not None

    @property
    def open(self) -> bool:
        """Whether it goes on."""
        return self.over is None

    @property
    def inside(self) -> bool:
        """Whether its body runs on."""
        return self.open and self.entered is not None and self.left is None

    @property
    def was_lost(self) -> bool:
        """Whether its host knew that it had lost the lock."""
        return self.lost is not None or (self.left is not None and self.left.text("reason") == "lost")

    @property
    def well(self) -> bool:
        """Whether it acquired the lock, did its work, and released."""
        return self.has and self.left is not None and not self.was_lost and not self.open

    def inside_with(self, other: Visit) -> bool:
        """Tell whether the bodies of both ran at the same time."""
        if self.entered is None or other.entered is None:
            return False
        mine, theirs = (visit.left.t if visit.left else visit.over or float("inf") for visit in (self, other))
        return self.entered.t < theirs and other.entered.t < mine


class _VisitReader:
    def __init__(self) -> None:
        self.visits: list[Visit] = []
        self._current: dict[tuple[str, str, str], Visit] = {}
        self._began: dict[tuple[str, str], Record] = {}

    def take(self, record: Record) -> None:
        match record.event:
            case "lock":
                self._take_event(record)
            case "visit_began" | "candidacy_began":
                self._began[record.host, record.text("owner")] = record
                self._new(record.host, record.text("owner"), record.text("lock"))
            case "invocation_ended" | "visit_ended" | "candidacy_ended":
                self._end(record, record.text("invocation") or record.text("owner"))
            case "kill" | "host_exited":
                self._end(record, None)

    def _take_event(self, record: Record) -> None:
        host, owner, lock = record.host, record.text("owner"), record.text("lock")
        visit = self._current.get((host, owner, lock))
        match record.text("kind"):
            case "waiting":
                self._new(host, owner, lock, record.text("function")).asked = record
            case "acquired":
                if visit is None or visit.has or visit.done is not None:
                    visit = self._new(host, owner, lock, record.text("function"))
                visit.got = record
            case "body_started":
                if visit is None or visit.entered is not None or visit.done is not None:
                    visit = self._new(host, owner, lock, record.text("function"))
                visit.entered = record
            case kind:
                visit = visit or self._new(host, owner, lock, record.text("function"))
                self._go_on(visit, kind, record)

    def _go_on(self, visit: Visit, kind: str, record: Record) -> None:
        if kind == "body_ended":
            visit.left = record
            if visit.got is None:  # its process has the lock, for all its bodies
                visit.over = record.t
        elif kind == "lost":
            visit.lost = record
        elif kind in _ENDS and visit.done is None:
            visit.done, visit.over = record, record.t
            if visit.began is not None and visit.began.event == "candidacy_began":
                self._new(visit.host, visit.owner, visit.lock).resumed = record.t
        else:
            visit.others.append(record)

    def _new(self, host: str, owner: str, lock: str, function: str = "") -> Visit:
        seeking = self._current.pop((host, owner, ""), None) if lock else None
        if seeking is not None:
            self.visits.remove(seeking)
        visit = Visit(host, owner, lock, function, began=self._began.get((host, owner)))
        self._current[host, owner, lock] = visit
        self.visits.append(visit)
        return visit

    def _end(self, record: Record, owner: str | None) -> None:
        for visit in self._current.values():
            if visit.host == record.host and owner in (None, visit.owner):
                if visit.over is None:
                    visit.over = record.t
                if owner is not None and visit.outcome is None:
                    visit.outcome = record


def read_visits(records: Iterable[Record], leases: Sequence[Lease]) -> list[Visit]:
    """Return all visits, in the order of their beginnings, each with the lease that it was under."""
    reader = _VisitReader()
    for record in records:
        reader.take(record)
    for visit in reader.visits:
        if (first := visit.got or visit.entered) is not None:
            mine = [lease for lease in leases if (lease.blob, lease.host) == (visit.lock, visit.host)]
            visit.lease = next((lease for lease in reversed(mine) if lease.start <= first.t), None)
    return reader.visits

"""Who had which lease when, as the service knew it: read from the requests of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.journal import Record

Ending = Literal["open", "released", "expired", "operator", "taken"]

_NOTICE: Final = 10.0
"""Seconds for which a lease goes on that an operator breaks slowly."""
_ROUNDING: Final = 1e-6


@dataclass(slots=True, eq=False)
class Lease:
    """One lease, from its grant to its end; ``requests`` are all that its host sent under it, the grant among them."""

    lock: str
    host: str
    id: str
    since: float
    until: float
    ended: float | None = None
    ending: Ending = "open"
    requests: list[Record] = field(default_factory=list)


def read_leases(records: Iterable[Record], at: float) -> list[Lease]:
    """Return all leases that began until ``at``, in order."""
    leases: list[Lease] = []
    current: dict[str, Lease] = {}
    known: dict[tuple[str, str], Lease] = {}
    for record in records:
        if record.event == "operator":
            _operated(current.get(record.text("lock")), record)
        elif record.event == "request":
            lock, lease_id = record.text("name"), record.text("lease")
            lease, mine = current.get(lock), known.get((lock, lease_id))
            if record.text("call") == "acquire" and record.get("until") is not None and not _goes_on(mine, record):
                _end(lease, record.t, "taken")
                mine = current[lock] = known[lock, lease_id] = Lease(lock, record.host, lease_id, record.t, 0.0)
                leases.append(mine)
            if mine is not None and mine.host == record.host:
                mine.requests.append(record)
                mine.until = record.get("until") or mine.until
            if record.text("call") == "break_" and lease is not None:
                lease.requests.append(record)
            if record.text("answer") == "ok" and record.text("call") in ("release", "break_"):
                _end(lease, record.t, "released" if lease is mine else "taken")
    for lease in leases:
        _end(lease, at, "open")
    return leases


def _goes_on(lease: Lease | None, record: Record) -> bool:
    """Tell whether a request that was granted only prolongs this lease."""
    return lease is not None and lease.ended is None and lease.until >= record.t and lease.host == record.host


def _operated(lease: Lease | None, record: Record) -> None:
    slowly = record.text("action") == "break slowly"
    _end(lease, record.t + _NOTICE if slowly else record.t, "operator")


def _end(lease: Lease | None, at: float, ending: Ending) -> None:
    if lease is None or lease.ended is not None:
        return
    if lease.until <= at + _ROUNDING:
        lease.ended, lease.ending = lease.until, "expired"
    elif ending != "open":
        lease.ended, lease.ending = at, ending

"""Leases: granted, renewed, released, expired, broken. Read from the requests that hosts sent.

A host's tap sees its requests (``lease_request``). In a virtual world the service's answers are known (``request``).
Where neither is in the records, a lease is concluded from the hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.history.deeds import semaphore_of
from simulator.history.journal import Record, in_order
from simulator.report.timeline.timeline import DEADLINE, LeaseEnd, LeaseSpan

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import Acquisition, History

_DONE: Final = frozenset({200, 201, 202})
_GONE: Final = frozenset({404, 409, 412})
"""Answers to a release that say that the lease has ended already."""
_PERIOD: Final = 15.0
_NOTICE: Final = 10.0
"""Seconds for which a lease goes on that an operator breaks slowly."""
_RENEWING: Final = ("renew", "change")
_ENDINGS: Final[dict[str, LeaseEnd]] = {"release": "released", "break_": "broken"}
_SOON: Final = 1.0
"""Seconds between the answer to a request for a lease and the lock's word on it."""


@dataclass(slots=True)
class _Lease:
    blob: str
    host: str
    start: float
    expires: float
    period: float
    renewed: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)
    left: float = math.inf  # when its holder asked for its release, and got no answer
    end: float = math.inf
    ending: LeaseEnd = "open"
    seen: bool = True


class _Books:
    def __init__(self) -> None:
        self.all: list[_Lease] = []
        self._now: dict[str, _Lease] = {}
        self._of: dict[tuple[str, str], list[_Lease]] = defaultdict(list)

    def granted(self, t: float, host: str, blob: str, period: float, *, anew: bool) -> None:
        current = self._live(blob, t)
        if current is not None and current.host == host:
            current.renewed.append(t)
            current.expires = t + period
            return
        if current is not None:
            gone = current.left <= t  # that request was carried out, as it turns out
            current.end, current.ending = (current.left, "released") if gone else (t, "taken")
        before = self._now.get(blob)
        if anew:
            self._now[blob] = _Lease(blob, host, t, t + period, period)
            self.all.append(self._now[blob])
            self._of[blob, host].append(self._now[blob])
        elif before is not None and before.host == host and before.ending == "expired":
            # The service renews an expired lease, too, if nobody has got the blob since.
            before.renewed.append(t)
            before.end, before.ending, before.expires = math.inf, "open", t + period

    def refused(self, t: float, host: str, blob: str) -> None:
        current = self._now.get(blob)
        if current is not None and current.host == host and (current.ending == "open"):
            current.refused.append(t)

    def left(self, t: float, host: str, blob: str) -> None:
        current = self._live(blob, t)
        if current is not None and current.host == host:
            current.left = min(current.left, t)

    def ended(self, t: float, blob: str, ending: LeaseEnd, host: str = "") -> None:
        current = self._live(blob, t)
        if current is not None and host in {"", current.host}:
            current.end, current.ending = t, ending

    def close(self, t: float) -> None:
        for lease in self.all:
            if lease.ending == "open":
                _expire(lease, t)
                lease.end = min(lease.end, t)

    def covers(self, got: Acquisition) -> bool:
        """Tell whether a lease was seen when this lock was acquired."""
        mine = self._of[got.blob or got.lock, got.host]
        return any(lease.start - _SOON <= got.t <= lease.end for lease in mine)

    def _live(self, blob: str, t: float) -> _Lease | None:
        current = self._now.get(blob)
        if current is not None:
            _expire(current, t)
        return current if current is not None and current.end >= t else None


def _expire(lease: _Lease, t: float) -> None:
    if lease.ending == "open" and lease.expires < t:
        lease.end, lease.ending = lease.expires, "expired"


def read_leases(history: History, records: Iterable[Record]) -> tuple[LeaseSpan, ...]:
    """Return all leases of a run, in the order of their grants."""
    names = {got.blob or got.lock: got.lock for got in history.acquisitions}
    periods = {got.blob or got.lock: _period(history, got) for got in history.acquisitions}
    books = _Books()
    told = list(records)
    if not any(record.event == "request" or record.get("action") == "release" for record in told):
        told = in_order([*told, *_releases(history)])
    for record in told:
        _take(books, record, names, periods)
    books.close(history.end)
    books.all += [_concluded(history, got) for got in history.acquisitions if not books.covers(got)]
    spans = (_span(lease, names, history.start) for lease in books.all)
    return tuple(sorted(spans, key=lambda span: span.start))


def _take(books: _Books, record: Record, names: dict[str, str], periods: dict[str, float]) -> None:
    blob, action, until = _known(_blob(record), names), record.text("action"), None
    match record.event:
        case "lease_request":
            done = record.get("status") in _DONE
            until = record.t + periods.get(blob, _PERIOD) if done else None
            if action == "release" and (done or record.get("status") in _GONE):
                books.ended(record.t, blob, "released", record.host)
            elif action == "release" and record.get("status") is None:
                books.left(record.t, record.host, blob)
        case "request":
            action, until = record.text("call"), record.get("until")
            if action in _ENDINGS and record.text("answer") == "ok":
                books.ended(record.t, blob, _ENDINGS[action], record.host if action == "release" else "")
        case "operator" if action in {"", "break", "break slowly", "delete"}:
            books.ended(record.t + _NOTICE * (action == "break slowly"), blob, "broken")
    if record.event in {"lease_request", "request"} and action in {"acquire", *_RENEWING}:
        _asked(books, record, blob, action, None if until is None else float(until) - record.t)


def _blob(record: Record) -> str:
    return record.text("blob") or record.text("name" if record.event == "request" else "lock")


def _releases(history: History) -> Iterator[Record]:
    """Yield what journals lack that don't tell of releases."""
    for got in history.acquisitions:
        if got.ending == "ok":
            fields = {"action": "release", "blob": got.blob or got.lock, "status": 200}
            yield Record(got.until, got.host, "lease_request", fields)


def _asked(books: _Books, record: Record, blob: str, action: str, period: float | None) -> None:
    if period is not None:
        books.granted(record.t, record.host, blob, period, anew=action == "acquire")
    elif action in _RENEWING:
        books.refused(record.t, record.host, blob)


def _known(path: str, names: dict[str, str]) -> str:
    """Return the part of an address that names the blob of a lock. The kind of address decides how much is above it."""
    rest = path.lstrip("/")
    while rest:
        if rest in names:
            return rest
        rest = rest.partition("/")[2]
    _, found, below = path.partition("/locks/")
    return found.lstrip("/") + below if found else path


def _concluded(history: History, got: Acquisition) -> _Lease:
    period = _period(history, got)
    lease = _Lease(got.blob or got.lock, got.host, got.t, max(got.t + period, min(got.until, history.end)), period)
    lease.seen = False
    if got.ending == "ok":
        lease.end, lease.ending = got.until, "released"
    elif got.ending in {"killed", "crashed"}:
        lease.expires = got.until + period
        lease.end, lease.ending = min(lease.expires, history.end), "expired"
    elif got.ending == "lost":
        lease.end, lease.ending = got.until, "expired"
    else:
        lease.end = min(got.until, history.end)
    return lease


def _period(history: History, got: Acquisition) -> float:
    return history.function(got.function).lease_in(got.mode)


def _span(lease: _Lease, names: dict[str, str], start: float) -> LeaseSpan:
    return LeaseSpan(
        lock=names.get(lease.blob) or semaphore_of(lease.blob),
        blob=lease.blob,
        host=lease.host,
        start=lease.start - start,
        end=lease.end - start,
        ending=lease.ending,
        renewed=tuple(t - start for t in lease.renewed),
        refused=tuple(t - start for t in lease.refused),
        expires=lease.expires - start,
        deadline=lease.expires - lease.period * (1 - DEADLINE) - start,
        seen=lease.seen,
    )

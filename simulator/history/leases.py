"""Leases: granted, renewed, released, expired, broken. Read from the requests that hosts sent.

A host's tap sees its requests (``lease_request``). In a virtual world the service's answers are known (``request``).
If the records have neither, a lease is concluded from the hold.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from simulator.history.deeds import SEAT, is_refused, may_be_repeated, semaphore_of
from simulator.history.journal import Record, in_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from simulator.history.facts import Acquisition, History, LeaseRequest


LeaseEnd = Literal["released", "expired", "broken", "taken", "open"]
"""How a lease ended. ``taken``: another host was granted the lease early. ``open``: the records end first."""
DEADLINE: Final = 14 / 15
"""The share of a lease after which the holder gives the lock up, counted from the last grant."""
_GRANTED: Final = frozenset({200, 201, 202})
_GONE: Final = frozenset({404, 409, 412})
"""Answers to a release of a lease that has ended already."""
_PERIOD: Final = 15.0
_NOTICE: Final = 10.0
"""Seconds from an operator's slow break to the lease's end."""
_TAKING: Final = frozenset({"break_", "evict"})
"""Requests that end the lease of somebody else."""
_OPERATORS: Final = frozenset({"", "break", "break_", "break slowly", "steal", "delete"})
"""Actions of operators that end a lease."""
_RENEWING: Final = frozenset({"renew", "change"})
_SOON: Final = 1.0
"""Seconds between the answer to a request for a lease and the lock's word on it."""
_ROUNDING: Final = 1e-6


@dataclass(slots=True, eq=False, kw_only=True)
class Lease:
    """A lease on a lock's blob, from its grant to its end."""

    lock: str
    blob: str  # the path of the blob; of a semaphore, its slot
    host: str
    start: float
    expires: float  # when it ends by itself, counted from the last grant
    id: str = ""  # the lease id; empty if no record tells the id
    end: float = math.inf  # its end; infinity while the lease lasts
    ending: LeaseEnd = "open"
    period: float = _PERIOD  # seconds from a grant to the expiry
    renewed: list[float] = field(default_factory=list)
    refused: list[float] = field(default_factory=list)  # when a renewal was refused, or got no answer
    requests: list[Record] = field(default_factory=list, repr=False)
    """The requests of its host under this lease, its grant first, and requests to break it."""
    left: float = math.inf  # when its host asked for its release, and got no answer; infinity: not asked, or answered
    seen: bool = True  # whether the host saw the requests; otherwise the lease is concluded from the holds

    @property
    def deadline(self) -> float:
        """When its holder must have given the lock up, counted from the last grant."""
        return self.expires - self.period * (1 - DEADLINE)

    def over(self, at: float, ending: LeaseEnd) -> None:
        """End the lease, unless ended before; an end after the expiry counts as the expiry."""
        if self.expires <= at + _ROUNDING:
            at, ending = self.expires, "expired"
        if at < self.end:
            self.end, self.ending = at, ending


class LeaseReader:
    """Reads leases from records, the oldest first. ``names`` and ``periods``: locks and seconds of leases by blob."""

    def __init__(self, names: Mapping[str, str], periods: Mapping[str, float]) -> None:
        self.leases: list[Lease] = []
        self._names = names
        self._periods = periods
        self._last: dict[str, Lease] = {}
        self._known: dict[tuple[str, str, str], Lease] = {}

    def take(self, record: Record) -> None:
        """Take the next record; records about something else are skipped."""
        match record.event:
            case "lease_request":
                blob, status = self._blob(record), record.get("status")
                until = record.t + self._periods.get(blob, _PERIOD) if status in _GRANTED else None
                gone = status in _GRANTED | _GONE
                action = record.text("action").replace("break", "break_")  # the word of virtual worlds
                self._answered(record, blob, action, until, done=gone, lost=status is None)
            case "request":
                done, until = record.text("answer") == "ok", record.get("until")
                self._answered(record, self._blob(record), record.text("call"), until, done=done, lost=False)
            case "operator" if record.text("action") in _OPERATORS:
                lease = self._live(self._blob(record), record.t)
                if lease is not None:
                    lease.over(record.t + _NOTICE * (record.text("action") == "break slowly"), "broken")

    def close(self, t: float) -> list[Lease]:
        """Return all leases, in the order of their grants; the records end at ``t``."""
        for lease in self.leases:
            lease.over(lease.expires, "expired")
            if lease.end > t + _ROUNDING:
                lease.end, lease.ending = t, "open"
        return self.leases

    def _answered(self, record: Record, blob: str, call: str, until: float | None, *, done: bool, lost: bool) -> None:
        lease = self._live(blob, record.t)
        key = blob, record.host, record.text("lease")
        if until is not None and (call == "acquire" or call in _RENEWING):
            self._granted(record, key, lease, until, anew=call == "acquire")
        mine, last = self._known.get(key), self._last.get(blob)
        if mine is not None:
            mine.requests.append(record)
            if until is None and call in _RENEWING and mine is last and mine.ending == "open":
                mine.refused.append(record.t)
        if call in _TAKING and last is not None:
            last.requests.append(record)
        if lease is None:
            return
        if done and (call in _TAKING or (call == "release" and lease.host == record.host)):
            lease.over(record.t, "broken" if call in _TAKING else "released")
        elif lost and call == "release" and lease.host == record.host:
            lease.left = min(lease.left, record.t)

    def _granted(
        self, record: Record, key: tuple[str, str, str], lease: Lease | None, until: float, *, anew: bool
    ) -> None:
        t, blob, mine = record.t, key[0], self._known.get(key)
        if lease is not None and lease is mine:
            mine.renewed.append(t)
            mine.expires = until
            return
        if lease is not None:  # a release without an answer was carried out, as it turns out
            lease.over(min(lease.left, t), "released" if lease.left <= t else "taken")
        if anew:
            lock = self._names.get(blob) or semaphore_of(blob)
            mine = Lease(lock=lock, blob=blob, host=record.host, id=key[2], start=t, expires=until, period=until - t)
            self._last[blob] = self._known[key] = mine
            self.leases.append(mine)
        elif mine is not None and mine is self._last.get(blob) and mine.ending == "expired":
            # The service renews an expired lease, too, if nobody has got the blob since.
            mine.renewed.append(t)
            mine.end, mine.ending, mine.expires = math.inf, "open", until

    def _live(self, blob: str, t: float) -> Lease | None:
        """Return the lease of a blob that has not ended."""
        lease = self._last.get(blob)
        if lease is not None and lease.expires < t:
            lease.over(lease.expires, "expired")
        return lease if lease is not None and lease.end >= t else None

    def _blob(self, record: Record) -> str:
        """Return the part of an address that names the blob of a lock. The address decides how much is above it."""
        path = record.text("blob") or record.text("name" if record.event == "request" else "lock")
        rest = path.lstrip("/")
        while rest:
            if rest in self._names:
                return rest
            rest = rest.partition("/")[2]
        _, found, below = path.partition("/locks/")
        return found.lstrip("/") + below if found else path


def leases_until(records: Iterable[Record], at: float) -> list[Lease]:
    """Return all leases of a virtual world that began until ``at``, in the order of their grants."""
    reader = LeaseReader({}, {})
    for record in records:
        if record.event != "lease_request":
            reader.take(record)
    return reader.close(at)


def leases_of(history: History, records: Iterable[Record]) -> list[Lease]:
    """Return all leases of a run's locks, in the order of their grants. A seat is no lock, and is left out."""
    blobs = {got.blob or got.lock: got for got in history.acquisitions}
    reader = LeaseReader(
        {blob: got.lock for blob, got in blobs.items()}, {blob: history.lease_of(got) for blob, got in blobs.items()}
    )
    told = list(records)
    if not any(record.event == "request" or record.get("action") == "release" for record in told):
        told = in_order([*told, *_releases(history)])
    for record in told:
        reader.take(record)
    seen: dict[tuple[str, str], list[Lease]] = defaultdict(list)
    for lease in reader.close(history.end):
        seen[lease.blob, lease.host].append(lease)
    concluded = [
        _concluded(history, got)
        for got in history.acquisitions
        if not any(lease.start - _SOON <= got.t <= lease.end for lease in seen[got.blob or got.lock, got.host])
    ]
    known = [lease for lease in reader.leases if lease.blob in blobs or not lease.blob.endswith(SEAT)]
    return sorted([*known, *concluded], key=lambda lease: lease.start)


def kept_leases(history: History) -> Iterator[tuple[Acquisition, float]]:
    """Yield each hold with ``at_least``, and when its process gave the lease back or handed the lease on.

    Infinity: the process did neither. Older journals tell of no release, and nothing is yielded.
    """
    tells = any(each.action == "release" for each in history.requests)
    over = {(each.host, each.lease): each.sent for each in reversed(history.requests) if each.action == "release"}
    for got in sorted(history.acquisitions, key=lambda got: got.t, reverse=True):
        if tells and got.lease and got.mode == "function" and history.function(got.function).at_least:
            yield got, over.get((got.host, got.lease), math.inf)
        over[got.host, got.lease] = got.t


def left_leases(history: History) -> Iterator[tuple[str, str, float, float]]:
    """Yield the leases that no hold tells of: lock, blob, begin and end of each.

    Their hosts gave them back, or tried to, before a hold began. So are those of holds whose release failed. Without an
    answer a request may have been carried out.
    """
    locks = {wait.lock for wait in history.waits}
    held = {(got.host, got.lease) for got in history.acquisitions}
    asked: dict[tuple[str, str, str], list[LeaseRequest]] = defaultdict(list)
    for each in history.requests:
        if each.lease:
            asked[each.host, each.blob, each.lease].append(each)
    for (host, blob, lease), several in asked.items():
        had = [each for each in several if each.action != "release" and (each.granted or each.status is None)]
        releases = [each for each in several if each.action == "release"]
        ended = [each.t for each in releases if each.granted or is_refused(each)]
        lock = semaphore_of(blob)
        while lock and lock not in locks:
            _, _, lock = lock.partition("/")
        if (host, lease) in held:
            left = not ended and any(map(may_be_repeated, releases))
        else:
            left = bool(releases) or lock in history.client_locks
        if lock and had and left:
            until = min([had[-1].t + (had[0].period or _PERIOD), *ended])
            yield lock, lock + blob.removeprefix(semaphore_of(blob)), had[0].sent, until


def _releases(history: History) -> Iterator[Record]:
    """Yield the releases that are missing in journals without releases."""
    for got in history.acquisitions:
        if got.ending == "ok":
            fields = {"action": "release", "blob": got.blob or got.lock, "status": 200}
            yield Record(got.until, got.host, "lease_request", fields)


def _concluded(history: History, got: Acquisition) -> Lease:
    """Return the lease that a holder must have had; a dead holder's lease goes on until it expires."""
    period = history.lease_of(got)
    until = min(got.until, history.end)
    lease = Lease(
        lock=got.lock,
        blob=got.blob or got.lock,
        host=got.host,
        start=got.t,
        expires=max(got.t + period, until),
        period=period,
        end=until,
        seen=False,
    )
    if got.ending in {"killed", "crashed"}:
        lease.expires = got.until + period
        lease.end, lease.ending = min(lease.expires, history.end), "expired"
    elif got.ending in {"ok", "lost"}:
        lease.ending = "released" if got.ending == "ok" else "expired"
    return lease

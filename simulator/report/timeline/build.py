"""Make a timeline from the records of a run and its verdict: lanes, spans, messages, requests by kind, and notes.

A note is a record behind a mark, in a line, for people who want to know exactly what was written down. What a message
says is in no record. What an error says may be anything, so only the class of an error is told.

And leases: granted, renewed, released, expired, broken. Read from the requests that hosts sent.

A host's tap sees its requests (``lease_request``). In a virtual world the service's answers are known (``request``).
Where neither is in the records, a lease is concluded from the hold.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from simulator.checks.findings import label
from simulator.checks.messages import MessageState, final_states
from simulator.history.deeds import semaphore_of
from simulator.history.historian import read_history
from simulator.history.journal import Record, in_order
from simulator.report.timeline.marks import read_handovers, read_marks, read_overlaps, read_takeovers, read_troubles
from simulator.report.timeline.timeline import (
    DEADLINE,
    BodySpan,
    HoldSpan,
    HostLane,
    LeaseEnd,
    LeaseSpan,
    Life,
    LockLane,
    Mark,
    MessageLine,
    Note,
    Timeline,
    WaitSpan,
)
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import Acquisition, Deed, History, Message, Section, Wait


_GRANTED: Final = frozenset({200, 201, 202})
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
    spans = (_lease_span(lease, names, history.start) for lease in books.all)
    return tuple(sorted(spans, key=lambda span: span.start))


def _take(books: _Books, record: Record, names: dict[str, str], periods: dict[str, float]) -> None:
    blob, action, until = _known(_blob(record), names), record.text("action"), None
    match record.event:
        case "lease_request":
            done = record.get("status") in _GRANTED
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


def _lease_span(lease: _Lease, names: dict[str, str], start: float) -> LeaseSpan:
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


_FIELDS: Final = {
    "invocation_started": ("function",),
    "invocation_ended": ("outcome",),
    "call_raised": ("error",),
    "body_entered": ("attempt",),
    "body_left": ("error",),
    "lock": ("reason", "token"),
    "lease_request": ("action", "status"),
    "request": ("call", "answer"),
    "message_received": ("dequeue_count",),
    "message_sent": (),
    "message_completed": (),
    "message_returned": (),
    "message_poisoned": (),
    "kill": ("pid",),
    "pause": (),
    "resume": (),
    "operator": ("action",),
    "fault": ("kind", "aim", "way"),
    "fault_ended": ("hits",),
    "healed": (),
    "host_started": ("pid",),
    "host_ready": (),
    "host_draining": (),
    "host_stopping": (),
    "host_stopped": (),
    "host_exited": ("code", "expected"),
    "host_restarted": ("after",),
    "worker_exited": ("reason",),
    "loop_stood": ("seconds",),
    "tick": ("function",),
}
_FILLERS: Final = (None, "", 0, False)
_LONGEST: Final = 120
_SUSPECT: Final = re.compile("[=:]|bearer", re.IGNORECASE)


def read_notes(records: Iterable[Record], start: float) -> Iterator[Note]:
    """Yield a line for each record that is worth one."""
    for record in records:
        if record.event in _FIELDS:
            owner = record.text("invocation") or record.text("owner") or record.text("message") or record.text("id")
            lock = record.text("lock") or record.text("blob") or record.text("name") * (record.event == "request")
            yield Note(at=record.t - start, host=record.host, owner=owner, lock=lock, text=_text(record))


def _text(record: Record) -> str:
    what = record.text("kind") if record.event == "lock" else record.event
    parts = [what.replace("_", " ")]
    for name in _FIELDS[record.event]:
        value = record.get(name)
        if name == "error" and value:
            value = str(value).partition(":")[0]
        if value not in _FILLERS or name == "status":
            parts.append(f"{name.replace('_', ' ')} {value}")
    return careful(", ".join(parts))[:_LONGEST]


def careful(text: str) -> str:
    """Take account keys, signatures and tokens out of a text. Most texts can't have any: that is seen at once.

    >>> careful("waiting"), careful("AccountName=orders;AccountKey=c2VjcmV0")
    ('waiting', 'AccountName=orders;AccountKey=***')
    """
    return redact(text) if _SUSPECT.search(text) else text


_NUMBERED: Final = re.compile(r"(.*?)([0-9]{1,15}(?:[.][0-9]{1,15})?)?", re.DOTALL)
_NOBODY: Final = frozenset({"fleet", "world", ""})
"""Who writes records and is no host."""


def read_hosts(history: History, records: Sequence[Record], more: Sequence[str] = ()) -> tuple[HostLane, ...]:
    """Return a lane for each host; a host that was started again keeps its lane. ``more``: hosts that said nothing."""
    begun: dict[str, float] = {}
    after: dict[str, str] = {}
    ends: dict[str, tuple[float, str]] = {}
    for record in records:
        if record.event == "host_restarted":
            after[record.host] = record.text("after")
        if record.host not in _NOBODY:
            begun.setdefault(record.host, record.t)
        if record.event == "host_exited":
            ends.setdefault(record.host, (record.t, "stopped" if record.get("expected") else "crashed"))
        elif record.event == "kill":
            ends[record.host] = (record.t, "killed")
    lanes: dict[str, list[Life]] = {name: [] for name in more}
    for name in sorted({*begun, *more}, key=natural):
        end, ended = ends.get(name, (history.end, "open"))
        life = Life(
            name=name,
            pid=history.hosts.get(name, 0),
            start=begun.get(name, history.start) - history.start,
            end=end - history.start,
            ended=ended,
        )
        lanes.setdefault(_first(name, after), []).append(life)
    return tuple(
        HostLane(name=name, lives=tuple(sorted(lives, key=lambda life: life.start)))
        for name, lives in sorted(lanes.items(), key=lambda item: natural(item[0]))
    )


def _first(name: str, after: dict[str, str]) -> str:
    known = {name}
    while name in after and after[name] not in known:
        name = after[name]
        known.add(name)
    return name


def read_locks(history: History, leases: Iterable[LeaseSpan]) -> tuple[LockLane, ...]:
    """Return a lane for each lock that was used, those of one function together."""
    functions = dict.fromkeys((lease.lock for lease in leases), "")
    functions |= {deed.lock: deed.function for deed in _deeds(history) if deed.lock}
    same = Counter(map(label, functions))
    return tuple(
        LockLane(lock=lock, label=label(lock) if same[label(lock)] == 1 else lock, function=function)
        for lock, function in sorted(functions.items(), key=lambda item: (item[1], natural(item[0])))
    )


def _deeds(history: History) -> Iterator[Deed]:
    yield from history.refusals
    yield from history.waits
    yield from history.acquisitions
    yield from history.sections


def natural(name: str) -> tuple[str, float, str]:
    """Order names by the number at their end: ``host-2`` before ``host-10``.

    >>> sorted(["host-10", "host-2", "a"], key=natural)
    ['a', 'host-2', 'host-10']
    """
    stem, number = _NUMBERED.fullmatch(name).groups()  # type: ignore[union-attr]  # it matches every text
    return (stem, float(number or 0), name)


_WORDS: Final = {
    "acquire": "acquire a lease",
    "renew": "renew a lease",
    "release": "release a lease",
    "change": "change a lease",
    "break": "break a lease",
    "break_": "break a lease",
    "read": "read a blob",
    "get": "read a blob",
    "write": "write a blob",
    "put": "write a blob",
    "create": "write a blob",
    "delete": "delete a blob",
}


def count_calls(records: Iterable[Record]) -> Mapping[str, Mapping[str, int]]:
    """Count requests by host and kind.

    Hosts count for themselves (``storage_calls``, now and then, the number so far). Older journals have only the
    requests for leases. Virtual worlds have each request.
    """
    told: dict[tuple[str, int], Mapping[str, int]] = {}
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for record in records:
        if record.event == "storage_calls":
            told[record.host, int(record.get("pid") or 0)] = record.get("calls") or {}
        elif record.event in {"lease_request", "request"}:
            call = record.text("action") or record.text("call")
            seen[record.host][_WORDS.get(call, call)] += 1
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    for (host, _), calls in told.items():
        counted[host].update(calls)
    return {host: dict(counted.get(host) or seen[host]) for host in sorted({*counted, *seen})}


_DONE: Final = frozenset({"completed", "skipped", "poisoned"})


def read_messages(history: History, records: Iterable[Record]) -> tuple[MessageLine, ...]:
    """Return all messages that were sent to a function of the app, in the order in which they were sent."""
    ends = {
        record.text("id"): record.t for record in records if record.event in {"message_completed", "message_poisoned"}
    }
    lines = (_line(history, message, state, ends) for message, state, _ in final_states(history))
    return tuple(sorted(lines, key=lambda line: (line.sent, line.id)))


def _line(history: History, message: Message, state: MessageState, ends: dict[str, float]) -> MessageLine:
    known = [ends[name] for name in message.ids if name in ends]
    done = max(known) if known and state in _DONE else None
    return MessageLine(
        id=message.id,
        queue=message.queue,
        key=message.key,
        sent=(message.sent or history.start) - history.start,
        received=tuple((t - history.start, host) for t, host in message.receipts),
        done=None if done is None else done - history.start,
        state=state,
        dequeued=message.most_dequeued,
        deferred=message.deferred,
    )


def build_timeline(
    records: Iterable[Record], verdict: Verdict, *, hosts: Sequence[str] = (), faults: Sequence[Mark] = ()
) -> Timeline:
    """Return the timeline of a run.

    Args:
        records: all records of the run, in any order.
        verdict: the verdict of `judge` on these records.
        hosts: names of hosts that may have no records.
        faults: faults that have no records.
    """
    told = in_order(records)
    history = read_history(told)
    leases = read_leases(history, told)
    start = history.start
    return Timeline(
        duration=max(history.end - start, 0.0),
        hosts=read_hosts(history, told, hosts),
        locks=read_locks(history, leases),
        bodies=tuple(sorted((_body(history, each) for each in history.bodies), key=_begin)),
        holdings=tuple(sorted((_holding(history, each) for each in history.acquisitions), key=_begin)),
        leases=leases,
        waits=tuple(sorted((_waiting(history, each) for each in history.waits), key=_begin)),
        marks=read_marks(history, told, leases, faults),
        overlaps=read_overlaps(verdict),
        takeovers=read_takeovers(verdict),
        handovers=read_handovers(history),
        messages=read_messages(history, told),
        troubles=read_troubles(history, verdict),
        notes=tuple(read_notes(told, start)),
        calls=count_calls(told),
    )


def _begin(span: BodySpan | HoldSpan | WaitSpan) -> tuple[float, str]:
    return span.start, span.owner


def _body(history: History, body: Section) -> BodySpan:
    return BodySpan(**_span(history, body, body.start, body.end), token=body.token, held=body.held)


def _holding(history: History, got: Acquisition) -> HoldSpan:
    return HoldSpan(**_span(history, got, got.t, got.until), token=got.token, mode=got.mode)


def _waiting(history: History, wait: Wait) -> WaitSpan:
    return WaitSpan(**_span(history, wait, wait.start, wait.end))


def _span(history: History, deed: Section | Acquisition | Wait, start: float, end: float) -> dict[str, Any]:
    about = {name: getattr(deed, name) for name in ("lock", "host", "function", "owner", "ending")}
    return {**about, "start": start - history.start, "end": min(end, history.end) - history.start}

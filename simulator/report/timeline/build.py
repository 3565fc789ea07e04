"""Make a timeline from the records of a run and its verdict: lanes, spans, messages, requests by kind, and notes.

A note is a record behind a mark, in a line, for people who want to know exactly what was written down. What a message
says is in no record. What an error says may be anything, so only the class of an error is told.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from simulator.checks.findings import label, natural
from simulator.checks.messages import final_states
from simulator.history.deeds import bodies_of
from simulator.history.historian import read_history
from simulator.history.journal import Record, in_order
from simulator.history.leases import leases_of
from simulator.history.slowness import STORAGE
from simulator.report.timeline.marks import read_handovers, read_marks, read_overlaps, read_takeovers, read_troubles
from simulator.report.timeline.timeline import HostLane, Life, LockLane, Mark, MessageLine, Note, Timeline
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from simulator.checks.verdict import Verdict
    from simulator.history.facts import History
    from simulator.history.leases import Lease


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


def read_notes(records: Iterable[Record]) -> Iterator[Note]:
    """Yield a line for each record that is worth a line."""
    for record in records:
        if record.event in _FIELDS:
            owner = record.text("invocation") or record.text("owner") or record.text("message") or record.text("id")
            lock = record.text("lock") or record.text("blob") or record.text("name") * (record.event == "request")
            yield Note(at=record.t, host=record.host, owner=owner, lock=lock, text=_text(record))


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


def without_secrets(value: Any) -> Any:
    """Take account keys and signatures out of every text: an error that is quoted may have some."""
    if isinstance(value, str):
        return careful(value)
    if isinstance(value, dict):
        return {careful(str(name)): without_secrets(each) for name, each in value.items()}
    return [without_secrets(each) for each in value] if isinstance(value, list) else value


_NOBODY: Final = frozenset({"fleet", "world", STORAGE, ""})
"""Who writes records and is no host."""


def read_hosts(history: History, records: Sequence[Record], more: Sequence[str] = ()) -> tuple[HostLane, ...]:
    """Return a lane for each host; a host that was started again keeps its lane. ``more``: hosts that said nothing."""
    begun: dict[str, float] = {}
    ends: dict[str, tuple[float, str]] = {}
    for record in records:
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
            start=begun.get(name, 0.0),
            end=end,
            ended=ended,
        )
        lanes.setdefault(history.first(name), []).append(life)
    return tuple(
        HostLane(name=name, lives=tuple(sorted(lives, key=lambda life: life.start)))
        for name, lives in sorted(lanes.items(), key=lambda item: natural(item[0]))
    )


def read_locks(history: History, leases: Iterable[Lease]) -> tuple[LockLane, ...]:
    """Return a lane for each lock that was used, the lanes of a function together."""
    functions = dict.fromkeys((lease.lock for lease in leases), "")
    deeds = chain(history.refusals, history.waits, history.acquisitions, history.sections)
    functions |= {deed.lock: deed.function for deed in deeds if deed.lock}
    same = Counter(map(label, functions))
    return tuple(
        LockLane(lock=lock, label=label(lock) if same[label(lock)] == 1 else lock, function=function)
        for lock, function in sorted(functions.items(), key=lambda item: (item[1], natural(item[0])))
    )


_WORDS: Final = {
    "acquire": "acquire a lease",
    "renew": "renew a lease",
    "release": "release a lease",
    "change": "change a lease",
    "break": "break a lease",
    "break_": "break a lease",
    "evict": "take a silent holder's lease",
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


_DONE: Final = frozenset({"completed", "skipped", "coalesced", "poisoned"})


def read_messages(history: History, records: Iterable[Record]) -> tuple[MessageLine, ...]:
    """Return all messages that were sent to a function of the app, in the order in which they were sent."""
    ends = {
        record.text("id"): record.t for record in records if record.event in {"message_completed", "message_poisoned"}
    }
    lines = []
    for message, state, _ in final_states(history):
        known = [ends[name] for name in message.ids if name in ends]
        lines.append(
            MessageLine(
                id=message.id,
                queue=message.queue,
                key=message.key,
                sent=message.sent or 0.0,
                received=tuple(message.receipts),
                done=max(known) if known and state in _DONE else None,
                state=state,
                dequeued=message.most_dequeued,
                deferred=message.deferred,
            )
        )
    return tuple(sorted(lines, key=lambda line: (line.sent, line.id)))


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
    told = _from_zero(in_order(records))
    history = read_history(told)
    leases = leases_of(history, told)
    holdings = [replace(got, until=min(got.until, history.end)) for got in history.acquisitions]
    return Timeline(
        duration=max(history.end, 0.0),
        hosts=read_hosts(history, told, hosts),
        locks=read_locks(history, leases),
        invocations=tuple(history.invocations),
        bodies=tuple(sorted(bodies_of(history), key=lambda body: (body.start, body.owner))),
        holdings=tuple(sorted(holdings, key=lambda got: (got.t, got.owner))),
        leases=tuple(leases),
        waits=tuple(sorted(history.waits, key=lambda wait: (wait.start, wait.owner))),
        marks=read_marks(history, told, leases, faults),
        overlaps=read_overlaps(verdict),
        takeovers=read_takeovers(verdict),
        handovers=read_handovers(history),
        messages=read_messages(history, told),
        troubles=read_troubles(history, verdict),
        notes=tuple(read_notes(told)),
        calls=count_calls(told),
    )


def _from_zero(records: Sequence[Record]) -> list[Record]:
    """Return records whose times count from the start of the run."""
    starts = [record.t for record in records if record.event == "run_started"] or [record.t for record in records[:1]]
    return [replace(record, t=record.t - starts[-1]) for record in records]

"""What struck hosts from outside, and when hosts did nothing: faults of a nemesis, pauses, loops that stood still.

And the traffic: on which ports hosts serve HTTP, what callers asked and were answered.

Also which messages a host let go: it renews a lock for a limited time, and then others may receive the message. And for
how long the messages that workers sent were hidden.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

    from simulator.history.journal import Record

GRACE: Final = 2.0
"""Seconds that a body gets after its ``functionTimeout``, before the Functions host kills its worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault of a nemesis."""

    id: int  # its number, from 1
    kind: str  # the kind of fault; ``unknown`` is a kind that this version does not know, and excuses nothing
    hosts: tuple[str, ...] = ()
    lock: str = ""  # the path of a lock's blob, for a fault about one lock
    way: str = ""  # the direction that a partition blocks, ``both``, ``requests`` or ``replies``
    aim: str = ""  # the moment of the strike: ``holder``, ``renewal``, ``release``, ``waiters`` or ``anybody``
    meant: str = ""  # the planned moment: another than ``aim`` if the planned moment did not come in time
    what: str = ""  # one sentence for people
    start: float
    end: float = math.inf  # infinity while the fault lasts
    seconds: float | None = None  # the planned length; None for an instant
    hits: int = 0  # how many requests were hit


@dataclass(slots=True, kw_only=True)
class PauseSpan:
    """A host stood still for a time, and went on. ``outside``: not by this run, but by somebody's hand."""

    host: str
    start: float
    end: float = math.inf
    outside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """A time in which the loop of a worker did nothing, or the ``whole`` process."""

    host: str
    worker: int
    start: float
    end: float
    whole: bool = False


def standstill(record: Record) -> Standstill:
    """Read a record of a loop, or process, that goes on: it is written at the end."""
    worker, start = int(record.get("worker") or 1), record.t - float(record.get("seconds") or 0)
    whole = record.event == "process_stood"
    return Standstill(host=record.host, worker=worker, start=start, end=record.t, whole=whole)


def covered(spans: Iterable[tuple[float, float]], start: float, end: float) -> float:
    """Return how much of the time between these two is in the spans."""
    seconds, known = 0.0, start
    for since, until in sorted(spans):
        seconds += max(0.0, min(until, end) - max(since, known))
        known = max(known, until)
    return seconds


@dataclass(slots=True, kw_only=True)
class Asked:
    """One request of a caller."""

    id: str
    function: str
    host: str  # the host that the request was sent to
    source: str  # the source of the work; ``source`` and ``key``: the subject of contention
    key: str
    start: float
    end: float = math.inf  # when the caller knew the end
    status: int | None = None  # the caller's status; None: no answer
    served: int | None = None  # the status in the host's record; None: no answer sent
    error: str = ""  # the reason for a missing answer

    @property
    def open(self) -> bool:
        """Whether its caller still waits."""
        return self.end == math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """A copy that a guard sent of a message, hidden for ``delay`` seconds; ``life``: seconds after which it ends."""

    t: float
    host: str
    function: str
    delay: float
    life: float


@dataclass(slots=True)
class Traffic:
    """Folds records, oldest first."""

    ports: dict[str, int] = field(default_factory=dict)
    served: dict[str, frozenset[str]] = field(default_factory=dict)  # by which hosts which functions
    requests: dict[str, Asked] = field(default_factory=dict)
    held: dict[str, str] = field(default_factory=dict)
    """The user's requests that no host was up for, and their functions."""
    let_go: set[tuple[str, str]] = field(default_factory=set)
    """The hosts, and the messages whose locks they do not renew any more."""
    sends: dict[str, tuple[float, float]] = field(default_factory=dict)
    """For how many seconds a queue hides a message that a worker sent, and keeps it, by the message's id."""
    put_back: list[PutBack] = field(default_factory=list)

    def take(self, record: Record) -> None:
        """Take the next record; only records of traffic matter."""
        match record.event:
            case "http_port":
                self.ports[record.host] = int(record.get("port") or 0)
                self.served[record.host] = frozenset(record.get("functions") or ())
            case "message_let_go":
                self.let_go.add((record.host, record.text("id")))
            case "message_put":
                life = float(record.get("life") or -1)
                delay = float(record.get("delay") or 0)
                self.sends[record.text("id")] = delay, math.inf if life < 0 else life
            case "request_sent":
                asked = Asked(
                    id=record.text("request"),
                    function=record.text("function"),
                    host=record.host,
                    source=record.text("source"),
                    key=record.text("key"),
                    start=record.t,
                )
                self.requests[asked.id] = asked
                self.held.pop(asked.id, None)
            case "request_held":
                self.held[record.text("request")] = record.text("function")
            case "request_answered" | "request_failed" | "request_served":
                self._go_on(record, self.requests.get(record.text("request")))

    def _go_on(self, record: Record, asked: Asked | None) -> None:
        if asked is None:  # somebody else has called the host
            return
        status = record.get("status")
        if record.event == "request_served":
            asked.served = status
        else:
            asked.end, asked.status, asked.error = record.t, status, record.text("error")

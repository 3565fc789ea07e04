"""The parts of a timeline. All times are seconds from the start of the run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.checks.failover import TakeoverState
    from simulator.checks.messages import MessageState
    from simulator.history.facts import Acquisition, Invocation, Section, Wait
    from simulator.history.leases import Lease


FOLDED: Final = 3
"""So many hosts that never ran a body, and to which nothing happened, share one lane."""


def ran_no_body(many: int) -> str:
    """Name the lane that such hosts share.

    >>> ran_no_body(62)
    '62 hosts ran no body'
    """
    return f"{many:,} hosts ran no body"


MarkKind = Literal[
    "fault", "kill", "pause", "drain", "crash", "worker ended", "operator", "lost", "deadline", "healed", "finding"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process of a host, from its start to its end."""

    name: str
    pid: int
    start: float
    end: float
    ended: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLane:
    """One host. A host that is started again after a kill or a drain has several lives, each with a name of its own."""

    name: str
    lives: tuple[Life, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockLane:
    """One lock: the path of its blob, a short name, and its function. A semaphore's slots share a lane."""

    lock: str
    label: str
    function: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """An event at a moment, or over a span of time, with a sentence for people.

    No ``hosts``: everybody, or nobody. ``fault``: the kind of a fault, such as ``partition``.
    """

    kind: MarkKind
    at: float
    end: float
    what: str
    hosts: tuple[str, ...] = ()
    lock: str = ""
    owner: str = ""
    fault: str = ""
    id: int = 0
    hits: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapSpan:
    """Two bodies inside one lock at a time. ``caught``: no lock can prevent the overlap, and the loss was told."""

    lock: str
    start: float
    end: float
    hosts: tuple[str, str]
    owners: tuple[str, str]
    caught: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Takeover:
    """A lock whose holder was killed at ``at``: the next holder, the time of the take-over, and its bound."""

    lock: str
    victim: str
    at: float
    state: TakeoverState
    by: str
    taken: float | None
    bound: float | None
    token: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A hand-over of a lock from a holder to the next: given up at ``since``, acquired at ``at``."""

    lock: str
    since: float
    at: float
    giver: str
    taker: str
    owners: tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLine:
    """A message on its way: sent, received, done."""

    id: str
    queue: str
    key: str
    sent: float
    received: tuple[tuple[float, str], ...]
    done: float | None
    state: MessageState
    dequeued: int
    deferred: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenPromise:
    """A broken promise, and where to look. ``at``: None where the check names no moment."""

    check: str
    text: str
    at: float | None = None
    end: float | None = None
    lock: str = ""
    host: str = ""
    function: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A record behind a mark: time, host, owner, lock, and words."""

    at: float
    host: str
    owner: str
    lock: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A whole run, whose history counts from zero. Every sequence is in the order of time."""

    duration: float
    hosts: tuple[HostLane, ...]
    locks: tuple[LockLane, ...]
    invocations: tuple[Invocation, ...] = ()
    bodies: tuple[Section, ...] = ()
    holdings: tuple[Acquisition, ...] = ()
    leases: tuple[Lease, ...] = ()
    waits: tuple[Wait, ...] = ()
    marks: tuple[Mark, ...] = ()
    overlaps: tuple[OverlapSpan, ...] = ()
    takeovers: tuple[Takeover, ...] = ()
    handovers: tuple[Handover, ...] = ()
    messages: tuple[MessageLine, ...] = ()
    troubles: tuple[BrokenPromise, ...] = ()
    notes: tuple[Note, ...] = ()
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """For each host the number of requests of each kind to the storage."""

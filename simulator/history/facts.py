"""The facts of a run: bodies, waits, holds, invocations, messages, kills.

The historian reads facts from the journals, and the checks judge facts. Times are times of the journals.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from simulator.history.functions import Function
from simulator.history.outages import Traffic, covered
from simulator.history.slowness import Slowness

if TYPE_CHECKING:
    from simulator.history.functions import Mode
    from simulator.history.inbox_item import InboxItem
    from simulator.history.journal import Record
    from simulator.history.outages import PauseSpan, Standstill, Strike

Ending = Literal["ok", "error", "deferred", "lost", "killed", "crashed", "acquired", "contended", "open"]
"""How a body, an invocation or a wait ended: by itself, by the death of the host, or with the run."""


@dataclass(slots=True, kw_only=True)
class Deed:
    """The base of every action on a lock: lock, host, function and owner."""

    lock: str
    function: str
    host: str
    owner: str
    mode: Mode = "function"
    worker: int = 0  # which of its host's workers did it
    within: tuple[str, ...] = ()  # the numbers of the blocks of lock clients around it


@dataclass(slots=True, kw_only=True)
class Section(Deed):
    """One run of a guarded body, from its first line to its last."""

    token: int | None
    start: float
    end: float = math.inf
    ending: Ending = "open"
    held: bool = False
    told: float | None = None  # when its host said that the lock is lost
    why: str = ""  # the reason in the record
    error: str = ""  # the class of the error with which its host saw it end
    saw_loss: bool | None = None  # whether the body of a lock client's decorated function could see a loss at its end


@dataclass(slots=True, kw_only=True)
class Wait(Deed):
    """The time between asking for a lock and acquiring it, giving up, or dying.

    A candidate for a function's listener waits, without an owner, until it is the listener.
    """

    start: float
    end: float = math.inf
    ending: Ending = "open"
    error: str = ""  # the class of the error that ended it


@dataclass(slots=True, kw_only=True)
class Acquisition(Deed):
    """A lock was acquired; a listener's lock once, for all bodies of its process."""

    t: float
    token: int | None
    until: float = math.inf  # when it was released, or known to be lost, or its host died
    ending: Ending = "open"  # which of these: ``ok`` for released
    why: str = ""  # the reason of its loss
    seen: bool = False  # whether its host saw the lease on the network
    asked: list[float] = field(default_factory=list)  # when its host asked to renew it; in older journals, the answers
    renewed: int = 0  # how many of these were granted
    blob: str = ""  # the name of its blob, where that is a slot of the lock
    leased: float | None = None  # when its host saw the storage grant the lease, for this hold or one before it
    granted: list[float] = field(default_factory=list)  # when its host asked for a lease, or a renewal, that it got
    timed: bool = False  # whether its host told when it asked; older journals tell the times of the answers
    lease: str = ""  # tells lease ids apart
    refused: float | None = None  # when its host saw the storage refuse a request under this lease id
    gone: float = math.inf  # when the storage first answered a renewal with a code which says that the lease is gone

    def since(self, gone: float) -> float:
        """Return when its process had it, after a holder that was gone at a time: its host may tell that late."""
        return self.leased if self.leased is not None and self.leased > gone else self.t


class Held(Acquisition):
    """A lock that a host held when it was killed, at ``t``."""


@dataclass(slots=True, kw_only=True)
class Refusal(Deed):
    """A lock that was asked for and given up: the body did not run."""

    t: float
    reason: str
    asked: float  # when the invocation asked for the lock
    called: float  # when this try of its invocation began


@dataclass(slots=True, kw_only=True)
class Invocation:
    """One call of a function.

    Attributes:
        blames: the lock's own error that failed the invocation; empty if the error came from elsewhere.
        keys: the key for each mode of the function's guards: invocations with an equal key exclude one another, as the
            host reads the declaration. No entry: unknown key. None: no lock may be asked for.
    """

    id: str
    function: str
    host: str
    message: str
    start: float
    request: str = ""  # of a caller, by HTTP
    end: float = math.inf
    ending: Ending = "open"
    error: str = ""
    blames: str = ""
    raised: str = ""  # the class of what the function raised, its guard included
    keys: dict[Mode, str | None] = field(default_factory=dict)
    blobs: dict[Mode, str] = field(default_factory=dict)  # container and blob of its locks, where these are known
    operation: str = ""  # equal for two calls of which `@once` must run one; empty: there is none, or not known
    once: dict[str, dict[str, str]] = field(default_factory=dict)  # by event, digests by output: see kept_values
    settled: bool = False  # whether the host has told the message's fate afterwards


@dataclass(slots=True, kw_only=True)
class Sight:
    """One run of a user's own function, as its host saw it, independent of what the lock says."""

    host: str
    function: str
    invocation: str  # the invocation for which the body ran; empty for a run without an invocation
    start: float
    end: float = math.inf
    ending: Ending = "open"
    worker: int = 1
    inner: bool = False  # it ran within another function's invocation, under a guard of its own
    attempt: int = 0  # the number of the try within the invocation, from 0
    error: str = ""
    left_running: tuple[str, ...] = ()  # tasks and threads that the body had started, and that outlived the body
    sees: bool | None = None  # whether the body could see a hold; None: not known
    token: int | None = None  # the fencing token of that hold, if any
    hold: tuple[str, object] = ("", None)  # the lock and the token that the body saw at its begin
    other_hold: bool = False  # whether the body could see another hold at its end
    can_be_asked: bool = False  # whether the body is a coroutine in a task, so that its host sees a request to end it
    saw_loss: bool | None = None  # whether the body could see its loss at its end; None: it could see no hold
    shown: dict[str, Any] = field(default_factory=dict)  # what the hold told the body at its end
    digest: str | None = None  # of its result, if `@once` keeps the result
    item: InboxItem | None = None  # the message of an inbox that it handles


@dataclass(slots=True, kw_only=True)
class PatternUse:
    """What user code asked of a pattern: a read or a write of ``hold.state``, a block of ``once``, a send, a wait.

    Attributes:
        what: ``read`` or ``write`` of what is kept, or on the network the ``end`` of a result; ``add``; ``send``;
            ``sent``, ``failed`` or ``stopped`` (given up) or ``again``, as a relay notes; ``resume``; how a body hears
            of a loss, in words; a method of Durable's client.
        name: of the lock, inbox or outbox. key: of the operation or the message. place: in an outbox; a row's version.
        queue: for the bells of an inbox. digest: of the value that was written, read or sent; empty: no value.
        default: of a read's default. caller: the function for whose invocation it was asked; empty: not known.
        found: the work that a look of a claimer got, by its id or its row's key.
        hold: the hold of the guard under which it was asked; None: of a lock client, or of nobody.
        ok: whether the call returned; an open use, and one that raised, may have had its effect or not.
    """

    host: str
    invocation: str
    caller: str
    of: Literal[
        "hold.state",
        "hold.lost",
        "other state",
        "once",
        "@once",
        "inbox",
        "outbox",
        "resumed inbox",
        "rows",
        "look",
        "touch",
        "instance",
    ]
    what: str
    name: str
    start: float
    end: float = math.inf
    key: str = ""
    id: str = ""
    place: int = 0
    left: int = 0  # how many more tries there are for an outbox's message or a row; for how many a look has room
    attempt: int = 0  # the number of such a try, as the message tells; 0: not told
    token: int = 0  # the message's fencing token; 0: not told, or locking is switched off
    queue: str = ""
    where: str = ""  # the container of a block of ``once``; that of ``hold.state`` is the key; a destination
    digest: str = ""
    default: str | None = None
    found: tuple[str, ...] = ()
    keep: float = math.inf  # seconds after which what was written may be forgotten, or what failed is to be tried again
    hold: Acquisition | None = None
    ok: bool = False

    @property
    def register(self) -> tuple[str, str, str, str]:
        """The place of a kept value: equal for uses that must read the value written last."""
        return self.of, self.lock, self.key, self.where

    @property
    def lock(self) -> str:
        """The lock under which it was asked."""
        return self.hold.lock if self.hold else self.name

    @property
    def function(self) -> str:
        """The function whose guard has the lock, or else the one that asked; empty: not known."""
        return self.hold.function if self.hold else self.caller


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRequest:
    """A request for a lease that a worker sent, at the time of its answer."""

    t: float
    host: str
    worker: int
    action: str
    blob: str  # the path, with what is above the container
    lease: str  # tells lease ids apart
    sent: float  # when it was sent; in older journals, the time of its answer
    timed: bool  # whether its host told when it was sent
    status: int | None  # None: no answer
    period: int | None  # the seconds of the lease, if it is asked for
    code: str = ""  # the error code of a refusal; older journals have none
    carried_out: bool = False  # whether the storage granted the lease, by an answer that was lost

    @property
    def granted(self) -> bool:
        """Whether the lease was granted or renewed."""
        return self.status in {200, 201}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """The kill of a host; the first hold is the reason for the choice of this host."""

    t: float
    host: str
    pid: int
    holds: tuple[Held, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """A host with these holds was asked to end, as at a scale-in."""

    t: float
    host: str
    holds: tuple[Held, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """A worker of a host ended, with all that ran in it, and the host went on."""

    t: float
    host: str
    worker: int
    reason: str
    timeout: bool  # whether the host ended the worker, for a call that took too long
    cut: int  # the number of guarded bodies inside


@dataclass(slots=True, kw_only=True)
class Message:
    """The way of a message of a queue, and of the copies that were put back."""

    id: str
    ids: set[str] = field(default_factory=set)  # ids of the message and of its copies
    deferred: int = 0
    most_dequeued: int = 0  # the highest count under any of its ids
    received: Counter[str] = field(default_factory=Counter)  # how often hosts received each of its ids
    unnamed: bool = False  # whether its body hides its own id, so that equal messages may share their failures
    unseen: int = 0  # how many deliveries of one of its ids reached no host
    queue: str = ""
    key: str = ""
    session: str = ""  # of an entity whose sessions have an order
    digests: set[str] = field(default_factory=set)  # of its text, if hosts received it
    sent: float | None = None  # None: it was in the queue before the run
    receipts: list[tuple[float, str]] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)  # the hosts that deleted it after a success
    poisoned: bool = False
    invocations: list[Invocation] = field(default_factory=list)

    def receive(self, name: str, dequeued: int) -> None:
        """Take a delivery of one of the ids, and how many deliveries of that id the queue has counted."""
        self.received[name] += 1
        self.most_dequeued = max(self.most_dequeued, dequeued)
        self.unseen = max(self.unseen, dequeued - self.received[name])


@dataclass(slots=True)
class History:
    """Everything that the checks look at."""

    start: float = 0.0
    end: float = 0.0
    setup: dict[str, Any] = field(default_factory=dict)
    interrupted: bool = False
    witnessed: bool = False  # whether the hosts saw bodies themselves
    hosts: dict[str, int] = field(default_factory=dict)
    ready: set[str] = field(default_factory=set)
    deaths: dict[str, float] = field(default_factory=dict)  # when a host was killed or crashed
    crashes: list[tuple[str, str]] = field(default_factory=list)
    exits: dict[str, float] = field(default_factory=dict)  # when a host ended after it was told to end
    errors: list[tuple[str, str]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)  # remarks of hosts, each once
    functions: dict[str, Function] = field(default_factory=dict)
    inner: dict[str, Function] = field(default_factory=dict)  # guards that no function of the host carries, by name
    sections: list[Section] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    askers: list[Wait] = field(default_factory=list)  # workers and candidates of lock clients, which ask at each tick
    acquisitions: list[Acquisition] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    struck: set[tuple[str, str]] = field(default_factory=set)  # moved the message to the poison queue, and succeeded
    losses: Counter[str] = field(default_factory=Counter)  # by their reasons
    invocations: list[Invocation] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    uses: list[PatternUse] = field(default_factory=list)
    ticks: list[tuple[float, str, str]] = field(default_factory=list)
    last_tick: float = math.inf  # when the run ended the ticks of all timers
    kills: list[Kill] = field(default_factory=list)
    pauses: list[PauseSpan] = field(default_factory=list)
    asked: dict[tuple[str, str], list[Record]] = field(default_factory=dict)  # when a body was asked to end, by whom
    standstills: list[Standstill] = field(default_factory=list)
    worker_ends: list[WorkerEnd] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    ready_left: dict[str, set[str]] = field(default_factory=dict)
    invisible_left: dict[str, int] = field(default_factory=dict)
    poison_left: dict[str, Record] = field(default_factory=dict)  # what was in each queue's poison queue at the end
    operated: list[tuple[float, str]] = field(default_factory=list)  # when operators ended a lease, and of which lock
    deleted: list[tuple[float, str]] = field(default_factory=list)  # when operators deleted a blob, and of which lock
    made: list[tuple[float, str]] = field(default_factory=list)  # when a host asked for a blob that it made; its path
    replaced: list[Record] = field(default_factory=list)  # when user code overwrote or deleted a blob by itself
    traffic: Traffic = field(default_factory=Traffic)
    slowness: Slowness = field(default_factory=Slowness)
    faults: list[Strike] = field(default_factory=list)  # of a nemesis, in the order of their beginnings
    began: dict[str, float] = field(default_factory=dict)  # when a host was ready
    stopping: dict[str, float] = field(default_factory=dict)  # when a host was told to end
    unreachable: dict[tuple[str, str], float] = field(default_factory=dict)  # queues that a host can't poll, since when
    outside: list[Strike] = field(default_factory=list)  # leases that somebody outside this run ended
    healed: float | None = None  # when the nemesis had undone what can be undone
    restarted: dict[str, str] = field(default_factory=dict)  # a host that was started again: the one before it
    drains: list[Drain] = field(default_factory=list)
    mistold: Counter[str] = field(default_factory=Counter)  # bodies that saw another token than their locks had told
    requests: list[LeaseRequest] = field(default_factory=list)
    # How many requests of each kind a process of a worker had sent for a leased blob: by host, worker, process, blob.
    blob_calls: dict[tuple[str, int, int, str], list[tuple[float, dict[str, int]]]] = field(default_factory=dict)
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of expected keys that got several
    client_locks: dict[str, None] = field(default_factory=dict)  # that lock clients of the app had
    altered: list[Record] = field(default_factory=list)  # what guards did not pass on as it was
    named: list[Record] = field(default_factory=list)  # the names of locks that user code had from the product
    unrun: list[Record] = field(default_factory=list)  # how guards ended that had not called what they guard
    looks: list[Record] = field(default_factory=list)  # answers of lock clients: who has a lock, and refused sets
    answers: list[Record] = field(default_factory=list)  # of policies of the app's own, to their guards
    renamed: set[str] = field(default_factory=set)  # functions with ``also`` whose older lock is not known
    twofold: set[str] = field(default_factory=set)  # locks that a guard takes together with another, perhaps
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict)  # expected keys of locks that have several

    def function(self, name: str) -> Function:
        """Return what is known about a function, with the default numbers if nothing is known."""
        return self.functions.get(name) or self.inner.get(name) or Function(name=name)

    def lease_of(self, deed: Deed) -> float:
        """Return how long the lease of a deed's lock lasts."""
        return self.function(deed.function).lease_in(deed.mode)

    def first(self, host: str) -> str:
        """Return the first host in the place of a host: the name before it was started again, perhaps several times."""
        known = {host}
        while host in self.restarted and self.restarted[host] not in known:
            host = self.restarted[host]
            known.add(host)
        return host

    def reads(self, queue: str) -> bool:
        """Tell whether a function of the app reads this queue; true if no function is known."""
        return not self.functions or any(function.queue == queue for function in self.functions.values())

    @property
    def may_merge(self) -> set[str]:
        """The locks whose layout may give one name to several scopes."""
        return {wait.lock for wait in self.waits if self.function(wait.function).merges}

    def paused(self, host: str, start: float, end: float) -> bool:
        """Tell whether the fleet stopped this host at some time between these two."""
        return any(pause.host == host and pause.start <= end and pause.end >= start for pause in self.pauses)

    def stood(self, host: str, worker: int, start: float, end: float) -> float:
        """Return how long, between these two, the loop of a worker did nothing or its host stood still."""
        idle = [(each.start, each.end) for each in self.standstills if (each.host, each.worker) == (host, worker)]
        idle += [(pause.start, pause.end) for pause in self.pauses if pause.host == host]
        return covered(idle, start, end)

    def worked(self, host: str, worker: int, start: float, end: float) -> float:
        """Return for how long, between these two, a worker could work: it did not stand still, and had a processor."""
        stood = self.stood(host, worker, start, end)
        return end - start - min(stood + self.slowness.late(host, start=start, end=end), max(end - start, 0.0))

    def stands_still(self, host: str, t: float) -> bool:
        """Tell whether a host was paused at this time, and never went on."""
        return any(pause.host == host and pause.start <= t and pause.end == math.inf for pause in self.pauses)

    @property
    def rough(self) -> bool:
        """Whether any fault may have happened, in the network to the queues too: as in virtual worlds."""
        return bool(self.setup.get("rough"))

    def operated_before(self, thing: Deed, t: float) -> bool:
        """Tell whether an operator ended a lease of this lock, or a slot's, shortly before: the holder may not know."""
        since = t - 2 * self.lease_of(thing)
        locks = [lock for at, lock in self.operated if since <= at <= t]
        return any(thing.lock in (lock, lock.rpartition("/slot-")[0]) for lock in locks)

    def stood_still_asking(self, thing: Deed, t: float) -> bool:
        """Tell whether its host stood still between asking for this lock and the time ``t``."""
        if not any(pause.host == thing.host for pause in self.pauses):
            return False
        who = (thing.host, thing.lock, thing.owner)
        asked = (wait.start for wait in self.waits if (wait.host, wait.lock, wait.owner) == who)
        return any(self.paused(thing.host, start, t) for start in asked if start <= t)

"""What happened in a run: who was inside which body when, who waited, who died.

Facts without any judgement: `simulator.history.historian` reads them from the journals, `simulator.checks.verdict`
judges them. All times are the journals' own.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from simulator.history.stops import covered

if TYPE_CHECKING:
    from simulator.history.stops import Pause, Standstill

Ending = Literal["ok", "error", "deferred", "lost", "killed", "crashed", "acquired", "contended", "open"]
"""How something ended: a body or a call, a wait for a lock, or either with its host's death or the run."""
Mode = Literal["function", "listener"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """One function of the app, as its hosts indexed it.

    Attributes:
        mode: of the guard around its body; it may have a listener's guard around that.
        lease: how long the lease of a lock around an invocation lasts.
        poll: how long who waits for such a lock leaves it alone.
        listener_lease: how long the lease of its listener lasts.
        recovery: how long who isn't its listener leaves that lock alone.
        tick: the longest pause between two ticks of its timer.
    """

    name: str
    trigger: str = ""
    queue: str = ""
    guarded: bool = False
    mode: Mode = "function"
    on_contention: str = "wait"
    lease: float = 15.0
    poll: float = 5.0
    listener_lease: float = 60.0
    renewal: float | None = None  # how long after each renewal of a lease the next; None: half the lease
    recovery: float = 60.0
    tick: float = 0.0
    away: float = 0.0  # how long a message that is put back stays away at most
    timeout: float | None = None  # how long an invocation waits for its lock; None: as long as it takes
    limit: float | None = None  # how long its host lets an invocation take: the functionTimeout
    cancels: bool = False  # whether an async body is asked to end when its lock is lost
    tokens: bool = False  # whether its holds have fencing tokens
    merges: bool = False  # whether its layout may give one lock to several scopes
    sync: bool = False  # a thread runs its body: nobody can end that
    idle: str = ""  # why its host does not run it
    # By the app itself, too: that may run the body again or not, and make of errors what it likes.
    decorated: bool = False

    def lease_in(self, mode: Mode) -> float:
        """Return how long the lease of its lock of this mode lasts."""
        return self.listener_lease if mode == "listener" else self.lease

    def renewal_in(self, mode: Mode) -> float:
        """Return how long after each renewal of its lock of this mode the next is due."""
        return self.lease_in(mode) / 2 if self.renewal is None else self.renewal

    @property
    def gives_up_after(self) -> float:
        """Seconds for which an invocation waits for its lock, as it was declared."""
        return math.inf if self.timeout is None else self.timeout

    @property
    def cut_after(self) -> float:
        """Seconds after an invocation's begin at which it waits no longer, as its host would end its worker."""
        if self.limit is None:
            return math.inf
        return self.limit - min(max(0.1 * self.limit, 5.0), 0.5 * self.limit)

    def poll_in(self, mode: Mode) -> float:
        """Return how long who wants its lock of this mode leaves it alone between two attempts."""
        return self.recovery if mode == "listener" else self.poll


@dataclass(slots=True, kw_only=True)
class Deed:
    """What all that is done about a lock has: which lock, and whose doing."""

    lock: str
    function: str
    host: str
    owner: str
    mode: Mode = "function"
    worker: int = 0  # which of its host's workers did it


@dataclass(slots=True, kw_only=True)
class Section(Deed):
    """One run of a guarded body, from its first line to its last."""

    token: int | None
    start: float
    end: float = math.inf
    ending: Ending = "open"
    held: bool = False
    told: float | None = None  # when its host said that the lock is lost


@dataclass(slots=True, kw_only=True)
class Wait(Deed):
    """The time between asking for a lock and getting it, giving up, or dying.

    A process that wants to be a function's listener does so, without an owner, until it is.
    """

    start: float
    end: float = math.inf
    ending: Ending = "open"


@dataclass(slots=True, kw_only=True)
class Acquisition(Deed):
    """A lock was got; a listener's once, for all bodies of its process.

    Attributes:
        until: when it was given back or known to be lost, or its host died.
        ending: which of these: ``ok`` for given back.
        seen: whether its host saw the lease come over the network.
        asked: how many requests to renew it its host saw go there.
        renewed: how many of these were granted.
    """

    t: float
    token: int | None
    until: float = math.inf
    ending: Ending = "open"
    seen: bool = False
    asked: int = 0
    renewed: int = 0


class Held(Acquisition):
    """A lock that a host held when it was killed, at ``t``."""


@dataclass(slots=True, kw_only=True)
class Refusal(Deed):
    """A lock was asked for and given up: the body did not run."""

    t: float
    reason: str
    asked: float  # when its invocation asked for it
    called: float  # when this try of its invocation began


@dataclass(slots=True, kw_only=True)
class Invocation:
    """One call of one function.

    Attributes:
        blames: the lock's own error with which it failed; empty where the error was somebody else's.
        keys: for each mode of its guards, what other invocations must share to be excluded by it, as the host reads
            the declaration; without an entry where that can't be told, with None where no lock may be asked for.
    """

    id: str
    function: str
    host: str
    message: str
    start: float
    end: float = math.inf
    ending: Ending = "open"
    error: str = ""
    blames: str = ""
    raised: str = ""  # the class of what the function raised, its guard included
    keys: dict[Mode, str | None] = field(default_factory=dict)
    replaced: bool = False  # its function returned something else than its body
    settled: bool = False  # its host has told what became of its message afterwards


@dataclass(slots=True, kw_only=True)
class Sight:
    """One run of a user's own function, as its host saw it, whatever the lock says.

    Attributes:
        invocation: for whom it ran; empty where for nobody.
        attempt: the number of the try within the invocation, from 0.
        error: the class of the error with which it ended.
        left_running: what it had started and was still running when it ended.
        sees: whether the body could see a hold; None: not known.
        token: that hold's fencing token, where it has one.
        can_be_asked: whether it is a coroutine in a task of which its host sees when somebody asks it to end.
        saw_loss: whether it could see at its end that the hold was lost; None where it could see none.
    """

    host: str
    function: str
    invocation: str
    start: float
    end: float = math.inf
    ending: Ending = "open"
    worker: int = 1
    attempt: int = 0
    error: str = ""
    left_running: tuple[str, ...] = ()
    sees: bool | None = None
    token: int | None = None
    can_be_asked: bool = False
    saw_loss: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A host was killed; the first of its holds is the one it was killed for."""

    t: float
    host: str
    pid: int
    holds: tuple[Held, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerEnd:
    """A worker of a host ended, with all that was under way in it, and the host went on.

    Attributes:
        reason: why, in words.
        timeout: whether the host ended it, for a call that took too long.
        cut: how many guarded bodies were inside.
    """

    t: float
    host: str
    worker: int
    reason: str
    timeout: bool
    cut: int


@dataclass(slots=True, kw_only=True)
class Message:
    """What became of one message that was put into a queue, and of the copies as which it was put back."""

    id: str
    ids: set[str] = field(default_factory=set)  # its own, and those of its copies
    deferred: int = 0
    most_dequeued: int = 0  # the highest count under any of its ids
    queue: str = ""
    key: str = ""
    digests: set[str] = field(default_factory=set)  # of what it says, where hosts received it
    sent: float | None = None  # None: it was in the queue before the run
    receipts: list[tuple[float, str]] = field(default_factory=list)
    completed: list[str] = field(default_factory=list)  # the hosts that deleted it after a success
    poisoned: bool = False
    invocations: list[Invocation] = field(default_factory=list)


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
    deaths: set[str] = field(default_factory=set)  # hosts that were killed or crashed
    crashes: list[tuple[str, str]] = field(default_factory=list)
    exits: dict[str, float] = field(default_factory=dict)  # when a host ended that was told to
    errors: list[tuple[str, str]] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)  # what hosts remarked, once each
    functions: dict[str, Function] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    acquisitions: list[Acquisition] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    struck: set[tuple[str, str]] = field(
        default_factory=set
    )  # who moved its message to the poison queue, and succeeded
    losses: Counter[str] = field(default_factory=Counter)  # by their reasons
    invocations: list[Invocation] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)
    ticks: list[tuple[float, str, str]] = field(default_factory=list)
    kills: list[Kill] = field(default_factory=list)
    pauses: list[Pause] = field(default_factory=list)
    # When somebody asked the body of an invocation of a host to end.
    asked: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    standstills: list[Standstill] = field(default_factory=list)
    worker_ends: list[WorkerEnd] = field(default_factory=list)
    messages: dict[str, Message] = field(default_factory=dict)
    ready_left: dict[str, set[str]] = field(default_factory=dict)
    invisible_left: dict[str, int] = field(default_factory=dict)
    operated: list[tuple[float, str]] = field(default_factory=list)  # when operators ended a lease, and of which lock

    mistold: Counter[str] = field(default_factory=Counter)  # bodies that saw another token than their locks had told
    names: dict[str, tuple[str, ...]] = field(default_factory=dict)  # of expected keys that got several
    merged: dict[str, tuple[str, ...]] = field(default_factory=dict)  # expected keys of locks that have several

    def function(self, name: str) -> Function:
        """Return what is known about a function, with the usual numbers where nothing is."""
        return self.functions.get(name) or Function(name=name)

    def reads(self, queue: str) -> bool:
        """Tell whether a function of the app reads this queue; also where no function is known."""
        return not self.functions or any(function.queue == queue for function in self.functions.values())

    @property
    def may_merge(self) -> set[str]:
        """The locks whose layout may give one name to several scopes."""
        return {wait.lock for wait in self.waits if self.function(wait.function).merges}

    @property
    def bodies(self) -> list[Section]:
        """The runs of guarded bodies, each once: where two locks guard one, its innermost."""
        return [section for section in self.sections if section.mode == self.function(section.function).mode]

    def paused(self, host: str, start: float, end: float) -> bool:
        """Tell whether the fleet had this host stand still at some time between these two."""
        return any(pause.host == host and pause.start <= end and pause.end >= start for pause in self.pauses)

    def stood(self, host: str, worker: int, start: float, end: float) -> float:
        """Return for how long between these two the loop of a worker did nothing, or its host stood still."""
        idle = [(each.start, each.end) for each in self.standstills if (each.host, each.worker) == (host, worker)]
        idle += [(pause.start, pause.end) for pause in self.pauses if pause.host == host]
        return covered(idle, start, end)

    def stands_still(self, host: str, t: float) -> bool:
        """Tell whether a host has been paused at this time, and never went on."""
        return any(pause.host == host and pause.start <= t and pause.end == math.inf for pause in self.pauses)

    @property
    def rough(self) -> bool:
        """Whether anything may have struck, the network to the queues and operators among it: as in virtual worlds."""
        return bool(self.setup.get("rough"))

    def operated_before(self, thing: Deed, t: float) -> bool:
        """Tell whether an operator ended a lease of this lock shortly before: who had it may not know that yet."""
        since = t - 2 * self.function(thing.function).lease_in(thing.mode)
        return any(lock == thing.lock and since <= at <= t for at, lock in self.operated)

    def stood_still_asking(self, thing: Deed, t: float) -> bool:
        """Tell whether its host stood still between asking for this lock and the time ``t``."""
        if not any(pause.host == thing.host for pause in self.pauses):
            return False
        who = (thing.host, thing.lock, thing.owner)
        asked = (wait.start for wait in self.waits if (wait.host, wait.lock, wait.owner) == who)
        return any(self.paused(thing.host, start, t) for start in asked if start <= t)

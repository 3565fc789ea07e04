"""Events of locks, for subscribers: the simulator's journal, metrics, tests.

One frozen record, one way to subscribe. Nothing here is needed for a lock to work.
"""

from __future__ import annotations

import asyncio
import itertools
import time
import weakref
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from singleton.base.clock import now
from singleton.base.naming import current
from singleton.base.naming import log as _log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from singleton.base.hold import Hold, LossSignal
    from singleton.base.kinds import Use

EventKind = Literal[
    "waiting",
    "acquired",
    "contended",
    "failed",
    "deferred",
    "poisoned",
    "lost",
    "released",
    "body_started",
    "body_ended",
]
"""What happened to a lock: see ``LockEvent.kind``."""

_listeners: tuple[Callable[[LockEvent], None], ...] = ()
_numbers: Final = itertools.count(1)
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent:
    """One change of state of one lock, as its user saw it.

    Attributes:
        kind: ``waiting`` (asked for), ``acquired``, ``contended`` (given up, the body does not run), ``failed`` (the
            wait ended by an error, or its cancellation), ``deferred`` (its message goes back as a copy, and then ends),
            ``poisoned`` (a message that had been put back has failed too often), ``lost``, ``released``;
            ``body_started`` and ``body_ended`` bracket the guarded body itself.
        lock: name of the lock's blob; of a semaphore its name, and of its hold the slot's blob.
        function: name of the function, or "" outside Functions.
        owner: the invocation id, or what the caller of the lock API gave.
        token: the fencing token, where there is one.
        reason: for ``lost`` why; for ``contended`` skip, raise, defer or timeout; for ``failed`` the error's type; for
            ``body_ended`` ok, error or lost.
        mode: what the lock is used for: ``function`` and ``listener`` are the modes of ``@singleton``, the others ways
            of the lock clients. The lock of a ``listener`` is kept by its process for life. Such a process waits,
            acquires, loses and releases once, without an owner; each of its invocations is a body, or contended.
        use: a number that all events of one use of a lock share, from asking for it to its release, in this process.
        at: when it happened, seconds since 1970, by this machine's clock.
        waited: for ``acquired``, ``contended`` and ``failed``, seconds since it was asked for.
        held: seconds from acquiring it: for ``lost`` until the loss, for ``released`` until its user gave it up. The
            release request to the storage, which comes before the event, is not included.
        ran: for ``body_ended``, seconds that the body took.
        message_id: for ``deferred`` and ``poisoned`` the message's id.
        copy_id: for ``deferred`` the id under which it comes back.
    """

    kind: EventKind
    lock: str
    function: str = ""
    owner: str = ""
    token: int | None = None
    reason: str | None = None
    mode: Use = "function"
    use: int = 0
    at: float = field(default_factory=time.time, compare=False)
    waited: float | None = None
    held: float | None = None
    ran: float | None = None
    message_id: str | None = None
    copy_id: str | None = None


def subscribe(listener: Callable[[LockEvent], None]) -> Callable[[], None]:
    """Call ``listener`` with each event from now on; return a function that ends this.

    It is called on the thread where the event happens, which may be the lock thread: be quick, and don't block. An
    exception that it raises is logged, and has no other effect.

    Example::

        unsubscribe = subscribe(lambda event: print(event.kind, event.lock, event.waited))
    """
    global _listeners  # noqa: PLW0603 - replaced as a whole, so that emit needs no lock
    _listeners = (*_listeners, listener)

    def unsubscribe() -> None:
        global _listeners  # noqa: PLW0603
        _listeners = tuple(other for other in _listeners if other is not listener)

    return unsubscribe


def emit(event: LockEvent) -> None:
    """Tell all listeners."""
    for listener in _listeners:
        try:
            listener(event)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - somebody else's code
            _log.exception("a listener of lock events raised on %s", event.kind)


class Times:
    """When what is told of one call happened, from which its durations follow.

    Attributes:
        use: the number of this use of the lock; a new one each time that the lock is asked for.
        waits: whether it was asked for, and neither got nor given up.
        asked, acquired: when that was, by ``now``.
        function: the function for which it was asked.
        got: of the hold: lock, token and loss signal; None before there is one. The hold itself would be kept alive.
    """

    __slots__ = ("_began", "_ended", "acquired", "asked", "function", "got", "use", "waits")

    def __init__(self) -> None:
        self.use = 0
        self.waits = False
        self.function = ""
        self.got: tuple[str, int | None, LossSignal] | None = None
        self.asked: float | None = None
        self.acquired: float | None = None
        self._began: float | None = None
        self._ended: float | None = None

    def note(self, kind: EventKind, given_up: float | None = None) -> dict[str, float]:
        """Note that this happens now; return the duration that ends with it, by the name of its field.

        ``given_up``: when the user of a released hold gave it up, by ``now``; by default as its body ended.
        """
        if kind == "waiting" or not self.use:
            self.use = next(_numbers)
        at = now()
        match kind:
            case "waiting":
                self.asked, self.waits = at, True
            case "acquired" | "contended" | "failed":
                self.waits = False
                if kind == "acquired":
                    self.acquired, self._ended = at, None
                return _since("waited", self.asked, at)
            case "lost":
                return _since("held", self.acquired, at)
            case "released":
                given_up = self._ended if given_up is None else given_up
                return _since("held", self.acquired, at if given_up is None else given_up)
            case "body_started":
                self._began = at
            case "body_ended":
                self._ended = at
                return _since("ran", self._began, at)
        return {}


def _since(name: str, begun: float | None, at: float) -> dict[str, float]:
    return {} if begun is None else {name: at - begun}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Call:
    """One invocation under a guard: which lock it needs, and who asks.

    ``storage``: the worker's, for its threads; ``scope``: what the lock's scope came to, where that may be shown.
    """

    lock: str
    function: str
    owner: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NONE, repr=False)
    mode: Use = "function"
    storage: Any = field(default=None, repr=False, compare=False)
    scope: str = field(default="", repr=False, compare=False)
    times: Times = field(default_factory=Times, init=False, repr=False, compare=False)

    @property
    def fields(self) -> dict[str, object]:
        """What a log line about it has as fields."""
        return {"lock": self.lock, "function": self.function or None, "owner": self.owner or None}


def tell(
    kind: EventKind,
    call: Call,
    hold: Hold | None = None,
    reason: str | None = None,
    *,
    given_up: float | None = None,
    **more: Any,
) -> None:
    """Emit an event about the lock of a call; ``more``: other fields of it, such as the ids of its message.

    ``given_up``: when the user of a released hold gave it up, where that is known.
    """
    durations = call.times.note(kind, given_up)
    if kind == "waiting":
        _note_waiting(call)
    elif kind == "acquired":
        _note_acquired(call, hold)
    elif kind in ("released", "contended", "failed"):
        _going.pop(id(call), None)
    if _listeners:
        what = {"token": None, "lock": call.lock} if hold is None else {"token": hold.token, "lock": hold.lock}
        known: dict[str, Any] = {**what, **durations}
        known |= {"reason": reason, "use": call.times.use, **more}
        emit(LockEvent(kind=kind, function=call.function, owner=call.owner, mode=call.mode, **known))


class _Known(weakref.ref[Call]):
    """A call that is going on, and its identity, which its end needs and then has no more."""

    __slots__ = ("key",)

    key: int


_going: Final[dict[int, _Known]] = {}
"""The calls of this process that wait for a lock or have one, by identity. Changed by single operations of the dict.

It keeps no call alive: what ends without an event, as a simulated crash does, ends here with its call.
"""


def _gone(known: _Known) -> None:
    """Forget a call that is about to be no more; its identity is not yet another's."""
    if _going.get(known.key) is known:
        del _going[known.key]


def _note_waiting(call: Call) -> None:
    times = call.times
    times.function = call.function or ("" if (asking := current()) is None else asking.function)
    times.got = None
    still_going(call)


def _note_acquired(call: Call, hold: Hold | None) -> None:
    if hold is not None:
        call.times.got = hold.lock, hold.token, hold.lost
        if id(call) not in _going:  # it had given up, and then waited after all
            still_going(call)


def going() -> list[Call]:
    """Return the calls that wait for a lock or have one, from any thread, in the order in which they began to."""
    return [call for known in _going.copy().values() if (call := known()) is not None]


def still_going(call: Call) -> None:
    """List a call, until an event or ``no_longer_going`` says that it ends, or while somebody keeps it alive."""
    known = _Known(call, _gone)
    known.key = id(call)
    _going[known.key] = known


def no_longer_going(call: Call) -> None:
    """Forget a call whose lock is given back after a loss, where no event tells of that."""
    _going.pop(id(call), None)


def forget_going() -> None:
    """Forget them in a forked child, which waits for nothing and has nothing."""
    _going.clear()


def tell_failed(call: Call, error: BaseException) -> None:
    """Emit that a wait ended by this error, where it has not ended otherwise."""
    if call.times.waits:
        tell("failed", call, reason=type(error).__name__)

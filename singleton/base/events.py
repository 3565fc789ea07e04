"""Events of locks, for subscribers: the simulator's journal, metrics, tests.

Events are frozen records of a single class. Locks work without subscribers.
"""

from __future__ import annotations

import itertools
import time
import weakref
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal

from singleton.base import clock
from singleton.base.callables import refuse_async
from singleton.base.invocation import call_watcher, current

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from singleton.base.hold import Hold, LossSignal
    from singleton.base.kinds import Use

EventKind = Literal[
    "waiting",
    "acquired",
    "contended",
    "coalesced",
    "failed",
    "deferred",
    "poisoned",
    "lost",
    "released",
    "body_started",
    "body_ended",
]
"""Kinds of events: see ``LockEvent.kind``."""

_listeners: tuple[Callable[[LockEvent], None], ...] = ()
_numbers: Final = itertools.count(1)
_NONE: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent:
    """A change of state of a lock, from its user's point of view.

    Attributes:
        kind: ``waiting`` (requested), ``acquired``, ``contended`` (given up, the body does not run), ``coalesced``
            (ended as a success, while another invocation waits), ``failed`` (the wait ended by an error or a
            cancellation), ``deferred`` (a copy of the message was put back, and the message ends), ``poisoned`` (a
            message had been put back and has failed too often), ``lost``, ``released``; ``body_started`` and
            ``body_ended`` bracket the guarded body itself.
        lock: name of the lock's blob; for a semaphore the semaphore's name, and with a hold the slot's blob.
        function: name of the function, or "" outside Functions.
        owner: the invocation id, or the ``owner=`` of a lock client.
        token: the fencing token, or None.
        reason: for ``lost`` the reason of the loss; for ``contended`` skip, raise, conflict, defer or timeout; for
            ``failed`` the error's type; for ``body_ended`` ok, error or lost.
        mode: use of the lock: ``function`` and ``listener`` are modes of ``@singleton``, the other values are calls of
            lock clients. A process keeps the lock of a ``listener`` for life: it waits, acquires, loses and releases
            once, without an owner; its invocations are bodies, or contended.
        use: a number for the events of one use of the lock, from the request to the release, unique in this process.
        at: time of the event, seconds since 1970, by this machine's clock.
        waited: for ``acquired``, ``contended``, ``coalesced`` and ``failed``, seconds since the request.
        held: seconds since the acquisition: for ``lost`` until the loss, for ``released`` until the user gave it up.
            The release request to the storage comes before the event and is not included.
        ran: for ``body_ended``, seconds of the body.
        message_id: for ``deferred`` and ``poisoned`` the message's id.
        copy_id: for ``deferred`` the id of the copy.
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
    """Call ``listener`` with every event from now on; return a function which ends the subscription.

    The call comes on the thread of the event, possibly the lock thread: be quick, and don't block. An exception of the
    listener is logged and has no other effect; on the lock thread ``sys.exit()`` has none either.

    Example::

        unsubscribe = subscribe(lambda event: print(event.kind, event.lock, event.waited))
    """
    global _listeners  # noqa: PLW0603 - replaced as a whole, so that emit needs no lock
    refuse_async(listener, "listener")
    _listeners = (*_listeners, listener)

    def unsubscribe() -> None:
        global _listeners  # noqa: PLW0603
        _listeners = tuple(other for other in _listeners if other is not listener)

    return unsubscribe


def emit(event: LockEvent) -> None:
    """Call the listeners with the event."""
    for listener in _listeners:
        call_watcher(f"a listener of lock events raised on {event.kind}", listener, event)


@dataclass(slots=True, eq=False)
class Times:
    """Times of the events of one call, for the durations in later events.

    Attributes:
        use: number of this use of the lock; a new number at every request.
        waits: whether the lock is requested, and neither acquired nor given up.
        asked, acquired, began, ended: times of request and acquisition, of begin and end of the body, by ``now``.
        function: the function of the request.
        got: lock, token and loss signal of the hold; None before the acquisition. A reference to the hold itself would
            keep a dropped hold alive.
    """

    use: int = 0
    waits: bool = False
    function: str = ""
    got: tuple[str, int | None, LossSignal] | None = None
    asked: float | None = None
    acquired: float | None = None
    began: float | None = None
    ended: float | None = None

    def ended_by(self, kind: EventKind, at: float, given_up: float | None) -> dict[str, float]:
        """Return the duration which an event ends at ``at``, by the name of its field.

        ``given_up``: when the user gave up the released hold, by ``now``; by default the end of the body.
        """
        match kind:
            case "acquired" | "contended" | "coalesced" | "failed":
                name, begun = "waited", self.asked
            case "lost":
                name, begun = "held", self.acquired
            case "released":
                name, begun = "held", self.acquired
                given_up = self.ended if given_up is None else given_up
                at = at if given_up is None else given_up
            case "body_ended":
                name, begun = "ran", self.began
            case _:
                return {}
        return {} if begun is None else {name: at - begun}


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Call:
    """One invocation under a guard: its lock, function and owner.

    ``storage``: the worker's ``thread_local_storage``; ``scope``: value of the scope, unless it is hidden; ``tried``:
    tries of this delivery that failed before; ``may_repeat``: whether its retry policy allows another try.
    """

    lock: str
    function: str
    owner: str
    arguments: Mapping[str, Any] = field(default_factory=lambda: _NONE, repr=False)
    mode: Use = "function"
    storage: Any = field(default=None, repr=False, compare=False)
    scope: str = field(default="", repr=False, compare=False)
    tried: int = field(default=0, repr=False, compare=False)
    may_repeat: bool = field(default=False, repr=False, compare=False)
    times: Times = field(default_factory=Times, init=False, repr=False, compare=False)

    @property
    def fields(self) -> dict[str, object]:
        """Fields of a log line about the call."""
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
    """Emit an event about the lock of a call; ``more``: further fields, for example message ids.

    ``given_up``: when the user gave up the released hold, if known.
    """
    times = call.times
    if kind == "waiting" or not times.use:
        times.use = next(_numbers)
    at = clock.now()
    match kind:
        case "waiting":
            times.asked, times.waits, times.got = at, True, None
            times.function = call.function or ("" if (asking := current()) is None else asking.function)
            _going[id(call)] = call
        case "acquired":
            times.acquired, times.waits, times.ended = at, False, None
            if hold is not None:
                times.got = hold.lock, hold.token, hold.lost
                if id(call) not in _going:  # the call had given up, and then waited after all
                    still_going(call)
        case "contended" | "coalesced" | "failed":
            times.waits = False
            _going.pop(id(call), None)
        case "released":
            _going.pop(id(call), None)
        case "body_started":
            times.began = at
        case "body_ended":
            times.ended = at
    if _listeners:
        what = {"token": None, "lock": call.lock} if hold is None else {"token": hold.token, "lock": hold.lock}
        known: dict[str, Any] = {**what, **times.ended_by(kind, at, given_up)}
        known |= {"reason": reason, "use": times.use, **more}
        emit(LockEvent(kind=kind, function=call.function, owner=call.owner, mode=call.mode, **known))


_going: Final[weakref.WeakValueDictionary[int, Call]] = weakref.WeakValueDictionary()
"""Calls of this process which wait for a lock or hold one, by identity. Nothing iterates over the table itself.

References are weak: a call without a last event, as in a simulated crash, leaves the table with its object.
"""


def going() -> list[Call]:
    """Return the calls which wait for a lock or hold one, in the order of their begin. Call on any thread."""
    return [call for known in _going.valuerefs() if (call := known()) is not None]


def still_going(call: Call) -> None:
    """List a call until its last event, ``no_longer_going``, or the end of its object."""
    _going[id(call)] = call


def no_longer_going(call: Call) -> None:
    """Forget a call whose lock is released after a loss: no event tells of the release."""
    _going.pop(id(call), None)


def forget_going() -> None:
    """Empty the table in a forked child: a child waits for nothing and holds nothing."""
    _going.clear()


def tell_failed(call: Call, error: BaseException) -> None:
    """Emit ``failed`` for a wait which ends by an error, if no other event has ended the wait."""
    if call.times.waits:
        tell("failed", call, reason=type(error).__name__)

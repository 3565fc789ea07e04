"""What happens to locks, told to whoever listens: the simulator's journal, metrics, tests.

One frozen record, one way to subscribe. Nothing here is needed for a lock to work.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from singleton.base.naming import log as _log

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from singleton.base.hold import Hold
    from singleton.base.kinds import Mode

EventKind = Literal[
    "waiting", "acquired", "contended", "deferred", "poisoned", "lost", "released", "body_started", "body_ended"
]

_listeners: tuple[Callable[[LockEvent], None], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LockEvent:
    """One change of state of one lock, as its user saw it.

    Attributes:
        kind: ``waiting`` (asked for), ``acquired``, ``contended`` (given up, the body won't run), ``deferred`` (its
            message goes back as a copy, and then ends), ``poisoned`` (a message that had been put back has failed too
            often), ``lost``, ``released``; ``body_started`` and ``body_ended`` bracket the guarded body itself.
        lock: name of the lock's blob.
        function: name of the function, or "" outside Functions.
        owner: the invocation id, or what the caller of the lock API gave.
        token: the fencing token, where there is one.
        reason: for ``lost`` why; for ``contended`` skip, raise, defer or timeout; for ``body_ended`` ok, error or lost.
        mode: ``listener`` for a lock that its process keeps for life. Such a process waits, acquires, loses and
            releases once, without an owner; each of its invocations is a body, or contended.
        message_id: for ``deferred`` and ``poisoned`` the message's id.
        copy_id: for ``deferred`` the id under which it comes back.
    """

    kind: EventKind
    lock: str
    function: str = ""
    owner: str = ""
    token: int | None = None
    reason: str | None = None
    mode: Mode = "function"
    message_id: str | None = None
    copy_id: str | None = None


def subscribe(listener: Callable[[LockEvent], None]) -> Callable[[], None]:
    """Call ``listener`` with each event from now on; return a function that ends this.

    It is called on the thread where the event happens, the lock thread among them: be quick, don't block.
    An exception that it raises is logged and goes no further.
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
        except Exception:  # noqa: BLE001 - somebody else's code
            _log.exception("a listener of lock events raised on %s", event.kind)


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation under a guard: which lock it needs, and who asks. ``storage``: the worker's, for its threads."""

    lock: str
    function: str
    owner: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    mode: Mode = "function"
    storage: Any = field(default=None, repr=False, compare=False)


def tell(
    kind: EventKind,
    call: Call,
    hold: Hold | None = None,
    reason: str | None = None,
    **message: str | None,
) -> None:
    """Emit an event about the lock of a call; ``message``: its ids, where it is about one."""
    token = None if hold is None else hold.token
    known: dict[str, Any] = {"token": token, "reason": reason, **message}
    emit(LockEvent(kind=kind, lock=call.lock, function=call.function, owner=call.owner, mode=call.mode, **known))

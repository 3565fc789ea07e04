"""One invocation of a guarded function: which lock it needs, which hold it has, and what is told of it."""

from __future__ import annotations

import contextlib
import contextvars
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singleton.telemetry import EventKind, LockEvent, emit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from singleton.guard import Mode
    from singleton.hold import Hold

_current: contextvars.ContextVar[Hold] = contextvars.ContextVar("singleton_hold")


def current_hold() -> Hold:
    """Return the hold of the guarded invocation that this code runs in.

    Raises:
        RuntimeError: this code does not run inside a function guarded by ``@singleton``. A thread that the function
            starts by itself doesn't either: hand it the hold.
    """
    try:
        return _current.get()
    except LookupError:
        raise RuntimeError("current_hold() was called outside a function guarded by @singleton") from None


@contextlib.contextmanager
def current(hold: Hold) -> Iterator[None]:
    """Make this the hold that ``current_hold`` returns."""
    token = _current.set(hold)
    try:
        yield
    finally:
        _current.reset(token)


@dataclass(frozen=True, slots=True)
class Call:
    """One invocation under a guard: which lock it needs, and who asks."""

    lock: str
    function: str
    owner: str
    arguments: Mapping[str, Any] = field(default_factory=dict, repr=False)
    mode: Mode = "function"


def tell(kind: EventKind, call: Call, hold: Hold | None = None, reason: str | None = None) -> None:
    """Emit an event about the lock of a call."""
    token = hold.token if hold is not None else None
    emit(
        LockEvent(
            kind=kind,
            lock=call.lock,
            function=call.function,
            owner=call.owner,
            token=token,
            reason=reason,
            mode=call.mode,
        )
    )

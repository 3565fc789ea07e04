"""Two spans for each use of a lock, wait and hold: children of the current span at the request for the lock.

The span of a hold has a link to the span of the hold before in this process. Locks for the life of a process
(listeners, leaderships) have no spans: such spans would last for days.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.trace import Link, Status, StatusCode

from singleton.observing.metrics import FOR_LIFE, policy_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer

    from singleton.base.events import LockEvent

_REMEMBERED: Final = 1024
"""Number of locks with a remembered last hold."""


class Spans:
    """Begins and ends spans with events. Call ``take`` at the place of the event: the current span is the parent."""

    def __init__(self, tracer: Tracer, *, scopes: bool) -> None:
        self._tracer = tracer
        self._scopes = scopes
        self._waits: dict[int, Span] = {}
        self._holds: dict[int, Span] = {}
        self._before: dict[str, SpanContext] = {}

    def take(self, event: LockEvent) -> None:
        """Begin or end the span of an event; other events change nothing."""
        if event.mode in FOR_LIFE:
            return
        match event.kind:
            case "waiting":
                self._waits[event.use] = self._start("singleton wait", event)
            case "acquired":
                self._end_wait(event, "acquired")
                self._begin_hold(event)
            case "contended":
                self._end_wait(event, "contended", {"singleton.policy": policy_of(event)})
            case "failed":
                self._end_wait(event, "failed", {"error.type": event.reason or ""})
            case "lost" if (hold := self._holds.get(event.use)) is not None:
                hold.add_event("lost", {"singleton.reason": event.reason or ""})
                hold.set_status(Status(StatusCode.ERROR, f"the lock was lost: {event.reason}"))
            case "released" if (hold := self._holds.pop(event.use, None)) is not None:
                hold.end()

    def _begin_hold(self, event: LockEvent) -> None:
        """Begin the span of a hold, and remember the span for the next hold. Takes no lock, which a fork might keep."""
        before = self._before.pop(event.lock, None)
        links = [] if before is None else [Link(before)]
        hold = self._holds[event.use] = self._start("singleton hold", event, links)
        if hold.get_span_context().is_valid:
            self._before[event.lock] = hold.get_span_context()
        if len(self._before) > _REMEMBERED:
            with suppress(KeyError, RuntimeError):  # another thread has just done so
                del self._before[next(iter(self._before))]

    def _end_wait(self, event: LockEvent, outcome: str, more: dict[str, str] | None = None) -> None:
        wait = self._waits.pop(event.use, None)
        if wait is None:
            return
        wait.set_attributes({"singleton.outcome": outcome, **(more or {})})
        if outcome == "failed":
            wait.set_status(Status(StatusCode.ERROR, event.reason))
        wait.end()

    def _start(self, what: str, event: LockEvent, links: list[Link] | None = None) -> Span:
        about: dict[str, Any] = {"singleton.mode": event.mode}
        if event.function:
            about["singleton.function"] = event.function
        if event.owner:
            about["singleton.owner"] = event.owner
        if event.token is not None:
            about["singleton.token"] = event.token
        if self._scopes:
            about["singleton.lock"] = event.lock
        name = f"{what} {event.function}" if event.function else what
        return self._tracer.start_span(name, attributes=about, links=links or ())

"""Every metric: its name, unit and description, and which event it is made of.

Attributes have few values: functions, modes, policies, outcomes, reasons, operations and statuses. A lock's name has
the scope's value, so the name is an attribute only with ``scopes=True``.

``docs/how-to/observe.md`` says what the gauge and the spans show.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

from opentelemetry.metrics import Observation
from opentelemetry.trace import Link, Status, StatusCode, get_current_span, set_span_in_context

from singleton.base import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, MeterProvider
    from opentelemetry.trace import Span, SpanContext, Tracer

    from singleton.base.events import LockEvent

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
"""Bounds of the histograms' buckets, where the SDK's user does not choose others."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: kind, name, unit, description, and names of its attributes."""

    kind: Literal["counter", "histogram", "gauge"]
    name: str
    unit: str
    description: str
    attributes: tuple[str, ...]


_USE: Final = ("singleton.function", "singleton.mode")
_ENDED_USE: Final = (*_USE, "singleton.outcome")

WAIT: Final = Metric(
    "histogram", "singleton.lock.wait", "s", "Time from asking for a lock to getting it or giving up.", _ENDED_USE
)
HOLD: Final = Metric(
    "histogram", "singleton.lock.hold", "s", "Time from getting a lock to giving it up or losing it.", _ENDED_USE
)
HELD: Final = Metric(
    "gauge", "singleton.lock.held", "s", "How long the longest current hold of this process has lasted.", _USE
)
ACQUIRED: Final = Metric("counter", "singleton.lock.acquired", "{hold}", "Locks that were acquired.", _USE)
CONTENDED: Final = Metric(
    "counter",
    "singleton.lock.contended",
    "{wait}",
    "Attempts and waits that ended because somebody else has the lock.",
    (*_USE, "singleton.policy"),
)
COALESCED: Final = Metric(
    "counter", "singleton.lock.coalesced", "{invocation}", "Invocations that ended while another one waits.", _USE
)
LOST: Final = Metric(
    "counter",
    "singleton.lock.lost",
    "{hold}",
    "Holds that were lost before their release.",
    (*_USE, "singleton.reason"),
)
REQUESTS: Final = Metric(
    "counter",
    "singleton.storage.requests",
    "{request}",
    "Requests to the locks' storage, by operation and outcome.",
    ("singleton.operation", "singleton.status"),
)
DURATION: Final = Metric("histogram", "singleton.processing.duration", "s", "Duration of guarded bodies.", _ENDED_USE)
COUNT: Final = Metric("counter", "singleton.processing.count", "{run}", "Guarded bodies that ended.", _ENDED_USE)
METRICS: Final = (WAIT, HOLD, HELD, ACQUIRED, CONTENDED, COALESCED, LOST, REQUESTS, DURATION, COUNT)

FOR_LIFE: Final = ("listener", "leadership")
"""Modes whose locks a process keeps for life."""

SKIPPED: Final = "lock_skipped"
ALIASES: Final = {
    ACQUIRED.name: "lock_acquired",
    CONTENDED.name: SKIPPED,
    DURATION.name: "processing_duration_seconds",
    COUNT.name: "processing_count",
}
"""Second names of four metrics. ``lock_skipped`` counts the policy ``skip`` only."""


def policy_of(event: LockEvent) -> str:
    """Return the policy of a wait that ended without the lock; a timeout is of the policy ``wait``."""
    return "wait" if event.reason == "timeout" else event.reason or ""


def about(event: LockEvent, *, scopes: bool) -> dict[str, Any]:
    """Return the common attributes of metrics of locks; ``scopes``: with the lock's name."""
    found: dict[str, Any] = {"singleton.mode": event.mode}
    if event.function:
        found["singleton.function"] = event.function
    if scopes:
        found["singleton.lock"] = event.lock
    return found


class Recorder:
    """Records events and requests, on any thread."""

    def __init__(self, meter: Meter, *, scopes: bool, aliases: bool) -> None:
        self._scopes = scopes
        names = [(metric, metric.name) for metric in METRICS]
        names += [(metric, ALIASES[metric.name]) for metric in METRICS if aliases and metric.name in ALIASES]
        self._histograms: dict[str, Histogram] = {
            name: meter.create_histogram(
                name, metric.unit, metric.description, explicit_bucket_boundaries_advisory=_SECONDS
            )
            for metric, name in names
            if metric.kind == "histogram"
        }
        self._counters: dict[str, Counter] = {
            name: meter.create_counter(name, metric.unit, metric.description)
            for metric, name in names
            if metric.kind == "counter"
        }
        self._lost: set[int] = set()

    def take(self, event: LockEvent) -> None:
        """Record an event."""
        attributes = about(event, scopes=self._scopes)
        match event.kind:
            case "acquired" | "contended" | "coalesced" | "failed" as end:
                self._time(WAIT, event.waited, {**attributes, "singleton.outcome": end})
                if end == "contended":
                    self._count(CONTENDED, {**attributes, "singleton.policy": policy_of(event)})
                elif end != "failed":
                    self._count(ACQUIRED if end == "acquired" else COALESCED, attributes)
            case "lost":
                if event.mode != "listener":  # whose release is not told after a loss
                    self._lost.add(event.use)
                self._time(HOLD, event.held, {**attributes, "singleton.outcome": "lost"})
                self._count(LOST, {**attributes, "singleton.reason": event.reason or ""})
            case "released" if event.use in self._lost:
                self._lost.discard(event.use)
            case "released":
                self._time(HOLD, event.held, {**attributes, "singleton.outcome": "released"})
            case "body_ended":
                outcome = {**attributes, "singleton.outcome": event.reason or ""}
                self._time(DURATION, event.ran, outcome)
                self._count(COUNT, outcome)

    def request(self, operation: str, status: str) -> None:
        """Record a request to the storage."""
        self._count(REQUESTS, {"singleton.operation": operation, "singleton.status": status})

    def _time(self, metric: Metric, seconds: float | None, about: dict[str, Any]) -> None:
        if seconds is None:
            return
        for name in (metric.name, ALIASES.get(metric.name, "")):
            if name in self._histograms:
                self._histograms[name].record(seconds, about)

    def _count(self, metric: Metric, about: dict[str, Any]) -> None:
        self._counters[metric.name].add(1, about)
        alias = ALIASES.get(metric.name, "")
        if alias in self._counters and (alias != SKIPPED or about["singleton.policy"] == "skip"):
            self._counters[alias].add(1, about)


_reported: tuple[MeterProvider | None, HoldTimes] | None = None
"""Provider and holds of the current gauge; None: no observation."""


class HoldTimes:
    """The current holds, and the longest of each function, for any thread."""

    def __init__(self, *, scopes: bool) -> None:
        self._scopes = scopes
        self._process = os.getpid()
        self._going: dict[int, tuple[float, dict[str, Any]]] = {}

    def take(self, event: LockEvent) -> None:
        """Note the begin or the end of a hold. A hold counts until the end of its body."""
        if event.kind == "acquired" and event.mode not in FOR_LIFE:
            if self._process != os.getpid():  # a fork has none of its parent's holds
                self._process, self._going = os.getpid(), {}
            self._going[event.use] = clock.now(), about(event, scopes=self._scopes)
        elif event.kind in ("body_ended", "released", "lost"):
            self._going.pop(event.use, None)

    def longest(self) -> Iterator[tuple[float, dict[str, Any]]]:
        """Yield the seconds of the longest hold for each set of attributes."""
        if self._process != os.getpid():
            return
        begun: dict[tuple[Any, ...], tuple[float, dict[str, Any]]] = {}
        for since, attributes in tuple(self._going.values()):
            before = begun.setdefault(tuple(attributes.values()), (since, attributes))
            if since < before[0]:
                begun[tuple(attributes.values())] = since, attributes
        for since, attributes in begun.values():
            yield max(0.0, clock.now() - since), attributes


def report(held: HoldTimes, meter: Meter, provider: MeterProvider | None) -> Callable[[], None]:
    """Report these holds by the gauge of the provider's meter from now on; return a function that ends the report.

    A meter keeps the first gauge of a name, with the gauge's callbacks. So callbacks read the holds of the last report.
    """
    global _reported  # noqa: PLW0603 - replaced as a whole
    meter.create_observable_gauge(HELD.name, [partial(_observations, provider)], HELD.unit, HELD.description)
    _reported = provider, held

    def end() -> None:
        global _reported  # noqa: PLW0603
        if _reported is not None and _reported[1] is held:
            _reported = None

    return end


def _observations(provider: MeterProvider | None, _: CallbackOptions) -> Iterator[Observation]:
    if (reported := _reported) is None or reported[0] is not provider:
        return
    for seconds, attributes in reported[1].longest():
        yield Observation(seconds, attributes)


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
                self._begin_hold(event, self._end_wait(event, "acquired"))
            case "contended":
                self._end_wait(event, "contended", {"singleton.policy": policy_of(event)})
            case "coalesced":
                self._end_wait(event, "coalesced")
            case "failed":
                self._end_wait(event, "failed", {"error.type": event.reason or ""})
            case "lost" if (hold := self._holds.get(event.use)) is not None:
                hold.add_event("lost", {"singleton.reason": event.reason or ""})
                hold.set_status(Status(StatusCode.ERROR, f"the lock was lost: {event.reason}"))
            case "released" if (hold := self._holds.pop(event.use, None)) is not None:
                hold.end()

    def _begin_hold(self, event: LockEvent, wait: Span | None) -> None:
        """Begin the span of a hold, and remember the span for the next hold. Takes no lock, which a fork might keep."""
        before = self._before.pop(event.lock, None)
        links = [] if before is None else [Link(before)]
        hold = self._holds[event.use] = self._start("singleton hold", event, links, wait)
        if hold.get_span_context().is_valid:
            self._before[event.lock] = hold.get_span_context()
        if len(self._before) > _REMEMBERED:
            with suppress(KeyError, RuntimeError):  # another thread has just done so
                del self._before[next(iter(self._before))]

    def _end_wait(self, event: LockEvent, outcome: str, more: dict[str, str] | None = None) -> Span | None:
        wait = self._waits.pop(event.use, None)
        if wait is None:
            return None
        wait.set_attributes({"singleton.outcome": outcome, **(more or {})})
        if outcome == "failed":
            wait.set_status(Status(StatusCode.ERROR, event.reason))
        wait.end()
        return wait

    def _start(self, what: str, event: LockEvent, links: list[Link] | None = None, wait: Span | None = None) -> Span:
        """Begin a child of the current span; without a current span, of the wait: both are one trace."""
        current = get_current_span().get_span_context().is_valid
        around = None if wait is None or current else set_span_in_context(wait)
        attributes = about(event, scopes=self._scopes)
        if event.owner:
            attributes["singleton.owner"] = event.owner
        if event.token is not None:
            attributes["singleton.token"] = event.token
        name = f"{what} {event.function}" if event.function else what
        return self._tracer.start_span(name, around, attributes=attributes, links=links or ())

"""Every metric: its name, unit and description, and which event it is made of.

Attributes have few values: functions, modes, policies, outcomes, reasons, operations and statuses. A lock's name has
the scope's value, so the name is an attribute only with ``scopes=True``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter

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


WAIT: Final = Metric(
    "histogram",
    "singleton.lock.wait",
    "s",
    "Time from asking for a lock to getting it or giving up.",
    ("singleton.function", "singleton.mode", "singleton.outcome"),
)
HOLD: Final = Metric(
    "histogram",
    "singleton.lock.hold",
    "s",
    "Time from getting a lock to giving it up or losing it.",
    ("singleton.function", "singleton.mode", "singleton.outcome"),
)
HELD: Final = Metric(
    "gauge",
    "singleton.lock.held",
    "s",
    "How long the longest current hold of this process has lasted.",
    ("singleton.function", "singleton.mode"),
)
ACQUIRED: Final = Metric(
    "counter",
    "singleton.lock.acquired",
    "{hold}",
    "Locks that were acquired.",
    ("singleton.function", "singleton.mode"),
)
CONTENDED: Final = Metric(
    "counter",
    "singleton.lock.contended",
    "{wait}",
    "Attempts and waits that ended because somebody else has the lock.",
    ("singleton.function", "singleton.mode", "singleton.policy"),
)
LOST: Final = Metric(
    "counter",
    "singleton.lock.lost",
    "{hold}",
    "Holds that were lost before their release.",
    ("singleton.function", "singleton.mode", "singleton.reason"),
)
REQUESTS: Final = Metric(
    "counter",
    "singleton.storage.requests",
    "{request}",
    "Requests to the locks' storage, by operation and outcome.",
    ("singleton.operation", "singleton.status"),
)
DURATION: Final = Metric(
    "histogram",
    "singleton.processing.duration",
    "s",
    "Duration of guarded bodies.",
    ("singleton.function", "singleton.mode", "singleton.outcome"),
)
COUNT: Final = Metric(
    "counter",
    "singleton.processing.count",
    "{run}",
    "Guarded bodies that ended.",
    ("singleton.function", "singleton.mode", "singleton.outcome"),
)
METRICS: Final = (WAIT, HOLD, HELD, ACQUIRED, CONTENDED, LOST, REQUESTS, DURATION, COUNT)

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
            case "acquired":
                self._time(WAIT, event.waited, {**attributes, "singleton.outcome": "acquired"})
                self._count(ACQUIRED, attributes)
            case "contended":
                self._time(WAIT, event.waited, {**attributes, "singleton.outcome": "contended"})
                self._count(CONTENDED, {**attributes, "singleton.policy": policy_of(event)})
            case "failed":
                self._time(WAIT, event.waited, {**attributes, "singleton.outcome": "failed"})
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

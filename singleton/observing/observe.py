"""``observe()``: metrics and spans of all locks of this process, by OpenTelemetry's API."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError
from singleton.base.events import subscribe
from singleton.base.forks import importing
from singleton.base.invocation import call_watcher
from singleton.base.invocation import log as _log
from singleton.stores.request_count import count_requests

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_NAME: Final = "azure-functions-singleton"
_INSTALL: Final = "opentelemetry-api (the extra [otel]) is not installed: add opentelemetry-api to requirements.txt"
_guard = threading.Lock()
_under_way: tuple[Callable[[], None], ...] = ()
"""Functions that end the current observation; empty without an observation."""


def observe(
    *,
    scopes: bool = False,
    aliases: bool = False,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Callable[[], None]:
    """Record metrics and spans of all locks of this process from now on; return a function that ends the recording.

    Call ``observe`` once, at the import of the app: requests to storage accounts opened before are not counted. A
    second call replaces the first. If host.json has ``"telemetryMode": "OpenTelemetry"``, functions with ``@singleton``
    need no call.

    Args:
        scopes: whether metrics and spans have the lock's name, with the scope's value, as ``singleton.lock``. Each name
            makes a time series.
        aliases: whether to record ``lock_acquired``, ``lock_skipped``, ``processing_duration_seconds`` and
            ``processing_count``, too.
        meter_provider, tracer_provider: receivers of metrics and spans; default: OpenTelemetry's global providers,
            which the app may set later.

    Raises:
        ConfigurationError: ``opentelemetry-api`` is not installed.

    Example::

        from singleton import observe

        observe()
    """
    try:
        with importing:
            from opentelemetry import metrics, trace
    except ImportError:
        raise ConfigurationError(f"observe() needs OpenTelemetry: {_INSTALL}") from None
    with importing:
        from singleton.observing.metrics import HoldTimes, Recorder, Spans, report

    meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
    recorder, held = Recorder(meter, scopes=scopes, aliases=aliases), HoldTimes(scopes=scopes)
    spans = Spans(trace.get_tracer(_NAME, tracer_provider=tracer_provider), scopes=scopes)
    unreport = report(held, meter, meter_provider)  # first: after an error of the meter nothing is subscribed
    listeners = (spans.take, recorder.take, held.take)
    ends = (*map(subscribe, listeners), count_requests(recorder.request), unreport)
    _take_the_place_of(None, ends)
    return lambda: _take_the_place_of(ends, ())


def observe_by_default() -> None:
    """Call ``observe`` for an app whose host.json asks for OpenTelemetry, if the app has not called ``observe``."""
    if not _under_way:
        call_watcher("a meter or tracer of OpenTelemetry raised: locks are not observed", _observe_if_installed)


def _observe_if_installed() -> None:
    try:
        observe()
    except ConfigurationError:
        _log.warning("host.json's telemetryMode is OpenTelemetry, and locks are not observed: %s", _INSTALL)


def _take_the_place_of(which: tuple[Callable[[], None], ...] | None, ends: tuple[Callable[[], None], ...]) -> None:
    """Replace the observation ``which`` by another (empty: by none); None: replace any observation."""
    global _under_way
    with _guard:
        if which is not None and _under_way is not which:
            return
        before, _under_way = _under_way, ends
    for end in before:
        end()


def _after_fork() -> None:
    """Make a new lock: a thread of the parent may have had the old lock, and is not in the child."""
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""``observe()``: metrics and spans of all locks of this process, by OpenTelemetry's API."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError
from singleton.base.events import subscribe
from singleton.base.invocation import log as _log
from singleton.settings.hostjson import wants_opentelemetry
from singleton.stores.request_count import count_requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

_NAME: Final = "azure-functions-singleton"
_INSTALL: Final = (
    "opentelemetry-api is not installed: add azure-functions-singleton[otel] to requirements.txt "
    "(pip install 'azure-functions-singleton[otel]')"
)
_guard = threading.Lock()
_under_way: tuple[Callable[[], None], ...] = ()
"""What ends the observation that is under way; nothing where there is none."""


def observe(
    *,
    scopes: bool = False,
    aliases: bool = False,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Callable[[], None]:
    """Record metrics and spans of all locks of this process from now on; return a function that ends this.

    Call it once, where the app is imported: requests to a storage account that is already in use are not counted. A
    second call replaces the first. If host.json has ``"telemetryMode": "OpenTelemetry"``, functions with ``@singleton``
    need no call.

    Args:
        scopes: whether metrics and spans have the lock's name, and so the scope's value, as ``singleton.lock``. Each
            name then makes a time series.
        aliases: whether to record ``lock_acquired``, ``lock_skipped``, ``processing_duration_seconds`` and
            ``processing_count``, too.
        meter_provider, tracer_provider: where metrics and spans go; by default to OpenTelemetry's global ones, which
            may be set later.

    Raises:
        ConfigurationError: ``opentelemetry-api`` is not installed.

    Example::

        from singleton import observe

        observe()
    """
    try:
        from opentelemetry import metrics, trace
    except ImportError:
        raise ConfigurationError(f"observe() needs OpenTelemetry: {_INSTALL}") from None
    from singleton.observing.held import Held, report
    from singleton.observing.metrics import Recorder
    from singleton.observing.spans import Spans

    meter = metrics.get_meter(_NAME, meter_provider=meter_provider)
    recorder, held = Recorder(meter, scopes=scopes, aliases=aliases), Held(scopes=scopes)
    spans = Spans(trace.get_tracer(_NAME, tracer_provider=tracer_provider), scopes=scopes)
    listeners = (spans.take, recorder.take, held.take)
    ends = (*map(subscribe, listeners), count_requests(recorder.request), report(held, meter, meter_provider))
    _take_the_place_of(None, ends)
    return lambda: _take_the_place_of(ends, ())


def observe_where_host_json_says_so(app: Path | None) -> None:
    """Observe, where host.json wants telemetry by OpenTelemetry and nobody has called ``observe``."""
    if _under_way or not wants_opentelemetry(app, os.environ):
        return
    try:
        observe()
    except ConfigurationError:
        _log.warning("host.json's telemetryMode is OpenTelemetry, and locks are not observed: %s", _INSTALL)


def _take_the_place_of(which: tuple[Callable[[], None], ...] | None, ends: tuple[Callable[[], None], ...]) -> None:
    """Have another observation under way, or none, instead of this one; None: of any."""
    global _under_way
    with _guard:
        if which is not None and _under_way is not which:
            return
        before, _under_way = _under_way, ends
    for end in before:
        end()


def _after_fork() -> None:
    """Make a new lock: the thread that had it is not in the child."""
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

"""A gauge of the current holds of this process: a body that hangs is visible before the end of its hold.

The gauge is read when metrics are collected. Locks for the life of a process (listeners, leaderships) are left out.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from opentelemetry.metrics import Observation

from singleton.base.clock import now
from singleton.observing.metrics import FOR_LIFE, HELD, about

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider

    from singleton.base.events import LockEvent

_reported: tuple[MeterProvider | None, Held] | None = None
"""Provider and holds of the current gauge; None: no observation."""


class Held:
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
            self._going[event.use] = now(), about(event, scopes=self._scopes)
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
            yield max(0.0, now() - since), attributes


def report(held: Held, meter: Meter, provider: MeterProvider | None) -> Callable[[], None]:
    """Report these holds by the gauge of the provider's meter from now on; return a function that ends the report.

    A meter keeps the first gauge of a name, with the gauge's callbacks. So each callback reads the current holds.
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

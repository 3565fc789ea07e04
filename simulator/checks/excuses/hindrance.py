"""When the way of a host to the storage was hindered, when a host stood still, and the effects on leases.

A standstill must last for a third of a lease to cost the lease. A body that wakes must be told of the loss in time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from simulator.faults.real import effects_of
from simulator.history.facts import Wait
from simulator.history.outages import covered

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.faults.effects import Effects
    from simulator.history.facts import Acquisition, History, Section
    from simulator.history.outages import Strike


ASKED: Final = 2.0
"""Seconds for which a request may be under way, or its answer told late, on a busy machine."""


def hindering(history: History, host: str, start: float, end: float) -> list[Strike]:
    """Return the faults that hindered a host's requests at some time between these two, or had just done so."""
    return [fault for fault in _of(history, host) if effects_of(fault.kind).hinders and _meets(fault, start, end)]


def hindered(history: History, host: str, start: float, end: float) -> float:
    """Return for how many seconds between these two the requests of a host were hindered."""
    return covered([span(fault) for fault in hindering(history, host, start, end)], start, end)


def by_when(history: History, host: str, start: float, seconds: float) -> float:
    """Return when so many seconds have passed since ``start`` in which the requests of a host were not hindered."""
    end = start + seconds
    while end < history.end and (later := start + seconds + hindered(history, host, start, end)) > end:
        end = later
    return end


def span(fault: Strike) -> tuple[float, float]:
    """Return from when to when a fault may have effects."""
    return fault.start, fault.end + effects_of(fault.kind).after


def leased_until(history: History, deed: Acquisition | Wait, start: float, end: float) -> float:
    """Return until when a lock may be leased to somebody who asked for it, held it or released it between these two.

    A request may have been carried out after its sender gave it up, or a release not at all. A lease counts from the
    last such moment.
    """
    lease = history.function(deed.function).lease_in(deed.mode)
    asked = isinstance(deed, Wait)
    late = [
        min(span(fault)[1], end + effects_of(fault.kind).after)
        for fault in _of(history, deed.host)
        if _may_lease(effects_of(fault.kind), asked=asked) and _meets(fault, start, end)
    ]
    return max(late) + lease if late else -math.inf


def free_later(history: History, lock: str, start: float, end: float) -> float:
    """Return until when a lock may be leased to nobody who knows it, because of faults between these two."""
    asked: list[tuple[Acquisition | Wait, float, float]] = [
        (wait, wait.start, wait.end) for wait in history.waits if wait.lock == lock and wait.start <= end
    ]
    asked += [(got, got.t, got.until) for got in history.acquisitions if got.lock == lock and got.t <= end]
    return max(
        (
            leased_until(history, deed, max(since, start), min(until + ASKED, end))
            for deed, since, until in asked
            if until + ASKED >= start
        ),
        default=-math.inf,
    )


def _may_lease(effects: Effects, *, asked: bool) -> bool:
    return effects.unseen if asked else effects.leases


def _of(history: History, host: str) -> Iterator[Strike]:
    yield from (fault for fault in history.faults if host in fault.hosts and not _has_missed(fault))


def _has_missed(fault: Strike) -> bool:
    """Tell whether a fault is over and met nothing: no request, and no connection to reset."""
    return fault.end < math.inf and not fault.hits and not effects_of(fault.kind).resets


def _meets(fault: Strike, start: float, end: float) -> bool:
    since, until = span(fault)
    return since <= end and until >= start


SPARE: Final = 1.0
"""Seconds by which the time that a lock has left may be shorter, on a busy machine."""
OUTAGE: Final = 1 / 3
"""Part of a lease for which an outage costs no hold, whenever it begins (docs/guarantees.md)."""
TOLD: Final = 3.0
"""Seconds in which a host that woke past its lease tells its bodies, on a busy machine."""


def overslept(history: History, body: Section, until: float) -> bool:
    """Tell whether its host stood still for so long before ``until`` that the lease is gone, and told it as it woke."""
    told = body.end if body.told is None else body.told
    slept = [pause for pause in history.pauses if pause.host == body.host and body.start <= pause.end]
    slept = [pause for pause in slept if pause.start <= until]
    return any(told <= wakes_at(history, body, pause.end) for pause in slept) and is_long(
        history, body, min(told, until)
    )


def wakes_at(history: History, body: Section, resumed: float) -> float:
    """Return when a body has been told, at the latest, whose host goes on at this time with its lease gone."""
    if resumed == math.inf:
        return resumed
    end = resumed + TOLD
    while (later := resumed + TOLD + history.stood(body.host, body.worker or 1, resumed, end)) > end:
        end = later
    return end


def is_long(history: History, body: Section, until: float) -> bool:
    """Tell whether its host did nothing, or could not reach the storage, for a third of the lease before ``until``.

    With ``failover`` it is a third of that.
    """
    lease = history.function(body.function).silence_in(body.mode)
    since = until - lease
    idle = [(fault.start, fault.end) for fault in hindering(history, body.host, since, until)]
    idle += [(each.start, each.end) for each in history.standstills if each.host == body.host]
    idle += [(pause.start, pause.end) for pause in history.pauses if pause.host == body.host]
    return covered(idle, since, until) >= max(lease * OUTAGE - SPARE, lease * OUTAGE / 2)

"""A host stood still: how long that must last to cost a lease, and by when a body that wakes must be told."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from simulator.checks.excuses.hindrance import hindering
from simulator.history.stops import covered

if TYPE_CHECKING:
    from simulator.history.facts import History, Section

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

"""Which faults explain what went wrong: a lost hold, a failed invocation, an overlap, a message that came back.

An empty list means that no fault does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from simulator.checks.excuses.breaking import exposing, telling
from simulator.checks.excuses.hindrance import ASKED, SPARE, hindering, is_long, span
from simulator.history.outages import covered

if TYPE_CHECKING:
    from simulator.history.facts import History, Invocation, Message, Section
    from simulator.history.outages import Strike

_TRY_ONCE: Final = 10.0
"""Seconds for which a single attempt asks a storage that fails (docs/guarantees.md)."""
_PATIENCE: Final = 60.0
"""Seconds for which a wait asks a storage that fails."""
_ENDS: Final = 2.0
"""Seconds in which an async body ends after it was told."""


def behind_loss(history: History, section: Section) -> list[Strike]:
    """Return the faults by which the lock of a body was lost, as it was told.

    A lease expires under its holder if the storage can't be reached for a third of it. It is broken, stolen or gone
    only if somebody did that.
    """
    if section.told is None:
        return []
    if section.why not in {"", "expired"}:
        return telling(history, section, section.told)
    lease = history.function(section.function).lease_in(section.mode)
    faults = hindering(history, section.host, section.told - lease, section.told)
    return faults if is_long(history, section, section.told) else []


def behind_failure(history: History, call: Invocation) -> list[Strike]:
    """Return the faults by which an invocation failed with an error of the lock."""
    if call.blames == "LockLost":
        mine = [each for each in history.sections if (each.host, each.owner) == (call.host, call.id)]
        return [fault for section in mine for fault in behind_loss(history, section)]
    if call.blames != "StorageUnavailable":
        return []
    refused = [each for each in history.refusals if (each.host, each.owner) == (call.host, call.id)]
    if any(refusal.reason == "defer" for refusal in refused):
        # Then its message was to be put back. A request of that is not repeated if nobody knows what became of it.
        return hindering(history, call.host, refused[-1].t, call.end)
    if is_candidates(history, call):
        return hindering(history, call.host, troubled_since(history, call), call.end)
    faults = hindering(history, call.host, call.start, call.end)
    silent = covered([span(fault) for fault in faults], call.start, call.end)
    return faults if silent >= _patience(history, call) - SPARE else []


def is_candidates(history: History, call: Invocation) -> bool:
    """Tell whether an invocation does not ask for its lock itself: its process is a candidate for the listener."""
    return any(
        wait.mode == "listener" and (wait.function, wait.host) == (call.function, call.host) for wait in history.waits
    )


def troubled_since(history: History, call: Invocation) -> float:
    """Return from when on trouble may fail this invocation.

    A candidate tells of its last attempt until the next one, a recovery interval later. An attempt that its host stood
    still in fails, too.
    """
    if not is_candidates(history, call):
        return call.start
    return call.start - history.function(call.function).recovery - _TRY_ONCE - ASKED


def _patience(history: History, call: Invocation) -> float:
    """Return how long an invocation asks a storage that gives no usable answer."""
    function = history.function(call.function)
    if function.on_contention != "wait":
        return _TRY_ONCE
    return min(_PATIENCE, max(function.gives_up_after, _TRY_ONCE))


def behind_return(history: History, message: Message, call: Invocation) -> list[Strike]:
    """Return the faults by which a message came back that a host had received: it could not renew or delete it."""
    received = max((t for t, host in message.receipts if host == call.host and t <= call.start), default=call.start)
    return hindering(history, call.host, received - ASKED, call.end + ASKED)


def behind_overlap(history: History, first: Section, second: Section) -> list[Strike]:
    """Return the faults by which a body began while another was inside.

    Either an operator had ended the lease of one of them, and it could not know that yet. Or the first was told before
    the second began: a thread goes on, and a task needs a moment to end.
    """
    broken = [fault for body in (first, second) for fault in exposing(history, body, second.start)]
    if broken or first.told is None or first.told > second.start:
        return broken
    went_on = min(first.end, second.end) - first.told
    went_on -= history.stood(first.host, first.worker or 1, first.told, min(first.end, second.end))
    if history.function(first.function).sync or went_on <= _ENDS:
        return behind_loss(history, first)
    return []

"""After the faults everybody gets a turn: who waits acquires, timers tick, and queues are read again.

A nemesis undoes what it can, and says so (``healed``). From then on nothing explains a standstill.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from simulator.checks.excuses.causes import untold
from simulator.checks.findings import Finding, count, label, note, unproven, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, Wait

_ALL_DONE: Final = 120.0
"""Seconds in which all work is done once faults are over, besides twice the time of its bodies (docs/guarantees.md)."""
_RECOVERS: Final = 15.0
"""Seconds in which a host goes on with its timers and queues: an attempt takes ten, and a poll that hangs fifteen."""


def judge_liveness(history: History) -> Iterator[Finding]:
    """Find holders that were never told, and hosts and waiters that did not get on after the faults."""
    if not (history.faults or history.setup.get("faults")):
        return
    yield from _told(history)
    if history.healed is None:
        if not history.interrupted:
            yield unproven("the faults were not undone before the run ended: nobody had to get on")
        return
    yield from _waiters(history, history.healed)
    yield from _timers(history, history.healed)
    yield from _queues(history, history.healed)


def _told(history: History) -> Iterator[Finding]:
    """Whose lease an operator has broken learns it from the next renewal."""
    if not history.setup.get("singleton", True):
        return
    for got, fault, seconds in untold(history):
        yield violation(
            f"{got.host} was not told for {seconds:.1f} s that the lease of {label(got.lock)} was gone "
            f"(fault {fault.id})"
        )


def _waiters(history: History, healed: float) -> Iterator[Finding]:
    late: dict[str, tuple[float, Wait]] = {}
    for wait in history.waits:
        if wait.mode == "listener" or wait.ending in {"killed", "crashed"}:
            continue
        since, until = max(wait.start, healed), min(wait.end, history.end)
        if until - since <= _ALL_DONE:
            continue
        waited = until - since - history.stood(wait.host, wait.worker or 1, since, until)
        if waited > _ALL_DONE + 2 * _busy(history, wait.lock, since, until):
            late[wait.lock] = max(late.get(wait.lock, (0.0, wait)), (waited, wait), key=lambda each: each[0])
    for lock, (waited, wait) in sorted(late.items()):
        yield violation(f"{wait.host} waited for {label(lock)} for {waited:.0f} s after all faults were over")


def _busy(history: History, lock: str, start: float, end: float) -> float:
    """Return how long bodies of a lock ran between these two."""
    spans = ((max(each.start, start), min(each.end, end)) for each in history.sections if each.lock == lock)
    return sum(max(0.0, until - since) for since, until in spans)


def _timers(history: History, healed: float) -> Iterator[Finding]:
    """Each host's timers tick. Of one app's hosts, the platform lets one tick."""
    for function in history.functions.values():
        if function.trigger != "timer" or function.idle or not function.tick:
            continue
        due = _RECOVERS + 2 * function.tick
        if history.setup.get("same_app"):
            due += function.listener_lease + function.recovery
            hosts = _alive(history)
            quiet = [] if any(_ticked(history, host, function.name, healed) for host in hosts) else hosts[:1]
        else:
            quiet = [host for host in _alive(history) if not _ticked(history, host, function.name, healed)]
        for host in quiet:
            ends = history.stopping.get(host, history.end)
            if ends - max(healed, history.began.get(host, 0.0)) > due:
                yield violation(
                    f"the timer {function.name!r} did not tick on {host} in the {ends - healed:.0f} s after all faults "
                    "were over"
                )


def _ticked(history: History, host: str, function: str, since: float) -> bool:
    if any(t >= since and (ticker, name) == (host, function) for t, ticker, name in history.ticks):
        return True
    calls = (call for call in history.invocations if (call.host, call.function) == (host, function))
    return any(call.end >= since for call in calls)


def _queues(history: History, healed: float) -> Iterator[Finding]:
    """A host that could not poll a queue polls it again."""
    for (host, queue), since in sorted(history.unreachable.items()):
        ends = history.stopping.get(host, history.end)
        silent = ends - max(healed, since)
        if host in _alive(history) and silent > _RECOVERS:
            yield violation(f"{host} could not poll {queue!r} for {silent:.0f} s after all faults were over")


def _alive(history: History) -> list[str]:
    """Return the hosts that worked until the run was over."""
    gone = history.deaths | {host for host, _ in history.crashes} | {host for host, _ in history.errors}
    paused = {pause.host for pause in history.pauses if pause.end == math.inf}
    return [host for host in sorted(history.ready) if host not in gone | paused]


def judge_faults(history: History) -> Iterator[Finding]:
    """A run that was to show faults, and had none, shows nothing of them."""
    asked = history.setup.get("faults") or ()
    if asked and not history.faults and not history.interrupted:
        yield unproven(f"{count(len(asked), 'kind')} of faults asked for, and no fault struck")
    elif missing := sorted(set(asked) - {fault.kind for fault in history.faults}):
        yield note(f"asked for, but none struck: {', '.join(missing)}")

"""What a declaration says in numbers: kept at least, held at most, and how many wait in one process."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.excuses.hindrance import hindering
from simulator.checks.findings import Finding, count, label, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Wait

_SLACK: Final = 1.0
"""Seconds by which who got a lock may say so later or sooner than another."""
_TOLD: Final = 2.0
"""Seconds after max_hold within which a hold is lost, on a busy machine."""
_ASKS: Final = 3.0
"""Seconds for which who asks for a lock may do so before it is known whether he must wait."""


def judge_spans(history: History) -> Iterator[Finding]:
    """Find locks that were kept too short or too long, and processes in which too many waited."""
    if not history.setup.get("singleton", True):
        return
    if not history.rough:
        yield from _kept_at_least(history)
        yield from _waiting(history)
    yield from _held_at_most(history)


def _kept_at_least(history: History) -> Iterator[Finding]:
    """Nobody gets a lock while it is kept for at_least, unless its holder stood still or ended."""
    got: dict[str, list[Acquisition]] = defaultdict(list)
    for each in history.acquisitions:
        if each.mode == "function":
            got[each.lock].append(each)
    worst: dict[str, tuple[float, float]] = {}
    for taken in got.values():
        taken.sort(key=lambda each: each.t)
        for number, each in enumerate(taken):
            function = history.function(each.function)
            later = number + function.at_once
            if not function.at_least or later >= len(taken):
                continue
            holders, after = taken[number:later], taken[later].t - each.t
            if any(history.function(one.function).at_least < after for one in holders):
                continue
            if after < function.at_least - _SLACK and not any(_gone(history, one, taken[later].t) for one in holders):
                worst[each.function] = min(worst.get(each.function, (math.inf, 0.0)), (after, function.at_least))
    for name, (after, least) in sorted(worst.items()):
        yield violation(f"the lock of {name!r} was got again after {after:.1f} s, though at_least is {least:g} s")


def _gone(history: History, holder: Acquisition, until: float) -> bool:
    """Tell whether a holder may have lost what it kept: with its process, its host, or by its host's standstill."""
    ends = [history.exits.get(holder.host, math.inf)]
    ends += [each.t for each in history.worker_ends if each.host == holder.host]
    ended = holder.host in history.deaths or min(ends) <= until
    operated = any(lock == holder.lock and holder.t <= t <= until for t, lock in history.operated)
    return ended or operated or holder.ending == "lost" or history.paused(holder.host, holder.t, until)


def _held_at_most(history: History) -> Iterator[Finding]:
    """Whose hold lasts for max_hold is told."""
    worst: dict[str, tuple[float, float]] = {}
    for section in history.sections:
        most = history.function(section.function).max_hold
        if most is None or section.mode != "function" or not section.held:
            continue
        ran = (
            min(section.end, history.end)
            - section.start
            - history.stood(section.host, section.worker, section.start, min(section.end, history.end))
        )
        told = section.told is not None and section.told - section.start <= most + _TOLD
        if ran > most + _TOLD and not told and not history.paused(section.host, section.start, section.end):
            worst[section.function] = max(worst.get(section.function, (0.0, 0.0)), (ran, most))
    for name, (ran, most) in sorted(worst.items()):
        yield violation(
            f"a body of {name!r} ran for {ran:.1f} s, though max_hold is {most:g} s, and was not told in time"
        )


def _waiting(history: History) -> Iterator[Finding]:
    """No more wait for a lock in one process than max_waiting."""
    waits: dict[tuple[str, int, str], list[Wait]] = defaultdict(list)
    for wait in history.waits:
        if wait.mode == "function" and min(wait.end, history.end) - wait.start > _ASKS:
            waits[wait.host, wait.worker, wait.lock].append(wait)
    worst: dict[str, tuple[int, int]] = {}
    for (_, _, lock), several in waits.items():
        most = max(
            (m for each in several if (m := history.function(each.function).max_waiting) is not None), default=None
        )
        if most is None or any(history.function(each.function).max_waiting is None for each in several):
            continue
        number = max(_at(several, each.start + _ASKS) for each in several)
        if number > most and not any(_held_up(history, each) for each in several):
            worst[lock] = max(worst.get(lock, (0, 0)), (number, most))
    for lock, (number, most) in sorted(worst.items()):
        yield violation(
            f"{count(number, 'invocation')} of one process waited for {label(lock)} at a time, though max_waiting is "
            f"{most}"
        )


def _held_up(history: History, wait: Wait) -> bool:
    """Tell whether its host stood still or was cut off, so that it was not yet told whether it may wait."""
    return history.paused(wait.host, wait.start, wait.end) or bool(hindering(history, wait.host, wait.start, wait.end))


def _at(waits: list[Wait], t: float) -> int:
    return sum(wait.start + _ASKS <= t < wait.end for wait in waits)


def is_full(history: History, refused: Wait | None, t: float) -> bool:
    """Tell whether somebody who was refused then met as many of his process that waited as max_waiting allows."""
    most = None if refused is None else history.function(refused.function).max_waiting
    if refused is None or most is None:
        return False
    others = [
        wait
        for wait in history.waits
        if (wait.host, wait.worker, wait.lock) == (refused.host, refused.worker, refused.lock) and wait is not refused
    ]
    return sum(wait.start - _SLACK <= t <= wait.end + _SLACK for wait in others) >= most

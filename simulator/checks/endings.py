"""An invocation ends as its body ended: the lock adds no success, and no failure without a cause.

A success needs a body that ended well under the lock, or a refusal. A failure needs the body's own error, a refusal, or
something that the run did: a kill, a pause, an operator. Functions with other decorators of the app are excused if
these decorators may do the same.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.excuses.causes import behind_failure, troubled_since
from simulator.checks.excuses.hindrance import is_long
from simulator.checks.findings import Finding, count, note, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, Invocation, Sight

_ENDING: Final = 15.0
"""Seconds between the first refusal of a host that ends and its end: its locks close within twelve."""
_EARLY: Final = 1.0
"""Seconds by which a body may begin later than its hold: so much less of max_hold is left for it."""
_UNANSWERED: Final = frozenset({"cancelled", "CancelledError", "StopIteration", "SystemExit", "GeneratorExit"})
"""Ends of a body that the guard turns into an error, as no worker would answer them."""


def judge_endings(history: History) -> Iterator[Finding]:
    """Find invocations that ended differently from their bodies."""
    if not history.setup.get("singleton", True):
        return
    yield from _never_refused(history)
    if history.witnessed:
        yield from _successes(history)
        yield from _errors(history)
    if not history.rough:
        yield from _failures(history)


def _never_refused(history: History) -> Iterator[Finding]:
    """Contention fails no caller that skips, and none that waits without limit; the listener may be another process."""
    failed = Counter[str]()
    stood_by = {(refusal.host, refusal.owner) for refusal in history.refusals if refusal.mode == "listener"}
    for call in history.invocations:
        function = history.function(call.function)
        stands_by = function.mode == "listener" and history.rough  # another receiver may have its message by now
        refused = call.blames == "LockNotAcquired" and (call.host, call.id) not in stood_by and not stands_by
        if refused and function.guarded and not function.decorated:
            waits = function.on_contention == "wait" and math.inf == function.gives_up_after == function.cut_after
            counted = function.max_waiting is not None and function.when_full == "raise"  # see accounts and spans
            failed[call.function] += (waits or function.on_contention == "skip") and not counted
    for name, number in sorted((+failed).items()):
        policy = history.function(name).on_contention
        yield violation(
            f"{count(number, 'invocation')} of {name!r} failed with LockNotAcquired, which on_contention={policy!r} "
            "does not allow"
        )


def _successes(history: History) -> Iterator[Finding]:
    """An invocation that succeeded ran its body to a good end, or its policy makes a success of a refusal."""
    dropped = {
        (refusal.host, refusal.owner)
        for refusal in history.refusals
        if refusal.mode == "listener"
        or refusal.reason == history.function(refusal.function).when_full == "defer"
        or history.function(refusal.function).on_contention not in {"wait", "raise"}
    }
    lost = {(section.host, section.owner) for section in history.sections if section.ending == "lost"}
    empty, failed, without, other, hidden = (Counter[str]() for _ in range(5))
    for call, ran in _tries(history):
        where, function = (call.host, call.id), history.function(call.function)
        other[call.function] += call.replaced and function.guarded and not function.decorated
        if call.ending not in {"ok", "deferred"} or not function.guarded:
            continue
        badly = bool(ran) and ran[-1].ending != "ok" and where not in history.struck
        hidden[call.function] += badly and function.decorated
        if not function.decorated:
            empty[call.function] += not ran and where not in dropped
            failed[call.function] += badly
        without[call.function] += where in lost and where not in history.struck and call.ending == "ok"
    yield from _each(empty, "succeeded without its body, and was neither skipped nor put back")
    yield from _each(failed, "succeeded although its body had failed")
    for name, number in sorted((+hidden).items()):
        yield note(
            f"{count(number, 'body', 'bodies')} of {name!r} failed, and their invocations succeeded: one of its own "
            "decorators may do that"
        )
    yield from _each(other, "returned something else than its body")
    yield from _each(without, "succeeded although it had lost its lock")


def _errors(history: History) -> Iterator[Finding]:
    """A function raises what its body raised, or an error of the lock itself."""
    refused = _refused(history)
    asked = {(wait.host, wait.owner) for wait in history.waits}
    well, other, early, alone = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for call, ran in _tries(history):
        where, function = (call.host, call.id), history.function(call.function)
        if not (call.ending == "error" and call.raised and function.guarded) or function.decorated:
            continue
        if call.blames == "LockNotAcquired":
            alone[call.function] += not ran and where not in refused
        elif call.blames or call.raised in _UNANSWERED:
            continue
        elif not ran:
            early[call.function] += where in asked and function.on_contention != "custom"
        else:
            well[call.function] += ran[-1].ending == "ok"
            other[call.function] += _is_another(call, ran[-1])
    yield from _each(well, "failed though its body had succeeded")
    yield from _each(other, "failed with another error than its body's")
    yield from _each(early, "failed without its body, by no error of the lock's")
    yield from _each(alone, "failed with LockNotAcquired, and nobody had refused it the lock")


def _is_another(call: Invocation, body: Sight) -> bool:
    return body.ending == "error" and body.error not in {call.raised, *_UNANSWERED}


def _failures(history: History) -> Iterator[Finding]:
    """The lock fails no invocation, unless something was done to it."""
    failed = Counter(
        (call.function, call.blames)
        for call, ran in _tries(history)
        if call.ending == "error" and call.blames not in {"", "LockNotAcquired"} and not _caused(history, call, ran)
    )
    for (function, name), number in sorted(failed.items()):
        yield violation(
            f"{count(number, 'invocation')} of {function!r} failed with {name}, which nothing in this run caused"
        )


def _caused(history: History, call: Invocation, ran: list[Sight]) -> bool:
    """Tell whether the run did something to the host or the lock, or whether the app itself is the cause.

    A body may raise an error of a lock, for example of another lock, while its own lock is not lost.
    """
    own = call.blames in {"ScopeError", "ConfigurationError"}
    if any(body.error == call.blames for body in ran):
        own |= not any(each.told and (each.host, each.owner) == (call.host, call.id) for each in history.sections)
    for each in history.sections:
        most = history.function(each.function).max_hold
        if most is not None and each.told is not None and (each.host, each.owner) == (call.host, call.id):
            own |= call.blames == "LockLost" and each.told - each.start > most - _EARLY
    operated = not history.faults and any(call.start <= t <= call.end for t, _ in history.operated)
    ended = call.blames == "LockClosed" and history.exits.get(call.host, math.inf) - call.end <= _ENDING
    since = troubled_since(history, call) if call.blames == "StorageUnavailable" else call.start
    struck = _slept(history, call, since) or bool(behind_failure(history, call))
    return own or operated or ended or struck


def _slept(history: History, call: Invocation, since: float) -> bool:
    """Tell whether its host stood still; a lock that is lost had to stand still for long enough."""
    if not history.paused(call.host, since, call.end):
        return False
    told = [each for each in history.sections if (each.host, each.owner) == (call.host, call.id) and each.told]
    if history.rough or call.blames != "LockLost" or not told:
        return True
    return any(is_long(history, each, each.told or each.end) for each in told)


def _tries(history: History) -> Iterator[tuple[Invocation, list[Sight]]]:
    """Yield each try of each invocation with its bodies."""
    bodies: dict[tuple[str, str, int], list[Sight]] = defaultdict(list)
    for sight in history.sights:
        bodies[sight.host, sight.invocation, sight.attempt].append(sight)
    tries = Counter[tuple[str, str]]()
    for call in history.invocations:
        yield call, bodies[call.host, call.id, tries[call.host, call.id]]
        tries[call.host, call.id] += 1


def _refused(history: History) -> set[tuple[str, str]]:
    return {(refusal.host, refusal.owner) for refusal in history.refusals}


def _each(numbers: Counter[str], what: str) -> Iterator[Finding]:
    for function, number in sorted((+numbers).items()):
        yield violation(f"{count(number, 'invocation')} of {function!r} {what}")

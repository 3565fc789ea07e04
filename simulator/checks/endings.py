"""An invocation ends as its body ended: the lock adds no success and no failure.

A success needs a body that ended well under the lock, or a refusal. A failure needs the body's own error, a refusal, or
an act of the run: a kill, a pause, an operator. Functions with further decorators of the app are excused if
the decorators may add a success or a failure.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.answers import may_succeed
from simulator.checks.coalesced import LEFT, judge_coalesced
from simulator.checks.deadlines import too_slow
from simulator.checks.exclusion import EARLY
from simulator.checks.excuses import (
    CALL,
    asked_last,
    behind_failure,
    disturbed,
    is_long,
    is_of,
    is_slowed,
    overslept_call,
    sections_of,
    uncaused,
)
from simulator.checks.findings import Finding, by_function, count, note, unproven, violation
from simulator.history.deeds import outside
from simulator.history.facts import Wait
from simulator.history.journal import CANCELLED, PANIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Deed, History, Invocation, Sight


_ENDING: Final = 15.0
"""Seconds between the first refusal of a host that ends and its end: its locks close within twelve."""
_IN_LINE: Final = 0.5
"""Seconds in which a caller stands in line for its lock, on a machine that is not slow."""
_TAKEN: Final = "LeaseAlreadyPresent"
"""The storage's code for a lease that another has."""
_UNANSWERED: Final = frozenset(
    {CANCELLED, "CancelledError", "StopIteration", "SystemExit", "GeneratorExit", "KeyboardInterrupt", PANIC}
)
"""Ends of a body that the guard turns into an error, as no worker would answer them."""


def judge_endings(history: History) -> Iterator[Finding]:
    """Find invocations that ended differently from their bodies, in a run with locks."""
    yield from _never_refused(history)
    yield from _disobeyed(history)
    yield from _unasked(history)
    yield from judge_coalesced(history)
    if history.witnessed:
        yield from _successes(history)
        yield from _errors(history)
    if not history.rough:
        yield from _failures(history)


def _never_refused(history: History) -> Iterator[Finding]:
    """Contention fails no caller that skips or answers, and none that waits for ever; a listener may be elsewhere."""
    failed = Counter[str]()
    reasons = {(refusal.host, refusal.owner): refusal.reason for refusal in history.refusals}
    stood_by = {(refusal.host, refusal.owner) for refusal in history.refusals if refusal.mode == "listener"}
    for call, ran in tries(history):
        function = history.function(call.function)
        stands_by = function.mode == "listener" and history.rough  # another receiver may have its message by now
        refused = call.blames == "LockNotAcquired" and (call.host, call.id) not in stood_by and not stands_by
        refused = refused and not any(body.error == call.blames for body in ran)  # of a lock that the body asked for
        if refused and function.guarded and not function.decorated:
            waits = (
                function.on_contention in {"wait", LEFT} and math.inf == function.gives_up_after == function.cut_after
            )
            counted = function.max_waiting is not None and function.when_full == "raise"  # see accounts and spans
            policy = function.on_contention
            policy = reasons.get((call.host, call.id), "") if policy == "custom" else policy
            failed[call.function] += (waits or policy in {"skip", "conflict"}) and not counted
    for name, number in sorted((+failed).items()):
        yield violation(
            f"{count(number, 'invocation')} of {name!r} failed with LockNotAcquired, which {policy_of(history, name)} "
            "does not allow"
        )


def policy_of(history: History, name: str) -> str:
    """Return the words for the policy of a function."""
    policy = history.function(name).on_contention
    return "the answer of its policy" if policy == "custom" else f"on_contention={policy!r}"


def _disobeyed(history: History) -> Iterator[Finding]:
    """A guard does what a policy of the app's own answers: only after "wait" it goes on to wait.

    Guards that know no invocation id can't be told apart, and a decorator of the app's own may hide a refused answer.
    """
    calls = {(call.host, call.id): call for call in history.invocations}
    given_up = {(each.host, outside(each.owner), each.reason) for each in history.refusals}
    nameless = {each.host for each in history.waits if each.mode == "function" and not outside(each.owner)}
    wrong = Counter[tuple[str, str]]()
    for record in history.answers:
        who, name, answer = record.text("invocation"), record.text("function"), record.text("answer")
        call = calls.get((record.host, who))
        ended = call is not None and call.ending in {"ok", "error", "deferred"} and call.blames != "ConfigurationError"
        known = ended and record.host not in nameless and answer != "wait"
        known = known and name in history.functions and not history.function(name).decorated
        wrong[name, answer] += known and (record.host, who, answer) not in given_up
    for (name, answer), number in sorted((+wrong).items()):
        yield violation(
            f"{count(number, 'answer')} {answer!r} of the policy of {name!r} did not count: its guard went on"
        )


def _unasked(history: History) -> Iterator[Finding]:
    """A policy of the app's own is asked in each contended invocation: an earlier answer decides nothing.

    A journal in which a function's policy answered never may come from a host that wrote no answers.
    """
    answered = {(each.host, each.text("invocation")) for each in history.answers}
    told = {(each.host, each.text("function")) for each in history.answers}
    told -= {(each.host, each.text("function")) for each in history.answers if not each.text("invocation")}
    met: set[tuple[str, str, str]] = set()
    for each in (*history.refusals, *history.waits):
        host, invocation = each.host, outside(each.owner)
        judged = each.mode == "function" and history.function(each.function).on_contention == "custom"
        judged = judged and bool(invocation) and (host, each.function) in told and (host, invocation) not in answered
        if judged and (not isinstance(each, Wait) or _met_contention(history, each)):
            met.add((each.function, host, invocation))
    for name, number in sorted(Counter(name for name, *_ in met).items()):
        yield violation(
            f"{count(number, 'contended invocation')} of {name!r} ended without an answer of its policy, which each "
            "contention asks anew"
        )


def _met_contention(history: History, wait: Wait) -> bool:
    """Tell whether an invocation that got its lock was refused first: by the storage, or as another's body ran there.

    A refusal by the storage may be the answer to another caller of the process, so who has just come is not judged.
    """
    host, function, taken = wait.host, history.function(wait.function), wait.lock in history.twofold
    taken |= wait.lock in history.client_locks or function.several or function.failover is not None
    if wait.ending != "acquired" or taken or history.rough or disturbed(history, host, wait.start, wait.end):
        return False

    def there(deed: Deed) -> bool:
        mine = outside(deed.owner) == outside(wait.owner)
        return (deed.host, deed.worker, deed.lock) == (host, wait.worker, wait.lock) and not mine

    def in_line(t: float) -> bool:
        return history.worked(host, wait.worker or 1, wait.start, t) > _IN_LINE

    bodies = [body for body in history.sections if there(body) and body.start <= wait.start]
    if any(in_line(min(body.end, wait.end)) for body in bodies):
        return True
    others = [other for other in history.waits if there(other) and other.start <= wait.end and other.end >= wait.start]
    return any(
        wait.start <= request.sent and request.t <= wait.end and (in_line(request.sent) or not others)
        for request in history.requests
        if (request.host, request.worker, request.action, request.code) == (host, wait.worker, "acquire", _TAKEN)
        if request.blob.endswith(f"/{wait.lock}")
    )


def _successes(history: History) -> Iterator[Finding]:
    """An invocation that succeeded ran its body to a good end, or its policy makes a success of a refusal."""
    dropped = may_succeed(history) | history.struck
    lost = [section for section in history.sections if section.ending == "lost"]
    empty, failed, without, hidden = (Counter[str]() for _ in range(4))
    for call, ran in tries(history):
        where, function = (call.host, call.id), history.function(call.function)
        if call.ending not in {"ok", "deferred"} or not function.guarded:
            continue
        badly = bool(ran) and ran[-1].ending != "ok" and where not in history.struck
        hidden[call.function] += badly and function.decorated
        if not function.decorated:
            empty[call.function] += not ran and where not in dropped
            failed[call.function] += badly
        mine = any(is_of(call, each) and each.owner == call.id for each in lost)
        without[call.function] += mine and where not in history.struck and call.ending == "ok"
    yield from by_function(empty, "succeeded without its body, neither skipped nor put back")
    yield from by_function(failed, "succeeded although its body had failed")
    for name, number in sorted((+hidden).items()):
        yield note(
            f"{count(number, 'body', 'bodies')} of {name!r} failed, and their invocations succeeded: one of its own "
            "decorators may do that"
        )
    yield from by_function(without, "succeeded although it had lost its lock")


def _errors(history: History) -> Iterator[Finding]:
    """A function raises what its body raised, or an error of the lock itself."""
    refused = {(refusal.host, refusal.owner) for refusal in history.refusals}
    asked = {(wait.host, wait.owner) for wait in history.waits}
    well, other, early, alone = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for call, ran in tries(history):
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
            body = ran[-1]
            well[call.function] += body.ending == "ok"
            other[call.function] += body.ending == "error" and body.error not in {call.raised, *_UNANSWERED}
    yield from by_function(well, "failed though its body had succeeded")
    yield from by_function(other, "failed with another error than its body's")
    yield from by_function(early, "failed without its body, by no error of the lock's")
    yield from by_function(alone, "failed with LockNotAcquired, and nobody had refused it the lock")


def _failures(history: History) -> Iterator[Finding]:
    """The lock fails no invocation, unless something was done to it."""
    failed: dict[tuple[str, str], list[Invocation]] = defaultdict(list)
    unclear: dict[str, list[str]] = defaultdict(list)
    slowed: dict[tuple[str, str], Invocation] = {}
    declared = _declared_well(history)
    for call, ran in tries(history):
        if call.ending == "error" and call.blames not in {"", "LockNotAcquired"} and not _caused(history, call, ran):
            if call.blames == "ConfigurationError" and call.function not in declared:
                unclear[call.function].append(call.error)
            elif is_slowed(history, call):
                slowed[call.function, call.blames] = call
            else:
                failed[call.function, call.blames].append(call)
    for (function, name), call in sorted(slowed.items()):
        yield too_slow(
            history, f"an invocation of {function!r} failed with {name} on {call.host}", call.start, call.end
        )
    for (function, name), (call, *more) in sorted(failed.items()):
        why = uncaused(history, call.host, call.start, call.end)
        yield violation(f"{count(1 + len(more), 'invocation')} of {function!r} failed with {name}, {why}")
    for function, (error, *others) in sorted(unclear.items()):
        calls = count(1 + len(others), "invocation")
        yield unproven(f"{calls} of {function!r} failed, perhaps by the app's own fault: the first with {error}")


def _declared_well(history: History) -> set[str]:
    """Return the functions whose declarations a right lock accepts in each call, as it did so in one.

    Nothing follows where the app's own code, a message or a kind of output decides whether a policy is accepted.
    """
    plain = {
        name
        for name, function in history.functions.items()
        if function.on_contention in {"wait", "raise"} and function.max_waiting is None and function.mode == "function"
        if function.guarded and not (function.decorated or function.once or function.ordered)
    }
    return plain & {sight.function for sight in history.sights}


def _caused(history: History, call: Invocation, ran: list[Sight]) -> bool:
    """Tell whether the run did something to the host or the lock, or whether the app itself is the cause.

    A body may raise an error of a lock, for example of another lock, while its own lock is not lost.
    """
    own = call.blames == "ScopeError" or (call.blames == "ConfigurationError" and bool(ran))
    own |= call.blames == "StorageUnavailable" and any(
        (history.function(wait.function).timeout or math.inf) < CALL and asked_last(history, wait)
        for wait in history.waits
        if is_of(call, wait)
    )
    told = [each for each in sections_of(history, call) if each.told is not None]
    if any(body.error == call.blames for body in ran):
        own |= not any(each.owner == call.id for each in told)
    for each in told:
        most = history.function(each.function).max_hold
        own |= most is not None and call.blames == "LockLost" and (each.told or 0.0) - each.start > most - EARLY
    operated = not history.faults and any(call.start <= t <= call.end for t, _ in history.operated)
    end = min(history.exits.get(call.host, math.inf), history.deaths.get(call.host, math.inf))
    ended = call.blames == "LockClosed" and history.worked(call.host, 1, call.end, end) <= _ENDING
    if told and call.blames == "LockLost":
        slept = any(is_long(history, each, each.told or each.end, slow=False) for each in told)
        slept &= history.paused(call.host, call.start, call.end)
    else:
        slept = overslept_call(history, call)
    return own or operated or ended or slept or bool(behind_failure(history, call))


def tries(history: History) -> Iterator[tuple[Invocation, list[Sight]]]:
    """Yield the tries of every invocation, with the bodies of a try."""
    bodies: dict[tuple[str, str, int], list[Sight]] = defaultdict(list)
    for sight in history.sights:
        bodies[sight.host, sight.invocation, sight.attempt].append(sight)
    tries = Counter[tuple[str, str]]()
    for call in history.invocations:
        yield call, bodies[call.host, call.id, tries[call.host, call.id]]
        tries[call.host, call.id] += 1

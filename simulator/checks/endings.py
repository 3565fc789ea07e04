"""An invocation ends as its body ended, and every lock is accounted for: the lock adds no success and no failure.

A success needs a body that ended well under the lock, or a refusal. A failure needs the body's own error, a refusal, or
an act of the run: a kill, a pause, an operator. Functions with further decorators of the app are excused if
the decorators may add a success or a failure.

A refusal needs a policy that allows it, and a holder.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal

from simulator.checks.answers import may_succeed
from simulator.checks.coalesced import LEFT, judge_coalesced
from simulator.checks.deadlines import slack, too_slow
from simulator.checks.exclusion import EARLY, has_slots_token
from simulator.checks.excuses import (
    ASKED,
    behind_failure,
    disturbed,
    ended_at,
    is_long,
    is_of,
    is_slowed,
    leased_until,
    overslept_call,
    sections_of,
    uncaused,
)
from simulator.checks.findings import Finding, by_function, count, note, unproven, violation
from simulator.checks.losses import is_full
from simulator.history.deeds import outside, patience_told
from simulator.history.facts import Wait
from simulator.history.journal import CANCELLED, PANIC
from simulator.history.leases import DEADLINE, kept_leases, left_leases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from simulator.history.facts import Acquisition, Deed, History, Invocation, Refusal, Sight
    from simulator.history.journal import Record


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
            f"{count(number, 'invocation')} of {name!r} failed with LockNotAcquired, which {_policy_of(history, name)} "
            "does not allow"
        )


def _policy_of(history: History, name: str) -> str:
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
    told = [each for each in sections_of(history, call) if each.told is not None]
    if any(body.error == call.blames for body in ran):
        own |= not any(each.owner == call.id for each in told)
    for each in told:
        most = history.function(each.function).max_hold
        own |= most is not None and call.blames == "LockLost" and (each.told or 0.0) - each.start > most - EARLY
    operated = not history.faults and any(call.start <= t <= call.end for t, _ in history.operated)
    end = min(history.exits.get(call.host, math.inf), history.deaths.get(call.host, math.inf))
    ended = call.blames == "LockClosed" and end - call.end <= _ENDING
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


_STALE: Final = 2.0
"""Seconds for which an answer may be old: the answer was on its way, or a holder released meanwhile."""

_EARLY: Final = 0.5
"""Seconds by which a wait may end before its time: timers and clocks differ by less."""

TakenSpan = tuple[float, float, str]
"""From when to when a lock was taken, and the blob of a slot; empty: not known which."""


def judge_accounts(history: History) -> Iterator[Finding]:
    """Find refusals, waits and holds that nothing explains, in a run with locks.

    If any fault may happen, only the oracle, which knows the faults, can tell who might have had a lock, and for how
    long.
    """
    yield from _not_allowed(history)
    bare = Counter(
        got.function for got in history.acquisitions if got.token is None and history.function(got.function).tokens
    )
    yield from by_function(bare, "had no fencing token", "hold")
    several = Counter(body.function for body in history.sections if has_slots_token(history, body))
    yield from by_function(
        several, "had a fencing token, though the token of a slot fences no other slot", "body", "bodies"
    )
    if not history.rough:
        yield from _alone(history)


def taken(history: History) -> dict[str, list[TakenSpan]]:
    """Return when each lock was held, or may have been held, in order.

    A lock may be held for one more lease if its holder died or stood still, and after an abandoned attempt. A holder
    that dies while it keeps the lock for ``at_least`` seconds leaves it leased for as long.
    """
    spans: dict[str, list[TakenSpan]] = defaultdict(list)
    kept = {id(got): until for got, until in kept_leases(history) if until < math.inf}
    for got, since in leased_since(history):
        # A candidate for the listener refuses until its next attempt, and notices only there that no listener runs.
        known = history.function(got.function).poll_in(got.mode) + slack(history) if got.mode == "listener" else 0
        least = got.t + history.function(got.function).at_least if got.mode == "function" else 0.0
        until, gone = max(got.until, least, kept.get(id(got), 0.0)), ended_at(history, got)
        over = until + ASKED if until > got.until else until  # nobody tells of the release of a lock that was kept
        lapses = got.ending != "ok" or gone < over or history.paused(got.host, got.t, over)
        until = min(until, max(got.until, gone)) + (history.lease_of(got) if lapses else 0)
        until = max(until, leased_until(history, got, got.t, max(got.until, least) + ASKED))
        spans[got.lock].append((since, until + known, got.blob))
    for wait in history.waits:
        if wait.ending in {"error", "killed", "crashed"} or history.paused(wait.host, wait.start, wait.end):
            spans[wait.lock].append((wait.start, wait.end + history.lease_of(wait), ""))
        if (until := leased_until(history, wait, wait.start, wait.end)) > wait.start:
            spans[wait.lock].append((wait.start, until, ""))
    for lock, blob, since, until in left_leases(history):
        spans[lock].append((since, until, blob))
    return {lock: sorted(several) for lock, several in spans.items()}


def leased_since(history: History) -> Iterator[tuple[Acquisition, float]]:
    """Yield each hold, and since when its process had the lease for the hold: its host may tell of the hold late.

    The process got the lease from the storage, or kept the lease from the hold before.
    """
    given_back: dict[tuple[str, str, str], float] = {}
    for got in sorted(history.acquisitions, key=lambda got: got.t):
        lease = got.host, got.blob or got.lock, got.lease
        since = got.t if got.leased is None else max(got.leased, given_back.get(lease, -math.inf))
        yield got, min(since, got.t)
        given_back[lease] = max(got.until, got.t + history.function(got.function).at_least)


def _not_allowed(history: History) -> Iterator[Finding]:
    """A caller that gives up has a policy that allows it, and has waited as long as the policy says."""
    against = Counter[tuple[str, str]]()
    early: dict[str, list[Refusal]] = defaultdict(list)
    patience = patience_told(history)
    for refusal, why in _refused_wrongly(history):
        if why == "early" and _limit(history, refusal, patience) < math.inf:
            early[refusal.function].append(refusal)
        else:
            against[refusal.function, refusal.reason] += 1
    for (name, reason), number in sorted((+against).items()):
        function = history.function(name)
        rule = f"{_policy_of(history, name)} does not allow that"
        if function.max_waiting is not None and reason == function.when_full:
            others = "another waits" if function.max_waiting == 1 else f"{function.max_waiting} others wait"
            rule += f", and when_full={reason!r} only while {others} (max_waiting)"
        else:
            if reason == "timeout" and function.limit is not None:
                rule += f" before {function.cut_after:g} s (functionTimeout is {function.limit:g} s)"
            if function.max_waiting is not None:
                rule += f", nor does when_full={function.when_full!r} for one more than max_waiting"
        yield violation(f"{count(number, 'invocation')} of {name!r} gave up ({reason}), though {rule}")
    for name, several in sorted(early.items()):
        first = min(several, key=lambda refusal: refusal.t - refusal.asked)
        yield violation(
            f"{count(len(several), 'invocation')} of {name!r} gave up after {first.t - first.asked:.1f} s, though "
            f"timeout={_limit(history, first, patience):g} (from second {first.asked - history.start:.1f} on, on "
            f"{first.host})"
        )


def _limit(history: History, refusal: Refusal, patience: Mapping[tuple[str, str], Record]) -> float:
    """Return the seconds for which who was refused should have waited, by the policy of the app's own, too."""
    function = history.function(refusal.function)
    if function.on_contention == "custom":
        answer = patience.get((refusal.host, refusal.owner))
        told = None if answer is None else answer.get("patience")
        return math.inf if told is None else float(told)
    if refusal.reason == function.on_contention == LEFT:
        return 0.0
    return function.gives_up_after if function.on_contention in {"wait", LEFT} else function.timeout or 0.0


def refused_early(history: History) -> set[tuple[str, str]]:
    """Return the hosts and invocations that were refused a lock before the time that the policy says."""
    return {(refusal.host, refusal.owner) for refusal, why in _refused_wrongly(history) if why == "early"}


def _refused_wrongly(history: History) -> Iterator[tuple[Refusal, Literal["early", "other policy"]]]:
    """Yield refusals that neither the policy of the function allows, nor ``max_waiting``, nor the ``functionTimeout``.

    A listener's queue gets its messages back, and its timer's runs are skipped. Who already has a lock may be refused
    at once: a wait there might never end. So may a call that is no invocation: a body made the call.
    """
    calls = {(call.host, call.id) for call in history.invocations}
    waits: dict[tuple[str, str], list[Wait]] = defaultdict(list)
    patience = patience_told(history)
    for wait in history.waits:
        waits[wait.host, outside(wait.owner)].append(wait)
    for refusal in history.refusals:
        function, policy = history.function(refusal.function), history.function(refusal.function).on_contention
        if policy == "custom" and (refusal.host, refusal.owner) in patience:
            policy = "wait"  # as the policy of the app's own answered
        known = refusal.function in history.functions or function.blob
        if refusal.mode == "listener":
            if function.trigger in {"queue", "timer"} and refusal.reason == "raise" != policy:
                yield refusal, "other policy"
            continue
        if not known or policy == "custom":
            continue
        mine = [each for each in waits[refusal.host, outside(refusal.owner)] if each.start >= refusal.called]
        asked = next((each for each in mine if (each.lock, each.start) == (refusal.lock, refusal.asked)), None)
        limit = _limit(history, refusal, patience)
        late, fast = (refusal.t + _STALE, DEADLINE) if history.rough else (refusal.t + _EARLY, 1.0)  # clocks drift
        within = (len(mine) != 1 or (refusal.host, refusal.owner) not in calls) and not function.blob
        if refusal.reason == function.when_full and is_full(history, asked, refusal.t):
            continue
        if policy == LEFT and refusal.reason == "timeout":
            policy = "wait"  # as the waiter
        if refusal.reason != ("timeout" if policy == "wait" else policy):
            yield refusal, "other policy"
        elif within or late - refusal.asked >= limit * fast:
            continue
        elif late - refusal.called < function.cut_after * fast:
            yield refusal, "early"


def _alone(history: History) -> Iterator[Finding]:
    """If a lock is refused, somebody has it or has asked for it: a lease begins before its holder knows.

    Of a semaphore each slot is in use, at some time of the attempt.
    """
    known = {lock: [*spans] for lock, spans in taken(history).items()}
    slots = {(got.host, got.owner, got.lock, got.t): got.blob for got in history.acquisitions}
    for wait in history.waits:
        if wait.ending == "acquired":
            slot = slots.get((wait.host, wait.owner, wait.lock, wait.end), "")
            known.setdefault(wait.lock, []).append((wait.start, wait.end, slot))
    alone, too_few = Counter[str](), Counter[str]()
    for refusal in [each for each in history.refusals if each.lock not in history.twofold]:  # maybe by the second
        function, spans = history.function(refusal.function), known.get(refusal.lock, ())
        since = refusal.asked - _STALE
        since -= history.slowness.late(refusal.host, start=since - ASKED, end=refusal.t)
        found = _in_use(spans, since, refusal.t)
        if found < function.at_once and any(_is_beside(wait, refusal) for wait in history.waits):
            found = _in_use(spans, since - function.poll, refusal.t)  # they asked at their last poll
        alone[refusal.function] += not found
        too_few[refusal.function] += 0 < found < function.at_once
    yield from by_function(alone, "found the lock taken, and nobody had it")
    yield from by_function(too_few, "found all slots of a semaphore taken, and fewer were in use")


def _in_use(spans: Iterable[TakenSpan], start: float, end: float) -> int:
    """Return how many slots were taken at some time between these two; of a lock that has no slots, 1 or 0."""
    return len({slot or since for since, until, slot in spans if since <= end and until >= start})


def _is_beside(wait: Wait, refusal: Refusal) -> bool:
    """Tell whether a process refused a caller by what another of its callers, who waited for the lock, had found."""
    theirs = (wait.host, wait.worker, wait.lock) == (refusal.host, refusal.worker, refusal.lock)
    return theirs and wait.end - wait.start > _STALE and wait.start <= refusal.t and wait.end >= refusal.asked - _STALE

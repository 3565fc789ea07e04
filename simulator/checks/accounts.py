"""Every lock is accounted for: a refusal needs a policy that allows it, and a holder; a hold has its fencing token."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, Literal

from simulator.checks.coalesced import LEFT
from simulator.checks.deadlines import slack
from simulator.checks.endings import policy_of
from simulator.checks.exclusion import has_slots_token
from simulator.checks.excuses import ASKED, ended_at, leased_until
from simulator.checks.findings import Finding, by_function, count, violation
from simulator.checks.losses import is_full
from simulator.history.deeds import outside, patience_told
from simulator.history.facts import Wait
from simulator.history.leases import DEADLINE, kept_leases, left_leases

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from simulator.history.facts import Acquisition, History, Invocation, Refusal, Section
    from simulator.history.functions import Function
    from simulator.history.journal import Record


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
    that dies while it keeps the lock for ``at_least`` seconds leaves it leased for as long. A lost lock is free at its
    release.
    """
    spans: dict[str, list[TakenSpan]] = defaultdict(list)
    kept = {id(got): until for got, until in kept_leases(history) if until < math.inf}
    asked = [each for each in history.requests if each.action == "release" and each.granted]
    released = {(each.host, each.lease): each.t for each in asked if each.lease}
    for got, since in leased_since(history):
        # A candidate for the listener refuses until its next attempt, and notices only there that no listener runs.
        known = history.function(got.function).poll_in(got.mode) + slack(history) if got.mode == "listener" else 0
        least = got.t + history.function(got.function).at_least if got.mode == "function" else 0.0
        until, gone = max(got.until, least, kept.get(id(got), 0.0)), ended_at(history, got)
        over = until + ASKED if until > got.until else until  # nobody tells of the release of a lock that was kept
        lapses = got.ending != "ok" or gone < over or history.paused(got.host, got.t, over)
        until = min(until, max(got.until, gone)) + (history.lease_of(got) if lapses else 0)
        if got.ending == "lost":
            until = min(until, max(got.until, released.get((got.host, got.lease), math.inf)))
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
    for refusal, why in refused_wrongly(history):
        if why == "early" and _limit(history, refusal, patience) < math.inf:
            early[refusal.function].append(refusal)
        else:
            against[refusal.function, refusal.reason] += 1
    for (name, reason), number in sorted((+against).items()):
        function = history.function(name)
        rule = f"{policy_of(history, name)} does not allow that"
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


def refused_wrongly(history: History) -> Iterator[tuple[Refusal, Literal["early", "other policy"]]]:
    """Yield refusals that neither the policy of the function allows, nor ``max_waiting``, nor the ``functionTimeout``.

    A caller whose wait might never end may be refused at once. So may a call that is no invocation: a body made the
    call.
    """
    calls = {(call.host, call.id): call for call in history.invocations}
    waits = {(wait.host, wait.owner, wait.lock, wait.start): wait for wait in history.waits}
    patience = patience_told(history)
    for refusal in history.refusals:
        function, policy = history.function(refusal.function), history.function(refusal.function).on_contention
        if policy == "custom" and (refusal.host, refusal.owner) in patience:
            policy = "wait"  # as the policy of the app's own answered
        known = refusal.function in history.functions or refusal.function in history.inner
        if refusal.mode == "listener":
            if known and function.trigger and refusal.reason != _elsewhere(function):
                yield refusal, "other policy"
            continue
        if not known or policy == "custom":
            continue
        asked = waits.get((refusal.host, refusal.owner, refusal.lock, refusal.asked))
        limit = _limit(history, refusal, patience)
        late, fast = (refusal.t + ASKED, DEADLINE) if history.rough else (refusal.t + _EARLY, 1.0)  # clocks drift
        call = calls.get((refusal.host, outside(refusal.owner)))
        gone = asked is None or call is None or refusal.called > refusal.asked  # a task may outlive its invocation
        if refusal.reason == function.when_full and is_full(history, asked, refusal.t):
            continue
        if policy == LEFT and refusal.reason == "timeout":
            policy = "wait"  # as the waiter
        if refusal.reason != ("timeout" if policy == "wait" else policy):
            yield refusal, "other policy"
        elif late - refusal.asked >= limit * fast or (
            not function.blob and (gone or _is_endless(history, refusal, call))
        ):
            continue
        elif late - refusal.called < function.cut_after * fast:
            yield refusal, "early"


def _elsewhere(function: Function) -> str:
    """Return what becomes of an invocation of this trigger while another process is the function's listener."""
    ways = {"queue": "defer", "timer": "skip"}
    return "raise" if function.on_contention == "raise" else ways.get(function.trigger, "raise")


def _is_endless(history: History, refusal: Refusal, call: Invocation | None) -> bool:
    """Tell whether a wait had no end: its invocation has the lock, or the wait blocks an event loop of the holder."""
    blocks = call is not None and not history.function(call.function).sync and history.function(refusal.function).sync

    def may_keep_it(deed: Section | Wait) -> bool:
        there = (deed.host, deed.worker, deed.lock) == (refusal.host, refusal.worker, refusal.lock)
        mine = outside(deed.owner) == outside(refusal.owner)
        return (
            there and deed.start <= refusal.t <= deed.end and (not mine if isinstance(deed, Wait) else mine or blocks)
        )

    return any(may_keep_it(deed) for deed in (*history.sections, *(history.waits if blocks else ())))


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
        since = refusal.asked - ASKED
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
    return theirs and wait.end - wait.start > ASKED and wait.start <= refusal.t and wait.end >= refusal.asked - ASKED

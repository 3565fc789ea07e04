"""Every lock is accounted for: who was refused it, who waited for it, who kept it, and who left it free too long.

A refusal needs a policy that allows it, and somebody who has the lock. Who does not wait is told so at once. A lock
that is free, and wanted, is taken within a poll.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.failover import SLACK
from simulator.checks.findings import Finding, count, label, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History

_STALE: Final = 2.0
"""Seconds for which an answer may be old when it is told: on its way, or under way as somebody let go."""
_KEPT: Final = 3.0
"""Seconds in which a lock is given back when its body has ended."""

Span = tuple[float, float]


def judge_accounts(history: History) -> Iterator[Finding]:
    """Find refusals, waits and holds that nothing accounts for.

    Where anything may strike, only who knows the strikes can tell who might have had a lock, and for how long.
    """
    if not history.setup.get("singleton", True):
        return
    yield from _not_allowed(history)
    yield from _tokens(history)
    if not history.rough:
        taken = _taken(history)
        yield from _alone(history, taken)
        yield from _waits(history)
        yield from _kept(history)
        yield from _left_free(history, taken)


def _taken(history: History) -> dict[str, list[Span]]:
    """Return when each lock was held, or may have been, in order.

    For one more lease where its holder died or stood still, and after an attempt that was given up.
    """
    spans: dict[str, list[Span]] = defaultdict(list)
    for got in history.acquisitions:
        lease = history.function(got.function).lease_in(got.mode)
        lapses = got.ending != "ok" or history.paused(got.host, got.t, got.until)
        # Who wants to be the listener finds out that nobody is with its next attempt, and says no until then.
        known = history.function(got.function).poll_in(got.mode) + SLACK if got.mode == "listener" else 0
        spans[got.lock].append((got.t, got.until + (lease if lapses else 0) + known))
    for wait in history.waits:
        if wait.ending in {"error", "killed", "crashed"} or history.paused(wait.host, wait.start, wait.end):
            lease = history.function(wait.function).lease_in(wait.mode)
            spans[wait.lock].append((wait.start, wait.end + lease))
    return {lock: sorted(several) for lock, several in spans.items()}


# --- who was refused --------------------------------------------------------------------------------------------------


def _not_allowed(history: History) -> Iterator[Finding]:
    """Who gives up has a policy that lets him, and has waited for as long as it says."""
    against = Counter[tuple[str, str]]()
    for refusal in history.refusals:
        function = history.function(refusal.function)
        known = refusal.function in history.functions
        if not known or refusal.mode == "listener" or function.on_contention == "custom":
            continue
        if refusal.reason == "timeout":
            late = refusal.t + _STALE
            allowed = late - refusal.asked >= function.gives_up_after or late - refusal.called >= function.cut_after
        else:
            allowed = refusal.reason == function.on_contention != "wait"
        against[refusal.function, refusal.reason] += not allowed
    for (name, reason), number in sorted((+against).items()):
        policy = history.function(name).on_contention
        yield violation(
            f"{count(number, 'invocation')} of {name!r} gave up ({reason}), though on_contention={policy!r} does "
            "not allow that"
        )


def _alone(history: History, taken: dict[str, list[Span]]) -> Iterator[Finding]:
    """Who is refused a lock is so for somebody who has it, or has asked for it: his lease begins before he knows."""
    known = {lock: [*spans] for lock, spans in taken.items()}
    for wait in history.waits:
        if wait.ending == "acquired":
            known.setdefault(wait.lock, []).append((wait.start, wait.end))
    alone = Counter[str]()
    for refusal in history.refusals:
        since, spans = refusal.asked - _STALE, known.get(refusal.lock, ())
        alone[refusal.function] += not any(start <= refusal.t and end >= since for start, end in spans)
    for function, number in sorted((+alone).items()):
        yield violation(
            f"{count(number, 'invocation')} of {function!r} heard that another has the lock, and nobody had it"
        )


# --- how long who asks may wait ---------------------------------------------------------------------------------------


def _waits(history: History) -> Iterator[Finding]:
    """Who skips, raises or defers does so as soon as another has the lock; a timeout ends a wait."""
    held: dict[str, list[Acquisition]] = defaultdict(list)
    for got in history.acquisitions:
        held[got.lock].append(got)
    worst: dict[str, float] = {}
    for wait in history.waits:
        function = history.function(wait.function)
        if wait.mode == "listener" or function.on_contention == "custom":
            continue
        limit = function.timeout if function.on_contention == "wait" else function.timeout or 0.0
        if limit is None or history.paused(wait.host, wait.start, wait.end):
            continue
        end = min(wait.end, history.end)
        others = [got for got in held[wait.lock] if got.host != wait.host]
        kept_out = max((min(got.until, end) - max(got.t, wait.start) for got in others), default=0.0)
        if (end - wait.start if limit else kept_out) > limit + _STALE + SLACK:
            worst[wait.function] = max(worst.get(wait.function, 0.0), end - wait.start)
    for name, seconds in sorted(worst.items()):
        function = history.function(name)
        policy = f"on_contention={function.on_contention!r}"
        policy += f", timeout={function.timeout:g}" if function.timeout else ""
        yield violation(f"an invocation of {name!r} waited for {seconds:.1f} s for its lock, despite {policy}")


# --- how long a lock is kept, and how long it is free -----------------------------------------------------------------


def _kept(history: History) -> Iterator[Finding]:
    """A lock is given back when its body has ended; the invocations that have ended, too, show that."""
    answered = {
        (call.host, call.id)
        for call in history.invocations
        if call.ending in {"ok", "error", "deferred"} and call.error != "CancelledError"
    }
    ended: dict[tuple[str, str, str], float] = {}
    for section in history.sections:
        if section.mode == "function" and section.ending in {"ok", "error"}:
            who = (section.host, section.lock, section.owner)
            ended[who] = max(section.end, ended.get(who, 0.0))
    worst: dict[str, tuple[float, str]] = {}
    for got in history.acquisitions:
        end = ended.get((got.host, got.lock, got.owner))
        if end is None or got.ending not in {"ok", "open"} or (got.host, got.owner) not in answered:
            continue
        until = min(got.until, history.end)
        kept = until - end - history.stood(got.host, got.worker, end, until)
        if kept > _KEPT and not history.paused(got.host, end, until):
            worst[got.lock] = max(worst.get(got.lock, (0.0, "")), (kept, got.host))
    for lock, (kept, host) in sorted(worst.items()):
        yield violation(f"{label(lock)} was kept by {host} for {kept:.1f} s after its body had ended")


def _left_free(history: History, taken: dict[str, list[Span]]) -> Iterator[Finding]:
    """A lock that is free is got by who waits for it, within a poll."""
    worst: dict[str, tuple[float, str]] = {}
    for wait in history.waits:
        function = history.function(wait.function)
        if function.merges or wait.ending in {"killed", "crashed"}:
            continue
        bound = function.poll_in(wait.mode) + SLACK
        for start, end in _gaps(taken.get(wait.lock, []), wait.start, min(wait.end, history.end)):
            free = end - start
            if free > bound and not history.paused(wait.host, start, end):
                worst[wait.lock] = max(worst.get(wait.lock, (0.0, "")), (free, wait.host))
    for lock, (free, host) in sorted(worst.items()):
        yield violation(f"{label(lock)} was free for {free:.1f} s while {host} waited for it")


def _gaps(spans: list[Span], start: float, end: float) -> Iterator[Span]:
    """Yield the times between ``start`` and ``end`` that none of the spans, in order of their starts, covers."""
    for begins, ends in spans:
        if begins > start:
            yield start, min(begins, end)
        start = max(start, ends)
        if start >= end:
            return
    yield start, end


def _tokens(history: History) -> Iterator[Finding]:
    bare = Counter(
        got.function for got in history.acquisitions if got.token is None and history.function(got.function).tokens
    )
    for function, number in sorted(bare.items()):
        yield violation(f"{count(number, 'hold')} of {function!r} had no fencing token")

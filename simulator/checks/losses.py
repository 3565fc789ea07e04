"""Times of a hold: it is kept at least and held at most as declared, and a loss is told to the body.

A body can see the loss of its lock, and an async body is asked to end.

The lock is lost when the lock says so, or when the host stood still for longer than the lease. If any fault may happen,
a pause may be one of a loop only, and then only the lock's word counts. The lock must say so when the lease has run
out: the host saw on the network when the storage granted the lease, or its renewal, for the last time. Only as many
callers wait in one process as a declaration allows.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from simulator.checks.deadlines import slack, too_slow
from simulator.checks.excuses import ASKED, broken_by, disturbed, ended_at, exposing, is_broken, is_long, uncaused
from simulator.checks.findings import Finding, by_function, count, label, note, violation
from simulator.history.deeds import guard_in, outside
from simulator.history.journal import CANCELLED
from simulator.history.pattern_uses import CALLBACK
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Section, Sight, Wait
    from simulator.history.journal import Record


_SOON: Final = 1.0
"""Seconds within which a body can see a loss. The request to end may come before it."""
_CLOSES: Final = 15.0
"""Seconds in which a process ends that has closed its locks."""
LATE: Final = 2.0
"""Seconds for which a body may go on after it was told to end."""
_LEFT: Final = 0.5
"""Seconds after which somebody who waits is told that the wait is over, at the latest."""


def judge_losses(history: History) -> Iterator[Finding]:
    """Find bodies that went on after a loss and were not told of it, in a run with locks.

    If a body was told and goes on anyway, that is the app's own doing.
    """
    calls = {(call.host, call.id) for call in history.invocations}
    told: dict[tuple[str, str], list[float]] = defaultdict(list)
    for section in history.sections:
        if section.mode != "also" and section.told is not None:
            told[section.host, section.owner].append(section.told)
    blind, unasked, untold, ended = (Counter[str]() for _ in range(4))
    further = with_further_locks(history)
    holds: dict[tuple[str, str, str | int], list[Acquisition]] = defaultdict(list)
    for got in history.acquisitions:
        holds[got.host, got.mode, got.worker or 1 if got.mode == "listener" else got.owner].append(got)
    deaf: dict[str, list[float]] = defaultdict(list)
    for sight in history.sights:
        whose, function = (sight.host, sight.invocation), history.function(sight.function)
        if whose not in calls or not function.guarded or function.mode == "also":
            continue
        holder = sight.worker if function.mode == "listener" else sight.invocation
        theirs = [got for got in holds[sight.host, function.mode, holder] if got.function == function.name]
        untold[function.name] += _is_untold(history, sight, theirs, told[whose])
        lost, end = _lost(history, sight, told[whose]), min(sight.end, history.end)
        if lost is None:
            continue
        worked = partial(history.worked, sight.host, sight.worker)
        asked_to_end = [each for each in history.asked.get(whose, ()) if lost - _SOON < each.t <= end]
        asks, by_lock = [each.t for each in asked_to_end], any(each.get("by") == "lock" for each in asked_to_end)
        # Who is asked to end since the lock is lost sees that at once.
        asked = bool(asks) and sight.error == CANCELLED and function.cancels
        blind[function.name] += sight.saw_loss is False and (worked(lost, end) > _SOON or asked)
        ended[function.name] += by_lock and not function.cancels and sight.error == CANCELLED and whose not in further
        went_on = worked(lost, end)
        if not (sight.can_be_asked and function.cancels and went_on > LATE):
            continue
        if any(worked(lost, t) <= LATE for t in asks):
            deaf[function.name].append(went_on)
        else:
            unasked[function.name] += 1
    blind += _blind_inside(history)
    yield from _uncaused(history)
    yield from _unwoken(history)
    yield from _under_a_lost_lock(history)
    bodies = ("body", "bodies")
    yield from by_function(blind, "could not see that the lock was lost", *bodies)
    yield from by_function(untold, "went on after the lease had run out, and the lock did not say so", *bodies)
    yield from by_function(ended, "ended by the lock at its loss, though cancel_on_loss=False", *bodies)
    yield from by_function(unasked, "went on after the lock was lost, and nobody had asked for an end", *bodies)
    for name, times in sorted(deaf.items()):
        yield note(
            f"{name!r} swallows its cancellation: {count(len(times), 'body', 'bodies')} went on for up to "
            f"{max(times):.1f} s after the lock was lost"
        )


def _blind_inside(history: History) -> Counter[str]:
    """Count bodies that could not see the loss of a lock around them: their hold answers for it, too.

    These are bodies of guarded helpers, and of functions that a lock client decorated, which see their own loss, too.
    """
    lost: dict[tuple[str, str], list[Section]] = defaultdict(list)
    for section in history.sections:
        if section.mode == "function" and section.told is not None and section.owner:
            block = history.function(section.function).blob and guard_in(section.owner)
            for name in filter(None, (section.owner, block)):
                lost[section.host, name].append(section)
    inner: list[tuple[Section | Sight, tuple[str, ...]]] = [
        (sight, (sight.invocation, outside(sight.invocation))) for sight in history.sights if sight.inner
    ]
    inner += [(body, (body.owner, outside(body.owner), *body.within)) for body in history.sections]
    return Counter(
        body.function
        for body, owners in inner
        if body.saw_loss is False
        if any(
            each.start <= body.start < (told := each.told or 0.0)
            and history.worked(body.host, body.worker or 1, told, min(body.end, each.end, history.end)) > _SOON
            for owner in owners
            for each in lost[body.host, owner]
        )
    )


def _uncaused(history: History) -> Iterator[Finding]:
    """A hold is lost by a fault, each kind by its own rule; else only by max_hold, or with its process."""
    lost: dict[tuple[str, str], list[Acquisition]] = defaultdict(list)
    for got in () if history.rough else history.acquisitions:
        if got.ending != "lost" or got.mode == "also":
            continue
        if any(
            _is_caused(history, each)
            for each in history.acquisitions
            if (each.owner, each.until) == (got.owner, got.until)
        ):
            continue
        if is_long(history, got, got.until):
            yield too_slow(history, f"a hold of {got.function!r} lost on {got.host}", got.t, got.until)
        else:
            lost[got.function, got.why].append(got)
    for (name, why), (first, *more) in sorted(lost.items()):
        granted = (first.granted or [first.t])[-1]
        yield violation(
            f"{count(1 + len(more), 'hold')} of {name!r} lost ({why or 'no reason given'}), "
            f"{uncaused(history, first.host, granted, first.until)}: the first on {first.host} at "
            f"{first.until - history.start:.1f} s, {first.until - granted:.1f} s after its lease was last granted"
        )
    for each in history.outside:
        yield note(f"{each.what}, after second {each.start - history.start:.1f}: that is not judged")
    for pause in history.pauses:
        if pause.outside:
            yield note(
                f"somebody outside this run stopped {pause.host} at {pause.start - history.start:.1f} s, for "
                f"{min(pause.end, history.end) - pause.start:.1f} s: that is not judged"
            )


def with_further_locks(history: History) -> set[tuple[str, str]]:
    """Return the calls whose bodies may be cancelled for the loss of another lock than that of their own function."""
    if history.rough or history.client_locks:
        return {(call.host, call.id) for call in history.invocations}
    helped = {(each.host, outside(each.owner)) for each in history.sections if each.owner != outside(each.owner)}
    return helped | {(use.host, use.invocation) for use in history.uses if use.of not in {"hold.lost", "hold.state"}}


def _unwoken(history: History) -> Iterator[Finding]:
    """Who waits for the end of a hold, or has a callback on the loss of the hold, hears of the end at once."""
    worst: dict[tuple[str, str], tuple[float, float, str]] = {}
    for use in history.uses:
        got = use.hold
        if use.of != "hold.lost" or got is None or outside(got.owner) != use.invocation:
            continue
        if got.ending != "lost" and (got.ending != "ok" or use.what == CALLBACK):
            continue
        end = math.inf if use.what == CALLBACK and not use.ok else use.end
        since, end = max(got.until, use.start), min(end, history.end, ended_at(history, got))
        late = history.worked(got.host, got.worker or 1, since, end)
        if late > _LEFT + slack(history):
            who = got.function, use.what
            worst[who] = max(worst.get(who, (0.0, 0.0, "")), (late, since, got.host))
    for (name, what), (late, since, host) in sorted(worst.items()):
        yield violation(
            f"{what} of {name!r} on {host} did not hear for {late:.1f} s that its hold had ended, from second "
            f"{since - history.start:.1f} on: {_LEFT:g} s are allowed"
        )


def _under_a_lost_lock(history: History) -> Iterator[Finding]:
    """After the loss of the lock around an invocation, no body begins inside it, and no wait goes on.

    Which locks of an invocation are around one another is known of the guard of its function, and of blocks of lock
    clients. Such a block in a body answers for its own lock only, unless it is the one around a decorated function.
    """
    lost = [each for each in history.sections if each.told is not None and each.mode == "function"]
    around = {(each.host, each.owner): each for each in lost if each.owner}
    around |= {(each.host, guard_in(each.owner)): each for each in lost if history.function(each.function).blob}
    asked: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for wait in history.waits:
        asked[wait.host, wait.owner, wait.lock].append(wait.start)
    worst: dict[tuple[str, str], tuple[float, str, str, str]] = {}
    begun = [(each, -math.inf, each.start, each.start, "began") for each in history.sections]
    waited = [(each, each.start, each.start, each.end, "was waited for") for each in history.waits]
    for inner, since, start, end, what in (*waited, *begun):
        if history.function(inner.function).blob and not history.function(inner.function).direct:
            continue
        for outer in (around.get((inner.host, each)) for each in (outside(inner.owner), *inner.within)):
            told = math.inf if outer is None or outer.owner == inner.owner else outer.told or 0.0
            if outer is None or not outer.start < start < outer.end or told >= end:
                continue
            late = history.worked(inner.host, inner.worker or 1, max(since, told), min(end, outer.end, history.end))
            who = inner.function, outer.function
            came = any(told < t <= start for t in asked[inner.host, inner.owner, inner.lock])
            came &= end == start  # then it is refused at once
            if (came or late > _LEFT + slack(history)) and late >= worst.get(who, (0.0,))[0]:
                rule = "who asks after that is refused" if came else f"{_LEFT:g} s are allowed"
                worst[who] = late, what, inner.host, rule
    for (name, outer_name), (late, what, host, rule) in sorted(worst.items()):
        yield violation(
            f"{name!r} {what} inside {outer_name!r} on {host}, {late:.1f} s after the lock of {outer_name!r} was lost: "
            f"{rule}"
        )


def _is_caused(history: History, got: Acquisition) -> bool:
    if got.why == "closed":
        return history.worked(got.host, got.worker or 1, got.until, ended_at(history, got)) <= _CLOSES
    if got.why == "too long":
        return got.until - got.t > (history.function(got.function).max_hold or math.inf) - _SOON
    operated = any(lock == got.lock and got.t <= t <= got.until for t, lock in history.operated)
    known = got.function in {*history.functions, *history.inner}  # of other locks nobody has told the lease
    by_fault = is_long(history, got, got.until, slow=False) or bool(broken_by(history, got, got.until))
    return by_fault or not known or (operated and not history.faults)


def _is_untold(history: History, sight: Sight, holds: list[Acquisition], told: list[float]) -> bool:
    """Tell whether a body ran on for some time after its lease had run out, and its lock did not say so in time."""
    function, end = history.function(sight.function), min(sight.end, history.end)
    lease = function.lease_in(function.mode)
    got = max((got for got in holds if got.t <= sight.start), key=lambda got: got.t, default=None)
    if got is None or not got.granted:
        return False
    over = next((t + lease for t, after in pairwise((*got.granted, end)) if after > t + lease), end)

    def within(t: float) -> bool:
        return history.worked(sight.host, sight.worker, over, t) <= LATE

    return not within(end) and not any(within(t) for t in told)


def _lost(history: History, sight: Sight, told: list[float]) -> float | None:
    """Return when the lock of a body was lost while it ran; None: it was not."""
    function = history.function(sight.function)
    lease = function.lease_in(function.mode)
    lapsed = [
        pause.start + lease
        for pause in history.pauses
        if pause.host == sight.host and sight.start < pause.start and min(pause.end, sight.end) > pause.start + lease
    ]
    if history.rough:
        lapsed = []
    return min((*lapsed, *(t for t in told if sight.start <= t < sight.end)), default=None)


_SLACK: Final = 1.0
"""The greatest difference, in seconds, between the delays of two hosts' reports of a lock."""
_TOLD: Final = 2.0
"""Seconds after max_hold within which a hold is lost, on a busy machine."""
ASKS: Final = 3.0
"""Seconds for which a caller may ask for a lock before its host knows whether the caller must wait."""


def judge_spans(history: History) -> Iterator[Finding]:
    """Find locks that were kept too short or too long, and processes in which too many waited, in a run with locks."""
    if not history.rough:
        yield from _kept_at_least(history)
        if history.answers or any(each.max_waiting is not None for each in history.functions.values()):
            lines = [*_lines(history)]
            yield from _waiting(history, lines)
            yield from _miscounted(history, lines)
    yield from _told_wrongly(history)
    yield from _held_at_most(history)


def _kept_at_least(history: History) -> Iterator[Finding]:
    """Nobody gets a lock while it is kept for at_least, unless its holder has lost it or ended.

    Who hands a lease on, and can't know yet that it was broken, gets no lock.
    """
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
            told = history.slowness.late(each.host, start=each.t - ASKED, end=each.t)
            if after + told >= function.at_least - _SLACK or exposing(history, taken[later], taken[later].t):
                continue
            if not any(_gone(history, one, taken[later].t) for one in holders):
                worst[each.function] = min(worst.get(each.function, (math.inf, 0.0)), (after, function.at_least))
    for name, (after, least) in sorted(worst.items()):
        yield violation(f"the lock of {name!r} was got again after {after:.1f} s, though at_least is {least:g} s")


def _gone(history: History, holder: Acquisition, until: float) -> bool:
    """Tell whether a holder may have lost the kept lock: by an operator, its process's end or its host's standstill.

    Who was handed a lease that had been broken before, unknown to its process, has lost it, too.
    """
    operated = any(lock == holder.lock and holder.t <= t <= until for t, lock in history.operated)
    operated |= is_broken(history, holder, until) or bool(exposing(history, holder, until))
    ended = ended_at(history, holder) <= until
    return ended or operated or holder.ending == "lost" or history.paused(holder.host, holder.t, until)


def _held_at_most(history: History) -> Iterator[Finding]:
    """Whose hold lasts for max_hold is told."""
    worst: dict[str, tuple[float, float]] = {}
    for section in history.sections:
        most = history.function(section.function).max_hold
        if most is None or section.mode != "function" or not section.held:
            continue
        end, due = min(section.end, history.end), section.start + most
        ran = most + history.worked(section.host, section.worker, due, end)
        told = section.told is not None and history.worked(section.host, section.worker, due, section.told) <= _TOLD
        if ran > most + _TOLD and not told and not history.paused(section.host, section.start, section.end):
            worst[section.function] = max(worst.get(section.function, (0.0, 0.0)), (ran, most))
    for name, (ran, most) in sorted(worst.items()):
        yield violation(
            f"a body of {name!r} ran for {ran:.1f} s, though max_hold is {most:g} s, and was not told in time"
        )


def _lines(history: History) -> Iterator[list[tuple[Wait, float]]]:
    """Yield the callers of each lock in one process, and from when on each surely stands in line there.

    Its first attempt is over by then, and a policy of the app's own has answered "wait".
    """
    answered = {
        (each.host, each.text("invocation")): each.t for each in history.answers if each.get("answer") == "wait"
    }
    lines: dict[tuple[str, int, str], list[tuple[Wait, float]]] = defaultdict(list)
    for wait in history.waits:
        custom = history.function(wait.function).on_contention == "custom"
        since = answered.get((wait.host, outside(wait.owner)), math.inf) if custom else wait.start
        asks, until = ASKS, since + ASKS
        if history.slowness.measured and since < math.inf:
            asks = slack(history) + history.slowness.late(wait.host, STORAGE, start=since, end=until)
            asks += history.stood(wait.host, wait.worker or 1, since, until)
        if wait.mode == "function":
            lines[wait.host, wait.worker, wait.lock].append((wait, since + asks))
    yield from lines.values()


def _waiting(history: History, lines: list[list[tuple[Wait, float]]]) -> Iterator[Finding]:
    """No more wait for a lock in one process than max_waiting."""
    worst: dict[str, tuple[int, int]] = {}
    for line in lines:
        several, lock = [wait for wait, since in line if since < wait.end], line[0][0].lock
        most = max(
            (m for each in several if (m := history.function(each.function).max_waiting) is not None), default=None
        )
        if most is None or any(history.function(each.function).max_waiting is None for each in several):
            continue
        number = max(sum(since <= t < wait.end for wait, since in line) for _, t in line)
        if number > most and not any(disturbed(history, each.host, each.start, each.end) for each in several):
            worst[lock] = max(worst.get(lock, (0, 0)), (number, most))
    for lock, (number, most) in sorted(worst.items()):
        yield violation(
            f"{count(number, 'invocation')} of one process waited for {label(lock)} at a time, though max_waiting is "
            f"{most}"
        )


def _miscounted(history: History, lines: list[list[tuple[Wait, float]]]) -> Iterator[Finding]:
    """A policy of the app's own is told how many others wait in its process: not fewer than do so all the time."""
    answers: dict[tuple[str, str], list[Record]] = defaultdict(list)
    for answer in history.answers:
        answers[answer.host, answer.text("invocation")].append(answer)
    wrong: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        for mine, _ in line:
            for answer in answers[mine.host, outside(mine.owner)]:
                others = (each for each, since in line if since <= mine.start and each.end > answer.t)
                least = sum(history.worked(mine.host, mine.worker or 1, answer.t, each.end) > _LEFT for each in others)
                if mine.start <= answer.t <= mine.end and answer.get("waiting", least) < least:
                    where = f"on {mine.host} at {answer.t - history.start:.1f} s"
                    wrong[mine.function].append(f"{answer.get('waiting')} {where}, where {least} waited")
    for name, (first, *more) in sorted(wrong.items()):
        times = count(1 + len(more), "time")
        yield violation(f"the policy of {name!r} was told {times} that fewer others wait than did: the first {first}")


def _told_wrongly(history: History) -> Iterator[Finding]:
    """A policy of the app's own is told whose invocation it is asked for, and of its message, as these are."""
    wrong: dict[str, list[tuple[Record, list[str]]]] = defaultdict(list)
    calls = {(call.host, call.id): call for call in history.invocations}
    for answer in history.answers:
        name, call = answer.text("function"), calls.get((answer.host, answer.text("invocation")))
        untrue = [*(answer.get("wrong") or ())]
        if "told" in answer.fields and call is not None and name in {call.function, *history.inner}:
            locks = {blob.partition("/")[2] for blob in call.blobs.values()} if name == call.function else set()
            known = {name, call.function, *history.function(call.function).declared}
            for what, told, right in (("lock", answer.text("lock"), locks), ("function", answer.text("told"), known)):
                untrue += [f"{what} {told!r} in place of {min(right)!r}"] if right and told not in right else []
        if untrue:
            wrong[name].append((answer, untrue))
    for name, ((first, untrue), *more) in sorted(wrong.items()):
        yield violation(
            f"the policy of {name!r} was told {count(1 + len(more), 'time')} what is not so: the first "
            f"{', '.join(untrue)}, on {first.host} at {first.t - history.start:.1f} s"
        )


def is_full(history: History, refused: Wait | None, t: float) -> bool:
    """Tell whether as many callers as max_waiting allows waited in the process of a refused caller at this time."""
    most = None if refused is None else history.function(refused.function).max_waiting
    if refused is None or most is None:
        return False
    others = [
        wait
        for wait in history.waits
        if (wait.host, wait.worker, wait.lock) == (refused.host, refused.worker, refused.lock) and wait is not refused
    ]
    return sum(wait.start - _SLACK <= t <= wait.end + _SLACK for wait in others) >= most

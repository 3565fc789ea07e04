"""Two are never inside: the bodies of one lock don't overlap, and each runs under its lock.

A listener's lock belongs to its process: bodies of one worker may run at the same time under it, bodies of two workers
may not, until another worker becomes the listener.

Fencing tokens: each later holder of a lock has a greater token.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from simulator.checks.excuses import behind_overlap, disturbed, exposing, is_broken, is_long, overslept
from simulator.checks.findings import Finding, by_function, count, label, note, unproven, violation
from simulator.history.deeds import once_of, outside

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simulator.history.facts import Acquisition, History, Invocation, Section


EARLY: Final = 1.0
"""Seconds by which a body may begin later than its hold: so much less of max_hold is left for it."""


OF_THE_LOCK: Final = frozenset({"", "LockLost", "LockClosed", "CancelledError", "cancelled"})
"""Errors with which the lock itself ends a body that has lost it."""
_AGAIN: Final = 2.0
"""Seconds in which a blob that is deleted, or replaced, in the second of its making may give a token again
(docs/guarantees.md)."""
_TO_TELL: Final = 1.0
"""Seconds that a host which woke may take to tell a body that its lock is lost, on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Two bodies of one lock, inside at the same time.

    ``refused``: the app's own error with which the body of the smaller token ended: the refusal of a fenced resource.
    """

    lock: str
    at: float  # the begin, from the start of the run
    seconds: float
    first: Section
    second: Section
    refused: str = ""


def overlapping(
    sections: Iterable[Section], lock_of: Callable[[Section], str] = attrgetter("lock")
) -> list[tuple[Section, Section]]:
    """Find every pair of bodies of one lock that ran at the same time, the earlier one first.

    A body that starts at the instant at which the other ends does not overlap with it.
    """
    pairs = []
    inside: dict[str, list[Section]] = defaultdict(list)
    for section in sorted(sections, key=lambda section: (section.start, section.end)):
        lock = lock_of(section)
        others = [other for other in inside[lock] if other.end > section.start]
        pairs += [(other, section) for other in others if not _together(other, section)]
        inside[lock] = [*others, section]
    return pairs


def _together(first: Section, second: Section) -> bool:
    return first.mode == second.mode == "listener" and _process(first) == _process(second)


def _process(section: Section) -> tuple[str, int]:
    return section.host, section.worker


def most_at_once(history: History) -> dict[str, int]:
    """Return how many may be inside each lock: of several limits, the highest."""
    most: dict[str, int] = defaultdict(lambda: 1)
    for section in history.sections:
        most[section.lock] = max(most[section.lock], history.function(section.function).at_once)
    return most


def find_overlaps(history: History) -> tuple[list[Overlap], list[Overlap]]:
    """Return the overlaps of the run, the longest first, and apart from them the caught ones.

    A host that stands still past its lease is still in its body when it wakes, beside the next holder. No lock can
    prevent that. The overlap is caught if the lock told the host, so that the body ended as lost. Tokens keep out what
    it wrote in between. A fault of a nemesis may be the cause, too: see `behind_overlap`.

    Bodies of one process are no overlap that anything excuses: the process lets nobody in before such a body has ended,
    whatever has become of its lease.

    If any fault may happen (`History.rough`), three more cases can't be prevented: a host that never wakes; a thread
    that was told in time, or when its host woke, and that nobody can end; a body whose lease an operator ended.
    """
    most = most_at_once(history)
    found: list[tuple[Section, Section]] = []
    caught: list[tuple[Section, Section]] = []
    for second, firsts in with_others(overlapping(history.sections)):
        own = [first for first in firsts if _process(first) == _process(second)]
        lawful = firsts if len(own) < most[second.lock] else [each for each in firsts if each not in own]
        excused = [first for first in lawful if _is_caught(history, first, second)]
        inside = [first for first in firsts if first not in excused]
        found += [(first, second) for first in inside[most[second.lock] - 1 :]]
        if len(firsts) >= most[second.lock]:
            caught += [(first, second) for first in excused]
    return _longest_first(history, found), _longest_first(history, caught)


def with_others(pairs: list[tuple[Section, Section]]) -> Iterator[tuple[Section, list[Section]]]:
    """Yield each body that began while bodies were inside its lock, with the bodies inside."""
    others: dict[int, tuple[Section, list[Section]]] = {}
    for first, second in pairs:
        others.setdefault(id(second), (second, []))[1].append(first)
    yield from others.values()


def _is_caught(history: History, first: Section, second: Section) -> bool:
    stood = _stood_still(history, first, second) or _outlived(history, first, second)
    fault = stood or _never_woke(history, first, second) or bool(behind_overlap(history, first, second))
    return fault or (history.rough and _struck(history, first, second))


def _never_woke(history: History, first: Section, second: Section) -> bool:
    """Tell whether the first stood still when the second began, and was killed before it could be told."""
    if first.ending not in {"killed", "crashed", "open"} or not (
        history.rough or is_long(history, first, second.start)
    ):
        return False
    return any(
        pause.host == first.host and pause.start <= second.start and pause.end >= first.end - _TO_TELL
        for pause in history.pauses
    )


def _outlived(history: History, first: Section, second: Section) -> bool:
    """Tell whether the first was told before the second began that it is held for too long, and went on.

    Its lease runs out by itself: a lock that is given back under a body has no such excuse.
    """
    most = history.function(first.function).max_hold
    if most is None or first.told is None or first.told > second.start:
        return False
    return first.told - first.start > most - EARLY and not _given_back(history, first, second.start)


def _given_back(history: History, body: Section, until: float) -> bool:
    """Tell whether the storage granted a release of a body's lease that its host sent before this time."""
    whose = (body.host, body.owner, body.lock)
    leases = {got.lease for got in history.acquisitions if (got.host, got.owner, got.lock) == whose and got.lease}
    return any(
        each.action == "release" and each.granted and each.host == body.host and each.lease in leases
        for each in history.requests
        if each.sent < until
    )


def judge_given_back(history: History) -> Iterator[Finding]:
    """Find holds of lock clients that user code still had when their process gave the lease back."""
    held = (each for each in history.sections if each.told is None and history.function(each.function).blob)
    inside = [each for each in held if _given_back(history, each, each.end)]
    for first in inside[:1]:
        yield violation(
            f"{count(len(inside), 'body', 'bodies')} went on after the lease was given back: the first of "
            f"{label(first.lock)}, on {first.host} at {first.start - history.start:.1f} s"
        )


def _slept(history: History, overlap: Overlap) -> bool:
    first, second = overlap.first, overlap.second
    struck = history.faults or history.outside
    return _stood_still(history, first, second) or _never_woke(history, first, second) or not struck


def _stood_still(history: History, first: Section, second: Section) -> bool:
    """Tell whether one stood still inside, or on its way in, while the other began, and was told when it woke."""
    inside = _heard_of_its_loss(history, first) and history.paused(first.host, first.start, second.start)
    inside = inside and (history.rough or overslept(history, first, second.start))
    late = second.ending == "lost" and history.stood_still_asking(second, second.start)
    return inside or (late and (history.rough or is_long(history, second, second.start)))


def _heard_of_its_loss(history: History, body: Section) -> bool:
    """Tell whether a body was told that its lock is lost: while it ran, or just as it left a block of a lock client."""
    whose = (body.host, body.owner, body.lock)
    return (
        body.ending == "lost"
        or body.told is not None  # a thread that was told may outlast the run
        or any(
            got.ending == "lost" and (got.host, got.owner, got.lock) == whose and got.until - body.end <= _TO_TELL
            for got in history.acquisitions
        )
    )


def _struck(history: History, first: Section, second: Section) -> bool:
    """Tell whether something let the second in that no lock can prevent."""
    stands = first.ending in {"killed", "open"} and history.stands_still(first.host, second.start)
    late = history.paused(first.host, first.start, second.start)
    told = first.told is not None and (late or first.told <= second.start) and history.function(first.function).sync
    return stands or told or history.operated_before(first, second.start)


def _longest_first(history: History, pairs: list[tuple[Section, Section]]) -> list[Overlap]:
    overlaps = [
        Overlap(
            lock=first.lock,
            at=second.start - history.start,
            seconds=min(first.end, second.end) - second.start,
            first=first,
            second=second,
            refused=_refused(first, second),
        )
        for first, second in pairs
    ]
    return sorted(overlaps, key=lambda overlap: (-overlap.seconds, overlap.at, overlap.lock))


def _refused(first: Section, second: Section) -> str:
    """Return the error of the app with which the body of the smaller token ended, if it has one."""
    if first.token is None or second.token is None or first.token == second.token:
        return ""
    error = (first if first.token < second.token else second).error
    return "" if error in OF_THE_LOCK else error


def judge_overlaps(history: History, overlaps: list[Overlap], caught: list[Overlap]) -> Iterator[Finding]:
    """Sum up the overlaps."""
    outlived = {id(each.first): each.first for each in caught if _outlived(history, each.first, each.second)}
    woke = [each for each in caught if id(each.first) not in outlived and _slept(history, each)]
    if late := len({(each.first.host, each.first.owner) for each in woke}):
        yield note(f"{count(late, 'body', 'bodies')} woke after a pause without the lock, and ended as lost")
    behind = [each for each in caught if id(each.first) not in outlived and each not in woke]
    ended_late = [each for each in behind if each.first.told is not None and each.first.told <= each.second.start]
    if broken := len(behind) - len(ended_late):
        yield note(
            f"{count(broken, 'overlap')} that a fault explains: who lost the lock is told, and has the smaller token"
        )
    yield from _late_ends(history, ended_late)
    pairs = [(each.first, each.second) for each in caught if each.refused]
    stale = [min(pair, key=lambda body: body.token or 0) for pair in pairs]
    refused = {(body.host, body.owner): body.error for body in stale}
    for error, number in sorted(Counter(refused.values()).items()):
        yield note(f"{count(number, 'stale write')} refused by the token ({error})")
    if outlived:
        yield note(
            f"{count(len(outlived), 'body', 'bodies')} went on after max_hold had ended its hold, and others got in"
        )
    if overlaps:
        worst = overlaps[0]
        most = most_at_once(history)[worst.lock]
        many = "two bodies of one lock" if most == 1 else f"more than {most} bodies of one semaphore"
        many = "two leaders" if worst.first.mode == worst.second.mode == "listener" else many
        yield violation(
            f"{count(len(overlaps), 'overlap')}: {many} ran at the same time; the longest for "
            f"{worst.seconds:.2f} s, of {label(worst.lock)}, on {worst.first.host} and {worst.second.host}"
        )


def _late_ends(history: History, overlaps: list[Overlap]) -> Iterator[Finding]:
    """Say which bodies, or leaderships, went on beside the next holder after they were told of their loss."""
    for led in (False, True):
        mine = [each for each in overlaps if (history.function(each.first.function).trigger == "leadership") == led]
        for worst in mine[:1]:
            number, told = len({id(each.first) for each in mine}), (worst.first.told or 0.0) - history.start
            late = count(number, "lost leadership", "lost leaderships") if led else count(number, "body", "bodies")
            yield note(
                f"{late} ended late: {worst.first.host} was told at {told:.1f} s that {label(worst.lock)} was lost, "
                f"and went on for {worst.seconds:.1f} s beside {worst.second.host}, the next holder"
            )


def judge_leaders(history: History) -> Iterator[Finding]:
    """Find listeners with bodies on one worker, another, and the first again, without a new listener in between."""
    bodies: dict[str, list[Section]] = defaultdict(list)
    for section in sorted(history.sections, key=lambda section: section.start):
        if section.mode == "listener":
            bodies[section.lock].append(section)
    for lock, several in sorted(bodies.items()):
        last: dict[tuple[str, int], Section] = {}
        for section, before in zip(several[1:], several, strict=False):
            last[before.host, before.worker] = before
            mine = last.get((section.host, section.worker))
            if mine is None or mine is before or _led_anew(history, mine, section):
                continue
            yield violation(
                f"two leaders of {label(lock)}: a body ran on {before.host} at {before.start - history.start:.1f} s, "
                f"between bodies on {section.host} at {mine.start - history.start:.1f} s and at "
                f"{section.start - history.start:.1f} s, and neither had become the listener anew"
            )
            break


def _led_anew(history: History, first: Section, later: Section) -> bool:
    """Tell whether a worker became the listener again between two bodies, or something kept it from knowing better."""
    start, end = first.start, later.start
    theirs = (later.host, later.worker, later.lock)
    led = [got for got in history.acquisitions if (got.host, got.worker, got.lock) == theirs and got.t <= end]
    anew = any(got.t > start or is_broken(history, got, end) for got in led[-1:])
    return anew or history.rough or later.ending == "lost" or disturbed(history, later.host, start, end)


def judge_guards(history: History) -> Iterator[Finding]:
    """Find guarded functions whose bodies ran past their guard, or without the lock."""
    if bare := sum(not section.held for section in history.sections):
        why = "" if history.setup.get("singleton", True) else " (--no-singleton)"
        yield violation(f"{count(bare, 'guarded body', 'guarded bodies')} ran without holding the lock{why}")
    past, unnamed = past_their_guard(history)
    numbers = Counter(call.function for call in past) - unnamed
    yield from by_function(numbers, "succeeded without passing through its guard")
    unclear = Counter(call.function for call in _without_guard(history) if _is_unclear(history, call))
    old = history.setup.get("fresh") is False
    why = "the result may be from before this run" if old else "the key of @once is not read here"
    for name, number in sorted(unclear.items()):
        yield unproven(
            f"{count(number, 'invocation')} of {name!r} ran no body, and this run can't tell whether @once answered in "
            f"its place: {why}"
        )


def past_their_guard(history: History) -> tuple[list[Invocation], Counter[str]]:
    """Return the invocations that met no guard, though their function has one.

    If a binding is called `context`, an async function has no invocation id. The second part counts, by function, the
    deeds without an id: as many invocations of the first part may have met the guard, and nobody can tell which.

    """
    ids = {(call.host, call.id) for call in history.invocations}
    past = [call for call in _without_guard(history) if not _is_unclear(history, call)]
    deeds = (*history.sections, *history.refusals)
    return past, Counter(deed.function for deed in deeds if (deed.host, outside(deed.owner)) not in ids)


def _without_guard(history: History) -> list[Invocation]:
    """Return the successes that met no guard, and that `@once` has not answered.

    An invocation that `@once` answers meets no guard: a body of the same operation must have ended well before. An
    invocation that `@once` refuses, as another one with its key is under way, meets none either. Whose lock was lost
    before its body, and whose message was then moved to the poison queue, ends as a success.
    """
    met = {(deed.host, deed.owner) for deed in (*history.sections, *history.refusals)} | history.struck
    met |= {(each.host, outside(each.owner)) for each in history.refusals if each.function.endswith(once_of(""))}
    ids = {(call.host, call.id): call for call in history.invocations}
    done: dict[str, float] = {}
    for section in history.sections:
        call = ids.get((section.host, section.owner))
        if call is not None and call.operation and section.ending == "ok":
            done[call.operation] = min(section.end, done.get(call.operation, section.end))
    return [
        call
        for call in history.invocations
        if call.ending == "ok"
        and history.function(call.function).guarded
        and (call.host, call.id) not in met
        and done.get(call.operation, math.inf) > call.end
    ]


def _is_unclear(history: History, call: Invocation) -> bool:
    """Tell whether `@once` may have answered: by a key that is not read, or by a result of an earlier run."""
    return history.function(call.function).once and (not call.operation or history.setup.get("fresh") is False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """A token that is not greater than the one before it."""

    lock: str
    at: float
    host: str
    token: int
    before: int
    before_host: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """How many tokens were issued, for how many locks, and which of them were out of order."""

    issued: int
    locks: int
    regressions: tuple[Regression, ...]
    increasing: bool


def check_tokens(history: History) -> Tokens:
    """Compare tokens in the order in which locks were acquired, and in the order in which bodies began.

    A host that stood still while it asked may report late that it acquired the lock. The late report is no fault, if
    the host is then told of the lock's loss. An operator's end of the lease that the holder does not know yet is no
    fault either.
    """
    got = [
        _Shown(each.t, each, late=True)
        for each in history.acquisitions
        if each.token is not None and not has_slots_token(history, each)
    ]
    begun = [
        _Shown(each.start, each, late=each.ending == "lost", shared=each.mode == "listener")
        for each in history.sections
        if each.token is not None and not has_slots_token(history, each)
    ]
    regressions = list(_regressions(history, got, "acquired"))
    known = {(entry.lock, entry.token) for entry in regressions}
    regressions += [each for each in _regressions(history, begun, "body") if (each.lock, each.token) not in known]
    return Tokens(
        issued=sum(each.by.mode != "also" for each in got),
        locks=len({each.by.lock for each in got}),
        regressions=tuple(sorted(regressions, key=lambda entry: entry.at)),
        increasing=not regressions,
    )


def has_slots_token(history: History, deed: Acquisition | Section) -> bool:
    """Tell whether the hold of a semaphore has a token. Tokens order the holds of one slot only."""
    return deed.token is not None and history.function(deed.function).several


def judge_tokens(tokens: Tokens) -> Iterator[Finding]:
    """Sum up the regressions."""
    if tokens.regressions:
        first = tokens.regressions[0]
        yield violation(
            f"{count(len(tokens.regressions), 'fencing token')} out of order; the first on {label(first.lock)}: "
            f"{first.host} got {first.token} after {first.before_host} had got {first.before}"
        )


@dataclass(frozen=True, slots=True)
class _Shown:
    """A token is shown at a time: perhaps late if its host stood still, or again by the host that shares it."""

    t: float
    by: Acquisition | Section
    late: bool
    shared: bool = False


def _regressions(history: History, tokens: list[_Shown], seen: str) -> Iterator[Regression]:
    """Compare each token with the highest before it."""
    highest: dict[str, tuple[int, str]] = defaultdict(lambda: (-1, ""))
    for shown in sorted(tokens, key=lambda shown: shown.t):
        by, token = shown.by, shown.by.token or 0
        before, before_host = highest[by.lock]
        if token > before:
            highest[by.lock] = (token, by.host)
            continue
        again = shown.shared and (token, by.host) == (before, before_host)
        replaced = [(each.start, each.lock) for each in history.outside if each.kind in {"replaced", "deleted"}]
        again |= token == before and any(
            lock == by.lock and shown.t - _AGAIN <= t <= shown.t for t, lock in (*history.deleted, *replaced)
        )
        late = shown.late and history.stood_still_asking(by, shown.t)
        # With a nemesis it is known which hold an operator ended, and until when its host can't know that.
        broken = bool(exposing(history, by, shown.t)) or (not history.faults and history.operated_before(by, shown.t))
        if not (again or late or broken):
            yield Regression(
                lock=by.lock,
                at=shown.t - history.start,
                host=by.host,
                token=token,
                before=before,
                before_host=before_host,
                seen=seen,
            )

"""What the lock says, compared with what the hosts saw: bodies outside the hold, twice, or under another name."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from simulator.checks.findings import Finding, count, label, note, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Section
    from simulator.history.functions import Mode


_ROUNDING = 2e-6


def judge_witnessed(history: History) -> Iterator[Finding]:
    """Find bodies that the lock does not report."""
    if history.setup.get("singleton", True):
        yield from _names(history)
        yield from _outside(history)
        yield from _tokens(history)
    yield from _for_whom(history)
    yield from _left_running(history)


def _names(history: History) -> Iterator[Finding]:
    """One key has one lock on all hosts, and a layout that keeps scopes apart gives a lock to one key only."""
    if history.names:
        first = next(iter(history.names.values()))
        yield violation(
            f"{count(len(history.names), 'scope')} had several locks, which exclude nobody: the first "
            f"{' and '.join(first[:2])}"
        )
    merged = {lock: keys for lock, keys in history.merged.items() if lock not in history.may_merge}
    if merged:
        lock, keys = next(iter(merged.items()))
        yield violation(
            f"{count(len(merged), 'lock')} had several scopes, which keep each other out for nothing: the first "
            f"{label(lock)}, of {' and '.join(keys[:2])}"
        )


def _outside(history: History) -> Iterator[Finding]:
    early, late = Counter[str](), Counter[str]()
    for section, began in outside_their_hold(history):
        (late if began else early)[section.function] += 1
    for function, number in sorted(early.items()):
        yield violation(f"{count(number, 'body', 'bodies')} of {function!r} began before the lock was got")
    for function, number in sorted(late.items()):
        yield violation(f"{count(number, 'body', 'bodies')} of {function!r} went on after the lock was given back")


def outside_their_hold(history: History) -> Iterator[tuple[Section, bool]]:
    """Yield the bodies that did not run between the moments when their lock was acquired and released.

    The second part tells whether the lock was held when the body began.
    """
    holds: dict[tuple[str, str, Mode], list[Acquisition]] = defaultdict(list)
    for got in history.acquisitions:
        holds[got.host, got.owner if got.mode == "function" else got.function, got.mode].append(got)
    for section in history.sections:
        if not section.held or section.ending == "lost":
            continue
        mine = holds[section.host, section.owner if section.mode == "function" else section.function, section.mode]
        if not any(_covers(got, section) for got in mine):
            yield section, any(got.t <= section.start + _ROUNDING for got in mine)


def _covers(got: Acquisition, section: Section) -> bool:
    over = got.ending not in {"ok", "open"}  # lost, or with its host: other checks judge the body
    return got.t <= section.start + _ROUNDING and (over or section.end <= got.until + _ROUNDING)


def _tokens(history: History) -> Iterator[Finding]:
    """A body can see its hold, and fences its writes with that hold's token."""
    known = {(section.host, section.owner) for section in history.sections if section.held}
    blind = Counter(
        sight.function
        for sight in history.sights
        if sight.sees is False
        and (sight.host, sight.invocation) in known
        and not history.function(sight.function).decorated
    )
    for function, number in sorted(blind.items()):
        yield violation(
            f"{count(number, 'body', 'bodies')} of {function!r} could not see their hold: current_hold() failed"
        )
    for function, number in sorted((+history.mistold).items()):
        yield violation(
            f"{count(number, 'body', 'bodies')} of {function!r} saw another fencing token than the lock had told"
        )


def _for_whom(history: History) -> Iterator[Finding]:
    """A body runs for one invocation, once for each of its tries."""
    calls = {(call.host, call.id): call for call in history.invocations}
    stray = Counter(sight.function for sight in history.sights if (sight.host, sight.invocation) not in calls)
    runs = Counter((sight.host, sight.invocation, sight.function, sight.attempt) for sight in history.sights)
    again = Counter(
        function for (host, call, function, _), number in runs.items() if number > 1 and (host, call) in calls
    )
    unscoped = Counter(
        sight.function
        for sight in history.sights
        if (call := calls.get((sight.host, sight.invocation))) and None in call.keys.values()
    )
    for function, number in sorted(stray.items()):
        guarded = history.function(function).guarded
        text = f"{count(number, 'body', 'bodies')} of {function!r} ran for no invocation"
        yield violation(text) if guarded else note(text)
    for function, number in sorted(again.items()):
        known = history.function(function)
        if known.guarded and not known.decorated:
            yield violation(f"{count(number, 'invocation')} of {function!r} ran its body more than once")
    for function, number in sorted(unscoped.items()):
        yield violation(f"{count(number, 'body', 'bodies')} of {function!r} ran though their messages name no scope")


def _left_running(history: History) -> Iterator[Finding]:
    """What a body leaves running is not under its lock."""
    left: dict[str, list[str]] = defaultdict(list)
    for sight in history.sights:
        if sight.left_running and history.function(sight.function).guarded:
            left[sight.function].append(sight.left_running[0])
    for function, (what, *more) in sorted(left.items()):
        number = 1 + len(more)
        yield note(
            f"{count(number, 'body', 'bodies')} of {function!r} ended and left something running, such as {what}: "
            "the lock does not cover it"
        )

"""What the run did and tried: a run proves nothing of functions and policies that the run never reached.

A guarded function is exercised if its body ran, any other function if it was invoked: by the rules of its trigger, or
only delivered. A run proves something of guarded functions only. A run in which nothing was
locked, processed or killed proves nothing at all.

The check of sights compares what the lock says with what the hosts saw: bodies outside the hold, twice, or under
another name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Literal

from simulator.checks.findings import Finding, by_function, count, label, note, unproven, violation
from simulator.checks.messages import UNSENT, Messages, error_name
from simulator.history.deeds import once_of, outside
from simulator.history.outages import GRACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Section, Wait, WorkerEnd
    from simulator.history.functions import Function, Mode


_WAITED: Final = 0.25
"""Seconds after which a wait was for another holder, and not for the storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercised:
    """How often the run saw what a lock must be able to do."""

    renewals: int = 0  # holds whose renewal was seen on the network
    waits: int = 0  # invocations that acquired the lock after another had held it
    refusals: int = 0  # invocations that gave up: they skipped, deferred, raised or timed out
    handed_between: int = 0  # how often a host acquired a lock after another host
    handed_within: int = 0  # how often a host acquired a lock again after itself
    kills: int = 0  # hosts that were killed while they held a lock
    losses: int = 0
    longest: float = 0.0  # seconds of the longest body


def count_exercised(history: History) -> Exercised:
    """Count what the run tried."""
    takers: dict[str, list[str]] = defaultdict(list)
    for got in sorted(history.acquisitions, key=lambda got: got.t):
        takers[got.lock].append(got.host)
    hands = [pair for hosts in takers.values() for pair in pairwise(hosts)]
    return Exercised(
        renewals=sum(got.renewed > 0 for got in history.acquisitions),
        waits=sum(map(_waited, history.waits)),
        refusals=len(history.refusals),
        handed_between=sum(before != after for before, after in hands),
        handed_within=sum(before == after for before, after in hands),
        kills=sum(bool(kill.holds) for kill in history.kills),
        losses=sum(history.losses.values()),
        longest=max((section.end - section.start for section in history.sections), default=0.0),
    )


def untried(history: History, exercised: Exercised) -> Iterator[str]:
    """Yield in words what the app declares and the run did not reach."""
    if not (history.sections and history.setup.get("singleton", True)):
        return
    clients = {name: each for name, each in history.inner.items() if each.blob}
    judged = {each.blob.partition("/")[2] for each in clients.values()}
    if locks := [lock for lock in history.client_locks if lock not in judged]:
        were, first = ("was", "") if len(locks) == 1 else ("were", "the first ")
        yield f"{count(len(locks), 'lock')} of lock clients {were} not judged: {first}{label(locks[0])!r}"
    ran = {section.function for section in history.sections}
    guarded = [function for function in history.functions.values() if function.guarded]
    if idle := sorted(function.name for function in guarded if function.name not in ran):
        yield f"{', '.join(idle)} never ran"
    if not exercised.renewals:
        yield f"no renewal was seen (bodies take {exercised.longest:.0f} s at most)"
    if len(history.hosts) > 1 and not exercised.handed_between:
        yield "no lock went from one host to another"
    yield from (f"also= of {name!r} was not judged" for name in sorted(history.renamed & ran))
    for name in _never_handed_on(history):
        yield f"no hand-over of {name!r} was seen"
    contended = {refusal.function for refusal in history.refusals} | {
        wait.function for wait in history.waits if _waited(wait)
    }
    for function in guarded:
        if function.name in ran and function.name not in contended:
            yield f"no invocation of {function.name} {_POLICIES.get(function.on_contention, _OTHER)}"
    if clients.keys() & ran and not clients.keys() & contended:
        yield "nobody had to wait for a lock of a lock client, or was refused"
    if any(each.trigger == "lock_all" for each in clients.values()):
        yield "the waits of lock_all were not judged"


def _never_handed_on(history: History) -> list[str]:
    """Name the listeners that stayed on one host, although that host was killed."""
    led = {(held.lock, held.function) for kill in history.kills for held in kill.holds if held.mode == "listener"}
    had = {(got.lock, got.host) for got in history.acquisitions}
    return sorted(name for lock, name in led if sum(lock == theirs for theirs, _ in had) <= 1)


def _waited(wait: Wait) -> bool:
    return wait.mode == "function" and wait.ending == "acquired" and wait.end - wait.start > _WAITED


_POLICIES: Final = {
    "wait": "had to wait",
    "skip": "was skipped",
    "defer": "was deferred",
    "raise": "failed for contention",
    "conflict": "was answered with 409",
    "coalesce": "left while another waited",
}
_OTHER: Final = "met a lock that was taken"


ExerciseLevel = Literal["simulated", "delivered", "not exercised"]


def reaches(history: History) -> Iterator[tuple[str, tuple[ExerciseLevel, str]]]:
    """Yield the name of each function, how the run exercised it, and why not, if it did not."""
    calls = Counter(call.function for call in history.invocations)
    bodies = Counter(section.function for section in history.sections)
    for name, function in history.functions.items():
        if bodies[name] if function.guarded else calls[name]:
            yield name, ("delivered" if function.how == "delivered" else "simulated", "")
        else:
            yield name, ("not exercised", _why(history, function, calls[name]))


def _why(history: History, function: Function, calls: int) -> str:
    if function.idle:
        return function.idle
    if calls:
        errors = Counter(
            call.raised or call.error.partition(":")[0]
            for call in history.invocations
            if call.function == function.name and call.error
        )
        name = errors.most_common(1)[0][0] if errors else ""
        return f"its body never ran: {count(calls, 'invocation')} ended before it" + (f" with {name}" if name else "")
    if function.how == "delivered":
        return f"nothing was delivered to it: its {function.trigger} trigger gets only what --messages FILE says"
    if function.route:
        return "no request was made for it: give one with --messages FILE"
    return "nothing triggered it during the run"


def judge_activity(history: History, messages: Messages) -> Iterator[Finding]:
    """Find what should have happened and did not, and hosts that failed."""
    yield from _hosts(history)
    yield from _strikes(history)
    yield from _work(history, messages)
    yield from _notes(history)
    if history.interrupted:
        yield unproven(f"the run was broken off after {history.end - history.start:.0f} s")


_TOO_LONG: Final = "FunctionTimeoutException"
_TOGETHER: Final = 1.0
"""Seconds between the end of a worker and the records of the invocations in it."""
_BY_HAND: Final = {"0": "by SIGTERM or SIGINT", "-2": "by SIGINT", "-9": "by SIGKILL", "-15": "by SIGTERM"}
"""Exit codes of a host that was told to end, though not by its run: no host ends by itself with such a code."""


def _hosts(history: History) -> Iterator[Finding]:
    for host, message in history.errors:
        yield violation(f"{host} failed: {message}")
    for host, code in history.crashes:
        if code in _BY_HAND:
            yield unproven(f"somebody outside this run ended {host} ({_BY_HAND[code]}): what followed is not ours")
        else:
            yield violation(f"{host} ended by itself with exit code {code}")
    limit = max((function.limit or 0.0 for function in history.functions.values()), default=0.0)
    ends: dict[tuple[str, str, bool], list[int]] = defaultdict(list)
    for end in history.worker_ends:
        slept = end.timeout and history.paused(end.host, end.t - limit - GRACE, end.t)  # its calls had less time
        ends[end.host, end.reason + _spent(history, end), slept].append(end.cut)
    for (host, reason, slept), cuts in ends.items():
        inside = count(sum(cuts), "guarded body", "guarded bodies")
        text = f"a worker of {host} ended {count(len(cuts), 'time')}, and cut {inside} short: {reason}"
        yield note(f"{text}, as {host} had stood still") if slept else violation(text)
    asked = history.setup.get("hosts", 0)
    ready = len(history.ready - history.restarted.keys())
    if ready < asked and not history.interrupted:
        yield unproven(f"only {ready} of {count(asked, 'host')} became ready")


def _spent(history: History, end: WorkerEnd) -> str:
    """Say in words for what an invocation took too long: for its lock, or in its body."""
    for call in history.invocations if end.timeout else ():
        if call.host == end.host and call.error.startswith(_TOO_LONG) and abs(call.end - end.t) <= _TOGETHER:
            waits = [each for each in history.waits if (each.host, outside(each.owner)) == (call.host, call.id)]
            runs = [each for each in history.sights if (each.host, each.invocation) == (call.host, call.id)]
            waited, ran = (sum(min(each.end, call.end) - each.start for each in some) for some in (waits, runs))
            return f" (it waited for its lock for {waited:.1f} s, and its body ran for {ran:.1f} s)"
    return ""


def _strikes(history: History) -> Iterator[Finding]:
    for what, done in (("kill", len(history.kills)), ("pause", sum(not pause.outside for pause in history.pauses))):
        asked = history.setup.get(what, 0)
        if done < asked and not history.interrupted:
            yield unproven(f"{count(asked, what)} asked for, {done} done: no further host was caught holding a lock")


def _work(history: History, messages: Messages) -> Iterator[Finding]:
    guarded = [function.name for function in history.functions.values() if function.guarded]
    if history.functions and not guarded and not history.sections:
        yield unproven("no function of this app has @singleton: no guard of a function was judged")
    elif not history.sections:
        yield unproven("no guarded body ran: there is nothing to judge")
    if messages.sent and not messages.done and not history.interrupted:
        hint = ". Perhaps they need other bodies: --messages FILE" if _failed_by_bodies(history) else ""
        yield unproven(f"none of the {count(messages.sent, 'message')} sent was processed{hint}")
    met = {each.function for each in history.sections} | {each.function for each in history.refusals}
    met |= {each.function for each in history.sights} | {*map(once_of, history.functions)}
    met |= {name for name, function in history.inner.items() if function.blob}
    for name in sorted(history.inner.keys() - met if history.invocations else ()):
        yield note(
            f"@singleton on {name!r}: the host sees no such function, and no function called it in this run. Has it a "
            "trigger?"
        )
    for name, callers in _apart(history):
        yield note(
            f"@singleton on {name!r} has a lock for each function that passes its context on ({', '.join(callers)}): "
            "these don't exclude one another. With name=… it has one lock for all"
        )


def _apart(history: History) -> Iterator[tuple[str, list[str]]]:
    """Yield each guard of a helper whose locks are named after the functions that call it, and the functions."""
    calls = {(call.host, call.id): call.function for call in history.invocations}
    named: dict[str, dict[str, bool]] = defaultdict(dict)
    for wait in history.waits:
        caller = calls.get((wait.host, outside(wait.owner)))
        if wait.function in history.inner and not history.inner[wait.function].blob and caller is not None:
            after = label(wait.lock).partition(".")[0] == caller
            named[wait.function][caller] = after and named[wait.function].get(caller, True)
    for name, callers in sorted(named.items()):
        if len(callers) > 1 and all(callers.values()):
            yield name, sorted(callers)


def _notes(history: History) -> Iterator[Finding]:
    for remark in history.notes:
        yield note(remark)
    failed = [call for call in history.invocations if call.ending == "error"]
    why = Counter((call.function, call.blames or error_name(call) or "an error", bool(call.blames)) for call in failed)
    for (function, name, of_lock), number in sorted(why.items()):
        narrow = history.function(function).narrow if name == "TypeError" else ""
        own = "its outputs could not be sent" if name == UNSENT else "its own code"
        own = f"its decorator {narrow}, which takes no argument 'context': give it **kwargs" if narrow else own
        by = "the lock" if of_lock else own
        by = "its policy" if of_lock and name == "LockNotAcquired" else by
        yield note(f"{count(number, 'invocation')} of {function!r} failed with {name} ({by})")
    for reason, number in sorted(history.losses.items()):
        yield note(f"{count(number, 'hold')} lost ({reason or 'no reason given'})")


def _failed_by_bodies(history: History) -> bool:
    """Tell whether a message failed by the errors of bodies alone, and not by the lock's errors or refusals."""
    refused = {(each.host, each.owner) for each in history.refusals}
    for message in history.messages.values():
        failed = [call for call in message.invocations if call.ending == "error"]
        if failed and not any(call.blames or (call.host, call.id) in refused for call in failed):
            return True
    return False


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
    yield from by_function(early, "began before the lock was got", "body", "bodies")
    yield from by_function(late, "went on after the lock was given back", "body", "bodies")


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
    known = {(section.host, section.owner, section.function) for section in history.sections if section.held}
    blind = Counter(
        sight.function
        for sight in history.sights
        if sight.sees is False
        and (sight.host, sight.invocation, sight.function) in known
        and history.function(sight.function).guarded
        and (history.function(sight.function).direct or not history.function(sight.function).decorated)
    )
    yield from by_function(blind, "could not see their hold: current_hold() failed", "body", "bodies")
    yield from by_function(history.mistold, "saw another fencing token than the lock had told", "body", "bodies")
    other = Counter(sight.function for sight in history.sights if sight.other_hold)
    yield from by_function(other, "saw another hold at their end than at their begin", "body", "bodies")


def _for_whom(history: History) -> Iterator[Finding]:
    """A body runs for one invocation, once for each of its tries."""
    calls = {(call.host, call.id): call for call in history.invocations}
    own = [sight for sight in history.sights if not sight.inner and (sight.invocation or sight.item is None)]
    stray = Counter(sight.function for sight in own if (sight.host, sight.invocation) not in calls)
    runs = Counter((sight.host, sight.invocation, sight.function, sight.attempt) for sight in history.sights)
    plain = {name for name, known in history.functions.items() if known.guarded and not known.decorated}
    again = Counter(
        function
        for (host, call, function, _), number in runs.items()
        if number > 1 and function in plain and (host, call) in calls
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
    yield from by_function(again, "ran its body more than once")
    yield from by_function(unscoped, "ran though their messages name no scope", "body", "bodies")


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

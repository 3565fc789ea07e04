"""The callers of HTTP functions: each caller gets one answer, from the invocation of its own request.

A caller whose host died, stood still or was told to stop may get no answer. HTTP has no second delivery.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, by_function, count, note, unproven, violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from simulator.history.facts import History, Invocation
    from simulator.history.outages import Asked


_STOPPING: Final = 503
_FAILED: Final = 500
_REFUSED: Final = 400
_SOON: Final = 1.0
"""Seconds by which a caller may learn earlier than the fleet that a host has died."""
_AT_ONCE: Final = 10.0
"""Seconds in which a host answers after its function has ended, also on a busy machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """How many requests ended in which way.

    Attributes:
        answered: with any status; of them `refused` with 4xx and `failed` with 5xx.
        cut: without an answer, as the host died, stood still or was told to stop.
        unanswered: without an answer, though the host lived.
        open: the caller still waited when the run ended.
        unsent: of the user's: never sent, as no host was up.
        longest: seconds of the longest wait for an answer.
        statuses: how often which status was answered.
    """

    sent: int = 0
    answered: int = 0
    refused: int = 0
    failed: int = 0
    cut: int = 0
    unanswered: int = 0
    open: int = 0
    unsent: int = 0
    longest: float = 0.0
    statuses: Mapping[str, int]


def check_requests(history: History) -> tuple[Requests, list[Finding]]:
    """Follow every request; return the counts, and what is wrong."""
    calls: dict[str, list[Invocation]] = defaultdict(list)
    for call in history.invocations:
        if call.request:
            calls[call.request].append(call)
    asked = [*history.traffic.requests.values()]
    done = [each for each in asked if each.status is not None]
    silent = [each for each in asked if each.status is None and not each.open]
    cut = [each for each in silent if _excused(history, each, calls[each.id])]
    requests = Requests(
        sent=len(asked),
        answered=len(done),
        refused=sum(_REFUSED <= (each.status or 0) < _FAILED for each in done),
        failed=sum((each.status or 0) >= _FAILED for each in done),
        cut=len(cut),
        unanswered=len(silent) - len(cut),
        open=sum(each.open for each in asked),
        unsent=len(history.traffic.held),
        longest=max((each.end - each.start for each in done), default=0.0),
        statuses=dict(sorted(Counter(str(each.status) for each in done).items())),
    )
    return requests, [*_judge(history, requests, asked, calls), *_without(silent, cut), *_turned_away(done)]


def _excused(history: History, asked: Asked, calls: list[Invocation]) -> bool:
    """Tell whether its host died, stood still or was told to stop before it could answer."""
    if history.paused(asked.host, asked.start - _SOON, asked.end + _SOON):
        return True
    gone = _gone(history, asked.host)
    answerable = max((call.end for call in calls), default=asked.start)
    return gone - _SOON <= asked.end and gone <= answerable + _AT_ONCE


def _gone(history: History, host: str) -> float:
    """Return from when on a host need not answer: it died, or was told to stop."""
    if any(name == host for name, _ in (*history.crashes, *history.errors)):
        return -math.inf  # the run is judged by that
    killed = [kill.t for kill in history.kills if kill.host == host]
    drained = [drain.t for drain in history.drains if drain.host == host]
    never = math.inf
    return min(*killed, *drained, history.stopping.get(host, never), history.exits.get(host, never), never)


def _judge(
    history: History, requests: Requests, asked: list[Asked], calls: Mapping[str, list[Invocation]]
) -> Iterator[Finding]:
    twice, never, other, well, badly = (Counter[str]() for _ in range(5))
    for each in asked:
        tried = {call.id for call in calls.get(each.id, ())}
        twice[each.function] += len(tried) > 1
        if each.status is None:
            continue
        ended = [call for call in calls.get(each.id, ()) if call.ending != "open"]
        never[each.function] += not tried and each.status != _STOPPING
        other[each.function] += each.served is not None and each.served != each.status
        if ended:
            failed = ended[-1].ending not in {"ok", "deferred"}
            well[each.function] += failed and each.status < _REFUSED
            badly[each.function] += not failed and each.served is None and each.status >= _FAILED
    requested = ("request", "requests")
    yield from by_function(twice, "ran in two invocations", *requested)
    yield from by_function(never, "answered without an invocation", *requested)
    yield from by_function(other, "answered with another status than the function's", *requested)
    yield from by_function(well, "answered as a success although the invocation had failed", *requested)
    yield from by_function(badly, "answered as a failure although the invocation had succeeded", *requested)
    if requests.open and not history.interrupted:
        yield unproven(f"{count(requests.open, 'request')} not answered when the run ended")
    for name, number in sorted(Counter(history.traffic.held.values()).items()):
        if not history.interrupted:
            yield unproven(f"{count(number, 'request')} of {name!r} never sent: no host was up to answer")


def _without(silent: list[Asked], cut: list[Asked]) -> Iterator[Finding]:
    excused = {each.id for each in cut}
    lost = Counter((each.function, each.error) for each in silent if each.id not in excused)
    for (name, error), number in sorted(lost.items()):
        yield violation(f"{count(number, 'request')} of {name!r} got no answer although the host lived: {error}")
    if cut:
        yield note(f"{count(len(cut), 'request')} got no answer, as the host died, stood still or stopped")


def _turned_away(done: list[Asked]) -> Iterator[Finding]:
    """Tell of functions that only ever refused: the requests that are made do not fit what they expect."""
    statuses: dict[str, Counter[int]] = defaultdict(Counter)
    for each in done:
        statuses[each.function][each.status or 0] += 1
    for name, seen in sorted(statuses.items()):
        if all(_REFUSED <= status < _FAILED for status in seen):
            told = ", ".join(f"{number} with {status}" for status, number in sorted(seen.items()))
            yield note(f"{name!r} refused all its requests ({told}): give others with --messages FILE")

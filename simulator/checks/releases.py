"""Bounds of what a process gives back: the lease of a lock, as soon as nobody in the process needs the lease.

Each row has the form of the rows in `simulator.checks.bounds`, which judges them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from simulator.checks.deadlines import SLACK, Measured, Row
from simulator.checks.excuses import gone_at, is_broken
from simulator.history.deeds import is_refused, may_be_repeated, semaphore_of
from simulator.history.leases import kept_leases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Ending, History, LeaseRequest, Wait

_RELEASE: Final = 5.0
"""Seconds of a release while the storage does not answer."""
_AGAIN: Final = 2.5
"""Seconds from the answer to a release that failed until the release is tried again."""
_PERIOD: Final = 15
_LEASED: Final = frozenset({"too long", "expired", "broken"})
"""Reasons of a loss after which the lease may last."""
_GIVEN_BACK: Final = frozenset({"lock", "try_lock", "semaphore", "acquire", "periodic"})
"""Methods of lock clients whose holds are given back one by one."""


def _releases(history: History) -> Iterator[Measured]:
    """The release of a lock is sent when its body has ended; the invocations that have ended show the end, too."""
    answered = {
        (call.host, call.id)
        for call in history.invocations
        if call.ending in {"ok", "error", "deferred"} and call.error != "CancelledError"
    }
    ended, asked = (
        bodies_ended(history),
        [each for each in history.requests if each.action == "release" and each.granted],
    )
    sent = {(each.host, each.lease): each.sent for each in asked if each.lease}  # the answer may come late
    for got in history.acquisitions:
        end = ended.get((got.host, got.lock, got.owner))
        over = (got.host, got.owner) in answered or (history.function(got.function).blob and got.ending == "ok")
        if end is not None and got.ending in {"ok", "open"} and over:
            until = min(got.until, history.end, sent.get((got.host, got.lease), math.inf))
            # A set gives its locks back one after the other.
            most = math.inf if history.function(got.function).trigger == "lock_all" else _RELEASE
            yield Measured(deed=got, start=end, end=until, bound=0.0, slack=2 * SLACK, most=most)


def _releases_of_lost(history: History) -> Iterator[Measured]:
    """A lost lock whose lease may last is released as well when its body has ended: a release is sent."""
    ended, tried = bodies_ended(history, "lost"), [each for each in history.requests if each.action == "release"]
    sent = {(each.host, each.lease): each.sent for each in reversed(tried)}
    answered = {(call.host, call.id) for call in history.invocations if call.ending == "error"}
    for got in history.acquisitions:
        end = ended.get((got.host, got.lock, got.owner))
        over = (got.host, got.owner) in answered or history.function(got.function).trigger in _GIVEN_BACK
        leased = got.ending == "lost" and got.why in _LEASED and bool(got.granted and got.lease)
        if leased and over and end is not None and not is_broken(history, got, end):
            lapses = min(got.granted[-1] + history.lease_of(got), got.refused or math.inf)
            until = min(lapses, history.end, gone_at(history, got.host, got.worker, got.t))
            until = min(until, sent.get((got.host, got.lease), math.inf))
            yield Measured(deed=got, start=end, end=until, bound=0.0, slack=2 * SLACK, most=_RELEASE)


def bodies_ended(history: History, *further: Ending) -> dict[tuple[str, str, str], float]:
    """Return when the bodies under each hold had ended by themselves, or in ``further`` ways, by host, lock, owner."""
    ended: dict[tuple[str, str, str], float] = {}
    for section in history.sections:
        if section.mode == "function" and section.ending in {"ok", "error", *further}:
            who = (section.host, section.lock, section.owner)
            ended[who] = max(section.end, ended.get(who, 0.0))
    return ended


def _keeps(history: History) -> Iterator[Measured]:
    """A lock is kept for ``at_least``, and then given back, or handed on in its process; a lost lease is not."""
    lost = {(each.host, each.lease) for each in history.requests if is_refused(each) and each.action == "renew"}
    for got, until in kept_leases(history):
        start = max(got.until, got.t + history.function(got.function).at_least)
        end = min(until, gone_at(history, got.host, got.worker, got.t), history.end)
        if got.ending == "ok" and (got.host, got.lease) not in lost:
            what = f"at_least={history.function(got.function).at_least:g}"
            yield Measured(deed=got, start=start, end=end, bound=0.0, slack=2 * SLACK, most=_RELEASE, what=what)


def _retries(history: History) -> Iterator[Measured]:
    """A release that failed is tried again, for as long as its process lives and tries releases."""
    holds = {(got.host, got.worker, got.lease): got for got in history.acquisitions if got.lease}
    for whose, several in _requests(history).items():
        tries = [each for each in several if each.action == "release"]
        if not tries or whose not in holds:
            continue
        last = min(history.end, tries[0].sent + _RELEASE, gone_at(history, *whose[:2], tries[0].sent))
        for each, later in zip_longest(tries, tries[1:]):
            if may_be_repeated(each):
                end = last if later is None else min(last, later.sent)
                yield Measured(deed=holds[whose], start=each.t, end=end, bound=_AGAIN, most=_AGAIN, polls=False)


def _doubts(history: History) -> Iterator[Measured]:
    """Whose request was granted by an answer that got lost asks for the same lease again, or gives the lease back."""
    for (host, worker, _), several in _requests(history).items():
        for each, later in zip_longest(several, several[1:]):
            wait = _wait_of(history, each) if each.action == "acquire" and each.carried_out else None
            if wait is None:
                continue
            function, lapses = history.function(wait.function), each.sent + (each.period or _PERIOD)
            end = min(lapses, gone_at(history, host, worker, each.sent), history.end)
            end, poll = end if later is None else min(end, later.sent), function.poll_in(wait.mode)
            most = math.inf if function.failover else poll  # with it the blob is read first, which may take long
            yield Measured(deed=wait, start=each.t, end=end, bound=poll, most=most)


def _wait_of(history: History, request: LeaseRequest) -> Wait | None:
    """Return the wait for which a process asked for a lease: the one that began last; None: there is none."""
    blob = semaphore_of(request.blob)
    waits = (each for each in history.waits if (each.host, each.worker) == (request.host, request.worker))
    mine = (each for each in waits if each.start <= request.t and blob.endswith(f"/{each.lock}"))
    return max(mine, key=lambda wait: wait.start, default=None)


def _requests(history: History) -> dict[tuple[str, int, str], list[LeaseRequest]]:
    """Return the requests under each lease id in the order of their sending, by host, worker and lease."""
    found: dict[tuple[str, int, str], list[LeaseRequest]] = defaultdict(list)
    for request in sorted(history.requests, key=lambda each: each.sent):
        if request.timed:
            found[request.host, request.worker, request.lease].append(request)
    return found


RELEASES: Final = (
    Row(
        clocks=_releases,
        says="{lock} was kept by {host} for {seconds:.1f} s after its body had ended",
        rule="a request is allowed; 5 s while the storage does not answer",
    ),
    Row(
        clocks=_releases_of_lost,
        says="the lease of {lock} was left to lapse by {host}, {seconds:.1f} s after the body under the lost lock had "
        "ended",
        rule="a request for its release is allowed; 5 s while the storage does not answer",
    ),
    Row(
        clocks=_keeps,
        says="{lock} was kept by {host} for {seconds:.1f} s longer than {what}",
        rule="a request is allowed; 5 s while the storage does not answer",
    ),
    Row(
        clocks=_retries,
        says="{host} did not try again to release {lock} for {seconds:.1f} s after a try had failed",
        rule=f"{_AGAIN} s and a request are allowed, while the {_RELEASE:g} s of a release last",
    ),
    Row(
        clocks=_doubts,
        says="{host} was granted the lease of {lock} by an answer that got lost, and neither asked for the same lease "
        "again nor gave the lease back for {seconds:.1f} s",
    ),
)

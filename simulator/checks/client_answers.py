"""Lock clients do and answer what is so: ticks of periodic workers, who has a lock, and trouble with the storage."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.accounts import TakenSpan, taken
from simulator.checks.excuses import ASKED, CALL, asked_last, disturbed, is_broken, span
from simulator.checks.findings import Finding, by_function, count, violation
from simulator.checks.losses import ASKS
from simulator.history.deeds import may_be_repeated
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Section, Wait
    from simulator.history.journal import Record

_EARLY: Final = 0.1
"""Seconds by which a timer may be early."""
_SECOND: Final = 1.0
_LONGEST: Final = 60.0
"""Seconds of the longest lease."""
_SLOW: Final = 0.5
"""Seconds for which a process may do nothing without trouble."""


def judge_clients(history: History) -> Iterator[Finding]:
    """Find lock clients that do not what they promise, in a run with locks whose faults are known."""
    if history.rough:
        return
    yield from _bursts(history)
    yield from _answers(history)
    yield from _waiting_for_each_other(history)
    unprovoked = Counter(wait.function for wait in history.waits if _is_unprovoked(history, wait))
    yield from by_function(
        unprovoked, "ended as StorageUnavailable, though the storage answered each request", "wait", "waits"
    )


def _bursts(history: History) -> Iterator[Finding]:
    """A tick of a periodic worker that falls into running work is left out, and not made up for.

    So the work after next begins an interval after the end of a work, at the earliest.
    """
    askers = Counter((asker.host, asker.worker, asker.function) for asker in history.askers)
    works: dict[tuple[str, int, str], list[Section]] = defaultdict(list)
    for section in history.sections:
        works[section.host, section.worker, section.function].append(section)
    for (host, worker, name), number in sorted(askers.items()):
        function = history.function(name)
        if function.trigger != "periodic" or number != 1:
            continue
        mine = sorted(works[host, worker, name], key=lambda work: work.start)
        for first, after_next in zip(mine, mine[2:], strict=False):
            if after_next.start - first.end < function.tick - _EARLY:
                yield violation(
                    f"{name!r} on {host} made up for ticks that fell into running work: it began twice within "
                    f"{after_next.start - first.end:.1f} s of the end of a work, at {first.end - history.start:.1f} s"
                )
                break


def _answers(history: History) -> Iterator[Finding]:
    """``holder`` and ``locked`` see a holder where there is one all the time, and none where there is none."""
    looks = [each for each in history.looks if each.event == "looked_up"]
    spans = taken(history) if looks else {}
    for wait in history.waits if looks else ():
        spans.setdefault(wait.lock, []).append((wait.start, wait.end, ""))
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    for look in looks:
        how, lock, begun = (
            look.text("how"),
            _lock_of(history, look, look.text("name")),
            look.t - float(look.get("took") or 0.0),
        )
        where = f"on {look.host} at {look.t - history.start:.1f} s"
        holders = [got for got in history.acquisitions if _has_all_the_time(history, got, lock, begun, look.t)]
        if holders and not look.get("held"):
            wrong[how, lock].append(f"free {where}, though {holders[0].host} had it")
        elif holders and "ago" in look.fields and not _began_then(history, lock, look.t - look.get("ago")):
            wrong[how, lock].append(f"held for {look.get('ago'):.0f} s {where}, and it was not")
        elif look.get("held") and _is_free(history, spans.get(lock, []), lock, begun, look.t):
            wrong[how, lock].append(f"held {where}, though nobody had it")
    for (how, lock), (first, *more) in sorted(wrong.items()):
        yield violation(
            f"{how}() of a lock client told {count(1 + len(more), 'time')} what was not so of {lock!r}: the first time "
            f"{first}"
        )


def _lock_of(history: History, answer: Record, name: str) -> str:
    _, _, container = answer.text("where").partition("/")
    return name if container == history.setup.get("container") else f"{answer.text('where')}/{name}"


def _waiting_for_each_other(history: History) -> Iterator[Finding]:
    """A set of locks that waits in vain waits for somebody who has one of its locks, or one of a set that meets it.

    Each process asks for the locks of a set in one order, so that two sets never wait for each other.
    """
    sets = [each for each in history.looks if each.event == "set_refused"]
    if not sets:
        return
    struck, spans = [*_struck(history)], taken(history)
    groups: list[set[str]] = []
    for each in sets:
        mine = {_lock_of(history, each, name) for name in each.get("names")}
        groups = [*(group for group in groups if not group & mine), mine.union(*(g for g in groups if g & mine))]
    for group in groups:
        had = [*struck, *((since, until + ASKED) for lock in group for since, until, _ in spans.get(lock, ()))]
        had += [(asker.start, asker.end) for asker in history.askers if asker.lock in group]  # it may lead, unseen
        vain = []
        for each in (each for each in sets if _lock_of(history, each, each.get("names")[0]) in group):
            whole = each.t - float(each.get("took")), each.t
            free = max(_gaps(had, *whole), key=lambda gap: gap[1] - gap[0], default=(0.0, 0.0))
            took = free[1] - free[0] - history.slowness.late(each.host, STORAGE, start=free[0], end=free[1])
            turns = 0.0 if free == whole else (len(group) + 1) * float(each.get("poll"))  # each a poll late
            if took > turns + ASKS:
                vain.append((took, each))
        if vain:
            took, first = max(vain, key=lambda each: each[0])
            yield violation(
                f"{count(len(vain), 'set')} of lock_all waited in vain for locks of which nobody had one, such as "
                f"{min(group)!r}: sets that wait for each other; the longest for {took:.1f} s, on {first.host}, until "
                f"second {first.t - history.start:.1f}"
            )


def _struck(history: History) -> Iterator[tuple[float, float]]:
    """Yield from when to when locks may be leased of which nobody tells: by a set that was cut off, or its process."""
    lease = max((each.lease for each in history.inner.values() if each.blob), default=_LONGEST)
    for fault in (*history.faults, *history.outside):
        yield fault.start, span(fault)[1] + lease
    for pause in history.pauses:
        yield pause.start, pause.end + lease
    for t in (*history.deaths.values(), *history.exits.values(), *(end.t for end in history.worker_ends)):
        yield t, t + lease


def _gaps(spans: list[tuple[float, float]], start: float, end: float) -> Iterator[tuple[float, float]]:
    """Yield the stretches between these two in which none of the spans lies."""
    for since, until in sorted(spans):
        if since > start:
            yield start, min(since, end)
        start = max(start, until)
        if start >= end:
            return
    yield start, end


def _has_all_the_time(history: History, got: Acquisition, lock: str, start: float, end: float) -> bool:
    """Tell whether a hold certainly had the lease of a lock all the time between these two."""
    if (
        (got.blob or got.lock) != lock
        or not got.t <= start <= end <= got.until
        or history.function(got.function).failover
    ):
        return False
    granted = max((t for t in got.granted if t <= start), default=None)
    ended = is_broken(history, got, end) or any(of == got.lock and t <= end for t, of in history.operated)
    return granted is not None and granted + history.lease_of(got) >= end and not ended


def _began_then(history: History, lock: str, t: float) -> bool:
    """Tell whether a hold of a lock began at this time, as told in whole seconds of another clock."""
    holds = (got for got in history.acquisitions if (got.blob or got.lock) == lock)
    return any(
        abs(got.t - t) <= ASKED + _SECOND + history.slowness.late(got.host, start=got.t - ASKED, end=got.t)
        for got in holds
    )


def _is_free(history: History, spans: list[TakenSpan], lock: str, start: float, end: float) -> bool:
    """Tell whether nobody had a lock of lock clients, or asked for it, between these two.

    Just before it may have been taken as well, unless the answer to a release was seen.
    """
    known = lock in history.client_locks and history.setup.get("fresh") and lock not in history.twofold
    struck = history.faults or history.outside or history.pauses or history.operated
    releases = (each for each in history.requests if each.action == "release" and each.granted)
    released = max((each.t for each in releases if each.blob.endswith(f"/{lock}") and each.t <= start), default=0.0)
    near = ((since, until if since <= released else until + ASKED) for since, until, _ in spans)
    return bool(known) and not struck and not any(since <= end and until >= start for since, until in near)


def _is_unprovoked(history: History, wait: Wait) -> bool:
    """Tell whether a wait ended by trouble with the storage, and there was none."""
    since, end = wait.start - history.lease_of(wait), wait.end  # an earlier loss concerns its process, too
    if wait.error != "StorageUnavailable" or disturbed(history, wait.host, since, end):
        return False
    requests = [each for each in history.requests if (each.host, each.worker) == (wait.host, wait.worker)]
    trouble = any(since <= each.t and each.sent <= end and may_be_repeated(each) for each in requests)
    idle = history.slowness.late(wait.host, STORAGE, start=wait.start - CALL, end=end)
    slow = idle >= min(_SLOW, (end - wait.start) / 2)  # of a request that began before, perhaps
    stood = history.stood(wait.host, wait.worker or 1, since, end) >= _SLOW
    lost = any(
        got.host == wait.host and got.ending == "lost" and since <= got.until <= end for got in history.acquisitions
    )
    return bool(requests) and not (trouble or slow or stood or lost or asked_last(history, wait))

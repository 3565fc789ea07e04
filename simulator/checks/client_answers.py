"""Lock clients do and answer what is so: ticks of periodic workers, who has a lock, and trouble with the storage."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.endings import TakenSpan, taken
from simulator.checks.excuses import disturbed, is_broken
from simulator.checks.findings import Finding, by_function, count, violation
from simulator.history.deeds import may_be_repeated
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, History, Section, Wait
    from simulator.history.journal import Record

_EARLY: Final = 0.1
"""Seconds by which a timer may be early."""
_STALE: Final = 2.0
"""Seconds for which an answer on who has a lock may be old."""
_BEFORE: Final = 15.0
"""Seconds before a wait in which trouble may concern its process still: a lease."""
_SLOW: Final = 0.5
"""Seconds for which a request may be under way without trouble."""


def judge_clients(history: History) -> Iterator[Finding]:
    """Find lock clients that do not what they promise, in a run with locks whose faults are known."""
    if history.rough:
        return
    yield from _bursts(history)
    yield from _answers(history)
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
    spans = taken(history) if history.looks else {}
    for wait in history.waits if history.looks else ():
        spans.setdefault(wait.lock, []).append((wait.start, wait.end, ""))
    wrong: dict[tuple[str, str], list[str]] = defaultdict(list)
    for look in history.looks:
        how, lock, begun = look.text("how"), _lock_of(history, look), look.t - float(look.get("took") or 0.0)
        where = f"on {look.host} at {look.t - history.start:.1f} s"
        holders = [got for got in history.acquisitions if _has_all_the_time(history, got, lock, begun, look.t)]
        if holders and not look.get("held"):
            wrong[how, lock].append(f"free {where}, though {holders[0].host} had it")
        elif look.get("held") and _is_free(history, spans.get(lock, []), lock, begun, look.t):
            wrong[how, lock].append(f"held {where}, though nobody had it")
    for (how, lock), (first, *more) in sorted(wrong.items()):
        yield violation(
            f"{how}() of a lock client told {count(1 + len(more), 'time')} what was not so of {lock!r}: the first time "
            f"{first}"
        )


def _lock_of(history: History, look: Record) -> str:
    _, _, container = look.text("where").partition("/")
    ours = container == history.setup.get("container")
    return look.text("name") if ours else f"{look.text('where')}/{look.text('name')}"


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


def _is_free(history: History, spans: list[TakenSpan], lock: str, start: float, end: float) -> bool:
    """Tell whether nobody had a lock of lock clients, or asked for it, between these two and just before."""
    known = lock in history.client_locks and history.setup.get("fresh") and lock not in history.twofold
    struck = history.faults or history.outside or history.pauses or history.operated
    return bool(known) and not struck and not any(since <= end and until >= start - _STALE for since, until, _ in spans)


def _is_unprovoked(history: History, wait: Wait) -> bool:
    """Tell whether a wait ended by trouble with the storage, and there was none."""
    since, end = wait.start - _BEFORE, wait.end
    if wait.error != "StorageUnavailable" or disturbed(history, wait.host, since, end):
        return False
    requests = [each for each in history.requests if (each.host, each.worker) == (wait.host, wait.worker)]
    trouble = any(since <= each.t and each.sent <= end and may_be_repeated(each) for each in requests)
    trouble |= any(each.sent + _SLOW <= end <= each.t for each in requests)
    slow = history.slowness.late(wait.host, STORAGE, start=wait.start, end=end) >= min(_SLOW, (end - wait.start) / 2)
    stood = history.stood(wait.host, wait.worker or 1, since, end) >= _SLOW
    lost = any(
        got.host == wait.host and got.ending == "lost" and since <= got.until <= end for got in history.acquisitions
    )
    return bool(requests) and not (trouble or slow or stood or lost)

"""The marks of a run's troubles: faults, kills, losses, deadlines, take-overs, and broken promises.

Each broken promise has the moment at which it was broken, by the check that found it.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any, Final

from simulator.checks.coverage import outside_their_hold
from simulator.checks.exclusion import past_their_guard
from simulator.checks.findings import label
from simulator.report.timeline.timeline import BrokenPromise, Handover, Mark, MarkKind, OverlapSpan, Takeover

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Sequence

    from simulator.checks.exclusion import Overlap
    from simulator.checks.verdict import Verdict
    from simulator.history.facts import Acquisition, History, Invocation, Section
    from simulator.history.journal import Record
    from simulator.history.leases import Lease


_SAME: Final = 1.0
"""Seconds between the record of a fault and that of the kill or the pause which it is."""
_FAULTS: Final = {
    "kill": ("kill", "crash"),
    "crash": ("kill", "crash"),
    "pause": ("pause", "short pause", "pause between steps"),
    "drain": ("drain", "shut down"),
    "operator": ("break", "operator"),
}
"""The kinds of faults that are such a mark, of real hosts and of virtual worlds."""


def read_marks(
    history: History, records: Sequence[Record], leases: Iterable[Lease], faults: Sequence[Mark]
) -> tuple[Mark, ...]:
    """Return the marks of a run. ``faults``: faults that are missing in the records."""
    struck = [*faults, *_faults(history)]
    marks = [*struck, *(mark for mark in _strikes(history, records) if not _is_told(mark, struck))]
    marks += [*_losses(records), *_deadlines(history, leases)]
    return tuple(sorted(marks, key=lambda mark: mark.at))


def _faults(history: History) -> Iterator[Mark]:
    """Yield the faults that the fleet caused, each with its end and how many requests it hit."""
    if history.healed is not None:
        yield _moment(history.healed, "healed", "from here on everybody must get their turn")
    for fault in history.faults:
        yield Mark(
            kind="fault",
            fault=fault.kind,
            id=fault.id,
            at=fault.start,
            end=min(fault.end, history.end),
            what=fault.what or fault.kind,
            hosts=fault.hosts,
            lock=fault.lock,
            hits=fault.hits,
        )


def _strikes(history: History, records: Iterable[Record]) -> Iterator[Mark]:
    for kill in history.kills:
        held = ", ".join(label(hold.lock) for hold in kill.holds)
        what = f"{kill.host} (pid {kill.pid}) is killed" + (f" while it holds {held}" if held else "")
        yield _moment(kill.t, "kill", what, kill.host, kill.holds[0].lock if kill.holds else "")
    for pause in history.pauses:
        end = min(pause.end, history.end)
        what = f"{pause.host} stands still for {end - pause.start:.1f} s"
        yield Mark(kind="pause", at=pause.start, end=end, what=what, hosts=(pause.host,))
    for gone in history.worker_ends:
        yield _moment(gone.t, "worker ended", f"a worker of {gone.host} ends: {gone.reason}", gone.host)
    for drain in history.drains:
        yield _moment(drain.t, "drain", f"{drain.host} is drained", drain.host)
    for record in records:
        if record.event == "operator":
            what = f"an operator: {record.text('action') or 'break'} {label(record.text('lock'))}"
            yield _moment(record.t, "operator", what, lock=record.text("lock"))
        elif record.event == "host_exited" and record.host in dict(history.crashes) and not record.get("expected"):
            what = f"{record.host} ended by itself with exit code {record.text('code')}"
            yield _moment(record.t, "crash", what, record.host)


def _is_told(mark: Mark, faults: Iterable[Mark]) -> bool:
    return any(
        fault.fault in _FAULTS.get(mark.kind, ())
        and abs(fault.at - mark.at) < _SAME
        and (mark.kind == "operator" or not {*fault.hosts}.isdisjoint(mark.hosts))
        for fault in faults
    )


def _losses(records: Iterable[Record]) -> Iterator[Mark]:
    for record in records:
        if record.event == "lock" and record.get("kind") == "lost":
            lock, reason = record.text("lock"), record.text("reason") or "no reason given"
            what = f"{record.host} learns that it has lost {label(lock)} ({reason})"
            yield _moment(record.t, "lost", what, record.host, lock, record.text("owner"))


def _deadlines(history: History, leases: Iterable[Lease]) -> Iterator[Mark]:
    """Yield the deadlines that passed: holders that live, and hold, must have given up by then."""
    deaths = {kill.host: kill.t for kill in history.kills}
    for lease in leases:
        if lease.ending != "expired" or lease.deadline >= deaths.get(lease.host, math.inf):
            continue
        if any(_is_under(got, lease) for got in history.acquisitions):
            what = f"deadline: {lease.host} must have given up {label(lease.lock)}"
            yield _moment(lease.deadline, "deadline", what, lease.host, lease.lock)


def _is_under(got: Acquisition, lease: Lease) -> bool:
    """Tell whether somebody still held the lock under this lease when its deadline came, or lost it."""
    mine = (got.host, got.blob or got.lock) == (lease.host, lease.blob)
    lasted = got.ending == "lost" or got.until >= lease.deadline - _SAME
    return mine and lasted and lease.start - _SAME <= got.t <= lease.end


def _moment(at: float, kind: MarkKind, what: str, host: str = "", lock: str = "", owner: str = "") -> Mark:
    hosts = () if host in {"", "fleet", "world"} else (host,)
    return Mark(kind=kind, at=at, end=at, what=what, hosts=hosts, lock=lock, owner=owner)


def read_takeovers(verdict: Verdict) -> tuple[Takeover, ...]:
    """Return what became of the locks of killed hosts."""
    return tuple(
        Takeover(
            lock=over.lock,
            victim=failover.host,
            at=failover.at,
            state=over.state,
            by=over.by or "",
            taken=None if over.seconds is None else failover.at + over.seconds,
            bound=None if over.bound is None else failover.at + over.bound,
            token=over.token_after,
        )
        for failover in verdict.failovers
        for over in failover.overs
    )


def read_overlaps(verdict: Verdict) -> tuple[OverlapSpan, ...]:
    """Return who was inside at the same time, in the order of time."""
    both = [*((each, False) for each in verdict.overlaps), *((each, True) for each in verdict.caught)]
    return tuple(sorted((_together(each, caught=caught) for each, caught in both), key=lambda each: each.start))


def _together(overlap: Overlap, *, caught: bool) -> OverlapSpan:
    return OverlapSpan(
        lock=overlap.lock,
        start=overlap.at,
        end=overlap.at + overlap.seconds,
        hosts=(overlap.first.host, overlap.second.host),
        owners=(overlap.first.owner, overlap.second.owner),
        caught=caught,
    )


def read_handovers(history: History) -> tuple[Handover, ...]:
    """Return the hand-overs of locks from holder to holder; of a semaphore, slot by slot."""
    taken: dict[str, list[Acquisition]] = defaultdict(list)
    for got in sorted(history.acquisitions, key=lambda got: got.t):
        taken[got.blob or got.lock].append(got)
    overs = [
        Handover(
            lock=after.lock,
            since=min(before.until, after.t),
            at=after.t,
            giver=before.host,
            taker=after.host,
            owners=(before.owner, after.owner),
        )
        for several in taken.values()
        for before, after in pairwise(several)
    ]
    return tuple(sorted(overs, key=lambda over: over.at))


MOST: Final = 100
"""How many moments of one check are listed."""
_QUOTED: Final = re.compile(r"'([^']+)'")


def read_troubles(history: History, verdict: Verdict) -> tuple[BrokenPromise, ...]:
    """Return the moments of all broken promises; for sentences about no moment, the sentences."""
    located = [
        *islice(_overlaps(verdict), MOST),  # the longest
        *islice(_tokens(verdict), MOST),
        *_failovers(verdict),
        *islice(_messages(history, verdict), MOST),
        *islice(_bare(history, verdict), MOST),
        *islice(_past(history, verdict), MOST),
        *islice(_outside(history, verdict), MOST),
    ]
    known = {trouble.check for trouble in located} | {(trouble.check, trouble.function) for trouble in located}
    order = [check.name for check in verdict.checks]
    rest = [
        BrokenPromise(check=check.name, text=finding.text, function=_function(history, finding.text))
        for check in verdict.checks
        for finding in check.findings
        if finding.kind == "violation" and _is_news(check.name, _function(history, finding.text), known)
    ]
    return tuple(sorted(rest + located, key=lambda trouble: (order.index(trouble.check), trouble.at or 0.0)))


def _overlaps(verdict: Verdict) -> Iterator[BrokenPromise]:
    for each in verdict.overlaps:
        pair = f"{each.first.host} and {each.second.host}"
        text = f"{pair} are both inside {label(each.lock)} for {each.seconds:.2f} s"
        yield BrokenPromise(check="overlaps", text=text, at=each.at, end=each.at + each.seconds, lock=each.lock)


def _tokens(verdict: Verdict) -> Iterator[BrokenPromise]:
    for each in verdict.tokens.regressions:
        text = f"{each.host} gets token {each.token} of {label(each.lock)} after {each.before_host} had {each.before}"
        yield BrokenPromise(check="tokens", text=text, at=each.at, lock=each.lock, host=each.host)


def _failovers(verdict: Verdict) -> Iterator[BrokenPromise]:
    for failover in verdict.failovers:
        for over in failover.overs:
            if over.state in {"late", "never"} and over.bound is not None:
                took = f"after {over.seconds:.1f} s" if over.seconds is not None else "never"
                text = f"{label(over.lock)} of {failover.host} is taken over {took}; {over.bound:.1f} s were allowed"
                end = failover.at + max(over.bound, over.seconds or 0.0)
                yield BrokenPromise(
                    check="failovers", text=text, at=failover.at, end=end, lock=over.lock, host=failover.host
                )


def _messages(history: History, verdict: Verdict) -> Iterator[BrokenPromise]:
    if not _complains(verdict, "messages"):
        return
    for each in verdict.messages.troubles:
        message = history.messages[each.id]
        times = [t for t, _ in message.receipts] or [message.sent or 0.0]
        text = f"message {each.id[:8]} of {each.queue}: {each.what}"
        yield BrokenPromise(check="messages", text=text, at=times[0], end=times[-1])


def _bare(history: History, verdict: Verdict) -> Iterator[BrokenPromise]:
    """Yield the bodies that ran without the lock, if a check complains of such."""
    for each in history.sections if _complains(verdict, "guards") else ():
        if not each.held:
            yield _during(each, "guards", f"runs {each.function} without holding {label(each.lock)}")


def _past(history: History, verdict: Verdict) -> Iterator[BrokenPromise]:
    past, unnamed = past_their_guard(history) if _complains(verdict, "guards") else ([], {})
    for each in past:
        if each.function not in unnamed:
            yield _during(each, "guards", f"runs {each.function}, which does not pass through its guard")


def _outside(history: History, verdict: Verdict) -> Iterator[BrokenPromise]:
    """Yield the bodies that began before their lock was held, or went on after it."""
    for each, began in outside_their_hold(history) if _complains(verdict, "witnessed") else ():
        when = "after it gave it back" if began else "before it has got it"
        yield _during(each, "witnessed", f"runs {each.function} under {label(each.lock)} {when}")


def _during(deed: Section | Invocation, check: str, what: str) -> BrokenPromise:
    about: dict[str, Any] = {"lock": getattr(deed, "lock", ""), "host": deed.host, "function": deed.function}
    return BrokenPromise(check=check, text=f"{deed.host} {what}", at=deed.start, end=deed.end, **about)


def _complains(verdict: Verdict, name: str) -> bool:
    return any(check.violated for check in verdict.checks if check.name == name)


def _is_news(check: str, function: str, known: Container[str | tuple[str, str]]) -> bool:
    """Tell whether a sentence says more than the moments of its check: names a function without a moment."""
    return check not in known or (bool(function) and (check, function) not in known)


def _function(history: History, text: str) -> str:
    """Return the function that a sentence names, if it names one."""
    return next((name for name in _QUOTED.findall(text) if name in history.functions), "")

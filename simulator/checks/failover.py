"""After a kill: who took the victim's locks over, how long it took, and how long it may have taken.

A lease ends by itself at the latest one lease after the kill. From then on

- somebody who waits finds out with his next poll: bound = lease + poll, or, where nobody wanted the lock
  that early, the first demand + poll;
- a timer that skips finds out with its next tick: bound = lease + tick;
- anybody who asks anew gets it at once.
- a process that wants to be the listener finds out with its next attempt: bound = lease + recovery interval. Its
  invocations don't ask by themselves.

The earliest of these counts. `SLACK` is added for the machine: the fleet shares its processors with
Azurite, and a poll or a tick needs some of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from simulator.checks.findings import Finding, label, unproven, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, Held, History, Kill, Wait

SLACK = 1.5

State = Literal["in time", "late", "never", "cut short", "unwanted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """What became of one lock that a victim held; times count from the kill.

    Attributes:
        state: ``in time`` or ``late``: it was got, within the bound (and `SLACK`) or not. ``never``: it was wanted
            and the bound passed. ``cut short``: the run ended before the bound. ``unwanted``: nobody asked.
        lease: how long the victim's lease lasts at most.
        wanted: when it was first asked for by a survivor: 0 where one was waiting already.
    """

    lock: str
    function: str
    token: int | None
    state: State
    lease: float
    by: str | None = None
    token_after: int | None = None
    seconds: float | None = None
    wanted: float | None = None
    bound: float | None = None

    @property
    def ok(self) -> bool:
        """Whether it was taken over within its bound."""
        return self.state == "in time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """One kill: the lock that the victim was killed for, and what else it held."""

    host: str
    pid: int
    at: float
    main: TakeOver | None
    also: tuple[TakeOver, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the lock it was killed for was taken over in time, and none of the others late."""
        broken = any(other.state in {"late", "never"} for other in self.also)
        return self.main is not None and self.main.ok and not broken


def measure_failovers(history: History) -> list[Failover]:
    """Measure each kill's failover, in order of the kills; nothing fails over where nothing was locked.

    Kills that were not aimed at holders (``aimed`` of the run's setup) count only where they hit one.
    """
    if not history.setup.get("singleton", True):
        return []
    failovers = []
    for kill in history.kills:
        if not kill.holds and not history.setup.get("aimed", True):
            continue
        overs = [_take_over(history, kill, held) for held in kill.holds]
        failovers.append(
            Failover(
                host=kill.host,
                pid=kill.pid,
                at=kill.t - history.start,
                main=overs[0] if overs else None,
                also=tuple(overs[1:]),
            )
        )
    return failovers


def judge_failovers(failovers: list[Failover]) -> list[Finding]:
    """Say which failovers were late, missing or not shown."""
    findings = []
    for failover in failovers:
        if failover.main is None:
            findings.append(unproven(f"{failover.host} held nothing when it was killed: no failover to measure"))
            continue
        for over in (failover.main, *failover.also):
            finding = _judge(failover, over)
            if finding.kind == "violation" or over is failover.main:
                findings.append(finding)
    return [finding for finding in findings if finding.kind != "note"]


def _judge(failover: Failover, over: TakeOver) -> Finding:
    what = f"{label(over.lock)}, which {failover.host} held when it was killed,"
    if over.state == "late":
        return violation(f"{what} was taken over after {over.seconds:.1f} s; {over.bound:.1f} s were allowed")
    if over.state == "never":
        return violation(f"{what} was never taken over, though it was wanted; {over.bound:.1f} s were allowed")
    if over.state == "cut short":
        return unproven(f"{what} was not taken over before the run ended")
    if over.state == "unwanted":
        return unproven(f"{what} was not asked for again: its failover is not measured")
    return Finding("note", "")


def _take_over(history: History, kill: Kill, held: Held) -> TakeOver:
    over = _measure(history, kill, held, kill.t + _lease(history, held))
    if over.state in {"late", "never"}:
        return _measure(history, kill, held, _free_at(history, kill, held, over))
    return over


def _measure(history: History, kill: Kill, held: Held, free: float) -> TakeOver:
    """Measure a take-over of a lock that is free from `free` on, at the latest."""
    got = next(_takers(history, kill, held), None)
    until = history.end if got is None else got.t
    demands = list(_demands(history, kill, held, free, until))
    if got is not None:
        demands = [*demands, (got.t, None)]
    wanted = min((since for since, _ in demands), default=None)
    deadlines = [deadline for _, deadline in demands if deadline is not None]
    if got is not None and not deadlines:
        deadlines = [max(free, got.t)]  # nobody had to have it sooner
    deadline = min(deadlines, default=None)
    state: State
    if wanted is None:
        state = "unwanted"
    elif deadline is None:
        state = "cut short"
    elif got is not None:
        state = "in time" if got.t <= deadline + SLACK else "late"
    else:
        state = "never" if history.end > deadline + SLACK else "cut short"
    return TakeOver(
        lock=held.lock,
        function=held.function,
        token=held.token,
        state=state,
        lease=_lease(history, held),
        by=None if got is None else got.host,
        token_after=None if got is None else got.token,
        seconds=None if got is None else got.t - kill.t,
        wanted=None if wanted is None else wanted - kill.t,
        bound=None if deadline is None else deadline - kill.t,
    )


def _lease(history: History, held: Held) -> float:
    return history.function(held.function).lease_in(held.mode)


def _takers(history: History, kill: Kill, held: Held) -> Iterator[Acquisition]:
    for acquisition in history.acquisitions:
        if acquisition.lock == held.lock and acquisition.t > kill.t:
            yield acquisition


def _free_at(history: History, kill: Kill, held: Held, over: TakeOver) -> float:
    """When the lease has run out at the latest, where it took longer than a lease.

    A later victim that was waiting for this lock may have been granted it in its last instant, unseen: then its
    lease counts.
    """
    lease = _lease(history, held)
    until = history.end if over.seconds is None else kill.t + over.seconds
    waiting = {wait.host for wait in history.waits if wait.lock == held.lock and wait.outcome == "killed"}
    deaths = [other.t for other in history.kills if kill.t <= other.t <= until and other.host in waiting]
    return max([kill.t, *deaths]) + lease


def _demands(
    history: History, kill: Kill, held: Held, free: float, until: float
) -> Iterator[tuple[float, float | None]]:
    """Yield when survivors asked for the lock, and by when this asking must have led to a taker, if it must."""
    asked = _asked(history, held, until)
    askers = {held.function}
    for wait in history.waits:
        if wait.lock == held.lock:
            askers.add(wait.function)
            if wait.host != kill.host and wait.end > kill.t and wait.start <= until:
                yield max(wait.start, kill.t), _deadline(history, wait, kill, free, asked)
    for refusal in history.refusals:
        if refusal.lock == held.lock:
            askers.add(refusal.function)
            if refusal.host != kill.host and kill.t < refusal.t <= until:
                due = held.mode == "function" and free + SLACK <= refusal.t < asked
                yield refusal.t, refusal.t if due else None
    if held.mode == "function":
        yield from _ticks(history, kill, {name for name in askers if name}, free, until)


def _asked(history: History, held: Held, until: float) -> float:
    """When the taker asked: from then on it is no wonder that others are refused."""
    winning = [w.start for w in history.waits if w.lock == held.lock and w.outcome == "acquired" and w.end == until]
    return min(winning, default=until)


def _deadline(history: History, wait: Wait, kill: Kill, free: float, asked: float) -> float | None:
    function = history.function(wait.function)
    deadline = max(free, wait.start, kill.t) + function.poll_in(wait.mode)
    polls = function.on_contention == "wait" or wait.mode == "listener"
    if polls and (wait.outcome == "acquired" or wait.end >= deadline):
        return deadline
    refused = wait.mode == "function" and wait.outcome != "acquired" and wait.start >= free + SLACK and wait.end < asked
    return wait.start if refused else None  # it gave up: only who asked for a free lock can complain


def _ticks(
    history: History, kill: Kill, askers: set[str], free: float, until: float
) -> Iterator[tuple[float, float | None]]:
    for name in askers:
        function = history.function(name)
        if function.trigger != "timer" or function.on_contention == "wait" or not function.tick:
            continue
        alone = bool(history.setup.get("same_app"))  # then the platform lets one host tick, or none for a while
        for t, host, ticker in history.ticks:
            if ticker == name and host != kill.host and kill.t < t <= until:
                yield t, (t if t >= free + SLACK else None) if alone else free + function.tick

"""After a kill: who acquired the victim's locks, how long it took, and how long it may take.

A lease ends by itself, at the latest one lease period after the kill. From then on

- a waiter notices at its next poll: bound = lease + poll. If nobody wanted the lock so early: the first demand + poll;
- with ``failover`` a waiter finds the holder silent before: bound = 4/3 · the greater ``failover``, from the kill or
  from the first demand on. The waiters of a semaphore look for a silent holder at their polls only;
- a timer that skips notices at its next tick: bound = lease + tick;
- a new caller acquires it at once;
- with ``failover`` a process remembers what it read when it was refused: its next caller, or tick, that comes
  16/15 · the holder's ``failover`` later acquires it;
- a candidate for the listener notices at its next attempt: bound = lease + recovery interval. Its invocations don't ask
  themselves.

The earliest bound counts. The fleet shares its processors with Azurite, and a poll or a tick needs processor time:
`simulator.checks.deadlines` adds to the bound what the machine took.

The check of liveness: after the faults everybody gets a turn. Waiters acquire, timers tick, and queues are read again.
A nemesis heals the faults, and records the healing (``healed``). From the record on nothing explains a standstill.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from simulator.checks.deadlines import slack, timing, too_slow
from simulator.checks.excuses import ASKED, by_when, disturbed, free_later, untold
from simulator.checks.findings import Finding, count, label, note, unproven, violation
from simulator.history.deeds import outside
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Acquisition, Held, History, Refusal, Wait


TURN: Final = 1.1
"""Polling intervals for which a process leaves a lock alone after its run (docs/guarantees.md)."""
_SILENCE: Final = 4 / 3
"""Parts of ``failover`` after which a waiter has the lock of a holder that died (docs/guarantees.md)."""
_SILENT: Final = 16 / 15
"""Parts of the holder's ``failover`` between two readings that show its silence (docs/guarantees.md)."""
_OF_USE: Final = 60.0
"""Seconds for which a process that was refused remembers what it read."""

TakeoverState = Literal["in time", "late", "never", "cut short", "unwanted", "not judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeOver:
    """The fate of one lock that a victim held; times count from the kill.

    Attributes:
        state: ``in time`` or ``late``: acquired within the bound, or after. ``never``: wanted, and the bound passed.
            ``cut short``: the run ended before the bound. ``unwanted``: nobody asked. ``not judged``: late or never,
            and the machine was too slow to tell.
        lease: how long the victim's lease lasts at most.
        wanted: when a survivor first asked for the lock: 0 if a survivor was waiting already.
    """

    lock: str
    function: str
    token: int | None
    state: TakeoverState
    lease: float
    by: str | None = None
    token_after: int | None = None
    seconds: float | None = None
    wanted: float | None = None
    bound: float | None = None
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Failover:
    """One kill, and what happened to the locks that the victim held; first the lock that it was killed for."""

    host: str
    pid: int
    at: float
    overs: tuple[TakeOver, ...]

    @property
    def main(self) -> TakeOver | None:
        """The lock for which the host was killed."""
        return self.overs[0] if self.overs else None

    @property
    def ok(self) -> bool:
        """Whether the lock that it was killed for was acquired in time, and no other lock late."""
        return bool(self.main and self.main.ok) and all(over.state not in {"late", "never"} for over in self.overs)


def measure_failovers(history: History) -> list[Failover]:
    """Measure each kill's failover, in order of the kills. Nothing fails over if nothing was locked.

    Kills that were not aimed at holders (``aimed`` of the run's setup) count only if they hit one.
    """
    if not history.setup.get("singleton", True):
        return []
    return [
        Failover(
            host=kill.host,
            pid=kill.pid,
            at=kill.t - history.start,
            overs=tuple(_take_over(history, held) for held in kill.holds),
        )
        for kill in history.kills
        if kill.holds or _aimed(history)
    ]


def _aimed(history: History) -> bool:
    """Tell whether each kill was to show a failover: a nemesis also kills whoever holds nothing."""
    return bool(history.setup.get("aimed", True)) and not history.setup.get("faults")


def judge_failovers(history: History, failovers: list[Failover]) -> Iterator[Finding]:
    """Say which failovers were late, missing or not shown."""
    aimed = _aimed(history)
    for failover in failovers:
        if failover.main is None:
            yield unproven(f"{failover.host} held nothing when it was killed: no failover to measure")
        held_at = failover.at + history.start
        for over in failover.overs:
            what = f"{label(over.lock)}, which {failover.host} held when it was killed,"
            if over.state == "late":
                yield violation(f"{what} was taken over after {over.seconds:.1f} s; {over.bound:.1f} s were allowed")
            elif over.state == "never":
                yield violation(f"{what} was never taken over, though it was wanted; {over.bound:.1f} s were allowed")
            elif over.state == "not judged":
                late = "was taken over late" if over.seconds is not None else "was not taken over"
                end = history.end if over.seconds is None else held_at + over.seconds
                yield too_slow(history, f"{what} {late}", held_at + (over.bound or over.lease), end)
            elif over.state == "cut short" and over is failover.main and aimed:
                yield unproven(f"{what} was not taken over before the run ended")
            elif over.state == "unwanted" and over is failover.main and aimed and not why_unseen(history, over):
                yield unproven(f"{what} was not asked for again: its failover is not measured")


def unmeasured(history: History, failovers: list[Failover]) -> Iterator[str]:
    """Yield in words which failovers nobody could show."""
    for failover in failovers:
        over = failover.main
        if over is not None and over.state == "unwanted" and _aimed(history) and (why := why_unseen(history, over)):
            yield f"no failover of {label(over.lock)!r} was seen: {why}"


def why_unseen(history: History, over: TakeOver) -> str:
    """Say why nobody needed what a victim had; the empty text if somebody should have asked."""
    if requested(history, over.lock):
        return "only requests by HTTP locked it, which nobody repeats"
    if history.function(over.function).at_once > 1:
        return "the other slots were enough"
    return ""


def requested(history: History, lock: str) -> bool:
    """Tell whether invocations by HTTP alone asked for a lock. If their host dies, nobody sends the requests again."""
    requests = {(call.host, call.id): call.request for call in history.invocations}
    asked = [requests.get((wait.host, outside(wait.owner))) for wait in history.waits if wait.lock == lock]
    return bool(asked) and all(asked)


def _take_over(history: History, held: Held) -> TakeOver:
    over = _measure(history, held, held.t)
    late = over.state in {"late", "never", "not judged"}
    return _measure(history, held, _gone_at(history, held, over)) if late else over


def _measure(history: History, held: Held, gone: float) -> TakeOver:
    """Measure the failover of a lock whose last holder was gone at `gone`, at the latest."""
    free = gone + history.lease_of(held)
    later = (got for got in history.acquisitions if got.lock == held.lock and got.t > held.t)
    got = next((got for got in later if held.blob in {"", got.blob}), None)
    until = history.end if got is None else got.since(held.t)
    demands = list(_demands(history, held, gone, until, got))
    dues = [due for _, due in demands if due is not None]
    asked = [since for since, _ in demands]
    if got is not None:
        asked.append(until)
        dues = dues or [_Deadline(max(free, until), got.host, 0.0)]  # no deadline was earlier
    due = min(dues, default=None)
    state: TakeoverState
    if not asked or (due is None and requested(history, held.lock)):
        state = "unwanted"
    elif due is None:
        state = "cut short"
    else:
        hosts, over = [due.host] if got is None else [due.host, got.host], until - due.t - slack(history)
        timed = timing(history, over, *hosts, start=min(free, due.t - due.poll), end=until, most=due.poll)
        missing: TakeoverState = "cut short" if timed == "in time" else "never"
        state = timed if got is not None or timed == "not judged" else missing
    return TakeOver(
        lock=held.lock,
        function=held.function,
        token=held.token,
        state=state,
        lease=history.lease_of(held),
        by=None if got is None else got.host,
        token_after=None if got is None else got.token,
        seconds=None if got is None else until - held.t,
        wanted=min(asked) - held.t if asked else None,
        bound=None if due is None else due.t - held.t,
        ok=state == "in time",
    )


class _Deadline(NamedTuple):
    """By when somebody must have acquired a lock, which host for one, and how often this host asks."""

    t: float
    host: str
    poll: float


def _gone_at(history: History, held: Held, over: TakeOver) -> float:
    """Return from when on nobody has kept the lease alive, at the latest, if the take-over was late.

    A later victim that was waiting for this lock may have got it unseen in its last instant: then its death counts.
    """
    until = history.end if over.seconds is None else held.t + over.seconds
    waiting = {wait.host for wait in history.waits if wait.lock == held.lock and wait.ending == "killed"}
    deaths = (other.t for other in history.kills if held.t <= other.t <= until and other.host in waiting)
    lapsed = free_later(history, held.lock, held.t - ASKED, until)
    return max(held.t, *deaths, lapsed - history.lease_of(held))


def _demands(
    history: History, held: Held, gone: float, until: float, taker: Acquisition | None
) -> Iterator[tuple[float, _Deadline | None]]:
    """Yield when survivors asked for the lock, and by when somebody must have acquired it, if somebody must.

    Who got another slot of a semaphore wanted none any more.
    """
    free = gone + history.lease_of(held)
    waits = [wait for wait in history.waits if wait.lock == held.lock]
    if held.blob not in {"", held.lock}:
        who = None if taker is None else (taker.host, taker.owner)
        waits = [wait for wait in waits if wait.ending != "acquired" or (wait.host, wait.owner) == who]
    refusals = [refusal for refusal in history.refusals if refusal.lock == held.lock]
    shared = any(history.function(each.function).at_once > 1 for each in (held, *waits))  # waiters want other slots
    # When the next holder asked: from then on others may be refused.
    asked = min((wait.start for wait in waits if wait.ending == "acquired" and wait.end == until), default=until)
    for wait in waits:
        if wait.host != held.host and wait.end > held.t and wait.start <= until:
            silent = math.inf if shared else _silent_at(history, held, wait, gone)
            looked = min(free, _looked_at(history, held, wait, gone, wait.start))
            yield max(wait.start, held.t), _deadline(history, wait, (free, silent, looked), asked, shared=shared)
    for refusal in refusals:
        if refusal.host != held.host and held.t < refusal.t <= until:
            looked = _looked_at(history, held, refusal, gone, refusal.asked)
            sure = _surely(history, refusal.host, free, refusal.t)
            sure |= _surely(history, refusal.host, looked, refusal.asked)
            due = held.mode == "function" and sure and refusal.t < asked and not shared
            poll = history.function(refusal.function).poll
            yield refusal.t, _Deadline(refusal.t, refusal.host, poll) if due else None
    if held.mode == "function" and not shared:
        askers = {deed.function for deed in (held, *waits, *refusals)}
        yield from _ticks(history, held, askers, free, until)


def _silent_at(history: History, held: Held, wait: Wait, gone: float) -> float:
    """Return by when a waiter has found the holder silent, with ``failover``.

    A process that has had the lock before may stand aside at first, and looks afterwards.
    """
    function, theirs = history.function(wait.function), history.function(held.function).failover
    if not function.failover or not theirs:
        return math.inf
    own = [got.until for got in history.acquisitions if (got.lock, got.host) == (wait.lock, wait.host)]
    aside = max((until for until in own if until <= wait.end), default=-math.inf) + TURN * function.poll
    return by_when(history, wait.host, max(gone, wait.start, aside), _SILENCE * max(function.failover, theirs))


def _looked_at(history: History, held: Held, asker: Wait | Refusal, gone: float, t: float) -> float:
    """Return from when on an attempt that a process makes at ``t`` shows the silence of a holder, with ``failover``.

    An earlier attempt of the same function there has read the lock after the holder's last touch, and was refused. Not
    so if something kept the process from its reading: a fault, its turn to stand aside, or a body of its own inside.
    """
    own, theirs = history.function(asker.function).failover, history.function(held.function).failover
    process = asker.lock, asker.host, asker.worker
    if not own or not theirs or disturbed(history, asker.host, gone, t):
        return math.inf
    mine = [got.until for got in history.acquisitions if (got.lock, got.host, got.worker) == process and got.t < t]
    mine += [body.end for body in history.sections if (body.lock, body.host, body.worker) == process and body.start < t]
    since = max([gone, *(end + TURN * history.function(asker.function).poll for end in mine)]) + slack(history)
    return min(
        (
            silent
            for each in history.refusals
            if (each.lock, each.host, each.worker, each.function) == (*process, asker.function) and each.asked >= since
            if (silent := each.t + theirs * _SILENT) <= t <= silent + _OF_USE
        ),
        default=math.inf,
    )


def _deadline(
    history: History, wait: Wait, ends: tuple[float, float, float], asked: float, *, shared: bool
) -> _Deadline | None:
    free, silent, looked = ends
    function = history.function(wait.function)
    poll = function.poll_in(wait.mode)
    deadline = min(silent, by_when(history, wait.host, max(free, wait.start), poll))
    if wait.ending in {"killed", "crashed"} or history.paused(wait.host, wait.start, deadline):
        return None  # it could not acquire it: the next caller that can does
    polls = function.on_contention == "wait" or wait.mode == "listener"
    if polls and (wait.ending == "acquired" or wait.end >= deadline):
        return _Deadline(deadline, wait.host, poll)
    if shared or not _surely(history, wait.host, looked, wait.start):
        return None
    refused = wait.mode == "function" and wait.ending != "acquired" and wait.end < asked
    return (
        _Deadline(wait.start, wait.host, poll) if refused else None
    )  # it gave up: only a caller that asked for a free lock can complain


def _surely(history: History, host: str, free: float, t: float) -> bool:
    """Tell whether a lock is free since so long that also a host on a slow machine finds the lock free."""
    return t >= free + slack(history) + history.slowness.late(host, STORAGE, start=free, end=t)


def _ticks(
    history: History, held: Held, askers: set[str], free: float, until: float
) -> Iterator[tuple[float, _Deadline | None]]:
    alone = bool(history.setup.get("same_app"))  # then the platform lets one host tick, or none for a while
    outer = {(wait.function, wait.host) for wait in history.waits if wait.mode == "listener"}  # refuses ticks before
    for t, host, ticker in history.ticks:
        function = history.function(ticker)
        skips = function.trigger == "timer" and function.on_contention != "wait" and function.tick
        if skips and ticker in askers and (ticker, host) not in outer and host != held.host and held.t < t <= until:
            stood = disturbed(history, host, held.t, free + function.tick)
            sure = _surely(history, host, free, t)
            by = None if stood else (t if sure else None) if alone else free + function.tick
            yield t, None if by is None else _Deadline(by, host, function.tick)


_ALL_DONE: Final = 120.0
"""Seconds in which all work is done once faults are over, besides twice the time of its bodies (docs/guarantees.md)."""
_RECOVERS: Final = 15.0
"""Seconds in which a host goes on with its timers and queues: an attempt takes ten, and a poll that hangs fifteen."""


def judge_liveness(history: History) -> Iterator[Finding]:
    """Find holders that were never told, and hosts and waiters that did not get on after the faults."""
    if not (history.faults or history.setup.get("faults")):
        return
    yield from _told(history)
    if history.healed is None:
        if not history.interrupted:
            yield unproven("the faults were not undone before the run ended: nobody had to get on")
        return
    yield from _waiters(history, history.healed)
    yield from _timers(history, history.healed)
    yield from _queues(history, history.healed)


def _told(history: History) -> Iterator[Finding]:
    """Whose lease an operator has broken learns it from the next renewal."""
    if not history.setup.get("singleton", True):
        return
    for got, fault, seconds in untold(history):
        yield violation(
            f"{got.host} was not told for {seconds:.1f} s that the lease of {label(got.lock)} was gone "
            f"(fault {fault.id})"
        )


def _waiters(history: History, healed: float) -> Iterator[Finding]:
    late: dict[str, tuple[float, Wait]] = {}
    for wait in history.waits:
        if wait.mode == "listener" or wait.ending in {"killed", "crashed"}:
            continue
        since, until = max(wait.start, healed), min(wait.end, history.end)
        if until - since <= _ALL_DONE:
            continue
        waited = history.worked(wait.host, wait.worker or 1, since, until)
        waited -= history.slowness.late(STORAGE, start=since, end=until)
        if waited > _ALL_DONE + 2 * _busy(history, wait.lock, since, until):
            late[wait.lock] = max(late.get(wait.lock, (0.0, wait)), (waited, wait), key=lambda each: each[0])
    for lock, (waited, wait) in sorted(late.items()):
        yield violation(f"{wait.host} waited for {label(lock)} for {waited:.0f} s after all faults were over")


def _busy(history: History, lock: str, start: float, end: float) -> float:
    """Return how long bodies of a lock ran between these two."""
    spans = ((max(each.start, start), min(each.end, end)) for each in history.sections if each.lock == lock)
    return sum(max(0.0, until - since) for since, until in spans)


def _timers(history: History, healed: float) -> Iterator[Finding]:
    """Each host's timers tick. Of one app's hosts, the platform lets one tick."""
    for function in history.functions.values():
        if function.trigger != "timer" or function.idle or not function.tick:
            continue
        due = _RECOVERS + 2 * function.tick
        if history.setup.get("same_app"):
            due += function.listener_lease + function.recovery
            hosts = _alive(history)
            quiet = [] if any(_ticked(history, host, function.name, healed) for host in hosts) else hosts[:1]
        else:
            quiet = [host for host in _alive(history) if not _ticked(history, host, function.name, healed)]
        for host in quiet:
            ends = min(history.stopping.get(host, history.end), history.last_tick)
            if history.worked(host, 1, max(healed, history.began.get(host, 0.0)), ends) > due:
                yield violation(
                    f"the timer {function.name!r} did not tick on {host} in the {ends - healed:.0f} s after all faults "
                    "were over"
                )


def _ticked(history: History, host: str, function: str, since: float) -> bool:
    if any(t >= since and (ticker, name) == (host, function) for t, ticker, name in history.ticks):
        return True
    calls = (call for call in history.invocations if (call.host, call.function) == (host, function))
    return any(call.end >= since for call in calls)


def _queues(history: History, healed: float) -> Iterator[Finding]:
    """A host that could not poll a queue polls it again."""
    for (host, queue), since in sorted(history.unreachable.items()):
        ends = history.stopping.get(host, history.end)
        silent = history.worked(host, 1, max(healed, since), ends)
        silent -= history.slowness.late(STORAGE, start=max(healed, since), end=ends)
        if host in _alive(history) and silent > _RECOVERS:
            yield violation(f"{host} could not poll {queue!r} for {silent:.0f} s after all faults were over")


def _alive(history: History) -> list[str]:
    """Return the hosts that worked until the run was over."""
    gone = history.deaths.keys() | {host for host, _ in history.crashes} | {host for host, _ in history.errors}
    paused = {pause.host for pause in history.pauses if pause.end == math.inf}
    return [host for host in sorted(history.ready) if host not in gone | paused]


def judge_faults(history: History) -> Iterator[Finding]:
    """A run that was to show faults, and had none, shows nothing of them."""
    asked = history.setup.get("faults") or ()
    if asked and not history.faults and not history.interrupted:
        yield unproven(f"{count(len(asked), 'kind')} of faults asked for, and no fault struck")
    elif missing := sorted(set(asked) - {fault.kind for fault in history.faults}):
        yield note(f"asked for, but none struck: {', '.join(missing)}")

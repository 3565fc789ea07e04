"""Those who wait for a lock: do they get what they were promised, in their turn and in time?

late answer             a time-out is over, or a single attempt answered, and its caller still waits
false contention        a caller was told that somebody else has the lock, and nobody had
read too often          refused single attempts of a process read who has the lock more often than once a minute
false alarm             a caller was told of trouble with the storage, and there was none
not told of a refusal   the service refused access, and callers go on waiting
out of turn             of two callers in one process, the later got the lock first
kept from others        a process used up its turn, others wait, and it enters once more
nobody took it          a free lock, a live waiter, a quiet network, and no taker within the bound
handed a lost lease     a caller got a lease that was lost already

Whether an invocation asks for the right lock, and ends as its policy and its body say, is told by the verdict, as it
is of real hosts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.conduct import Checks
from simulator.virtual.storage.network import SOON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.virtual.oracle.evidence import Guarded
    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from singleton.base.events import LockEvent

SLOT: Final = 0.5
"""Seconds that a slot may take to be asked for."""
QUIET: Final = 12.0
"""Seconds without trouble after which a host has no excuse."""
ONCE: Final = 10.0
"""Seconds that a single attempt may take while the storage fails."""
AT_ONCE: Final = 1.5
"""Seconds that a single attempt may take without faults."""
_MOST: Final = 5 * SOON + 0.1
"""The same, if the blob must be made: as long as one of its five requests is under way."""
STALE: Final = 6.0
"""Seconds by which the knowledge of a host may be old: an answer or a release is on its way."""
NO_ANSWER: Final = 11.0
"""Seconds between an attempt without an answer and the next one: its timeout and a pause."""
CALL: Final = 5.0
"""Seconds after which a host waits for an answer no longer."""
UNANSWERED: Final = 60.0
"""Seconds without a usable answer after which waits end."""
PATIENCE: Final = UNANSWERED + ONCE + CALL
"""Seconds after which a waiter is told that the storage does not answer: the last attempt may have begun before."""
_MOSTLY: Final = 0.7
"""The part of a turn in which the lock was free: then others had their chance, and the turn goes on."""
KNOWN: Final = 60.0
"""Seconds for which a process knows who has a lock."""
_LAST_LOOK: Final = 3.0
"""Seconds before the end of a wait in which a caller may ask once more, although its process has had its turn."""
_REFUSAL: Final = 8.0
"""Seconds until the waiters have a refusal, if the lease is released first."""

CallerKey = tuple[str, str]


def slots_of(name: str, limit: int) -> list[str]:
    """Return the blobs of a semaphore, as the documentation has them."""
    return [f"{name}/slot-{number}" for number in range(limit)]


@dataclass(slots=True, eq=False)
class _LockInvocation:
    machine: Machine
    owner: str
    lock: str
    guard: Guarded | None
    since: float
    in_line: bool
    company: bool
    """Whether others of the same process were there before, or had just left."""
    waits: bool = True
    entered: bool = False
    refused: bool = False

    @property
    def asks_anew(self) -> bool:
        """Whether it may be in line for the second time: its own policy was asked meanwhile."""
        return self.guard is not None and callable(self.guard.on_contention)

    @property
    def failover(self) -> float | None:
        """The lock's failover as declared: with another value it is another lock of the process, on the same blob."""
        return None if self.guard is None else self.guard.options.failover

    @property
    def limit(self) -> int | None:
        """How many have the lock at a time, if several may: a slot each."""
        return getattr(self.guard, "limit", None)

    @property
    def blobs(self) -> list[str]:
        """What it may get: the lock, or any slot of it."""
        return [self.lock] if self.limit is None else slots_of(self.lock, self.limit)

    @property
    def who(self) -> CallerKey:
        return self.machine.name, self.owner


@dataclass(slots=True)
class _Turn:
    """How long one machine has had a lock without others between. ``since`` is when its first section began.

    ``free``: the seconds in which others could have acquired the lock.
    """

    machine: Machine | None
    ended: float
    since: float | None = None
    free: float = 0.0


@dataclass(slots=True)
class CallerChecks(Checks):
    """Told of the events of all locks, of tenures, and of refusals."""

    out_of_line: set[str] = field(default_factory=set)
    """Functions whose callers do not wait in line: each tries by itself."""
    apart: set[str] = field(default_factory=set)
    """Functions whose callers are not judged."""
    _guards: dict[str, Guarded] = field(default_factory=dict)
    _invocations: dict[CallerKey, dict[str, _LockInvocation]] = field(default_factory=lambda: defaultdict(dict))
    """What an invocation has asked for: one lock under each of its guards."""
    _waiting: dict[str, dict[CallerKey, _LockInvocation]] = field(default_factory=lambda: defaultdict(dict))
    _left: dict[tuple[str, str], float] = field(default_factory=dict)
    _gave_back: dict[tuple[str, str], float] = field(default_factory=dict)
    _lapses: dict[tuple[str, str], float] = field(default_factory=dict)
    """When the last lease of a machine that ran out at the service has run out by the machine's clock, too."""
    _turns: dict[str, _Turn] = field(default_factory=dict)
    _declared: dict[tuple[str, str], set[float | None]] = field(default_factory=lambda: defaultdict(set))
    _last_end: dict[str, Tenure] = field(default_factory=dict)
    _read: dict[tuple[Machine, str], float] = field(default_factory=dict)

    def know(self, guards: Mapping[str, Guarded]) -> None:
        """Receive the guards of the functions that will be called, by name."""
        self._guards.update(guards)
        self.evidence.bounds.know(guards.values())

    def failover_of(self, function: str) -> float | None:
        """Return the failover of a function's declaration."""
        guard = self._guards.get(function)
        return None if guard is None else guard.options.failover

    def want(self, lock: str) -> list[tuple[Machine, float, float]]:
        """Return who waits for a lock and would take it from a silent holder: machine, since when, its failover."""
        waiting = self._waiting[lock].values()
        return [
            (each.machine, each.since, each.failover)
            for each in waiting
            if each.failover is not None and each.guard is not None and each.guard.wait is None
        ]

    def are_cancelled(self, function: str) -> bool:
        """Tell whether async bodies of this function are cancelled when their lock is lost."""
        guard = self._guards.get(function)
        return guard is None or guard.options.cancel_on_loss

    # --- what the hosts say -------------------------------------------------------------------------------------------

    def hear(self, event: LockEvent, machine: Machine) -> None:
        """Receive an event of a host's lock. For a listener's lock only its process waits; calls without an id mix."""
        if event.mode == "listener" or not event.owner:
            return
        if event.kind == "waiting" and event.function not in self.apart:
            self._begin(event, machine)
        locks = self._invocations.get((machine.name, event.owner), {})
        # A hold on a semaphore is told by the slot.
        invocation = next(iter(locks.values())) if len(locks) == 1 else locks.get(event.lock)
        if invocation is None:
            return
        match event.kind:
            case "acquired":
                self._acquired(invocation)
            case "contended" | "coalesced":
                self._contended(invocation)
            case "body_started":
                invocation.entered = True
            case "body_ended":
                self._left[machine.name, event.lock] = self.evidence.loop.now
            case "released":
                self._released(invocation, event.lock)

    def ended(self, machine: Machine, owner: str, outcome: str) -> None:
        """Receive the end of an invocation: ``ok``, or the name of its error."""
        asked = [*self._invocations.pop((machine.name, owner), {}).values()]
        for each in asked:
            self._stop_waiting(each)
            if each.refused:
                self._must_read_seldom(each)
        if not asked:
            return
        invocation = asked[0]
        if invocation.guard is None:
            return
        told = f"{owner} ended with {outcome}"
        since = self._age(invocation) + STALE
        quiet, strange = self.conduct.well(machine, since), self.conduct.strange(machine, since)
        match outcome:
            case "SingletonError" if not strange:
                self._blame("false alarm", told)
            case "StorageError" if quiet and not strange:
                self._blame("false alarm", f"{told}, and no fault struck its requests")
            case "StorageUnavailable" if self.conduct.well(machine, since - STALE + NO_ANSWER):
                self._blame("false alarm", f"{told}, and the network was good")
            case "StorageDenied" if not self.conduct.denied(machine, since):
                self._blame("false alarm", f"{told}, and nobody denied it anything")

    def _begin(self, event: LockEvent, machine: Machine) -> None:
        waiting = self._waiting[event.lock]
        company = any(other.machine is machine for other in waiting.values())
        guard, in_line = self._guards.get(event.function), event.function not in self.out_of_line
        company |= (renamed := getattr(guard, "also", None) is not None)  # another may have its old name
        new = _LockInvocation(machine, event.owner, event.lock, guard, self.evidence.loop.now, in_line, company)
        for mine in [(machine.name, blob) for blob in new.blobs]:
            last = max(self._left.get(mine, -math.inf), self._gave_back.get(mine, -math.inf))
            new.company |= self.evidence.loop.now - last < max(STALE, self.evidence.bounds.poll * 1.2)
            new.company |= self.conduct.gives_back(machine, mine[1], STALE) or self.evidence.runs(machine, mine[1])
        self._invocations[new.who][new.lock] = waiting[new.who] = new
        self._declared[machine.name, event.lock].add(new.failover)
        # The answer of a policy function is not known here.
        if guard is not None and guard.wait is not None and not callable(guard.on_contention):
            drift = self.evidence.bounds.drift
            tries = (renamed and guard.wait == 0) or (guard.wait and not in_line)  # one more lock, or try, begins then
            last = ONCE if tries else 0.0
            asking = guard.wait or ONCE * len(new.blobs)  # each slot is asked for as a lock is
            self.evidence.later(asking * drift + last + AT_ONCE, self._must_be_answered, new)
            if guard.wait == 0 and new.limit is None:
                self.evidence.later(AT_ONCE, self._must_be_answered, new)

    def _acquired(self, invocation: _LockInvocation) -> None:
        self._stop_waiting(invocation)
        ahead = [
            other
            for other in self._waiting[invocation.lock].values()
            if other.machine is invocation.machine
            and other.since < invocation.since
            and other.in_line
            and not other.asks_anew
            and other.failover == invocation.failover  # otherwise they are in two lines
        ]
        if ahead:
            self.evidence.later(0.01, self._must_be_next, invocation, ahead[0])
        self._may_enter_once_more(invocation)

    def _released(self, invocation: _LockInvocation, lock: str) -> None:
        machine = invocation.machine
        self._gave_back[machine.name, lock] = self.evidence.loop.now
        if self.evidence.listens_no_longer(machine, invocation.owner) or self.evidence.runs_under_a_loss():
            return
        if not invocation.entered and not machine.stopped_since(self.evidence.bounds.period):
            self._blame("handed a lost lease", f"{invocation.owner} got {invocation.lock} when it was lost already")

    def _contended(self, invocation: _LockInvocation) -> None:
        self._stop_waiting(invocation)
        invocation.refused = True
        held_until = min(map(self.evidence.service.held_until, invocation.blobs))
        old_news = invocation.machine.stopped_since(STALE)
        if not invocation.company and not old_news and held_until < invocation.since - STALE:
            self._blame(
                "false contention", f"{invocation.owner} was told that {invocation.lock} is taken, and it is free"
            )

    def _must_read_seldom(self, invocation: _LockInvocation) -> None:
        machine, lock = where = invocation.machine, invocation.lock
        has = self.evidence.service.tenure(lock)
        if has is None or has.machine is machine or not self.conduct.refused_since(machine, lock, invocation.since):
            return
        read, before = self.conduct.reads.get(where, -math.inf), self._read.get(where, -math.inf)
        guard = invocation.guard
        once = guard is not None and guard.wait == 0 and not invocation.asks_anew and invocation.failover is None
        if not once or read < invocation.since or self.evidence.bounds.forgets:
            return
        self._read[where] = read
        if 0.0 < read - before < KNOWN / self.evidence.bounds.drift - AT_ONCE:  # several may share a read
            again = f"{read - before:.1f} s after the last time, and knows that for {KNOWN:g} s"
            self._blame("read too often", f"{invocation.owner} reads who has {invocation.lock} {again}")

    def _stop_waiting(self, invocation: _LockInvocation) -> None:
        invocation.waits = False
        self._waiting[invocation.lock].pop(invocation.who, None)

    # --- in time and in turn ------------------------------------------------------------------------------------------

    def _must_be_answered(self, invocation: _LockInvocation) -> None:
        since = self._age(invocation)
        machine = invocation.machine
        good_day = since < AT_ONCE * 2
        reach = since + NO_ANSWER if good_day else since
        excused = machine.stopped_since(reach) or (good_day and self.conduct.troubled(machine, reach))
        if since < _MOST and self.conduct.asks(machine, invocation.lock):
            self.evidence.later(SOON / 2, self._must_be_answered, invocation)
        elif invocation.waits and not excused:
            self._blame("late answer", f"{invocation.owner} still waits for {invocation.lock} after {since:.1f} s")

    def _must_be_next(self, entered: _LockInvocation, ahead: _LockInvocation) -> None:
        if ahead.waits and not ahead.machine.stopped_since(1.0):
            self._blame("out of turn", f"{entered.owner} got {entered.lock} before {ahead.owner}, who came earlier")

    def asked(self, request: NetworkRequest, silent_since: float) -> None:
        """Receive an attempt, and since when none was answered: a caller that has waited all that time must be told."""
        machine = request.machine
        silence = self.evidence.loop.now - silent_since
        if silence < PATIENCE * self.evidence.bounds.drift or machine.stopped_since(silence):
            return
        for invocation in self._waiting[request.name].values():
            if invocation.machine is machine and invocation.since < silent_since:
                told = f"{invocation.owner} waits for storage that has not answered for {silence:.0f} s"
                self._blame("late answer", told)
                return

    def refused(self, request: NetworkRequest) -> None:
        """Receive the service's refusal of access when it reaches its host."""
        self.evidence.later(_REFUSAL, self._must_be_told, request, self.evidence.loop.now - STALE)

    def _must_be_told(self, request: NetworkRequest, at: float) -> None:
        machine = request.machine
        for invocation in self._waiting[request.name].values():
            mine = invocation.machine is machine and invocation.since < at and invocation.in_line
            if mine and not machine.stopped_since(_REFUSAL + STALE):
                self._blame("not told of a refusal", f"{invocation.owner} waits for {request.name}, which is denied")
                return

    # --- others get their turn ----------------------------------------------------------------------------------------

    def granted(self, tenure: Tenure) -> None:
        """Receive a lease's beginning, as the service knows it."""
        now = self.evidence.loop.now
        run = self._turns.get(tenure.lock)
        if run is None or run.machine is not tenure.machine or now - run.ended > self.evidence.bounds.longest_gap:
            self._turns[tenure.lock] = _Turn(tenure.machine, now)
        else:
            run.free += now - run.ended

    def tenure_ended(self, tenure: Tenure) -> None:
        """Receive a lease's end, as the service knows it."""
        now = self.evidence.loop.now
        if tenure.ending == "expired":  # a crash, or a lost release: its turn is over
            self._turns.pop(tenure.lock, None)
            if tenure.machine is not None:
                self._lapses[tenure.machine.name, tenure.lock] = self.conduct.lapses(tenure.lease_id)
        elif tenure.lock in self._turns:
            self._turns[tenure.lock].ended = now
        self._last_end[tenure.lock] = tenure
        bounds = self.evidence.bounds
        self.evidence.later(bounds.poll * 1.2 + 1.5 + bounds.slots * SLOT, self._must_be_taken, tenure, now)

    def _may_enter_once_more(self, invocation: _LockInvocation) -> None:
        """A process that has had its turn leaves the lock to others, if a host that can acquire waits there.

        Only a caller near its timeout, and a single attempt, may ask once more (``Lock``): that is no violation. Who
        does not wait in line makes single attempts.
        """
        now = self.evidence.loop.now
        run = self._turns.get(invocation.lock)
        limit = self.evidence.bounds.handoff_window * self.evidence.bounds.drift + 1.0
        if run is None or run.machine is not invocation.machine:
            return
        if run.since is None:
            run.since = now
        if now - run.since <= limit or invocation.guard is None or not invocation.in_line:
            return
        if invocation.guard.wait is not None and self._age(invocation) > invocation.guard.wait - _LAST_LOOK:
            return
        if len(self._declared[invocation.machine.name, invocation.lock]) > 1:  # two locks take turns
            return
        if run.free >= _MOSTLY * (now - run.since) or not self.conduct.well(invocation.machine, limit):
            return
        for other in self._waiting[invocation.lock].values():
            if (
                other.machine is not invocation.machine
                and self.conduct.well(other.machine, QUIET)
                and other.since < now - QUIET
            ):
                kept = f"{now - run.since:.0f} s, while {other.owner} waits"
                self._blame("kept from others", f"{invocation.machine.name} keeps {invocation.lock} for {kept}")
                return

    def _must_be_taken(self, ended: Tenure, at: float) -> None:
        """A free lock is acquired within a polling interval, if a host that can acquire waited all the time."""
        if self.evidence.service.held_until(ended.lock) > at or self._last_end[ended.lock] is not ended:
            return
        waited = self.evidence.loop.now - at
        # A holder that did not learn that its renewal came too late believes that its lease was longer.
        quiet = max(QUIET, 0.8 * self.evidence.bounds.period)
        for other in (*self._waiting[ended.lock].values(), *self._waiting[ended.lock.rpartition("/slot-")[0]].values()):
            busy = self.evidence.runs(other.machine, ended.lock)
            busy |= self._left.get((other.machine.name, ended.lock), 0.0) > at
            # By its own clock, the lease of a process may run out later. Then the process lets others have their turn.
            lapses = self._lapses.get((other.machine.name, ended.lock), -math.inf)
            busy |= at < lapses + self.evidence.bounds.poll * 1.2
            if not busy and other.since <= at and self.conduct.well(other.machine, waited + quiet):
                self._blame("nobody took it", f"{other.owner} waits, and {ended.lock} is free for {waited:.1f} s")
                return

    def _age(self, invocation: _LockInvocation) -> float:
        return self.evidence.loop.now - invocation.since

"""Listeners: does a process listen when it can, is each invocation told what is true, and do seats end with the lease?

What an invocation may be told follows from what the service has said to its process, and when.

nobody listens           a listener's lock is free, a live candidate, a quiet network, and no taker within the bound
silent candidate         a process that was invoked neither listens nor asks for the lock any more
no without a word        an invocation was told that another process listens, and the service had not said so
no in spite of trouble   the same, and since the service said so a lease ran out, or an attempt got no answer
told of old trouble      an invocation was told of trouble, and the service has answered since
trouble without a cause  an invocation was told of trouble, and there was none
stands by as the leader  an invocation was refused in the process that listens
no answer                an invocation waits for the outcome of an attempt that is over
another token            a body under a listener shows another token than its process got
cut short                a process that ends took the lock from a body before its five seconds were over
slow to close            a process that ends has closed its locks later than it waits for that
lease kept               a process that ends did not give its lease back, though its bodies had ended in time
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.callers import AT_ONCE, ONCE, PATIENCE, QUIET, STALE
from simulator.virtual.oracle.conduct import Checks
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.virtual.oracle.evidence import Guarded
    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.time.machine import Machine
    from singleton.base.events import LockEvent
    from singleton.base.hold import Hold

_NEVER: Final = -math.inf
_A_MOMENT: Final = 0.01
"""Seconds in which the lock thread reports what it knows."""
_QUICK: Final = 1.0
"""Seconds within which an answer comes. A later one may come after the end of its attempt."""
_AFTER_LOSS: Final = 60.0
"""Seconds for which a candidate without a recovery interval does not ask for a lock that was taken away."""
_ANSWERED: Final = 5.0
"""Seconds for an attempt's last request, and for the release before it."""
_DRAIN: Final = 5.0
"""Seconds that the end of a process waits for bodies."""
_CLOSING: Final = 12.0
"""Seconds after which a process ends, whether or not its locks are closed by then."""
_TROUBLE: Final = ("StorageUnavailable", "StorageDenied", "StorageError", "SingletonError")


@dataclass(slots=True, eq=False)
class _Candidate:
    """A process and a listener's lock: the service's answers to the process, and their true times."""

    machine: Machine
    lock: str
    guard: Guarded
    since: float
    asked: float = _NEVER
    """When it asked last, or listened."""
    silent_since: float | None = None
    """Since when it has asked without a usable answer."""
    told_no: float = _NEVER
    gave_up: float = _NEVER
    """When the candidate released an unanswered request: its host does not read a later answer."""
    taken: float = _NEVER
    """When its lease was taken away: it may conclude that another process listens."""
    lapsed: float = _NEVER
    leads_since: float | None = None
    token: int | None = None
    busy: float = _NEVER
    """When a body was inside last."""

    @property
    def recovery(self) -> float | None:
        return self.guard.options.listener_lock_recovery_polling_interval

    @property
    def asks_for_ever(self) -> bool:
        """Whether it asks again and again: without a recovery interval and with a timeout there is only one attempt."""
        return self.recovery is not None or self.timeout is None

    @property
    def timeout(self) -> float | None:
        own: float | None = getattr(self.guard, "timeout", None)
        return self.guard.options.lock_acquisition_timeout if own is None else own

    @property
    def last_no(self) -> float:
        return max(self.told_no, self.taken)


@dataclass(slots=True, eq=False)
class _ListenerCall:
    machine: Machine
    owner: str
    function: str
    since: float
    past: bool = False
    """Whether it was let in or refused: later events do not belong to the listener."""


@dataclass(slots=True)
class ListenerChecks(Checks):
    """Told of the events of listeners' locks, of their invocations, and of each request for their locks."""

    _guards: dict[str, Guarded] = field(default_factory=dict)
    _locks: dict[str, str] = field(default_factory=dict)
    _candidates: dict[tuple[str, str], _Candidate] = field(default_factory=dict)
    _invocations: dict[tuple[str, str], _ListenerCall] = field(default_factory=dict)
    _closing: dict[str, float] = field(default_factory=dict)

    def know(self, guards: Mapping[str, Guarded]) -> None:
        """Take the listeners' guards of the functions that will be called, by name."""
        self._guards.update(guards)

    # --- what the hosts say -------------------------------------------------------------------------------------------

    def hear(self, event: LockEvent, machine: Machine) -> None:
        """Take an event of a host's lock."""
        now = self.evidence.loop.now
        if event.mode != "listener":
            if event.kind == "waiting" and (inner := self._invocations.get((machine.name, event.owner))) is not None:
                inner.past = True  # it was let in, and asks for a lock of its own
            return
        if event.function not in self._guards:
            return
        candidate = self._candidate(machine, event)
        match event.kind:
            case "acquired":
                candidate.leads_since, candidate.token = now, event.token
            case "lost":
                candidate.leads_since = None
                if event.reason == "expired":
                    candidate.lapsed = now
                else:
                    candidate.taken = now
            case "released":
                candidate.leads_since = None
            case "contended" if event.owner and (one := self._invocations.get((machine.name, event.owner))) is not None:
                self._must_be_no(one)
                one.past = True
            case "body_started":
                if (one := self._invocations.get((machine.name, event.owner))) is not None:
                    one.past = True
                if event.token != candidate.token:
                    shows = f"shows token {event.token}, and its process got {candidate.token}"
                    self._blame("another token", f"{event.owner} on {machine.name} {shows}")

    def left(self, machine: Machine, event: LockEvent, hold: Hold) -> None:
        """Take the end of a body under a listener."""
        now = self.evidence.loop.now
        if (candidate := self._candidates.get((machine.name, event.lock))) is not None:
            candidate.busy = now
        closing = self._closing.get(machine.name, math.inf)
        short = now - closing < _DRAIN / self.evidence.bounds.drift - 0.1
        if short and hold.lost.reason == "closed" and not machine.stopped_since(now - closing):
            waited = f"{now - closing:.1f} s after its process began to end"
            self._blame("cut short", f"{event.owner} was told that {event.lock} is closed, {waited}")

    def invoked(self, machine: Machine, owner: str, function: str) -> None:
        """Take the beginning of an invocation."""
        if (guard := self._guards.get(function)) is None:
            return
        one = _ListenerCall(machine, owner, function, self.evidence.loop.now)
        self._invocations[machine.name, owner] = one
        alone = guard.options.listener_lock_recovery_polling_interval is None
        wait = max(ONCE, getattr(guard, "timeout", None) or 0.0) if alone else ONCE
        self.evidence.later(wait * self.evidence.bounds.drift + AT_ONCE, self._must_be_answered, one)

    def ended(self, machine: Machine, owner: str, outcome: str) -> None:
        """Take the end of an invocation: ``ok``, ``cancelled``, or the name of its error."""
        one = self._invocations.pop((machine.name, owner), None)
        if one is None or one.past:
            return
        one.past = True
        if outcome in ("ok", "LockNotAcquired"):
            self._must_be_no(one)
        elif outcome in _TROUBLE:
            self._must_be_trouble(one, outcome)
        elif outcome == "LockClosed" and not machine.leaving:
            self._blame("trouble without a cause", f"{owner} was told that its process is ending")

    def closing(self, machine: Machine) -> None:
        """Take the beginning of a process's end."""
        self._closing[machine.name] = self.evidence.loop.now

    def closed(self, machine: Machine) -> None:
        """Take the end of the closing."""
        began = self._closing[machine.name]
        took = self.evidence.loop.now - began
        if machine.stopped_since(took):
            return
        if took > _CLOSING * self.evidence.bounds.drift + AT_ONCE:
            self._blame("slow to close", f"{machine.name} closed its locks within {took:.1f} s")
        for tenure in self.evidence.service.tenures():
            candidate = self._candidates.get((machine.name, tenure.lock))
            if candidate is None or tenure.machine is not machine or self.conduct.gave_back(tenure.lease_id):
                continue
            in_time = candidate.busy < began + _DRAIN / self.evidence.bounds.drift - 0.1
            mine = candidate.leads_since is not None and candidate.leads_since < began
            if in_time and mine and not self.evidence.runs(candidate.machine, candidate.lock):
                self._blame("lease kept", f"{machine.name} ended, and did not give {tenure.lock} back")

    # --- what the service says ----------------------------------------------------------------------------------------

    def sent(self, request: NetworkRequest) -> None:
        """Take a request."""
        if request.call == "release" and (candidate := self._of(request)) is not None:
            candidate.gave_up = self.evidence.loop.now
        # A lock that is new to it may be made first.
        if request.call in ("acquire", "create") and (candidate := self._of(request)) is not None:
            candidate.asked = self.evidence.loop.now
            if candidate.silent_since is None:
                candidate.silent_since = candidate.asked

    def replied(self, request: NetworkRequest, failure: Exception | None) -> None:
        """Take a reply that reaches its host."""
        if request.call != "acquire" or (candidate := self._of(request)) is None:
            return
        held = isinstance(failure, StoreFailure) and failure.meaning == "held"
        if held:
            candidate.told_no = self.evidence.loop.now
        if held or failure is None:
            candidate.silent_since = None

    # --- what an invocation is told -----------------------------------------------------------------------------------

    def _must_be_no(self, one: _ListenerCall) -> None:
        """Judge a refusal: skipped, put back or failed, because another process listens."""
        candidate, now = self._of_invocation(one), self.evidence.loop.now
        if candidate is None or self._excused(one):
            return
        told = f"{one.owner} was told that another process runs {one.function}"
        ago = now - self._heard_at(candidate)
        if self._has_led_all_along(candidate, one):
            self._blame("stands by as the leader", f"{told}, and {one.machine.name} has its lock")
        elif ago > self._knows_for(candidate):
            since = "never has" if ago == math.inf else f"has not for {ago:.0f} s"
            self._blame("no without a word", f"{told}, and the service {since} said so")
        elif candidate.last_no < candidate.lapsed < now - _A_MOMENT:
            lapsed = f"ran out {now - candidate.lapsed:.1f} s ago"
            self._blame("no in spite of trouble", f"{told}; its own lease {lapsed}, and the service has not said more")
        elif candidate.silent_since is not None and self._is_over(candidate, candidate.silent_since):
            silent = f"{now - candidate.silent_since:.1f} s"
            self._blame("no in spite of trouble", f"{told}, and the service has not answered for {silent}")

    def _must_be_trouble(self, one: _ListenerCall, outcome: str) -> None:
        """Judge an error of the storage's."""
        candidate, now = self._of_invocation(one), self.evidence.loop.now
        if candidate is None or self._excused(one):
            return
        told = f"{one.owner} was told {outcome}"
        last_no = candidate.told_no
        window = self._knows_for(candidate) + STALE
        if self._has_led_all_along(candidate, one):
            self._blame("stands by as the leader", f"{told}, and {one.machine.name} has the lock of {one.function}")
        elif (
            max(candidate.lapsed, candidate.asked) < last_no < min(candidate.asked + _QUICK, now - _A_MOMENT)
            and abs(candidate.gave_up - last_no) > _A_MOMENT
            and self.conduct.well(one.machine, now - last_no)
        ):
            said = f"the service said {now - last_no:.1f} s ago that another process listens"
            self._blame("told of old trouble", f"{told}, and {said}")
        elif self.conduct.well(one.machine, window) and candidate.lapsed < now - window:
            self._blame("trouble without a cause", f"{told}, and all was well for {window:.0f} s")
        elif outcome == "StorageDenied" and not self.conduct.denied(one.machine, window):
            self._blame("trouble without a cause", f"{told}, and nobody denied it anything")

    def _must_be_answered(self, one: _ListenerCall) -> None:
        waited = self.evidence.loop.now - one.since
        if not one.past and not one.machine.stopped_since(waited):
            self._blame("no answer", f"{one.owner} still waits to be told who listens after {waited:.1f} s")

    def _excused(self, one: _ListenerCall) -> bool:
        """Tell whether its process stood still when it was told, or just before: it knows old things, and asks anew."""
        asking = ONCE * self.evidence.bounds.drift + STALE
        return one.machine.stopped_since(self.evidence.loop.now - one.since + asking)

    def _has_led_all_along(self, candidate: _Candidate, one: _ListenerCall) -> bool:
        leads = candidate.leads_since
        return leads is not None and leads < one.since and one.machine.name not in self._closing

    def _heard_at(self, candidate: _Candidate) -> float:
        """Return when the candidate handled its last refusal: at the end of a pause, if the pause met the reply."""
        machine, said = candidate.machine, candidate.last_no
        return machine.resumed_at if said <= machine.stopped_at <= said + _ANSWERED else said

    def _knows_for(self, candidate: _Candidate) -> float:
        """Return for how many seconds a candidate may believe an answer; its interval begins after its last release."""
        drift, waits = self.evidence.bounds.drift, 0.0
        if candidate.taken > candidate.told_no:
            waits = min(max(0.0, candidate.busy - candidate.taken), self.evidence.bounds.period) + _ANSWERED
        if candidate.recovery is not None:
            return (waits + candidate.recovery + ONCE) * drift + STALE
        return math.inf if candidate.timeout is not None else PATIENCE * drift + STALE

    def _is_over(self, candidate: _Candidate, since: float) -> bool:
        """Tell whether an attempt that began then has ended without an answer. A single attempt may know more."""
        overdue = self.evidence.loop.now - since > ONCE * self.evidence.bounds.drift + AT_ONCE
        return candidate.asks_for_ever and overdue

    # --- somebody listens ---------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check that each candidate asks, and that a free lock is acquired; called each second."""
        now, drift = self.evidence.loop.now, self.evidence.bounds.drift
        for candidate in self._candidates.values():
            machine = candidate.machine
            if machine.stopped or machine.leaving or not candidate.asks_for_ever:
                continue
            tenure = self.evidence.service.tenure(candidate.lock)
            if candidate.leads_since is not None or (tenure is not None and tenure.machine is machine):
                candidate.asked = now
            if self.evidence.runs(candidate.machine, candidate.lock):
                candidate.busy = now
            pause = _AFTER_LOSS if candidate.recovery is None else candidate.recovery
            quiet = now - max(candidate.asked, candidate.busy, machine.resumed_at, candidate.since)
            if quiet > (pause + ONCE) * drift + _ANSWERED:
                self._blame("silent candidate", f"{machine.name} has not asked for {candidate.lock} for {quiet:.0f} s")
            bound = pause * drift + 2.0
            knows = max(candidate.taken, candidate.lapsed, candidate.busy, candidate.since)
            free = now - max(self.evidence.service.held_until(candidate.lock), knows)
            if candidate.leads_since is None and free > bound and self.conduct.well(machine, bound + QUIET):
                idle = f"{machine.name} is a candidate, and {candidate.lock} is free for {free:.0f} s"
                self._blame("nobody listens", idle)

    # --- who is who ---------------------------------------------------------------------------------------------------

    def _candidate(self, machine: Machine, event: LockEvent) -> _Candidate:
        self._locks[event.function] = event.lock
        key = machine.name, event.lock
        if key not in self._candidates:
            guard = self._guards[event.function]
            self._candidates[key] = _Candidate(machine, event.lock, guard, self.evidence.loop.now)
        return self._candidates[key]

    def _of(self, request: NetworkRequest) -> _Candidate | None:
        return self._candidates.get((request.machine.name, request.name))

    def _of_invocation(self, one: _ListenerCall) -> _Candidate | None:
        return self._candidates.get((one.machine.name, self._locks.get(one.function, "")))

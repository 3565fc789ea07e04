"""The oracle: compares what the hosts believe with what the service knows, at the instant.

It does not wait for harm. When a lease ends at the service, its ex-owner must know that at that instant by its own
clock, and must not be inside a guarded body, unless it is paused or dead. This finds a deadline that is a second late
in the first run; "a stale token acted" does not in thousands.

    two inside         two bodies of one lock at once, neither of them paused, dead, or told that its hold is lost
    without lease      a body began although the service had not given its lease
    entered lost       a body began although its hold was lost
    believes           by its owner's clock a lease is held for longer than it is, or is held although it has ended
    inside after end   a lease ended and a running async body is inside
    not told           an operator ended a lease, and its owner's next renewal did not tell him
    released inside    a lease was released while its body was inside
    wrong period       a host took a lease for longer, or shorter, than its options say
    taken away         a host ended the lease of another
    token order        an epoch or token that is not greater than all before it

What hosts send is judged in ``conduct.py``; what those who wait may expect, in ``callers.py``.
"""

from __future__ import annotations

import contextvars
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from simulator.virtual.callers import Callers
from simulator.virtual.conduct import Conduct
from simulator.virtual.handles import HOST
from simulator.virtual.locks import Baton
from simulator.virtual.moments import Moments
from singleton import current_hold

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from simulator.virtual.loop import VirtualLoop
    from simulator.virtual.machine import Machine
    from simulator.virtual.network import Network
    from simulator.virtual.service import Service, Tenure
    from singleton.base.events import LockEvent
    from singleton.base.hold import Hold
    from singleton.functions.guard import Guard


_ROUNDING = 1e-6
_A_MOMENT = 1e-3
"""Seconds in which a host that runs has understood an answer."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise: which check found it, when, and a sentence."""

    at: float
    check: str
    text: str


@dataclass(slots=True, eq=False)
class Body:
    """A guarded body that is running."""

    lock: str
    machine: Machine
    hold: Hold
    sync: bool
    since: float
    guarded: bool = True
    """Whether its lock waits for its end; a leadership that is lost does not wait for the leader's work."""
    shared: bool = False
    """Whether its lease is a listener's, for all bodies of its machine together."""

    def knows(self) -> bool:
        """Tell whether its host, asked now, would say that the hold is lost."""
        context: contextvars.Context = self.machine.context()
        return context.run(self.hold.lost.is_set)

    def believes_until(self, now: float) -> float:
        """Return the true time at which its host, if nothing else happens, will say that the hold is lost."""
        lease = self.hold.lost._lease  # noqa: SLF001 - there is no other way to ask a host what it believes
        return now if lease is None else self.machine.when(lease.deadline, now)


@dataclass(slots=True)
class Bounds:
    """What the checks need to know of the locks' options, in seconds, and by how much clocks may be off."""

    period: float = 15.0
    periods: frozenset[float] = frozenset({15.0})
    shortest_poll: float = 5.0
    poll: float = 5.0
    handoff_window: float = 30.0
    drift: float = 1.07

    def know(self, guards: Iterable[Guard]) -> None:
        """Take the bounds of these declarations together."""
        known = list(guards)
        every = [guard.options for guard in known]
        self.periods = frozenset(guard.period for guard in known)
        self.period = max(self.periods)
        self.poll = max(option.lock_acquisition_polling_interval for option in every)
        self.shortest_poll = min(option.lock_acquisition_polling_interval for option in every)
        self.handoff_window = max(option.handoff_window for option in every)


@dataclass(slots=True)
class Oracle:
    """Told of everything by the service and by the locks' events; collects violations."""

    loop: VirtualLoop
    network: Network
    service: Service
    bounds: Bounds
    violations: list[Violation] = field(default_factory=list)
    reached: Counter[str] = field(default_factory=Counter)
    broken: asyncio.Future[None] = field(init=False)
    """Done as soon as there is a violation."""
    callers: Callers = field(init=False)
    conduct: Conduct = field(init=False)
    moments: Moments = field(init=False)
    _bodies: dict[str, list[Body]] = field(default_factory=lambda: defaultdict(list))
    _tokens: dict[str, int] = field(default_factory=dict)
    _showed: dict[str, tuple[int, str | None]] = field(default_factory=dict)
    _epochs: dict[str, int] = field(default_factory=dict)
    _operated: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.broken = self.loop.create_future()
        self.callers = Callers(self)
        self.conduct = Conduct(self)
        self.moments = Moments(self.reached)
        self.service.on_grant = self._granted
        self.service.on_end = self._ended
        self.service.on_epoch = self._epoch

    # --- what the hosts say -------------------------------------------------------------------------------------------

    def hear(self, event: LockEvent) -> None:
        """Take an event of a host's lock, in that host's context."""
        machine = HOST.get()
        if machine is None:
            return
        self.callers.hear(event, machine)
        match event.kind:
            case "lost":
                for body in self._bodies[event.lock]:
                    if body.machine is machine and event.owner == ("" if body.shared else body.hold.owner):
                        self.conduct.lost(body, event.reason)
            case "acquired" if event.mode == "listener" and (tenure := self.service.tenure(event.lock)) is not None:
                self.reached["terms as a listener"] += 1
                self.conduct.leads(tenure)
            case "body_started":
                shared = event.mode == "listener"
                self.enter(Body(event.lock, machine, current_hold(), Baton.held(), self.loop.now, shared=shared))
            case "body_ended":
                self.leave(current_hold())

    def bodies(self, lock: str) -> list[Body]:
        """Return the bodies that are inside."""
        return self._bodies[lock]

    def operated(self, lease_id: str) -> bool:
        """Tell whether an operator ended this lease."""
        return lease_id in self._operated

    def leave(self, hold: Hold) -> None:
        """Take the end of the body under this hold."""
        bodies = self._bodies[hold.lock]
        bodies[:] = [body for body in bodies if body.hold is not hold]

    def enter(self, body: Body) -> None:
        """Take the beginning of a body."""
        self.reached["bodies"] += 1
        for other in self._bodies[body.lock]:
            self._meet(body, other)
        tenure = self.service.tenure(body.lock)
        if (tenure is None or tenure.lease_id != body.hold.lease_id) and body.hold.lease_id not in self._operated:
            self._violated("without lease", f"{body.machine.name} began a body of {body.lock} without the lease")
        if body.knows():
            self._violated("entered lost", f"{body.machine.name} began a body of {body.lock} with a lost hold")
        token = body.hold.token
        if token is not None and body.hold.lease_id not in self._operated:
            last = self._tokens.get(body.lock, 0)
            if token <= last and not (body.shared and self._showed.get(body.lock) == (token, body.hold.lease_id)):
                self._violated("token order", f"{body.machine.name} got token {token} of {body.lock} after {last}")
            self._tokens[body.lock] = max(token, last)
            self._showed[body.lock] = token, body.hold.lease_id
        self._bodies[body.lock].append(body)
        self._must_not_hope(body)

    def _must_not_hope(self, body: Body) -> None:
        """A host must not count on its lease for longer than the service will keep it."""
        tenure = self.service.tenure(body.lock)
        if tenure is not None and tenure.lease_id == body.hold.lease_id and not body.knows():
            too_long = body.believes_until(self.loop.now) - tenure.expires
            if too_long > _ROUNDING:
                hope = f"counts on the lease of {body.lock} until {too_long:.3f} s after its end"
                self._violated("believes", f"{body.machine.name} {hope}")

    def renewed(self, lock: str, lease_id: str) -> None:
        """Take a renewal that was answered well."""
        self.later(_A_MOMENT, self._each_under, lock, lease_id, self._must_not_hope)

    def gone(self, lock: str, lease_id: str) -> None:
        """Take a renewal that was answered with a definitive no."""
        self.later(_A_MOMENT, self._each_under, lock, lease_id, self._must_know_by_now)

    def _each_under(self, lock: str, lease_id: str, check: Callable[[Body], None]) -> None:
        for body in tuple(self._bodies[lock]):
            if body.hold.lease_id == lease_id:
                check(body)

    def _must_know_by_now(self, body: Body) -> None:
        if not body.machine.stopped_since(_A_MOMENT) and not body.knows():
            self._not_told(body)

    def _meet(self, body: Body, other: Body) -> None:
        if other.machine is body.machine and body.shared:
            self.reached["bodies together under a listener"] += 1
        elif other.machine is body.machine:
            self._violated("two inside", f"{body.machine.name} runs two bodies of {body.lock} at once")
        elif other.machine.crashed or other.machine.stopped or other.machine.resumed_at == self.loop.now:
            self.reached["entered while the old holder was paused or dead"] += 1
        elif other.hold.lease_id in self._operated or body.hold.lease_id in self._operated:
            self.reached["entered after an operator ended a lease"] += 1
        elif other.sync and other.knows():
            self.reached["entered while a sync body that was told lingers"] += 1
        else:
            inside = f"while {other.machine.name} is inside and running"
            self._violated("two inside", f"{body.machine.name} entered {body.lock} {inside}")

    # --- what the service knows ---------------------------------------------------------------------------------------

    def _granted(self, tenure: Tenure) -> None:
        self.reached["leases"] += 1
        self._operated.discard(tenure.lease_id)
        length = round(tenure.expires - tenure.since, 3)
        if tenure.machine is not None and length not in self.bounds.periods:
            self._violated("wrong period", f"{tenure.machine.name} took {tenure.lock} for {length:g} s")
        self.callers.granted(tenure)

    def _ended(self, tenure: Tenure) -> None:
        match tenure.ending:
            case "released":
                self._released(tenure)
            case "expired":
                self._expired(tenure)
            case "taken away":
                text = f"{tenure.ended_by} ended the lease of {tenure.lock} that {tenure.machine} has"
                self._violated("taken away", text)
            case _:
                self._operated.add(tenure.lease_id)
                self.reached["leases ended by an operator"] += 1
                self.later(self.bounds.period, self._must_know, tenure)
                self.later(self.bounds.period / 2 * self.bounds.drift + 0.5, self._must_have_heard, tenure)
        self.callers.tenure_ended(tenure)
        self.moments.ended(tenure)

    def _released(self, tenure: Tenure) -> None:
        for body in self.inside(tenure):
            told = not body.guarded and body.machine.stopped and body.knows()
            if not body.machine.crashed and not told:
                self._violated("released inside", f"{body.machine.name} released {tenure.lock} with its body inside")

    def _expired(self, tenure: Tenure) -> None:
        machine = tenure.machine
        if machine is None:
            return
        if machine.crashed:
            self.reached["leases of dead hosts that expired"] += 1
            return
        inside = self.inside(tenure)
        for body in inside:
            if not body.knows():
                self._violated("believes", f"the lease of {tenure.lock} ended, and {machine.name} still counts on it")
            elif machine.stopped or machine.resumed_at == self.loop.now:
                self.reached["paused past the lease inside a body"] += 1
            elif not body.sync:
                self._violated("inside after end", f"the lease of {tenure.lock} ended with {machine.name} inside")
        if not inside:
            self.conduct.lapsed(tenure, machine)

    def _must_know(self, tenure: Tenure) -> None:
        """By now its deadline has come, whatever the network does."""
        for body in self.inside(tenure):
            if not body.machine.crashed and not body.knows():
                self._not_told(body)

    def _must_have_heard(self, tenure: Tenure) -> None:
        """By now a renewal was answered, if the network was good."""
        for body in self.inside(tenure):
            machine = body.machine
            fit = not machine.stopped_since(self.bounds.period) and not self.conduct.troubled(
                machine, self.bounds.period
            )
            if fit and not body.knows():
                self._not_told(body)

    def _not_told(self, body: Body) -> None:
        self._violated("not told", f"{body.machine.name} does not know that its lease of {body.lock} was taken away")

    def _epoch(self, lock: str, epoch: int, machine: Machine | None) -> None:
        if epoch < self._epochs.get(lock, 0):
            self._violated("token order", f"{machine} wrote epoch {epoch} of {lock} after {self._epochs[lock]}")
        self._epochs[lock] = max(epoch, self._epochs.get(lock, 0))

    # --- at the end ---------------------------------------------------------------------------------------------------

    def blame(self, check: str, text: str) -> None:
        """Add what somebody else found."""
        self._violated(check, text)

    def inside(self, tenure: Tenure) -> list[Body]:
        """Return the bodies that run under a lease."""
        ended = self.loop.now if tenure.ended is None else tenure.ended
        mine = [body for body in self._bodies[tenure.lock] if body.hold.lease_id == tenure.lease_id]
        return [body for body in mine if body.since <= ended]

    def later(self, delay: float, check: object, *args: object) -> None:
        """Look again, ``delay`` seconds of true time from now."""
        contextvars.Context().run(self.loop.call_at, self.loop.now + delay, check, *args)  # type: ignore[arg-type]

    def _violated(self, check: str, text: str) -> None:
        self.violations.append(Violation(self.loop.now, check, text))
        if not self.broken.done():
            self.broken.set_result(None)

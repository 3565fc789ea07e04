"""What all checks look at and report to: the bodies inside, the service's leases, the bounds, and the violations.

And moments worth reaching: when a fault hits just then, a lock shows its worth. Explorations count them.

renewed at the last moment           a renewal arrived when its lease had less than two seconds left
raced for a lease that expired       two hosts asked for it within a tenth of a second of one another; one got it
raced for a lease that was released  the same, for a lease that was given back
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping

    from simulator.virtual.storage.network import NetworkRequest
    from simulator.virtual.storage.service import Service, Tenure, TenureEnd
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold
    from singleton.settings.options import SingletonOptions


class Guarded(Protocol):
    """What a guarded function was declared with: what its callers may count on, and what a host's journal says."""

    @property
    def options(self) -> SingletonOptions:
        """The app's options."""

    @property
    def period(self) -> float:
        """Seconds of its leases."""

    @property
    def poll(self) -> float:
        """Seconds between two looks at the lock, at most."""

    @property
    def mode(self) -> str:
        """Its mode."""

    @property
    def wait(self) -> float | None:
        """Seconds for which its callers wait; None: for as long as it takes."""

    @property
    def on_contention(self) -> object:
        """What happens to a call while the lock is taken."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise: which check found it, when, and a sentence."""

    at: float
    check: str
    text: str

    @property
    def of_the_app(self) -> bool:
        """Whether it is the fault of the app, and not of the lock."""
        return self.check == "cancellation ignored"


@dataclass(slots=True, eq=False)
class RunningBody:
    """A guarded body that is running."""

    lock: str
    machine: Machine
    hold: Hold
    sync: bool
    """Whether the body goes on after a loss of the hold: runs on a thread, or the app wants no cancellation."""
    since: float
    guarded: bool = True
    """Whether its lock waits for its end; a leadership that is lost does not wait for the leader's work."""
    shared: bool = False
    """Whether its lease is a listener's, for all bodies of its machine together."""
    failover: float | None = None
    """``failover`` of the body's lock, in seconds; None: none declared."""
    told_at: float = math.inf
    """When its host told of the loss of its hold."""

    def knows(self) -> bool:
        """Tell whether its host, asked now, would say that the hold is lost."""
        return self.machine.context().run(self.hold.own_lost.is_set)

    def believes_until(self, now: float) -> float:
        """Return the true time at which its host, if nothing else happens, will say that the hold is lost."""
        lease = self.hold.own_lost._lease  # noqa: SLF001 - there is no other way to ask a host what it believes
        return now if lease is None else self.machine.when(lease.deadline, now)


AROUND: Final[ContextVar[tuple[RunningBody, ...]]] = ContextVar("simulator_bodies_around", default=())
"""The guarded bodies around the running code, as their events tell: the lock's own list is not asked."""


@dataclass(slots=True)
class Bounds:
    """What the checks need to know of the locks' options, in seconds, and by how much clocks may be off."""

    period: float = 15.0
    periods: frozenset[float] = frozenset({15.0})
    renewals: Mapping[float, float] = field(default_factory=lambda: {15.0: 7.5})
    """The longest interval between two renewals, for each period."""
    shortest_poll: float = 5.0
    forgets: bool = False
    """Whether processes keep so few locks that one which is idle for a moment is forgotten, and its turn with it."""
    poll: float = 5.0
    slots: int = 0
    """The greatest limit of locks that several have at a time."""
    handoff_window: float = 30.0
    drift: float = 1.07

    @property
    def renewal(self) -> float:
        """The longest interval between two renewals of any lease."""
        return max(self.renewals.values())

    @property
    def longest_gap(self) -> float:
        """For how long a lock may be free in a process's turn."""
        return 0.0 if self.forgets else self.shortest_poll * 0.9

    def know(self, guards: Iterable[Guarded]) -> None:
        """Take the bounds of these declarations together."""
        known = list(guards)
        every = [guard.options for guard in known]
        self.periods = frozenset(guard.period for guard in known)
        self.period = max(self.periods)
        self.renewals = {
            period: max(guard.options.renewal_interval or period / 2 for guard in known if guard.period == period)
            for period in self.periods
        }
        self.poll = max(option.lock_acquisition_polling_interval for option in every)
        self.slots = max(getattr(guard, "limit", None) or 0 for guard in known)
        self.shortest_poll = min(option.lock_acquisition_polling_interval for option in every)
        self.handoff_window = max(option.handoff_window for option in every)


class Evidence:
    """What is known of a world, and what was found in it."""

    def __init__(self, loop: VirtualLoop, service: Service) -> None:
        self.loop = loop
        self.later = loop.later
        self.service = service
        self.bounds = Bounds()
        self.violations: list[Violation] = []
        self.reached: Counter[str] = Counter()
        self.broken: asyncio.Future[None] = loop.create_future()
        """Done as soon as there is a violation."""
        self.ignoring: Callable[[RunningBody], str] = lambda _: ""
        """Says, in words, that a body was cancelled and goes on, if it does: our own never do."""
        self.sealed = True
        """Whether nothing that bodies use is older than this world: a user's database keeps what other worlds wrote."""
        self._bodies: dict[str, list[RunningBody]] = defaultdict(list)
        self._operated: set[str] = set()
        self.taken_over: set[str] = set()
        """Leases that were taken from holders who had fallen silent."""

    def bodies(self, lock: str) -> list[RunningBody]:
        """Return the bodies that are inside."""
        return self._bodies[lock]

    def runs(self, machine: Machine, lock: str) -> bool:
        """Tell whether a machine runs a body of a lock."""
        return any(body.machine is machine for body in self._bodies[lock])

    def listens_no_longer(self, machine: Machine, owner: str) -> bool:
        """Tell whether an invocation has a listener's seat that is lost: it runs no body under another lock either."""
        seats = [body for bodies in self._bodies.values() for body in bodies if body.shared and body.machine is machine]
        return any(seat.hold.owner == owner and seat.knows() for seat in seats)

    def runs_under_a_loss(self) -> bool:
        """Tell whether a guarded body around the running code has lost its hold: no body begins there."""
        return any(body.knows() for body in AROUND.get() if body in self._bodies[body.lock])

    def inside(self, tenure: Tenure) -> list[RunningBody]:
        """Return the bodies that run under a lease."""
        ended = self.loop.now if tenure.ended is None else tenure.ended
        mine = [body for body in self._bodies[tenure.lock] if body.hold.lease_id == tenure.lease_id]
        return [body for body in mine if body.since <= ended]

    def counts(self, body: RunningBody) -> bool:
        """Tell whether a body counts as inside: its host runs and was not told of a loss, and no operator was there."""
        machine = body.machine
        excused = machine.stopped or machine.resumed_at == self.loop.now or body.knows()
        return not excused and not self.operated(body.hold.lease_id)

    def operated(self, lease_id: str | None) -> bool:
        """Tell whether an operator ended this lease."""
        return lease_id in self._operated

    def ended_by_others(self, lease_id: str | None) -> bool:
        """Tell whether somebody else ended this lease: an operator, or who took it from a silent holder."""
        return self.operated(lease_id) or lease_id in self.taken_over

    def blame(self, check: str, text: str) -> None:
        """Add what a check has found."""
        self.violations.append(Violation(self.loop.now, check, text))
        if not self.broken.done():
            self.broken.set_result(None)


_RACES: Final = {"expired": "raced for a lease that expired", "released": "raced for a lease that was released"}
MOMENTS: Final = ("renewed at the last moment", *_RACES.values())
_LAST: Final = 2.0
_TOGETHER: Final = 0.1


@dataclass(slots=True)
class Moments:
    """Told of leases and of requests as the service carries them out."""

    reached: Counter[str]
    _expires: dict[str, float] = field(default_factory=dict)
    _ended: dict[str, TenureEnd | None] = field(default_factory=dict)
    _raced: set[str] = field(default_factory=set)

    def ended(self, tenure: Tenure) -> None:
        """Take the end of a lease."""
        self._expires.pop(tenure.lease_id, None)
        self._ended[tenure.lock] = tenure.ending

    def answered(self, request: NetworkRequest, failure: Exception | None, tenure: Tenure | None, now: float) -> None:
        """Take a request that was carried out at ``now``; ``tenure`` is who has the lease after it."""
        if tenure is None:
            return
        if failure is None:
            expires = self._expires.get(tenure.lease_id, now + _LAST)
            if request.call == "renew" and expires - now < _LAST:
                self.reached["renewed at the last moment"] += 1
            self._expires[tenure.lease_id] = tenure.expires
        elif request.call == "acquire" and _held(failure) and now - tenure.since <= _TOGETHER:
            self._race(request, tenure)

    def _race(self, request: NetworkRequest, winner: Tenure) -> None:
        if winner.machine in (None, request.machine) or winner.lease_id in self._raced:
            return
        self._raced.add(winner.lease_id)
        if (race := _RACES.get(self._ended.get(winner.lock) or "")) is not None:
            self.reached[race] += 1


def _held(failure: Exception) -> bool:
    return isinstance(failure, StoreFailure) and failure.meaning == "held"

"""What those who use lock clients may expect, and what they leave behind; told of each use and each client.

not told of closing     a client was closed, and somebody still waits for a lock by it
no without a no         a caller was told that a lock is taken, and neither the service nor its own process had said so
waits for nothing       a caller waits, and its process neither has the lock nor asks for it
asks for nobody         a host asks for a lock that nobody there wants any more
out of order            a set has a lock, and asks for one whose name comes before
kept for nobody         a host renews the lease of a lock that nobody there uses or waits for
outlives its client     a client with a place of its own was closed and done with, and its connection is open
kept too short          a lock was to be kept for a while, and was given back before
another lock            a caller got a lock that it had not asked for
asleep after its end    a hold was given back, and a task that waits for its loss was not woken
lost after its release  a hold was given back, and said later that it was lost
out of step             the work of a periodic worker began between two of its ticks
gave up too soon        who asked for a lock's holder was told at once that the storage does not answer
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from simulator.virtual.hosts.jobs import able
from simulator.virtual.oracle.callers import AT_ONCE, NO_ANSWER, ONCE, QUIET, STALE
from simulator.virtual.worlds.outcome import Refused
from simulator.virtual.worlds.world import Judge
from singleton.base.errors import (
    LockClosed,
    LockLost,
    LockNotAcquired,
    SingletonError,
    StorageDenied,
    StorageUnavailable,
)
from singleton.locking.semaphore import slot_name

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterator

    from simulator.virtual.oracle.evidence import RunningBody
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold
    from singleton.settings.accounts import LockContainer

_CALL: Final = 5.0
"""Seconds for one request."""
_RELEASE: Final = 5.0
"""Seconds for the release of a lease."""
_DRAIN: Final = 2.0
"""Seconds after the end of a use. After them its lease is not renewed any more."""
_TRIES: Final = 5.0
"""Seconds for which a call of ``holder`` surely tries: ten minus the last pause, by a fast clock."""
_KEPT: Final = 75.0
"""Seconds for which a hold is checked after its release: by then any lease is over."""
_LATE: Final = True
_CLOSE: Final = _RELEASE + 2.0 + 3.0
"""Seconds within which the holds of a closed client are released, and its connection is closed."""


Kind = Literal["lock", "set", "slot", "leader", "worker"]
Doing = Literal["waits", "inside", "leaves", "over"]


@dataclass(slots=True, eq=False)
class Customer:
    """A client that somebody has made on a machine."""

    machine: Machine
    place: LockContainer
    brought: bool
    closed: float | None = None
    done: float | None = None
    """When it was closed and the last of its uses had ended."""


@dataclass(slots=True, eq=False)
class Use:
    """One call of a client, until nothing of it is left."""

    customer: Customer
    owner: str
    kind: Kind
    locks: tuple[str, ...]
    """The blobs that it may have."""
    timeout: float | None
    since: float
    company: bool
    """Whether others of the same process waited there before."""
    doing: Doing = "waits"
    cut: bool = False
    """Whether it was cancelled."""
    waiter: asyncio.Task[None] | None = None
    """A task that waits for the loss or the end of its hold."""
    lost: bool = False
    """Whether a hold was lost when the body of its block returned."""

    @property
    def machine(self) -> Machine:
        """Where it is."""
        return self.customer.machine


@dataclass(slots=True)
class Book(Judge):
    """Who uses which lock by which client."""

    limits: dict[str, int] = field(default_factory=dict)
    uses: dict[Use, None] = field(default_factory=dict)
    _customers: list[Customer] = field(default_factory=list)
    _last: dict[tuple[Machine, str], float] = field(default_factory=dict)
    """When a machine last used a lock."""
    _wanted: dict[tuple[Machine, str], float] = field(default_factory=dict)
    """When a machine last used it, waited for it, or for any slot beside it."""
    _inside: dict[str, list[RunningBody]] = field(default_factory=lambda: defaultdict(list))

    def watch(self) -> None:
        """Check those whose work has been started, each second."""
        self.world.oracle.conduct.keeps = self._keeps
        self.world.watch(self._look)

    # --- what users tell ----------------------------------------------------------------------------------------------

    def opened(self, machine: Machine, place: LockContainer, *, brought: bool) -> Customer:
        """Receive a client that was made."""
        customer = Customer(machine, place, brought)
        self._customers.append(customer)
        return customer

    def closed(self, customer: Customer) -> None:
        """Receive the close of a client: its waiters are told."""
        customer.closed = self.world.loop.now
        self._settle(customer)
        for use in self._of(customer):
            if use.doing == "waits" and use.kind not in ("leader", "worker"):
                patience = _RELEASE + _CALL if use.kind == "set" else 0.0  # it first releases what it has
                self.world.later(AT_ONCE + patience, self._must_be_told, use)

    def begin(self, customer: Customer, owner: str, kind: Kind, locks: tuple[str, ...], timeout: float | None) -> Use:
        """Take the beginning of a use."""
        machine, now = customer.machine, self.world.loop.now
        company = any(use.doing == "waits" for lock in locks for use in self._at(machine, lock))
        use = Use(customer, owner, kind, locks, timeout, now, company)
        self.uses[use] = None
        if timeout is not None:
            asking = timeout or ONCE * len(locks)
            bound = asking * self.world.oracle.bounds.drift + AT_ONCE
            self.world.later(bound, self._must_be_answered, use)
        return use

    def got(self, use: Use, locks: tuple[str, ...]) -> None:
        """Take a success."""
        for lock in use.locks:
            self._wanted[use.machine, lock] = self.world.loop.now
        use.doing, use.locks = "inside", locks

    def over(self, use: Use, error: BaseException | None, *, rest: float = 0.0) -> None:
        """Take the end of a use; ``rest``: seconds for which its lock is kept beyond."""
        if error is not None and use in self.uses:
            self._judge(use, error)
        if rest > 0:
            use.doing = "leaves"
            self.world.later(rest, self.over, use, None)
            return
        waited, use.doing = use.doing == "waits", "over"
        if self.uses.pop(use, use) is None:
            for lock in use.locks:
                self._wanted[use.machine, lock] = self.world.loop.now
                if not waited or use.kind != "slot":
                    self._last[use.machine, lock] = self.world.loop.now
            self._settle(use.customer)

    def enter(self, semaphore: str, body: RunningBody) -> None:
        """Take a body under a slot."""
        bodies = self._inside[semaphore]
        bodies.append(body)
        running = [each for each in bodies if self.world.oracle.counts(each)]
        if len(running) > self.limits[semaphore]:
            text = f"{len(running)} are inside {semaphore}, and the limit is {self.limits[semaphore]}"
            self._blame("too many inside", text)

    def leave(self, semaphore: str, body: RunningBody) -> None:
        """Take the end of a body under a slot."""
        self._inside[semaphore].remove(body)

    def slots(self, semaphore: str) -> tuple[str, ...]:
        """Return the blobs of a semaphore."""
        return tuple(slot_name(semaphore, number) for number in range(self.limits[semaphore]))

    def must_last(self, use: Use, hold: Hold, seconds: float) -> None:
        """Take a hold that is to be kept for so many seconds from now, by its machine's clock."""
        until = seconds / self.world.oracle.bounds.drift - 0.5
        self.world.later(until, self._must_be_kept, use, hold.lock, hold.lease_id, until)

    def _must_be_kept(self, use: Use, lock: str, lease_id: str | None, since: float) -> None:
        oracle, tenure = self.world.oracle, self.world.service.tenure(lock)
        lost = tenure is None or tenure.lease_id != lease_id
        quiet = oracle.conduct.well(use.machine, since + AT_ONCE) and not use.machine.leaving
        if lost and quiet and not oracle.operated(lease_id):
            self._blame("kept too short", f"{use.owner} wants {lock} to be kept for a while, and it is given back")

    # --- when a use ends ----------------------------------------------------------------------------------------------

    def _judge(self, use: Use, error: BaseException) -> None:
        if isinstance(error, Refused) or use.cut:
            return
        machine, conduct = use.machine, self.world.oracle.conduct
        since = self.world.loop.now - use.since + STALE
        match error:
            case LockClosed():
                allowed = use.customer.closed is not None or machine.leaving
            case _ if use.kind == "worker":
                allowed = False  # whatever happens at a tick, the next one comes
            case LockNotAcquired(reason="reentry"):
                allowed = False
            case LockNotAcquired():
                self._must_be_taken(use)
                allowed = use.timeout is not None
            case LockLost():
                allowed = True  # the oracle sees to it
            case StorageDenied():
                allowed = conduct.denied(machine, since)
            case StorageUnavailable():
                allowed = not conduct.well(machine, since - STALE + NO_ANSWER)
            case SingletonError() | ValueError():
                allowed = conduct.strange(machine, since)
            case _:
                allowed = False
        if not allowed:
            self._blame("false alarm", f"{use.owner} was told: {type(error).__name__}: {error}")

    def _must_be_taken(self, use: Use) -> None:
        """A "no" needs a word of the service, or a use of the same process, within the wait."""
        if use.machine.stopped_since(self.world.loop.now - use.since + STALE):
            return
        unfounded = [lock for lock in use.locks if not self._was_taken(use, lock)]
        every = use.kind == "slot" and use.timeout == 0 and not use.company
        if len(unfounded) == len(use.locks) or (every and unfounded):
            self._blame("no without a no", f"{use.owner} is told that {unfounded[0]} is taken, and nobody said so")

    def _was_taken(self, use: Use, lock: str) -> bool:
        oracle, machine = self.world.oracle, use.machine
        since = use.since - (oracle.bounds.poll * oracle.bounds.drift + _CALL + 1.0 if use.company else 0.0)
        tenure = oracle.service.tenure(lock)
        return (
            oracle.conduct.refused_since(machine, lock, since)
            or any(other.doing != "waits" for other in self._at(machine, lock))
            or self._last.get((machine, lock), -STALE) >= since - _DRAIN
            or oracle.conduct.gives_back(machine, lock, self.world.loop.now - since + STALE)
            or self._lets_it_lapse(machine, lock)
            or (tenure is not None and tenure.machine is machine)
        )

    def _must_be_answered(self, use: Use, late: bool = False) -> None:
        waited = self.world.loop.now - use.since
        if use.kind == "set" and not self.world.oracle.conduct.well(use.machine, waited) and not late:
            self.world.later(_RELEASE + _CALL, self._must_be_answered, use, _LATE)  # it releases what it has first
        elif use in self.uses and use.doing == "waits" and not use.machine.stopped_since(waited):
            self._blame("late answer", f"{use.owner} still waits for {use.locks[0]} after {waited:.1f} s")

    def _must_be_told(self, use: Use) -> None:
        closed = use.customer.closed or 0.0
        if use.doing == "waits" and not use.machine.stopped_since(self.world.loop.now - closed + 1.0):
            self._blame("not told of closing", f"{use.owner} waits for {use.locks[0]}, and its client is closed")

    # --- every second -------------------------------------------------------------------------------------------------

    def _look(self) -> None:
        self._no_lease_is_kept()
        self._nobody_is_asked_for()
        self._sets_go_by_name()
        self._nobody_waits_for_nothing()
        self._nothing_is_left_open()

    def _no_lease_is_kept(self) -> None:
        now, conduct = self.world.loop.now, self.world.oracle.conduct
        for tenure in self.world.service.tenures():
            machine = tenure.machine
            if machine is None or machine.leaving or machine.stopped_since(_CLOSE):
                continue
            if any(True for _ in self._at(machine, tenure.lock)):
                self._wanted[machine, tenure.lock] = now
                continue
            slack = _DRAIN if conduct.well(machine, 5 * _CALL) else 5 * _CALL  # an attempt under way goes on
            if conduct.last_renewal(tenure.lease_id) > self._wanted.get((machine, tenure.lock), 0.0) + slack:
                self._blame("kept for nobody", f"{machine.name} renews {tenure.lock}, which nobody uses there")

    def _nobody_is_asked_for(self) -> None:
        now, conduct = self.world.loop.now, self.world.oracle.conduct
        for (machine, lock), asked in conduct.attempts.items():
            if asked < now - 1.5 or machine.leaving or machine.stopped_since(_CLOSE):
                continue
            if any(True for _ in self._at(machine, lock)):
                self._wanted[machine, lock] = now
                continue
            slack = _DRAIN if conduct.well(machine, 5 * _CALL) else 5 * _CALL  # an attempt under way goes on
            if asked > self._wanted.get((machine, lock), 0.0) + slack:
                self._blame("asks for nobody", f"{machine.name} asks for {lock}, which nobody there wants")

    def _sets_go_by_name(self) -> None:
        """Else two sets could wait for each other."""
        attempts = self.world.oracle.conduct.attempts
        for use in self.uses:
            if use.kind != "set" or use.doing != "waits" or use.cut:
                continue
            mine = [lock for lock in sorted(use.locks) if sum(1 for _ in self._at(use.machine, lock)) == 1]
            for first, second in itertools.pairwise(mine):
                tenure = self.world.service.tenure(second)
                if tenure is None or tenure.machine is not use.machine:
                    continue
                # Who asked earlier, or has it longer, is another use, which may have left before its request arrived.
                began = min(tenure.since, self.world.oracle.conduct.asked(tenure.lease_id))
                mine_now = began > max(use.since, self._last.get((use.machine, second), 0.0))
                if mine_now and attempts.get((use.machine, first), 0.0) > tenure.since + _DRAIN:
                    self._blame("out of order", f"{use.owner} has {second}, and asks for {first}")

    def _nobody_waits_for_nothing(self) -> None:
        now, oracle = self.world.loop.now, self.world.oracle
        poll = oracle.bounds.poll * oracle.bounds.drift
        bound = 1.1 * poll + _CALL + _RELEASE + 2.0
        for use in self.uses:
            if use.doing != "waits" or use.kind == "worker" or now - use.since < bound:
                continue
            if use.kind == "leader" or use.machine.stopped_since(2 * bound):
                continue
            if not any(self._has_cause(use.machine, lock, now - bound) for lock in use.locks):
                self._blame("waits for nothing", f"{use.owner} waits for {use.locks[0]}, and nobody there asks for it")
            elif use.kind == "lock":
                self._must_find_a_taker(use, 1.1 * poll + _CALL + 1.0)

    def _has_cause(self, machine: Machine, lock: str, since: float) -> bool:
        return (
            self.world.oracle.conduct.last_sent(machine, lock) > since
            or self._last.get((machine, lock), -1.0) > since
            or self._lets_it_lapse(machine, lock)
            or any(other.doing != "waits" or other.kind == "set" for other in self._at(machine, lock))
        )

    def _must_find_a_taker(self, use: Use, bound: float) -> None:
        lock, now = use.locks[0], self.world.loop.now
        free = now - self.world.service.held_until(lock)
        since = max(use.since, self._last.get((use.machine, lock), 0.0))
        busy = any(other.doing != "waits" or other.kind == "set" for other in self._at(use.machine, lock))
        busy |= self._lets_it_lapse(use.machine, lock)
        if free > bound and since < now - bound and not busy and able(self.world, use.machine, bound + QUIET):
            self._blame("nobody took it", f"{use.owner} waits, and {lock} is free for {bound:.1f} s")

    def _lets_it_lapse(self, machine: Machine, lock: str) -> bool:
        """Tell whether a machine's release may have failed: it does not ask for the lock until the lease expires."""
        bounds, conduct = self.world.oracle.bounds, self.world.oracle.conduct
        lapses = (bounds.period + 2 * bounds.poll) * bounds.drift + _RELEASE
        return conduct.gives_back(machine, lock, lapses) and not conduct.well(machine, lapses)

    def _nothing_is_left_open(self) -> None:
        now = self.world.loop.now
        for customer in self._customers:
            machine = customer.machine
            bound = _CLOSE if self.world.oracle.conduct.well(machine, 2 * _CLOSE) else _CLOSE + 5 * _CALL
            if not customer.brought or customer.done is None or now - customer.done < bound or machine.leaving:
                continue
            again = any(
                each.machine is machine
                and each.place == customer.place
                and (each.done is None or each.done > now - bound)
                for each in self._customers
            )
            if not again and not machine.stopped_since(2 * bound):
                if self.world.openings.is_open(machine, customer.place):
                    text = f"{machine.name} has closed its client of {customer.place.container}, and not its connection"
                    self._blame("outlives its client", text)
                customer.brought = False

    # --- what is known ------------------------------------------------------------------------------------------------

    def _at(self, machine: Machine, lock: str) -> Iterator[Use]:
        return (use for use in self.uses if use.customer.machine is machine and lock in use.locks)

    def _of(self, customer: Customer) -> list[Use]:
        return [use for use in self.uses if use.customer is customer]

    def _keeps(self, tenure: Tenure) -> bool:
        """Nobody is inside an incomplete set, a leadership whose leader does not look, or the rest of ``at_least``."""
        if tenure.machine is None:
            return False
        kinds = [(use.kind, use.doing) for use in self._at(tenure.machine, tenure.lock)]
        return any(doing == "leaves" or kind in ("leader", "set", "worker") for kind, doing in kinds)

    def _settle(self, customer: Customer) -> None:
        if customer.closed is not None and customer.done is None and not self._of(customer):
            customer.done = self.world.loop.now


@dataclass(slots=True)
class Calls(Judge):
    """Looks at what calls returned."""

    _released: list[tuple[float, Use, Hold]] = field(default_factory=list)

    def watch(self) -> None:
        """Check released holds, each second."""
        self.world.watch(self._look)

    def got(self, use: Use, holds: tuple[Hold, ...]) -> None:
        """Receive what a caller got, before the book does."""
        for hold in holds:
            if hold.lock not in use.locks:
                self._blame("another lock", f"{use.owner} got {hold.lock}, and asked for {use.locks[0]}")

    def must_begin_well(self, use: Use, holds: tuple[Hold, ...]) -> None:
        """Receive the holds of a block whose body begins now: its process may have stood still since the grant."""
        if lost := [hold.lock for hold in holds if hold.lost.is_set()]:
            self._blame("begun after its loss", f"{use.owner} begins, and its hold of {lost[0]} is lost")

    def must_be_on_time(self, use: Use, since: float, every: float) -> None:
        """Receive that a worker's work begins, so many seconds after its start by its machine's clock."""
        late = (since + 1e-6) % every
        quiet = self.world.oracle.conduct.well(use.machine, every + QUIET)
        if late > AT_ONCE and quiet and not use.machine.stopped_since(self.world.loop.now - use.since):
            self._blame("out of step", f"{use.owner} works every {every:.1f} s, and begins {late:.1f} s after a tick")

    def released(self, use: Use, holds: tuple[Hold, ...], *, kept: bool) -> None:
        """Receive holds that their user still has when the call that releases them returns; ``kept``: for a while."""
        self.world.later(AT_ONCE, self._must_be_awake, use)
        if kept:
            return
        good = [hold for hold in holds if not hold.lost.is_set()]
        if not use.cut:
            self._released += [(self.world.loop.now, use, hold) for hold in good]

    def _must_be_awake(self, use: Use) -> None:
        waits = use.waiter is not None and not use.waiter.done()
        if waits and not use.machine.leaving and not use.machine.stopped_since(2 * AT_ONCE):
            self._blame("asleep after its end", f"{use.owner} has given its lock back, and somebody waits for a loss")

    def not_answered(self, machine: Machine, asked: float, error: StorageUnavailable) -> None:
        """Receive the answer that the storage does not answer. A container that is being deleted is known at once."""
        took = self.world.loop.now - asked
        deleting = error.code == "ContainerBeingDeleted"
        if took < _TRIES and not deleting and not self.world.oracle.conduct.strange(machine, took + STALE):
            self._blame("gave up too soon", f"{machine.name} was told after {took:.1f} s: {error}")

    def _look(self) -> None:
        now = self.world.loop.now
        self._released = [each for each in self._released if now - each[0] < _KEPT and not each[1].machine.leaving]
        for _, use, hold in self._released:
            if use.machine.context().run(hold.lost.is_set):
                self._blame("lost after its release", f"{use.owner} had given {hold.lock} back, and is told of a loss")

"""The workload ``semaphore``, and what its callers may expect beyond what each slot promises as a lock.

too many inside    more bodies than the limit, none of them paused, dead, or told that its hold is lost
nobody took it     a free slot, a live waiter, a quiet network, and no taker within the bound
late answer        a time-out is over, or a single attempt answered, and its caller still waits
false contention   a caller was told that all slots are taken, and one was free all the time
false alarm        a caller was told of trouble with the storage, and there was none
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.hosts.jobs import able, ended, inside, lock_client, work
from simulator.virtual.oracle.callers import AT_ONCE, ONCE, QUIET, SLOT, STALE, slots_of
from simulator.virtual.worlds.outcome import Refused
from simulator.virtual.worlds.world import Judge, World
from singleton.base.errors import (
    LockClosed,
    LockNotAcquired,
    SingletonError,
    StorageDenied,
    StorageError,
    StorageUnavailable,
)

if TYPE_CHECKING:
    from simulator.virtual.oracle.evidence import RunningBody
    from simulator.virtual.time.machine import Machine
    from singleton import AsyncLockClient

_NAME: Final = "reports"
_LONGEST: Final = 20.0
_AT_ONCE: Final = 32
"""Slots that a process asks for in one poll."""
_CROWDED: Final = 0.1
"""Share of the worlds with more slots than that."""
_FULL: Final = 70.0
"""Seconds for which the lower slots of those worlds are taken."""
_OTHERS: Final = 10
"""The number of the first worker that only takes a slot of many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPlan:
    """One visit: after a ``pause``, wait for a slot and work for so many ``steps`` of so many ``seconds``."""

    pause: float
    timeout: float | None
    steps: int
    seconds: float
    cancel_after: float | None


@dataclass(slots=True, eq=False)
class _SlotVisit:
    machine: Machine
    owner: str
    since: float
    company: bool
    """Whether others of the same process were there before, or had just left."""
    waits: bool = True


def start_semaphore(world: World) -> None:
    """Start workers on each machine for few slots. Workers may give up or be cancelled."""
    rng = world.rng_work
    pool = Pool(world, rng.choice([1, 2, 2, 3, 5]))
    for machine in world.machines:
        for worker in range(rng.randint(1, 3)):
            plans = []
            for _ in range(rng.randint(1, 2)):
                steps = rng.randint(1, 3)
                plan = SlotPlan(
                    pause=rng.uniform(0, 5.0),
                    timeout=rng.choice([None, None, None, 20.0, 0.0]),
                    steps=steps,
                    seconds=rng.choice([0.05, 1.0, _LONGEST / 2, _LONGEST]) * rng.uniform(0.5, 1.0) / steps,
                    cancel_after=rng.uniform(0.0, 30.0) if rng.random() < 0.2 else None,
                )
                plans.append(plan)
            seconds = sum(plan.steps * plan.seconds + 7.0 for plan in plans)
            world.start(machine, pool.visits(machine, worker, plans), seconds=seconds)
    if rng.random() < _CROWDED:
        pool.limit = rng.choice([_AT_ONCE + 1, _AT_ONCE + 8, 2 * _AT_ONCE + 2])
        _fill(world, pool)
    world.watch(pool.must_find_takers)


def _fill(world: World, pool: Pool) -> None:
    """Let one machine take all slots of a high limit, and give back those that it took last, the highest, early."""
    for number in range(pool.limit):
        seconds = _FULL if number < pool.limit // _AT_ONCE * _AT_ONCE else world.rng_work.uniform(2.0, 8.0)
        plan = SlotPlan(pause=number * 0.02, timeout=None, steps=1, seconds=seconds, cancel_after=None)
        world.start(world.machines[0], pool.visits(world.machines[0], _OTHERS + number, [plan]), seconds=seconds + 7.0)


@dataclass(slots=True)
class Pool(Judge):
    """The semaphore as its users see it."""

    limit: int
    _visits: list[_SlotVisit] = field(default_factory=list)
    _inside: list[RunningBody] = field(default_factory=list)
    _left: dict[Machine, float] = field(default_factory=dict)

    async def visits(self, machine: Machine, worker: int, plans: list[SlotPlan]) -> None:
        """Make one visit after the other."""
        client = lock_client()
        for number, plan in enumerate(plans):
            await asyncio.sleep(plan.pause)
            visit = self._begin(machine, f"{machine.name}/{worker}/{number}", plan)
            await ended(self._make(visit, plan, client), visit.owner, cancel_after=plan.cancel_after)

    def _begin(self, machine: Machine, owner: str, plan: SlotPlan) -> _SlotVisit:
        world = self.world
        company = any(other.machine is machine for other in self._visits)
        company |= world.loop.now - self._left.get(machine, -STALE) < STALE
        visit = _SlotVisit(machine, owner, world.loop.now, company)
        self._visits.append(visit)
        world.note(machine.name, "visit_began", owner=owner, timeout=plan.timeout)
        if plan.timeout is not None:
            asking = plan.timeout or ONCE * self.limit  # each slot is asked for as a lock is, one after the other
            world.oracle.later(asking * world.oracle.bounds.drift + AT_ONCE, self._must_be_answered, visit)
        return visit

    async def _make(self, visit: _SlotVisit, plan: SlotPlan, client: AsyncLockClient) -> None:
        world, machine = self.world, visit.machine
        outcome = "cancelled"
        try:
            async with client.semaphore(_NAME, self.limit, timeout=plan.timeout, owner=visit.owner) as hold:
                visit.waits = False
                hold.raise_if_lost()
                with inside(world, machine, hold) as body:
                    self._enter(body)
                    try:
                        for _ in range(plan.steps):
                            if not await work(world, hold, plan.seconds):
                                break
                    finally:
                        self._inside.remove(body)
            outcome = "ok"
        except (SingletonError, Refused) as error:
            outcome = type(error).__name__
            self._judge(visit, error)
        finally:
            self._visits.remove(visit)
            self._left[machine] = world.loop.now
            world.oracle.reached[f"invocation: {outcome}"] += 1
            world.note(machine.name, "visit_ended", owner=visit.owner, outcome=outcome)

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _enter(self, body: RunningBody) -> None:
        self._inside.append(body)
        running = [each for each in self._inside if self.world.oracle.counts(each)]
        if len(running) > self.limit:
            self._blame("too many inside", f"{len(running)} are inside, and the limit is {self.limit}")
        self.world.oracle.reached["semaphore full"] += len(running) == self.limit

    def _judge(self, visit: _SlotVisit, error: Exception) -> None:
        machine, oracle = visit.machine, self.world.oracle
        since = self.world.loop.now - visit.since + STALE
        quiet = oracle.conduct.well(machine, since)
        told = f"{visit.owner} was told: {error}"
        if (isinstance(error, StorageUnavailable) and quiet) or (
            isinstance(error, StorageDenied) and not oracle.conduct.denied(machine, since)
        ):
            self._blame("false alarm", told)
        elif isinstance(error, LockNotAcquired) and not visit.company and not machine.stopped_since(since):
            free = [slot for slot in self._slots() if oracle.service.held_until(slot) < visit.since - STALE]
            if free:
                self._blame("false contention", f"{told}, and {free[0]} is free")
        elif isinstance(error, LockClosed):
            if not machine.leaving:
                self._blame("false alarm", told)
        elif type(error) in (SingletonError, StorageError) and not oracle.conduct.strange(machine, since):
            self._blame("false alarm", told)

    def _must_be_answered(self, visit: _SlotVisit) -> None:
        waited = self.world.loop.now - visit.since
        if visit in self._visits and visit.waits and not visit.machine.stopped_since(waited):
            self._blame("late answer", f"{visit.owner} still waits for a slot after {waited:.1f} s")

    def must_find_takers(self) -> None:
        """A slot does not stay free while a machine has a waiter, be it that others of the machine have slots."""
        now, bounds = self.world.loop.now, self.world.oracle.bounds
        bound = bounds.poll * 1.2 * math.ceil(self.limit / _AT_ONCE) + 1.5 + self.limit * SLOT
        free = [slot for slot in self._slots() if self.world.oracle.service.held_until(slot) < now - bound]
        for visit in self._visits if free else ():
            since = max(visit.since, self._left.get(visit.machine, 0.0))
            if visit.waits and since < now - bound and able(self.world, visit.machine, bound + QUIET):
                self._blame("nobody took it", f"{visit.owner} waits, and {free[0]} is free for {bound:.1f} s")
                return

    def _slots(self) -> list[str]:
        return slots_of(_NAME, self.limit)

"""The workload ``arguments``: guarded functions whose options are arguments, drawn for each world.

Half of the hosts may run the version before, whose lock has another name: the new version takes both locks.

waits for too many     more callers of a process waited for a lock than ``max_waiting`` allows
refused alone          a caller was told that too many wait, and no other caller of its process was there
not kept               a body began within ``at_least`` of another's acquisition, whose process lives and has its lease
longer than allowed    a body went on under its hold after ``max_hold``
both versions at once  bodies of the old and the new version of a function ran at the same time
a token from before    a body had a smaller token than an earlier body of the other version
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

from simulator.virtual.hosts.jobs import InvocationContext, Job, message, without_options
from simulator.virtual.hosts.queue_host import declare, invoke, run_function
from simulator.virtual.oracle.callers import ONCE
from simulator.virtual.storage.network import both
from singleton import LockNotAcquired, OldLock, current_hold, singleton
from singleton.base.hold import single_holds

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.hold import Hold
    from singleton.base.kinds import WhenFull

_KINDS: Final = ("wait", "wait", "soon", "tick", "insist")
_SLACK: Final = 2.0
"""Seconds between the acquisition of a lock and the first line of its body, at most, on a machine that runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """The arguments of a world's functions. ``renamed``: some hosts run the version before, with another lock."""

    lock_period: int | None
    renewal_interval: int | None
    lock_acquisition_polling_interval: float | None
    lock_acquisition_min_polling_interval: float | None
    handoff_window: int | None
    cancel_on_loss: bool | None
    scope_hash: bool
    max_waiting: int | None
    when_full: WhenFull | None
    at_least: float
    max_hold: float | None
    renamed: bool


@dataclass(slots=True, eq=False)
class Call:
    """One call, and its body while that runs."""

    machine: Machine
    key: str
    since: float
    is_old: bool
    began: float = math.inf
    hold: Hold | None = None
    lease_ids: frozenset[str] = frozenset()


@dataclass(slots=True)
class Watch:
    """Looks at the calls of a world."""

    world: World
    drawn: Drawn
    calls: dict[Call, None] = field(default_factory=dict)
    _bodies: dict[str, list[Call]] = field(default_factory=lambda: defaultdict(list))
    """The bodies that began, by key."""
    _deleted: float = -math.inf
    """When an operator last deleted a blob: the tokens of its lock begin anew."""

    def __post_init__(self) -> None:
        service = self.world.service
        service.on_delete = both(self._deletes, service.on_delete)

    def _deletes(self, _: str) -> None:
        self._deleted = self.world.loop.now

    def begins(self, call: Call) -> None:
        """Take the first line of a body."""
        now, drift = self.world.loop.now, self.world.oracle.bounds.drift
        call.began, call.hold = now, current_hold()
        call.lease_ids = frozenset(each.lease_id or "" for each in single_holds(call.hold))
        earlier = self._bodies[call.key]
        for other in earlier:
            if other.is_old != call.is_old:
                self._judge_versions(other, call)
            kept = self.drawn.at_least / drift - _SLACK
            if now - other.began < kept and self._could_keep(other, call):
                text = f"a body for {call.key} began {now - other.began:.1f} s after that of {other.machine.name}"
                self._blame("not kept", text)
        earlier.append(call)
        if self.drawn.max_hold is not None:
            self.world.later(self.drawn.max_hold * drift + 0.5, self._must_be_lost, call)

    def ended(self, call: Call, outcome: str) -> None:
        """Take the end of a call."""
        del self.calls[call]
        self.world.oracle.reached[f"arguments: {outcome}"] += 1

    def keeps(self, tenure: Tenure) -> bool:
        """Tell whether a body runs under this lease, be it a lock's old name, or ``at_least`` keeps its lock."""
        kept = self.drawn.at_least * self.world.oracle.bounds.drift
        under = [each for bodies in self._bodies.values() for each in bodies if tenure.lease_id in each.lease_ids]
        return any(each in self.calls or self.world.loop.now - each.began < kept for each in under)

    async def run(self, call: Call, function: Callable[..., Any], given: dict[str, Any]) -> None:
        """Run a call as the worker does, and hear why it was refused."""
        try:
            await run_function(function, given)
        except LockNotAcquired as error:
            if error.reason == "max_waiting":
                self.refused(call)
            raise

    def refused(self, call: Call) -> None:
        """Take the answer that too many wait already."""
        self.world.oracle.reached["arguments: too many wait"] += 1
        if self.drawn.max_waiting and not any(each.machine is call.machine and each is not call for each in self.calls):
            self._blame("refused alone", f"a caller on {call.machine.name} is told that too many wait, and it is alone")

    def look(self) -> None:
        """Count who waits, each second."""
        most = self.drawn.max_waiting
        waiting: dict[tuple[Machine, str, bool], int] = defaultdict(int)
        for call in self.calls if most is not None else ():
            tried = self.world.loop.now - call.since > (ONCE + 1.0) * self.world.oracle.bounds.drift
            waiting[call.machine, call.key, call.is_old] += tried and call.began == math.inf
        for (machine, key, _), number in waiting.items():
            if number > cast("int", most) and not machine.stopped_since(ONCE + 2.0):
                self._blame("waits for too many", f"{number} callers of {machine.name} wait for {key}: {most} may")

    def _judge_versions(self, other: Call, call: Call) -> None:
        operated = any(map(self.world.oracle.operated, other.lease_ids | call.lease_ids))
        if other in self.calls and self._believes(other) and not operated:
            self._blame("both versions at once", f"{other.machine.name} and {call.machine.name} work for {call.key}")
        now, before = (each.hold.token if each.hold is not None else None for each in (call, other))
        anew = operated or other.began <= self._deleted
        if now is not None and before is not None and now <= before and not anew:
            self._blame("a token from before", f"{now} for {call.key} on {call.machine.name}, and {before} was before")

    def _must_be_lost(self, call: Call) -> None:
        if (
            call in self.calls
            and self._believes(call)
            and not call.machine.stopped_since(self.world.loop.now - call.began)
        ):
            self._blame("longer than allowed", f"{call.machine.name} has the lock for {call.key} for too long")

    def _believes(self, call: Call) -> bool:
        """Tell whether a body runs on a live machine, under a hold that is not lost by its machine's clock."""
        hold, machine = call.hold, call.machine
        if hold is None or machine.crashed or machine.leaving or machine.stopped_since(_SLACK):
            return False
        return bool(machine.context().run(lambda: hold.owned and not hold.lost.is_set()))

    def _could_keep(self, other: Call, later: Call) -> bool:
        """Tell whether the earlier call's process was well, and no operator has ended a lease of either call."""
        conduct = self.world.oracle.conduct
        well = conduct.well(other.machine, later.began - other.began + ONCE) and not other.machine.leaving
        ended = any(map(self.world.oracle.operated, other.lease_ids | later.lease_ids))
        return well and not ended and self.drawn.max_hold is None

    def _blame(self, check: str, text: str) -> None:
        self.world.oracle.blame(check, text)


def start_arguments(world: World) -> None:
    """Draw the arguments, and start workers for one or two locks on each machine."""
    rng = world.rng_work
    drawn = _draw(rng)
    new, old = _functions(drawn), _functions(drawn, is_old=True) if drawn.renamed else {}
    world.oracle.callers.apart |= {*new, *old} if drawn.renamed else set()
    declare(world, new | old)
    watch = Watch(world, drawn)
    world.oracle.conduct.keeps = watch.keeps
    for machine in world.machines:
        is_old = drawn.renamed and rng.random() < 0.5
        for worker in range(rng.randint(1, 4)):
            calls = []
            for _ in range(rng.randint(1, 4)):
                steps, seconds = rng.randint(1, 3), rng.choice((0.05, 1.0, 8.0, 20.0)) * rng.uniform(0.5, 1.0)
                job = Job(world.resource, steps, seconds / steps, careful=rng.random() < 0.5)
                kind = f"{'old_' if is_old else ''}{rng.choice(_KINDS)}"
                calls.append((rng.choice((0.0, 4.0)) * rng.random(), kind, f"key-{rng.randrange(2)}", job))
            work = sum(job.steps * job.pause + drawn.at_least + 12.0 for _, _, _, job in calls)
            world.start(machine, _work(watch, machine, worker, new | old, calls), seconds=work)
    world.watch(watch.look)


def _draw(rng: random.Random) -> Drawn:
    max_waiting = rng.choice((None, None, 0, 1, 2))
    return Drawn(
        lock_period=rng.choice((None, 15, 20, 60)),
        renewal_interval=rng.choice((None, None, 3, 5)),
        lock_acquisition_polling_interval=rng.choice((None, 1, 2, 5)),
        lock_acquisition_min_polling_interval=rng.choice((None, None, 0.1, 0.5)),
        handoff_window=rng.choice((None, 5, 10, 30)),
        cancel_on_loss=rng.choice((None, None, False, True)),
        scope_hash=rng.random() < 0.5,
        max_waiting=max_waiting,
        when_full=None if max_waiting is None else rng.choice((None, "raise")),
        at_least=rng.choice((0.0, 0.0, 4.0, 9.0)),
        max_hold=rng.choice((None, None, 12.0, 18.0)),
        renamed=rng.random() < 0.35,
    )


async def _work(
    watch: Watch,
    machine: Machine,
    worker: int,
    functions: dict[str, Callable[..., Any]],
    calls: list[tuple[float, str, str, Job]],
) -> None:
    world = watch.world
    for number, (pause, kind, key, job) in enumerate(calls):
        await asyncio.sleep(pause)
        invocation = f"{machine.name}/{worker}/{number}"
        call = Call(machine, key, world.loop.now, kind.startswith("old_"))
        watch.calls[call] = None
        body = replace(job, begins=partial(watch.begins, call))
        outcome = "cancelled"
        try:
            given = {"msg": message(key), "job": body, "context": InvocationContext(kind, invocation)}
            work = partial(watch.run, call, functions[kind], given)
            # The verdict takes two names of a lock for two locks.
            keys = None if watch.drawn.renamed else {"function": key}
            outcome = await invoke(world, machine, kind, invocation, work, keys=keys)
        finally:
            watch.ended(call, outcome)


@cache
def _functions(drawn: Drawn, *, is_old: bool = False) -> dict[str, Callable[..., Any]]:
    """Declare the functions of an app with these arguments, or those of the version before."""

    async def work(msg: str, job: Job) -> None:
        await job.run()

    given: dict[str, Any] = {name: getattr(drawn, name) for name in Drawn.__slots__ if name != "renamed"}
    if is_old:
        given["scope_hash"] = not drawn.scope_hash
    elif drawn.renamed:
        given["also"] = OldLock(scope_hash=not drawn.scope_hash)
    waits = partial(singleton, scope="Order:Id", level="host", **given)
    given |= {"max_waiting": None, "when_full": None}
    at_once = partial(singleton, scope="Order:Id", level="host", **given)
    with without_options():
        made = {
            "wait": waits()(work),
            "soon": waits(timeout=20)(work),
            "tick": at_once(on_contention="skip")(work),
            "insist": at_once(on_contention="raise")(work),
        }
    return {f"{'old_' if is_old else ''}{kind}": function for kind, function in made.items()}

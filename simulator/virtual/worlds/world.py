"""A world: some machines, a network, the service, the faults that strike, and the oracle that watches.

Findings of a world, most of them at its end:

starved                  faults are over, and somebody has not ended his work long after he could have
does not close           a host can't close its locks within half a minute
deadlock                 somebody waits for what can never come, or time stands still
task left behind         a host that has closed its locks still has a task of theirs
connection left open     a host that has closed its locks still has a store or queue open
unhandled error          an exception that nobody caught
label wiped              a lock's blob that was not deleted has lost what an operator wrote on it
broken                   a job raised what no function of it raises
cancellation swallowed   an invocation was cancelled, and went on to its end
cancelled by nobody      an invocation ended with a cancellation that nobody had asked for
message lost             a message was deleted from its queue, and no invocation of it succeeded
point not reached        a fault was for the request or the step of a number, and that never came
verdict                  the verdict on real hosts' journals, given on what these hosts wrote, is that it does not hold
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
import random
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args

from simulator.virtual.http.virtual_connections import VirtualConnection, VirtualConnections
from simulator.virtual.http.virtual_wire import VirtualWire
from simulator.virtual.oracle.oracle import Oracle
from simulator.virtual.storage.network import Network, NetworkRequest, Passage
from simulator.virtual.storage.service import Service
from simulator.virtual.time.loop import Deadlock, Stuck, VirtualLoop, watched
from simulator.virtual.time.machine import Machine, here
from simulator.virtual.worlds.heard_registry import HeardRegistry
from simulator.virtual.worlds.logs import RAISED, Logs
from simulator.virtual.worlds.outcome import Chronicle, Resource, Run, broken_promises
from simulator.virtual.worlds.runtime import OpenStores, VirtualRuntime, stores
from simulator.virtual.worlds.told import listening
from singleton.base.events import LockEvent, forget_going, subscribe
from singleton.base.hold import current_hold
from singleton.base.kinds import Mode
from singleton.runtime.provided import provide_runtime

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence
    from contextlib import AbstractContextManager

    from simulator.virtual.faults import WorldFault
    from simulator.virtual.worlds.outcome import Account

_TAIL = 17.0
"""Seconds of quiet at the end: a lease that nobody released expires within this time, and is noticed."""
_AT_REST = 6.0
"""Seconds after which nothing of a hold is left: a release may take five."""
_CLOSING = 30.0
"""Seconds within which the locks of a live host must close."""
_BURIAL = 2.0
"""Seconds of a processor to end what is left of a world."""
_KEPT = (2, 4, 1024)
"""How many unused locks a registry keeps: seldom as many as it has."""
_WRONG_WALLS: Final = 0.25
"""Share of the worlds in which wall clocks are wrong from the beginning."""
_WRONG_BY: Final = (60.0, 800.0)
"""Seconds by which such a clock is wrong: the service refuses signatures that are a quarter of an hour off."""
_GUARDED: Final = get_args(Mode)
_LINGER = 1.0
"""Seconds from the closing of its locks to the end of a process that is told to stop."""


class World:
    """Make it, let a workload start its tasks with ``start``, then ``run``."""

    def __init__(
        self,
        seed: int,
        hosts: int,
        faults: Sequence[WorldFault],
        *,
        shuffle: bool = True,
        sdk: bool = False,
        wire: bool = False,
    ) -> None:
        self._seed = seed
        self.rng_faults = _stream(seed, "faults")
        self.rng_work = _stream(seed, "work")
        self.loop = VirtualLoop(shuffle=_stream(seed, "order") if shuffle else None)  # type: ignore[abstract]
        self.later = self.loop.later
        self.service = Service(self.loop)
        self.network = Network(self.loop, _stream(seed, "network"), (0.002, 0.03))
        self.oracle = Oracle(self.loop, self.network, self.service, current_hold)
        self._logs = Logs(self.loop, self.oracle)
        self.resource = Resource(self.oracle.reached)
        self.faults = faults
        self.ends_when_broken = True
        clocks = _stream(seed, "clocks")
        self.machines = [Machine(index, self.loop, offset=clocks.uniform(0, 10_000)) for index in range(hosts)]
        walls = _stream(seed, "walls")
        self.walls_differ = walls.random() < _WRONG_WALLS
        """Whether the wall clocks of hosts are wrong by minutes; monotonic clocks have nothing to do with it."""
        for machine in self.machines if self.walls_differ else ():
            machine.ahead = walls.choice((-1.0, 0.0, 1.0)) * walls.uniform(*_WRONG_BY)
        self._chronicle = Chronicle(self.loop)
        self.note, self.records = self._chronicle.note, self._chronicle.records
        for machine in self.machines:
            machine.tell = partial(self.note, machine.name)
        self.openings = OpenStores(stores(self.network, self.service, sdk=sdk))
        self.wire: VirtualWire | None = None
        if wire:
            self.wire_up()
        self.work = 0.0
        self.gives_up_at = math.inf
        """When a world whose work has not ended is ended, without a judgement: bodies take as long as an app wants."""
        self.accounts: dict[str, Account] = {}
        """Of the functions of a user's app."""
        self.surroundings: AbstractContextManager[object] = nullcontext()
        """Entered while the world runs."""
        self.runtimes = {machine: self._runtime(machine, seed) for machine in self.machines}
        self._jobs: list[tuple[Machine | None, asyncio.Task[Any]]] = []
        self._ends: dict[Machine, list[asyncio.Future[None]]] = {machine: [] for machine in self.machines}
        self.cancelled: set[str] = set()
        self._awaited: dict[WorldFault, None] = {}
        self.over = False
        """Whether all has been judged: what happens now is only clearing up."""
        self._given_up = False
        self._well_from = 0.0
        self._burials: list[asyncio.Task[Any] | None] = []
        self.network.on_answer = self._answered
        self.network.on_loss = self._chronicle.lost
        for fault in faults:
            if fault.from_start:
                self._strike(fault)
            elif fault.comes_to_a_point:
                self.expect(fault)

    def _runtime(self, machine: Machine, seed: int) -> VirtualRuntime:
        registry = HeardRegistry(
            self.oracle,
            machine,
            partial(self.openings.store, machine),
            _stream(seed, machine.name),
            open_queue=lambda _, name: self.openings.queue(machine, name),
            keep=(keep := _stream(seed, "registry").choice(_KEPT)),
            wall=machine.wall,
        )
        self.oracle.bounds.forgets = keep != max(_KEPT)
        return VirtualRuntime(self.loop, machine, registry)

    # --- for workloads and faults -------------------------------------------------------------------------------------

    def wire_up(self) -> None:
        """Give the hosts the shipped store for blobs, over the virtual wire, before their work starts."""
        if self.wire is None:
            rng = _stream(self._seed, "wire")
            self.wire = VirtualWire(self.loop, self.network, self.service, self.oracle.blame, rng, self.machines)
            self.openings.open_by(self.wire.open_store)
            self.oracle.rest.connections = VirtualConnection, VirtualConnections

    def start(self, machine: Machine | None, coro: Coroutine[Any, Any, Any], *, seconds: float = 0.0) -> None:
        """Start a task on a machine, or outside all; ``seconds`` is its work: a bound on how long all may take."""
        context = contextvars.Context() if machine is None else machine.context()
        self._jobs.append((machine, self.loop.create_task(coro, context=context)))
        self.work += seconds

    def watch(self, check: Callable[[], None]) -> None:
        """Call something each second, outside all machines, as long as there is work."""
        if self._unfinished() and not self._broken():
            check()
            self.later(1.0, self.watch, check)

    def next_end(self, machine: Machine) -> asyncio.Future[None]:
        """Return a future that is done when the next body on this machine ends."""
        future: asyncio.Future[None] = self.loop.create_future()
        self._ends[machine].append(future)
        return future

    def crash(self, index: int) -> None:
        """Kill a host, unless it is the last."""
        machine = self.machines[index]
        if sum(not other.leaving for other in self.machines) > 1 or machine.leaving:
            machine.leaving = True
            if not machine.crashed:
                self.note(machine.name, "kill", pid=machine.index, holds=[])
            machine.crash()

    def shut_down(self, index: int) -> None:
        """Let a host close its locks and end, unless it is the last."""
        machine = self.machines[index]
        if sum(not other.leaving for other in self.machines) > 1 and not machine.leaving:
            machine.leaving = True
            self.loop.create_task(self._leave(machine), context=machine.context("locks"))
            self.later(_CLOSING, self._must_have_left, machine)

    async def _leave(self, machine: Machine) -> None:
        self.oracle.conduct.closing(machine)
        self.oracle.listening.closing(machine)
        await self.runtimes[machine].close()
        self.oracle.conduct.closed(machine)
        self.oracle.listening.closed(machine)
        await asyncio.sleep(_LINGER)
        self.note(machine.name, "host_exited", code=0, expected=True)
        machine.crash()

    def _must_have_left(self, machine: Machine) -> None:
        if not machine.crashed and not machine.stopped_since(_CLOSING):
            self.oracle.blame("does not close", f"{machine.name} can't close its locks")

    def operate(self, action: str, number: int) -> None:
        """Do to one of the locks what operators do."""
        names = sorted(tenure.lock for tenure in self.service.tenures()) or sorted(self.service.names())
        if action == "label":
            names = sorted(self.service.free())
        if names:
            self.operate_on(action, names[number % len(names)])

    def operate_on(self, action: str, lock: str) -> None:
        """Do to this lock what operators do."""
        self.note("world", "operator", action=action, lock=lock)
        self.service.operate(action, lock)

    def cancel(self, call: asyncio.Task[Any]) -> None:
        """Cancel a call of a user, which may not end as if nobody had asked."""
        self.cancelled.add(call.get_name())
        call.cancel()
        call.add_done_callback(self._must_be_cancelled)

    def _must_be_cancelled(self, call: asyncio.Task[Any]) -> None:
        if not self.over and not call.cancelled():
            self.oracle.blame("cancellation swallowed", f"{call.get_name()} was cancelled, and went on to its end")

    def forget_connections(self, index: int) -> None:
        """Have the network forget the idle connections of a host."""
        if self.wire is not None and self.wire.hosts[self.machines[index]].forget():
            self.oracle.reached["idle connections forgotten"] += 1

    def replace_credentials(self) -> None:
        """Give the account another key, and make all tokens void."""
        if self.wire is not None:
            self.wire.account.replace()

    def spoil_log(self, index: int, seconds: float, *, raises: bool) -> None:
        """Let a host's log handler block whoever logs, or raise: then listeners and callbacks raise, too."""
        self._logs.spoil(self.machines[index], seconds, raises=raises)

    # --- running ------------------------------------------------------------------------------------------------------

    def run(self) -> Run:
        """Run the world, and return the result."""
        on_wire = self.wire.installed() if self.wire is not None else nullcontext()
        with self.surroundings, on_wire, listening(self.loop, self.oracle):
            provide_runtime(lambda: self.runtimes[here()])
            unsubscribe = subscribe(self._hear)
            logging.disable(logging.CRITICAL)
            try:
                with watched():
                    self.loop.run_until_complete(self._live())
                    self.loop.drain()
                if not self._broken() and not self._given_up:
                    self._judge_the_end()
                return self._result()
            except (Deadlock, Stuck) as deadlock:
                self.oracle.blame("deadlock", str(deadlock))
                return self._result()
            except (SystemExit, KeyboardInterrupt) as error:
                if RAISED not in error.args:
                    raise
                self.oracle.blame(
                    "lock thread ended", f"a {type(error).__name__} of a watcher has ended the lock thread"
                )
                return self._result()
            finally:
                self._logs.calm()
                self._bury()
                self._logs.close()
                logging.disable(logging.NOTSET)
                unsubscribe()
                provide_runtime(None)

    async def _live(self) -> None:
        for fault in self.faults:
            if not (fault.from_start or fault.comes_to_a_point):
                self.later(fault.at, self._strike, fault)
        healed = max((fault.ends for fault in self.faults), default=0.0)
        await self._sleep(healed)
        for machine in self.machines:
            machine.disarm()
        while not self._broken() and any(machine.stopped and not machine.crashed for machine in self.machines):
            await self._sleep(1.0)
        until = self.loop.now + 120.0
        while (
            not self._broken() and self._unfinished() and self.loop.now < min(until + 2 * self.work, self.gives_up_at)
        ):
            await self._sleep(1.0)
        self._given_up = self.loop.now >= self.gives_up_at and bool(self._unfinished())
        if self._given_up:
            return
        if not self._broken() and (unfinished := self._unfinished()):
            late = f"{self.loop.now - healed:.0f} s after the last fault"
            self.oracle.blame("starved", f"{unfinished[0] or 'the feed'} has not ended its work {late}")
        if (left := self._well_from - self.loop.now) > 0:
            await self._sleep(left)
        self.later(_AT_REST, self._count_what_is_left)
        await self._sleep(_TAIL)
        if not self._broken():
            self._count_what_is_left()
            await self._close()

    def _count_what_is_left(self) -> None:
        """Look at each host that has been at rest for a while."""
        jobs = {job for _, job in self._jobs}
        for machine, runtime in self.runtimes.items():
            if self.oracle.is_at_rest(machine, _AT_REST) and not runtime.registry.keepers:
                self.oracle.rest.take(machine, vars(runtime), jobs)

    async def _sleep(self, seconds: float) -> None:
        """Let time pass; after a promise is broken nothing more needs to be seen."""
        if self.ends_when_broken:
            await asyncio.wait({self.oracle.broken}, timeout=seconds)
        else:
            await asyncio.sleep(seconds)

    def _broken(self) -> bool:
        return self.ends_when_broken and bool(self.oracle.violations)

    def _unfinished(self) -> list[Machine | None]:
        """Return whose jobs have not ended, though they could have."""
        return [machine for machine, job in self._jobs if not job.done() and not (machine and machine.crashed)]

    async def _close(self) -> None:
        closing = [
            self.loop.create_task(runtime.close(), context=machine.context("locks"))
            for machine, runtime in self.runtimes.items()
            if not machine.crashed
        ]
        _, pending = await asyncio.wait(closing, timeout=_CLOSING)
        if pending:
            self.oracle.blame("does not close", f"{len(pending)} hosts could not close their locks")

    def _strike(self, fault: WorldFault) -> None:
        self.struck(fault)
        fault.strike(self)

    def expect(self, fault: WorldFault) -> None:
        """Set up a fault that strikes when its point comes, and must come to its point."""
        self._awaited[fault] = None
        fault.strike(self)

    def struck(self, fault: WorldFault) -> None:
        """Write down that a fault strikes now."""
        self._awaited.pop(fault, None)
        self._well_from = max(self._well_from, self.loop.now + fault.lasts)
        self.note("world", "fault", kind=fault.kind, words=fault.words())
        self.oracle.reached[f"fault: {fault.kind}"] += 1

    def _hear(self, event: LockEvent) -> None:
        if self.over:
            return
        self.oracle.rest.hear(here(), event)
        if event.mode not in _GUARDED:  # what lock clients do is told by workloads
            return
        self._chronicle.hear(here().name, event)
        self.oracle.hear(event)
        if event.kind == "body_ended":
            ends = self._ends[here()]
            while ends:
                if not (future := ends.pop()).done():
                    future.set_result(None)

    def _answered(self, request: NetworkRequest, failure: Exception | None, passage: Passage) -> None:
        tenure = self.service.tenure(request.name)
        self._chronicle.answered(request, failure, passage, tenure)
        self.oracle.answered(request, failure, tenure)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _judge_the_end(self) -> None:
        for check in self.oracle.last_checks:
            check()
        for machine, job in self._jobs:
            if job.done() and not job.cancelled() and (error := job.exception()) is not None:
                self.oracle.blame("broken", f"a job of {machine or 'the feed'} raised {error!r}")
        jobs = {job for _, job in self._jobs}
        for task, host in self.loop.leftover_tasks().items():
            if host is not None and not host.crashed and task not in jobs:
                self.oracle.blame("task left behind", f"{host.name} left {task.get_name()}")
        for machine in self.machines:
            if not machine.crashed:
                kept = vars(self.runtimes[machine].registry)
                self.oracle.rest.take(machine, {name: kept[name] for name in kept if name != "keepers"}, jobs)
        for machine in self.machines:
            if not machine.crashed and (left := self.openings.left(machine)):
                self.oracle.blame("connection left open", f"{machine.name} has closed its locks, and not {left[0]}")
        for lock in self.service.unlabelled():
            self.oracle.blame("label wiped", f"what an operator wrote on {lock} is gone")
        for report in self.loop.errors:
            self.oracle.blame("unhandled error", f"{report.get('message')}: {report.get('exception')!r}")
        for fault in self._awaited:
            self.oracle.blame("point not reached", f"it never came to this: {fault.words()}")
        for reason in broken_promises(self.records):
            self.oracle.blame("verdict", reason)

    def _result(self) -> Run:
        self.oracle.reached.update(self.network.reached)
        return Run(
            violations=tuple(self.oracle.violations),
            reached=self.oracle.reached,
            seconds=self.loop.now,
            turns=self.loop.turns,
            records=tuple(self.records),
            accounts=self.accounts,
        )

    def _bury(self) -> None:
        """End the tasks of crashed hosts: their ``finally`` blocks must not run before, while somebody watches."""
        self.over = True
        self.network.rules = [_no_network]
        for machine in self.machines:
            machine.revive()
        while self.loop.leftover_tasks():
            try:
                with suppress(Stuck, Deadlock), watched(_BURIAL):
                    self.loop.run_until_complete(self._end_tasks())
            except (SystemExit, KeyboardInterrupt) as error:  # of a task that has ended by this
                if RAISED not in error.args:
                    raise
            else:
                break
        self.loop.close_tasks()
        forget_going()  # of hosts that died: a process of their own would be gone

    async def _end_tasks(self) -> None:
        self._burials.append(asyncio.current_task())
        await asyncio.sleep(0.001)  # kept callbacks begin: a task that is cancelled before that never runs its code
        for _ in range(20):
            left = [task for task in self.loop.leftover_tasks() if task not in self._burials]
            if not left:
                return
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=20.0)


@dataclass(slots=True)
class Judge:
    """The base of a workload's checks: blames a broken promise."""

    world: World

    def _blame(self, check: str, text: str) -> None:
        self.world.oracle.blame(check, text)


def _stream(seed: int, name: str) -> random.Random:
    return random.Random(f"{seed}/{name}")


def _no_network(_: NetworkRequest, passage: Passage) -> None:
    passage.lost = passage.reset = True

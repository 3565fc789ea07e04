"""The workload ``starts``: callers on all hosts start Durable orchestrations once; answers of Durable get lost.

started at once    a start came to Durable though another instance had begun since its caller looked, and all was well
started by others  a call says that it started an instance, and another call's start began it
nobody in the way  a call says that an instance was in the way, and there was none
start forgotten    a call failed, though Durable had shown it the instance that it started

A start whose answer is lost, or a question, raises an ``OSError``. Durable shows an instance late, and refuses to
replace one that has not ended.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import types
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.jobs import ended, without_options
from simulator.virtual.worlds.runtime import HOST_ID
from simulator.virtual.worlds.world import Judge
from singleton import start_singleton
from singleton.base.errors import SingletonError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.patterns.durable import Started

_OPTIONS: Final = {"AzureFunctionsJobHost__singleton__hostId": HOST_ID}
_LOST: Final = 0.06
"""Share of requests to Durable that are lost on the way there, and of those on the way back."""
_UNSEEN: Final = 7.0
"""Seconds after which Durable shows an instance, at most."""
_PEACE: Final = 40.0


def start_starts(world: World) -> None:
    """Let some callers on each machine start one of a few orchestrations, again and again."""
    rng = world.rng_work
    hub = _Hub(world, random.Random(rng.random()))
    ids = rng.choice((1, 1, 2, 3))
    for machine in world.machines:
        for _ in range(rng.randint(1, 3)):
            pauses = [rng.choice((0.0, 1.0, 10.0)) * rng.random() for _ in range(rng.randint(1, 3))]
            calls = [(pause, f"order-{rng.randrange(ids)}", rng.random() < 0.1) for pause in pauses]
            world.start(machine, hub.calls(machine, calls), seconds=sum(pauses) + 15.0 * len(pauses))


@types.coroutine
def _begun_with(options: dict[str, str], call: Coroutine[Any, Any, Started]) -> Generator[Any, Any, Started]:
    """Run a call whose first step, which reads the options, sees these."""
    step: Callable[[], Any] = partial(call.send, None)
    with without_options(options):
        waits = step()
    while True:
        try:
            sent = yield waits
        except BaseException as error:  # noqa: BLE001 - handed on
            step = partial(call.throw, error)
        else:
            step = partial(call.send, sent)
        try:
            waits = step()
        except StopIteration as stop:
            found: Started = stop.value
            return found


@dataclass(slots=True, eq=False)
class _Instance:
    """An orchestration's instance: by whose start, and from when to when."""

    by: _Starter
    since: float
    shown: float
    until: float


@dataclass(slots=True, eq=False)
class _Starter:
    """A call, and the client that it has."""

    hub: _Hub
    machine: Machine
    name: str
    since: float
    began: _Instance | None = None
    saw: bool = False
    """Whether Durable has shown it the instance that its start began."""

    async def get_status(self, instance_id: str) -> Any:
        """Answer as Durable's client."""
        return await self.hub.carried(partial(self.hub.shows, instance_id), self._sees)

    async def start_new(self, _: str, instance_id: str, __: object = None) -> str:
        """Answer as Durable's client."""
        await self.hub.carried(partial(self.hub.begins, self, instance_id), lambda _: None)
        return instance_id

    def _sees(self, status: Any) -> None:
        self.saw |= status.instance is not None and status.instance is self.began


@dataclass(slots=True)
class _Hub(Judge):
    """Durable, and what is known of its instances."""

    rng: random.Random
    _instances: dict[str, list[_Instance]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.world.oracle.conduct.keeps = self._keeps

    def _keeps(self, tenure: Tenure) -> bool:
        """Tell whether a call goes on under a lease: its process ends without giving the lease back."""
        assert tenure.machine is not None
        holds = self.world.runtimes[tenure.machine].registry.acquired
        return any(hold.lease_id == tenure.lease_id and not hold.lost._ended for hold in holds)

    async def carried(self, act: Callable[[], Any], then: Callable[[Any], None]) -> Any:
        """Do this there: a request that is on its way arrives, whatever becomes of its sender."""
        asked = asyncio.get_running_loop().create_task(self._carry(act, then), context=contextvars.Context())
        asked.add_done_callback(lambda task: task.cancelled() or task.exception())  # its sender may be gone
        return await asyncio.shield(asked)

    async def _carry(self, act: Callable[[], Any], then: Callable[[Any], None]) -> Any:
        await self._travel()
        answer = act()
        await self._travel()
        then(answer)
        return answer

    async def _travel(self) -> None:
        await asyncio.sleep(self.rng.choice((0.01, 0.01, 0.05, 2.0)) * self.rng.random())
        if self.rng.random() < _LOST:
            self.world.oracle.reached["answers of Durable lost"] += 1
            raise OSError("the connection to Durable broke")

    # --- what Durable does --------------------------------------------------------------------------------------------

    def shows(self, instance_id: str) -> Any:
        """Return the status of the last instance that is shown."""
        now = self.world.loop.now
        last = next((each for each in reversed(self._instances.get(instance_id, [])) if each.shown <= now), None)
        status = None if last is None else "Running" if last.until > now else "Completed"
        created = None if last is None else last.since
        return SimpleNamespace(runtime_status=status, created_time=created, instance=last)

    def begins(self, starter: _Starter, instance_id: str) -> None:
        """Begin an instance, unless one has not ended."""
        now, all_of = self.world.loop.now, self._instances.setdefault(instance_id, [])
        if all_of and all_of[-1].until > now:
            self._must_not_meet(starter, all_of[-1])
            raise Exception(f"An Orchestration instance with the ID {instance_id} already exists.")  # noqa: TRY002
        runs = self.rng.choice((0.1, 5.0, 30.0)) * self.rng.random()
        starter.began = _Instance(starter, now, now + self.rng.choice((0.0, 1.0, _UNSEEN)) * self.rng.random(), now)
        starter.began.until = starter.began.shown + runs
        all_of.append(starter.began)
        self.world.oracle.reached["instances"] += 1

    # --- what callers are told ----------------------------------------------------------------------------------------

    async def calls(self, machine: Machine, calls: list[tuple[float, str, bool]]) -> None:
        """Make one call after the other; some are cancelled."""
        for number, (pause, instance_id, cancelled) in enumerate(calls):
            await asyncio.sleep(pause)
            starter = _Starter(self, machine, f"{machine.name}/{number}", self.world.loop.now)
            asked = self._asks(starter, instance_id)
            await ended(asked, starter.name, cancel_after=self.rng.uniform(0.0, 5.0) if cancelled else None)

    async def _asks(self, starter: _Starter, instance_id: str) -> None:
        timeout = self.rng.choice((60.0, 60.0, 5.0, None))
        call = start_singleton(starter, f"import_{instance_id}", instance_id, {"by": starter.name}, timeout=timeout)
        try:
            told = await _begun_with(_OPTIONS, call)
        except SingletonError as error:
            self.world.oracle.reached[f"starts: {type(error).__name__}"] += 1
            return
        except (OSError, RuntimeError):
            self.failed(starter)
        else:
            self.told(starter, instance_id, started=told.started)

    def failed(self, starter: _Starter) -> None:
        """Take a call that failed by an error of Durable's."""
        if starter.saw and self._in_peace(starter.machine):
            self._blame("start forgotten", f"{starter.name} failed, and Durable had shown what it started")

    def told(self, starter: _Starter, instance_id: str, *, started: bool) -> None:
        """Take what a call was told."""
        self.world.oracle.reached[f"started: {started}"] += 1
        if started and starter.began is None and self._in_peace(starter.machine):
            self._blame("started by others", f"{starter.name} says that it started {instance_id}, and it did not")
        if not started and not any(each.until > starter.since for each in self._instances.get(instance_id, [])):
            self._blame("nobody in the way", f"{starter.name} did not start {instance_id}, and nothing ran")

    def _must_not_meet(self, starter: _Starter, other: _Instance) -> None:
        """Judge a start that meets an instance: under the lock nobody began one since the caller looked."""
        self.world.oracle.reached["starts that meet an instance"] += 1
        calm = self._in_peace(starter.machine) and self._in_peace(other.by.machine)
        if starter is not other.by and calm:
            since = f"{self.world.loop.now - other.since:.1f} s after {other.by.name} has started it"
            self._blame("started at once", f"{starter.name} starts an orchestration {since}")

    def _in_peace(self, machine: Machine) -> bool:
        """Tell whether all was well with a host, and no operator has ended a lease: then somebody is without it."""
        oracle = self.world.oracle
        return not machine.crashed and not oracle.book.meddled and oracle.conduct.well(machine, _PEACE)

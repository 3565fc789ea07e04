"""The workload ``leader``: candidates for a leadership that come, lead, resign and come again.

The oracle sees to two leaders at once, a leader that is not told of its loss, and a leadership that is not given back,
as of every lock. Beside that:

nobody leads    a leadership that nobody has, a live candidate, a quiet network, and no leader within the bound
false alarm     a candidate was told that its client is closed, and it was not
left waiting    a leadership was ended, and somebody still waits for it
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.hosts.jobs import able, ended, inside, lock_client, work
from simulator.virtual.oracle.callers import AT_ONCE, QUIET
from simulator.virtual.worlds.outcome import Refused
from singleton import SingletonOptions
from singleton.base.errors import LockClosed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.hold import Hold
    from singleton.clients.leadership import Leadership


@dataclass(slots=True)
class LeaderWaiter:
    """Waits in a task of its own, through all terms, until it is told that the leadership is over."""

    world: World
    machine: Machine
    _task: asyncio.Task[None] | None = None

    def wait_for(self, leadership: Leadership) -> None:
        """Begin to wait."""
        self._task = asyncio.create_task(_wait(leadership), name=f"witness of {leadership.name}")

    async def must_know(self, *, excused: bool = False) -> None:
        """Receive the end of the leadership: the waiter is told at once."""
        if self._task is None:
            return
        try:
            await asyncio.wait({self._task}, timeout=0.0 if excused else AT_ONCE)
            excused |= self.machine.leaving or self.machine.stopped_since(2 * AT_ONCE)
            if self._task.done():
                self._task.result()
            elif not excused:
                text = f"the {self._task.get_name()} still waits on {self.machine.name}, and it is over"
                self.world.oracle.blame("left waiting", text)
        finally:
            self._task.cancel()


async def _wait(leadership: Leadership) -> None:
    with suppress(LockClosed):
        while True:
            hold = await leadership
            await hold.lost


_NAMES: Final = ("poller", "sweeper")
_RECOVERY: Final = 15.0
_OPTIONS: Final = SingletonOptions(listener_lock_period=15, listener_lock_recovery_polling_interval=_RECOVERY)


@dataclass(frozen=True, slots=True)
class _Term:
    """A candidacy that lasts so many seconds, after a pause."""

    pause: float
    seconds: float
    step: float


def start_leader(world: World) -> None:
    """One or two leaderships, for which every machine is a candidate, once or twice."""
    for name in _NAMES[: world.rng_work.choice([1, 1, 2])]:
        start_election(world, Election(world, name))


def start_election(world: World, election: Election) -> None:
    """Let every machine be a candidate, once or twice."""
    rng = world.rng_work
    for machine in world.machines:
        terms = [
            _Term(rng.uniform(0, 10), rng.choice([10.0, 40.0, 90.0]) * rng.uniform(0.5, 1), rng.uniform(0.5, 5))
            for _ in range(rng.randint(1, 2))
        ]
        seconds = sum(term.pause + term.seconds for term in terms)
        world.start(machine, election.stand(machine, terms), seconds=seconds / len(world.machines))
    world.watch(election.must_have_a_leader)


@dataclass(slots=True)
class Election:
    """The candidates for one leadership."""

    world: World
    name: str
    _since: dict[Machine, float] = field(default_factory=dict)
    """Since when each machine, as far as it knows, wants to lead and does not."""
    failovers: Mapping[Machine, float | None] = field(default_factory=dict)
    """With which each machine asks for it."""
    options: SingletonOptions = _OPTIONS

    def stand_once(self, machine: Machine, pause: float, seconds: float) -> None:
        """Let a machine be a candidate for some time, after a pause."""
        standing = self.stand(machine, [_Term(pause, seconds, 0.5)])
        self.world.start(machine, ended(standing, machine.name, cancel_after=None), seconds=pause + seconds)

    async def stand(self, machine: Machine, terms: list[_Term]) -> None:
        """Be a candidate for some time, and again."""
        client = lock_client(self.options, failover=self.failovers.get(machine))
        for term in terms:
            await asyncio.sleep(term.pause)
            witness = LeaderWaiter(self.world, machine)
            try:
                async with client.leadership(self.name, owner=machine.name) as leadership:
                    witness.wait_for(leadership)
                    self._since[machine] = self.world.loop.now
                    self.world.note(machine.name, "candidacy_began", owner=machine.name, lock=self.name)
                    try:
                        with suppress(TimeoutError):
                            async with asyncio.timeout(term.seconds):
                                await self._lead_again_and_again(machine, leadership, term)
                    finally:
                        self._since.pop(machine, None)
                await witness.must_know()
                self.world.note(machine.name, "candidacy_ended", owner=machine.name, lock=self.name)
            except LockClosed as error:
                if not machine.leaving:
                    self.world.oracle.blame("false alarm", f"{machine.name} was told: {error}")
                return

    async def _lead_again_and_again(self, machine: Machine, leadership: Leadership, term: _Term) -> None:
        while True:
            hold = await leadership
            if not hold.lost.is_set():
                await self._lead(machine, leadership, hold, term)

    async def _lead(self, machine: Machine, leadership: Leadership, hold: Hold, term: _Term) -> None:
        self.world.oracle.reached["terms as a leader"] += 1
        self._since.pop(machine, None)
        with suppress(Refused), inside(self.world, machine, hold, guarded=False, failover=self.failovers.get(machine)):
            while leadership.hold is hold:
                await work(self.world, hold, term.step)
        self._since[machine] = self.world.loop.now

    def want(self, lock: str) -> list[tuple[Machine, float, float]]:
        """Return who would take this leadership from a silent leader."""
        wanted = self._since.items() if lock == self.name else ()
        return [(each, since, own) for each, since in wanted if (own := self.failovers.get(each)) is not None]

    def must_have_a_leader(self) -> None:
        """A leadership does not stay free while somebody wants it."""
        now, drift = self.world.loop.now, self.world.oracle.bounds.drift
        bound = _RECOVERY * drift + 2.0
        if self.world.oracle.service.held_until(self.name) >= now - bound:
            return
        for machine, since in self._since.items():
            if since < now - bound and able(self.world, machine, bound + QUIET):
                free = f"is free for {bound:.0f} s"
                self.world.oracle.blame("nobody leads", f"{machine.name} is a candidate, and {self.name} {free}")
                return

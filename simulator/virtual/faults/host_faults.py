"""The faults of hosts, and the operators' acts on locks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Self

from simulator.faults.fault_record import drawn
from simulator.virtual.faults.world_fault import Lasting, WorldFault, about, place_and_time

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping, Sequence

    from simulator.virtual.faults.world_fault import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(WorldFault, kind="crash"):
    """SIGKILL: nothing of the process runs again."""

    said: ClassVar[str] = "host-{0.host} is killed"

    def strike(self, world: Target) -> None:
        world.crash(self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class HolderDies(WorldFault, kind="holder dies"):
    """SIGKILL of a host with a lock."""

    of: ClassVar[tuple[str, ...]] = ("failover", "ordered")
    said: ClassVar[str] = "who has lock number {0.lock} is killed"
    lock: int = drawn(0, lambda rng: rng.randrange(3))

    def strike(self, world: Target) -> None:
        kill_a_holder(world, self.lock)


def kill_a_holder(world: Target, number: int) -> None:
    """Kill a host that has a lock; ``number`` chooses the lock."""
    tenures = sorted(world.service.tenures(), key=lambda each: each.lock)
    holders = [each.machine.index for each in tenures if each.machine is not None]
    if holders:
        world.crash(holders[number % len(holders)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause(Lasting, kind="pause"):
    """SIGSTOP, a long GC pause, a frozen VM."""

    said: ClassVar[str] = "host-{0.host} stands still for {0.seconds:g} s"

    def strike(self, world: Target) -> None:
        world.machines[self.host].stop(self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class PauseBetweenSteps(Lasting, kind="pause between steps"):
    """The same, but between two callbacks and not at a time: right after a check, right before a write."""

    said: ClassVar[str] = "host-{0.host} stands still for {0.seconds:g} s, {0.steps} callbacks from then"
    seconds: float = about(1, 14.5, 16, 20, 40, spread=0.1)
    steps: int = drawn(1, lambda rng: rng.randrange(1, 60))

    @property
    def ends(self) -> float:
        return self.at + self.seconds + 20.0

    def strike(self, world: Target) -> None:
        world.machines[self.host].stop_at_step(self.steps, self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShortPause(PauseBetweenSteps, kind="short pause"):
    """A process stands still for about as long as a touch is valid."""

    of: ClassVar[tuple[str, ...]] = ("failover",)
    seconds: float = about(0.7, 1.4, 1.9, 2.2, 3, 5, 11)
    steps: int = drawn(1, lambda rng: rng.randrange(1, 40))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedLoop(Lasting, kind="blocked loop"):
    """A user function that blocks its event loop; the lock thread runs on."""

    said: ClassVar[str] = "the user's event loop on host-{0.host} is blocked for {0.seconds:g} s"

    def strike(self, world: Target) -> None:
        world.machines[self.host].block("user", self.seconds)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShutDown(WorldFault, kind="shut down"):
    """SIGTERM: the process closes its locks, and ends."""

    said: ClassVar[str] = "host-{0.host} is told to stop"

    def strike(self, world: Target) -> None:
        world.shut_down(self.host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(WorldFault, kind="clock drift"):
    """A clock that runs fast or slow, from the start; by at most a fifteenth, which is tolerated.

    With ``everybody`` every second host's clock is as fast as the others' are slow.
    """

    from_start: ClassVar[bool] = True
    percent: float = 0.0
    everybody: bool = False

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:  # noqa: ARG003 - from the start
        percent = round(rng.uniform(3.0, 6.0) * rng.choice([-1, -1, 1]), 2)
        return cls(at=0.0, host=rng.randrange(hosts), percent=percent, everybody=rng.random() < 0.4)

    def strike(self, world: Target) -> None:
        for machine in world.machines:
            if self.everybody or machine.index == self.host:
                opposite = (machine.index - self.host) % 2
                machine.rate = 1 + (-self.percent if opposite else self.percent) / 100

    def words(self) -> str:
        how = f"runs {abs(self.percent):g} % {'fast' if self.percent > 0 else 'slow'}"
        rest = ", of every second host as well, and of the others the other way" if self.everybody else ""
        return f"the clock of host-{self.host} {how}{rest}"


_ACTS: Final = {
    "break_": "breaks the lease",
    "break slowly": "breaks the lease, with ten seconds' notice,",
    "steal": "takes the lease away",
    "delete": "deletes the blob",
    "label": "writes a key of his own on the blob, where nobody has it,",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator(WorldFault, kind="operator"):
    """An operator breaks the lease of a lock, at once or with notice, steals it, deletes its blob, or labels it."""

    allowed: ClassVar[Mapping[str, Sequence[str]]] = {"action": tuple(_ACTS)}
    action: str = "break_"
    lock: int = 0

    @classmethod
    def draw(cls, rng: random.Random, *, hosts: int, until: float) -> Self:
        action = rng.choice(list(_ACTS))
        at, lock = place_and_time(rng, hosts, until)
        return cls(at=at, host=0, action=action, lock=lock)

    def strike(self, world: Target) -> None:
        world.operate(self.action, self.lock)

    def words(self) -> str:
        return f"an operator {_ACTS.get(self.action, self.action)} of lock number {self.lock}"

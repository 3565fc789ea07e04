"""Hand-made situations for the oracle: hosts that misbehave on purpose, request by request and event by event."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING, Any

from simulator.virtual.hosts.jobs import guarded_jobs
from simulator.virtual.hosts.queue_host import told_of
from simulator.virtual.storage.service import NetworkStore
from simulator.virtual.worlds.world import World
from singleton.base.events import LockEvent, emit
from singleton.base.hold import Hold, shown_hold
from singleton.decorator import guards_of
from singleton.stores.stamps import OWNER_KEY

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from simulator.virtual.time.machine import Machine
    from singleton.base.events import EventKind
    from singleton.base.kinds import LossReason

LOCK = "locks/explored/~key"
PERIOD = 15
IDS = [f"00000000-0000-4000-8000-00000000000{digit}" for digit in "abcdef"]


class Belief:
    """A lease as a host believes to have it: until ``deadline`` by its own clock."""

    def __init__(self, lease_id: str, deadline: float) -> None:
        self.id = lease_id
        self.deadline = deadline
        self.loop = asyncio.get_running_loop()


class Host:
    """One host of a scene, and what it does and says."""

    def __init__(self, scene: Scene, machine: Machine) -> None:
        self.scene = scene
        self.machine = machine
        self.store = NetworkStore(scene.world.network, scene.world.service, machine)

    def plays(self, part: Callable[[Host], Coroutine[Any, Any, None]], *, seconds: float = 60.0) -> None:
        """Let it play a part, as one of its jobs."""
        self.scene.world.start(self.machine, part(self), seconds=seconds)

    def now(self) -> float:
        """Return the time by its clock."""
        return self.machine.reads(self.scene.world.loop.now)

    async def until(self, when: float) -> None:
        """Sleep until this true time."""
        await asyncio.sleep(max(0.0, when - self.scene.world.loop.now))

    async def take(self, lease_id: str = IDS[0], *, period: int = PERIOD, lasts: float = PERIOD * 14 / 15) -> Belief:
        """Acquire the lease, over the network; believe in it for ``lasts`` seconds from before the request."""
        sent = self.now()
        await self.store.create(LOCK, {OWNER_KEY: "me"})
        await self.store.acquire(LOCK, lease_id, period)
        return Belief(lease_id, sent + lasts)

    def enter(self, belief: Belief, *, owner: str = "me", token: int | None = None, lost: str = "") -> Hold:
        """Say that a body begins."""
        hold = Hold(LOCK, owner=owner, token=token, lease=belief)
        if lost:
            hold.lost.fire(lost)  # type: ignore[arg-type]
        self.says("body_started", owner, hold=hold)
        return hold

    def leave(self, hold: Hold) -> None:
        """Say that a body ends."""
        self.says("body_ended", hold.owner, hold=hold)

    def says(
        self,
        kind: EventKind,
        owner: str = "me",
        *,
        function: str = "ship",
        lock: str = LOCK,
        reason: LossReason | str | None = None,
        hold: Hold | None = None,
    ) -> None:
        """Report an event, in the context in which a guard would."""
        context = contextvars.copy_context()
        if hold is not None:
            context.run(shown_hold.set, hold)
        context.run(emit, LockEvent(kind=kind, lock=lock, function=function, owner=owner, token=None, reason=reason))

    def ends(self, outcome: str, owner: str = "me") -> None:
        """Report the end of an invocation."""
        self.scene.world.oracle.callers.ended(self.machine, owner, outcome)


class Scene:
    """A world of two hosts in which nothing happens by itself."""

    def __init__(self) -> None:
        self.world = World(1, 2, (), shuffle=False)
        self.world.ends_when_broken = False
        guards = {name: guards_of(job)[0] for name, job in guarded_jobs().items()}
        self.world.oracle.callers.know(guards)
        for name, guard in guards.items():
            self.world.note("world", "function", **told_of(name, guard, queue="", is_async=True) | {"tokens": False})
        self.a, self.b = (Host(self, machine) for machine in self.world.machines)

    def found(self) -> dict[str, str]:
        """Let it happen; return what the oracle found, by check."""
        return {violation.check: violation.text for violation in self.world.run().violations}

"""Situations for the checks of listeners, and of what the invocations beside them answer."""

from __future__ import annotations

import contextvars
from typing import TYPE_CHECKING, Any

import pytest

from simulator.virtual.hosts.jobs import Job
from singleton.base.events import LockEvent, emit
from singleton.base.hold import Hold, shown_hold
from singleton.decorator import guards_of
from singleton.functions.contention import Contention
from singleton.stores.protocol import StoreFailure
from tests.simulation.scenes import IDS, LOCK, Belief
from tests.worlds.listeners.answers import Invoked
from tests.worlds.listeners.app import Variant, Work, listening_app

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from simulator.virtual.storage.network import NetworkRequest, Passage
    from singleton.base.events import EventKind
    from tests.simulation.scenes import Host, Scene

LISTENING: dict[str, Callable[[Scene], None]] = {}


class Watcher:
    """A host with the function ``watch``, which is a listener's, each 15 s a candidate."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.oracle = host.scene.world.oracle
        self.listening = self.oracle.listening
        self.listening.know({"watch": guards_of(listening_app(Variant(15))["idle"])[0]})
        host.scene.world.watch(self.listening.look)

    def says(self, kind: EventKind, owner: str = "", *, hold: Hold | None = None, **more: Any) -> None:
        """Report an event of the listener's lock."""
        context = contextvars.copy_context()
        if hold is not None:
            context.run(shown_hold.set, hold)
        told = {"token": None, "reason": None, **more}
        event = LockEvent(kind=kind, lock=LOCK, function="watch", owner=owner, mode="listener", **told)
        context.run(emit, event)

    def leads(self, belief: Belief, token: int = 7) -> Hold:
        """Say that it listens; return the hold of a body's seat."""
        self.says("acquired", token=token)
        return Hold(LOCK, owner="inv", token=token, lease=belief)

    def invoked(self) -> None:
        """Begin an invocation."""
        self.listening.invoked(self.host.machine, "inv", "watch")

    def ended(self, outcome: str) -> None:
        """End it."""
        self.listening.ended(self.host.machine, "inv", outcome)


def of(check: str) -> Callable[[Callable[[Watcher], Coroutine[Any, Any, None]]], None]:
    """Name the check that is to fire when a host plays this part; it has begun to be a candidate."""

    def add(part: Callable[[Watcher], Coroutine[Any, Any, None]]) -> None:
        def make(scene: Scene) -> None:
            async def play(host: Host) -> None:
                watcher = Watcher(host)
                watcher.says("waiting")
                await part(watcher)

            scene.a.plays(play)

        LISTENING[check] = make

    return add


async def refused(watcher: Watcher) -> None:
    """Have the service say that another process listens."""
    service = watcher.host.scene.world.service
    service.execute(watcher.host.scene.b.machine, "create", LOCK, ())
    service.execute(watcher.host.scene.b.machine, "acquire", LOCK, (IDS[1], 60))
    with pytest.raises(StoreFailure):
        await watcher.host.store.acquire(LOCK, IDS[0], 15)


@of("nobody listens")
async def _(watcher: Watcher) -> None:
    await watcher.host.until(35.0)


@of("silent candidate")
async def _(watcher: Watcher) -> None:
    await watcher.host.until(50.0)


@of("no without a word")
async def _(watcher: Watcher) -> None:
    watcher.invoked()
    watcher.says("contended", "inv", reason="skip")


@of("no in spite of trouble")
async def _(watcher: Watcher) -> None:
    def lose(_: NetworkRequest, passage: Passage) -> None:
        passage.lost = True

    await refused(watcher)
    watcher.host.scene.world.network.rules.append(lose)
    lost = watcher.host.store.acquire(LOCK, IDS[0], 15)
    task = watcher.host.scene.world.loop.create_task(lost)
    await watcher.host.until(14.0)
    watcher.invoked()
    watcher.ended("ok")
    task.cancel()


@of("told of old trouble")
async def _(watcher: Watcher) -> None:
    await refused(watcher)
    await watcher.host.until(5.0)
    watcher.invoked()
    watcher.ended("StorageUnavailable")


@of("trouble without a cause")
async def _(watcher: Watcher) -> None:
    await watcher.host.until(3.0)
    watcher.invoked()
    watcher.ended("StorageDenied")


@of("stands by as the leader")
async def _(watcher: Watcher) -> None:
    watcher.leads(await watcher.host.take())
    await watcher.host.until(3.0)
    watcher.invoked()
    watcher.ended("LockNotAcquired")


@of("no answer")
async def _(watcher: Watcher) -> None:
    watcher.invoked()
    await watcher.host.until(14.0)


@of("another token")
async def _(watcher: Watcher) -> None:
    seat = watcher.leads(await watcher.host.take())
    watcher.invoked()
    watcher.says("body_started", "inv", hold=seat, token=8)
    watcher.says("body_ended", "inv", hold=seat, token=8, reason="ok")


@of("cut short")
async def _(watcher: Watcher) -> None:
    seat = watcher.leads(await watcher.host.take())
    watcher.says("body_started", "inv", hold=seat, token=7)
    watcher.listening.closing(watcher.host.machine)
    await watcher.host.until(2.0)
    seat.lost.fire("closed")
    watcher.says("body_ended", "inv", hold=seat, token=7, reason="lost")


@of("slow to close")
async def _(watcher: Watcher) -> None:
    watcher.listening.closing(watcher.host.machine)
    await watcher.host.until(16.0)
    watcher.listening.closed(watcher.host.machine)


@of("lease kept")
async def _(watcher: Watcher) -> None:
    watcher.leads(await watcher.host.take())
    await watcher.host.until(3.0)
    watcher.listening.closing(watcher.host.machine)
    await watcher.host.until(4.0)
    watcher.listening.closed(watcher.host.machine)


# --- what an invocation answers ---------------------------------------------------------------------------------------


def answers(check: str, kind: str, outcome: str, **does: Any) -> None:
    """Name the check that is to fire when an invocation of this kind ends so."""

    def make(scene: Scene) -> None:
        world = scene.world
        result, waited, exited = does.pop("result", None), does.pop("waited", 0.0), does.pop("exited", False)

        async def part(host: Host) -> None:
            await host.until(waited)
            work = Work(Job(world.resource, 1, 1.0), lambda: world.loop.now, **does)
            one = Invoked(world, kind, "inv", host.machine, work, 0.0)
            one.answered(result)
            one.exited = exited
            one.judge(outcome)

        scene.a.plays(part)

    LISTENING[check] = make


TOLD = Contention(function="ask", lock=LOCK, owner="inv")
answers("wrong answer", "ship", "ok", ran=1, gave="done", result=None)
answers("dropped", "answer", "ok")
answers("not skipped", "sweep", "LockNotAcquired")
answers("made unlocked", "report", "ok", ran=1, unlocked=1)
answers("asked too late", "ask", "ok", asked=[(8.0, TOLD)], policy="skip", waited=8.0)
answers("asked wrongly", "ask_sync", "ok", asked=[(0.0, TOLD)], policy="skip")
answers("policy ignored", "ask", "ok", asked=[(0.0, TOLD)], policy="raise")
answers("gave up early", "limited", "LockNotAcquired", waited=5.0)
answers("waits too long", "limited", "LockNotAcquired", waited=20.0)
answers("not answered", "ship", "failed", exited=True)

"""Situations for the ledger of messages: queues that are served wrongly on purpose, request by request."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from simulator.virtual.hosts.queue_service import Queues
from simulator.virtual.workloads.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.hosts.queue_service import Stored
    from tests.simulation.scenes import Scene

QUEUE = "orders"
LIFE = 1000.0
MISDELIVERIES: dict[str, Callable[[Scene], None]] = {}


class Desk:
    """A queue with one message, its ledger, and what a host does with it: a delay of 10 s, five tries."""

    def __init__(self, scene: Scene) -> None:
        self.machine = scene.a.machine
        self.queues = Queues(scene.world.loop)
        self.queues.watcher = self.ledger = Ledger(scene.world, delay=10.0, most=5)
        self.stored: Stored = self.queues.send(QUEUE, "text", life=LIFE)
        self.ledger.fed(1, QUEUE, self.stored)

    def receives(self) -> None:
        """Receive the message, as soon as it is to be seen."""
        (message,) = self.queues.receive(QUEUE, 1, 0.0, self.machine)
        self.receipt = message.pop_receipt

    def puts_back(self, text: str = "text", *, queue: str = QUEUE, delay: float = 10.0, life: float = LIFE) -> None:
        """Send a copy, as its locks do."""
        self.queues.make(queue)
        self.queues.send_for(queue, text, delay, life, self.machine)

    def deletes(self) -> None:
        """Delete the message that was received."""
        self.queues.delete(QUEUE, self.stored.id, self.receipt)


def misdelivery(check: str) -> Callable[[Callable[[Desk], None]], None]:
    """Name the check that is to fire when a message is served so; then thirty seconds go by."""

    def add(part: Callable[[Desk], None]) -> None:
        def make(scene: Scene) -> None:
            async def play() -> None:
                part(Desk(scene))
                await asyncio.sleep(30.0)

            scene.world.start(scene.a.machine, play(), seconds=60.0)

        MISDELIVERIES[check] = make

    return add


@misdelivery("gone")
def _(desk: Desk) -> None:
    desk.receives()
    desk.ledger.succeeded(desk.stored.id, ran=False, dropped=False, value=None)
    desk.deletes()


@misdelivery("altered")
def _(desk: Desk) -> None:
    desk.puts_back("another text")


@misdelivery("two of one")
def _(desk: Desk) -> None:
    desk.receives()
    desk.puts_back()


@misdelivery("ran again")
def _(desk: Desk) -> None:
    for _ in range(2):
        desk.ledger.succeeded(desk.stored.id, ran=True, dropped=False, value=None)


@misdelivery("burnt")
def _(desk: Desk) -> None:
    for _ in range(2):
        desk.receives()


@misdelivery("wrong delay")
def _(desk: Desk) -> None:
    desk.puts_back(delay=20.0)


@misdelivery("wrong life")
def _(desk: Desk) -> None:
    desk.puts_back(life=LIFE + 100.0)


@misdelivery("poison too soon")
def _(desk: Desk) -> None:
    desk.receives()
    desk.puts_back(queue=f"{QUEUE}-poison", delay=0.0)


@misdelivery("tried too often")
def _(desk: Desk) -> None:
    for _ in range(6):
        desk.ledger.failed(desk.stored.id, own=True, last=False)


@misdelivery("output of nobody")
def _(desk: Desk) -> None:
    desk.ledger.succeeded(desk.stored.id, ran=False, dropped=False, value="done")

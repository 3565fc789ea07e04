"""Functions hosts in virtual worlds: the simulator's own listeners, on virtual queues and a virtual wall clock."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from simulator.host.app.hostjson import QueueOptions
from simulator.host.triggers.messages import HostQueues, encode
from simulator.host.triggers.queue import QueueListener
from simulator.host.triggers.timer import WallClock
from simulator.virtual.time.machine import HOST
from simulator.virtual.workloads.jobs import message
from simulator.virtual.workloads.queues import Queues, VirtualQueue
from singleton.base.events import LockEvent, subscribe

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence

    from simulator.host.triggers.messages import Message
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

VISIBILITY: Final = 30.0
PATIENCE: Final = 10.0
"""Seconds that a host waits for an answer of its queue."""
EPOCH: Final = 1_800_000_000.0
"""The wall-clock time at which virtual worlds begin; a multiple of every pace of a timer."""
_OPTIONS: Final = QueueOptions(max_polling_interval=5.0, max_dequeue_count=10_000, visibility_timeout=2.0)
"""Nothing is poisoned: whatever fails here is to be tried until it works."""


class VirtualClock(WallClock):
    """The wall clock of the current machine; wall clocks agree at the beginning, monotonic ones don't."""

    def now(self) -> float:
        """Seconds since the epoch, by this machine's clock."""
        machine = HOST.get()
        return EPOCH - (machine.offset if machine is not None else 0.0) + asyncio.get_running_loop().time()


@dataclass(frozen=True, slots=True)
class Feed:
    """A message to be sent at a time."""

    at: float
    queue: str
    text: str


def orders(rng: random.Random, queue: str, number: int, *, within: float) -> list[Feed]:
    """Draw the orders of two customers, in the order of their times; each is for the job of its number."""
    feeds = [
        Feed(rng.uniform(0, within), queue, encode(message(f"key-{rng.randrange(2)}", each).encode(), "base64"))
        for each in range(number)
    ]
    return sorted(feeds, key=lambda feed: feed.at)


class Account:
    """Which messages were handled, by themselves or as a copy that went back in their place."""

    def __init__(self) -> None:
        self._handled: set[str] = set()
        self._copies: dict[str, set[str]] = defaultdict(set)

    def hear(self, event: LockEvent) -> None:
        """Take an event: a message that is put back is told of before its invocation ends."""
        if event.kind == "deferred" and event.message_id and event.copy_id:
            self._copies[event.message_id].add(event.copy_id)

    def succeeded(self, message: str) -> None:
        """Take the success of an invocation: with a message that was put back, nothing was done."""
        if message not in self._copies:
            self._handled.add(message)

    def handled(self, message: str) -> bool:
        """Tell whether the message, or a copy of it, was handled."""
        return any(name in self._handled for name in self._family(message))

    def vanished(self, sent: Iterable[str], left: set[str]) -> list[str]:
        """Return those that were neither handled nor are left."""
        return sorted(name for name in sent if not self.handled(name) and left.isdisjoint(self._family(name)))

    @property
    def put_back(self) -> int:
        """How often a message was put back."""
        return sum(map(len, self._copies.values()))

    def _family(self, message: str) -> set[str]:
        family, new = set(), {message}
        while new:
            family |= new
            new = {copy for name in new for copy in self._copies.get(name, ())} - family
        return family


class QueueWorld:
    """Queues with listeners on every machine, a feed, and the account of what became of each message."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.queues = Queues(world.loop)
        world.rng_work.random()  # for nothing: without it a seed would mean another world
        self._listeners: list[tuple[Machine, QueueListener]] = []
        self._account = Account()
        world.open_queue = partial(VirtualQueue, world.network, self.queues)

    def listen(self, machine: Machine, function: str, queue: str, run: Callable[[Message], Awaitable[bool]]) -> None:
        """Start a queue listener on a machine; ``run`` runs the function, and tells whether it succeeded."""

        async def counted(received: Message) -> bool:
            succeeded = await run(received)
            if succeeded:
                self._account.succeeded(received.id)
            return succeeded

        listener = QueueListener(
            function=function,
            queue=queue,
            service=HostQueues(partial(VirtualQueue, self.world.network, self.queues, machine), patience=PATIENCE),
            options=_OPTIONS,
            visibility=VISIBILITY,
            run=counted,
            write=partial(self.world.note, machine.name),
            random=random.Random(f"{self.world.rng_work.random()}/{machine.name}"),
        )
        self._listeners.append((machine, listener))
        self.world.start(machine, listener.run())

    def feed(self, messages: Sequence[Feed], *, seconds: float) -> None:
        """Send the messages in time; when all are done with, stop the listeners and settle the account."""
        self.world.start(None, self._feed(messages), seconds=seconds)

    async def _feed(self, messages: Sequence[Feed]) -> None:
        unsubscribe = subscribe(self._account.hear)
        sent = set()
        try:
            for feed in messages:
                await asyncio.sleep(max(0.0, feed.at - self.world.loop.now))
                name = self.queues.send(feed.queue, feed.text)
                self.world.note("world", "message_sent", queue=feed.queue, id=name)
                sent.add(name)
            while self.queues.left() and any(not machine.crashed for machine, _ in self._listeners):  # noqa: ASYNC110
                await asyncio.sleep(1.0)
        finally:
            unsubscribe()
        for _, listener in self._listeners:
            listener.stop()
        for queue in {listener.queue: None for _, listener in self._listeners}:
            self.world.note("world", "queue_left", queue=queue, ids=self.queues.left().get(queue, []))
        left = {name for names in self.queues.left().values() for name in names}
        for lost in self._account.vanished(sent, left):
            self.world.oracle.blame("message lost", f"message {lost} is gone, and no invocation of it succeeded")
        self.world.oracle.reached["messages done"] += sum(map(self._account.handled, sent))
        self.world.oracle.reached["messages put back"] += self._account.put_back

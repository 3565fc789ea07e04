"""Queues in memory that keep time by the running loop's clock, and a queue listener with its surroundings on them."""

from __future__ import annotations

import asyncio
import base64
import itertools
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

from simulator.host.app.hostjson import QueueOptions
from simulator.host.triggers.queue import HostQueue, HostQueues, QueueListener, QueueMessage
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

VISIBILITY = 20.0


@dataclass
class Stored:
    id: str
    text: str
    visible: float
    receipt: str = ""
    count: int = 0


class MemoryQueues(HostQueues):
    """Queues as the service keeps them: receipts change with each receive and update, visibility ends by the clock."""

    def __init__(self) -> None:
        super().__init__(_never_opened)
        self.queues: dict[str, list[Stored]] = {}
        self.requests: list[tuple[float, str]] = []
        self.trouble: dict[str, int] = {}
        self._numbers = itertools.count(1)

    def put(self, queue: str, *bodies: str, count: int = 0, raw: bool = False) -> None:
        for body in bodies:
            text = body if raw else base64.b64encode(body.encode()).decode()
            self.queues.setdefault(queue, []).append(Stored(f"m{next(self._numbers)}", text, 0.0, count=count))

    def texts(self, queue: str) -> list[str]:
        return [base64.b64decode(stored.text).decode() for stored in self.queues.get(queue, [])]

    def times(self, kind: str) -> list[float]:
        return [round(at, 3) for at, what in self.requests if what == kind]

    def _begin(self, kind: str, queue: str) -> list[Stored]:
        self.requests.append((self._now(), kind))
        if self.trouble.get(kind, 0) > 0:
            self.trouble[kind] -= 1
            raise StoreFailure(503, "ServerBusy")
        if queue not in self.queues:
            raise StoreFailure(404, "QueueNotFound")
        return self.queues[queue]

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _own(self, stored: list[Stored], message: QueueMessage) -> Stored:
        for one in stored:
            if one.id == message.id and one.receipt == message.pop_receipt:
                return one
        raise StoreFailure(400, "PopReceiptMismatch")

    async def receive(self, queue: str, count: int, visibility: float) -> list[QueueMessage]:
        ready = [one for one in self._begin("receive", queue) if one.visible <= self._now()][:count]
        for one in ready:
            one.visible, one.receipt, one.count = self._now() + visibility, f"r{next(self._numbers)}", one.count + 1
        return [
            QueueMessage(id=one.id, text=one.text, dequeue_count=one.count, pop_receipt=one.receipt) for one in ready
        ]

    async def set_visibility(self, queue: str, message: QueueMessage, visibility: float) -> None:
        one = self._own(self._begin("renew", queue), message)
        one.visible, one.receipt = self._now() + visibility, f"r{next(self._numbers)}"
        await asyncio.sleep(0.01)
        message.pop_receipt = one.receipt

    async def delete(self, queue: str, message: QueueMessage) -> None:
        stored = self._begin("delete", queue)
        stored.remove(self._own(stored, message))

    async def send(self, queue: str, text: str) -> str:
        self.queues.setdefault(queue, [])
        self._begin("send", queue)
        self.put(queue, text, raw=True)
        self._sent(queue)
        return self.queues[queue][-1].id


def _never_opened(queue: str) -> HostQueue:
    raise AssertionError(queue)


class Host:
    """A listener on queue "orders" with its surroundings."""

    def __init__(self, run: Callable[[QueueMessage], Awaitable[bool]], **options: Any) -> None:
        self.queues = MemoryQueues()
        self.queues.queues["orders"] = []
        self.events: list[tuple[str, dict[str, object]]] = []
        self.woken: list[str] = []
        self.queues.tell("orders-poison", lambda: self.woken.append("orders-poison"))
        defaults = QueueOptions(new_batch_threshold=8, max_polling_interval=1.0)
        self.queue = str(options.pop("queue", "orders"))
        self.listener = QueueListener(
            function="ship",
            queue=self.queue,
            service=self.queues,
            options=replace(defaults, **options),
            visibility=VISIBILITY,
            body=run,
            write=lambda event, /, **fields: self.events.append((event, fields)),
            random=Random(1),
        )

    async def listen(self, seconds: float) -> None:
        """Listen for so long, and until all that was received is done."""
        running = asyncio.create_task(self.listener.run())
        await asyncio.sleep(seconds)
        self.listener.stop()
        await running

    def told(self, event: str) -> list[dict[str, object]]:
        return [fields for name, fields in self.events if name == event]

"""Storage queues under virtual time, and how hosts and locks reach them over the network."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from simulator.host.triggers.messages import Message
from simulator.virtual.storage.network import Network, Request
from singleton.stores.messages import Hidden, Sent
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine


@dataclass(slots=True)
class Stored:
    """A message in a queue. ``receipt`` is that of its last receiver."""

    id: str
    text: str
    visible: float
    inserted: float
    receipt: int = 0
    dequeued: int = 0


@dataclass(slots=True)
class Queues:
    """The queue service."""

    loop: VirtualLoop
    _queues: dict[str, dict[str, Stored]] = field(default_factory=dict)
    _number: int = 0

    def send(self, queue: str, text: str, delay: float = 0.0) -> Stored:
        """Put a message into a queue, which is made if need be; nobody sees it for ``delay`` seconds."""
        self._number += 1
        message = Stored(f"m{self._number}", text, self.loop.now + delay, self.loop.now)
        self._queues.setdefault(queue, {})[message.id] = message
        return message

    def receive(self, queue: str, count: int, visibility: float) -> list[Message]:
        """Take up to ``count`` visible messages, the oldest first."""
        if queue not in self._queues:
            raise StoreFailure(code="QueueNotFound", detail=queue)
        taken = [stored for stored in self._queues[queue].values() if stored.visible <= self.loop.now][:count]
        return [self._take(stored, visibility) for stored in taken]

    def set_visibility(self, queue: str, id: str, receipt: str, visibility: float) -> str:  # noqa: A002
        """Hide a message for a time; return its new receipt."""
        stored = self._find(queue, id, receipt)
        stored.visible = self.loop.now + visibility
        stored.receipt += 1
        return str(stored.receipt)

    def delete(self, queue: str, id: str, receipt: str) -> None:  # noqa: A002
        """Delete a message."""
        self._find(queue, id, receipt)
        del self._queues[queue][id]

    def left(self) -> dict[str, list[str]]:
        """Return the ids that are in each queue."""
        return {queue: list(messages) for queue, messages in self._queues.items() if messages}

    def _take(self, stored: Stored, visibility: float) -> Message:
        stored.visible = self.loop.now + visibility
        stored.receipt += 1
        stored.dequeued += 1
        return Message(
            id=stored.id,
            text=stored.text,
            dequeue_count=stored.dequeued,
            pop_receipt=str(stored.receipt),
            inserted=datetime.fromtimestamp(stored.inserted, UTC),
            next_visible=datetime.fromtimestamp(stored.visible, UTC),
        )

    def _find(self, queue: str, id: str, receipt: str) -> Stored:  # noqa: A002
        stored = self._queues.get(queue, {}).get(id)
        if stored is None:
            raise StoreFailure(code="MessageNotFound", detail=f"message {id} is gone")
        if str(stored.receipt) != receipt:
            raise StoreFailure(code="PopReceiptMismatch", detail=f"message {id} belongs to another receiver")
        return stored


@dataclass(slots=True)
class VirtualQueue:
    """A machine's ``HostQueue``: each call is a request over the network."""

    _network: Network
    _queues: Queues
    _machine: Machine
    _name: str
    _closed: Callable[[], None] = lambda: None

    async def receive(self, count: int, seconds: int) -> list[Message]:
        """See ``HostQueue.receive``."""
        taken: list[Message] = await self._send(
            "queue receive", partial(self._queues.receive, self._name, count, seconds)
        )
        return taken

    async def create(self) -> None:
        """See ``MessageStore.create``."""
        await self._send("queue create", lambda: None)

    async def now(self) -> float:
        """See ``MessageStore.now``."""
        now: float = await self._send("queue time", lambda: self._queues.loop.now)
        return now

    async def hide(self, id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        """See ``MessageStore.hide``."""
        void = await self._send("queue update", partial(self._queues.set_visibility, self._name, id, receipt, seconds))
        return Hidden(void, self._queues.loop.now + seconds)

    async def send(self, text: str, *, delay: int, life: int | None) -> Sent:  # noqa: ARG002 - no world lives so long
        """See ``MessageStore.send``."""
        stored = await self._send("queue send", partial(self._queues.send, self._name, text, delay))
        return Sent(stored.id, "0", stored.inserted)

    async def delete(self, id: str, receipt: str) -> None:  # noqa: A002
        """See ``MessageStore.delete``."""
        await self._send("queue delete", partial(self._queues.delete, self._name, id, receipt))

    async def aclose(self) -> None:
        """See ``MessageStore.aclose``."""
        self._closed()

    def _send(self, call: str, execute: Callable[[], Any]) -> asyncio.Future[Any]:
        return self._network.send(Request(self._machine, call, self._name, execute))

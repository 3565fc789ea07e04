"""Storage queues in virtual time, and the network between queues, hosts and locks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from simulator.host.triggers.queue import QueueMessage
from simulator.virtual.storage.network import Network, NetworkRequest
from simulator.virtual.time.machine import PART
from singleton.stores.message_store import Hidden, Sent, Taken
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine

_T = TypeVar("_T")

WEEK: Final = 604_800
_NEVER: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""The end of a message without an end."""


@dataclass(slots=True)
class Stored:
    """A message in a queue. ``receipt`` is that of its last receiver, or of its sender."""

    id: str
    text: str
    visible: float
    inserted: float
    expires: float = math.inf
    receipt: int = 0
    dequeued: int = 0


@dataclass(slots=True, eq=False)
class QueueRequest(NetworkRequest):
    """A request to a queue: about the message of which id (or text), made by the locks of a host or by the host."""

    message: str = ""
    by_locks: bool = False


class QueueWatcher(Protocol):
    """Told of every change of a message, at the instant."""

    def sent(self, queue: str, stored: Stored, by_locks: Machine | None, delay: float, life: float | None, /) -> None:
        """Take a message that a host has put into a queue; ``by_locks`` is the machine whose locks did it."""

    def received(self, queue: str, stored: Stored, machine: Machine, /) -> None:
        """Take a message that a host is about to receive."""

    def deleted(self, queue: str, stored: Stored, /) -> None:
        """Take a message that was deleted."""


@dataclass(slots=True)
class Queues:
    """The queue service."""

    loop: VirtualLoop
    watcher: QueueWatcher | None = None
    _queues: dict[str, dict[str, Stored]] = field(default_factory=dict)
    _number: int = 0

    def send(self, queue: str, text: str, delay: float = 0.0, life: float | None = WEEK) -> Stored:
        """Put a message into a queue; the queue is made if it is missing.

        Nobody sees the message for ``delay`` seconds.
        """
        now = self.loop.now
        if life is not None and delay >= life:
            raise StoreFailure(400, "OutOfRangeQueryParameterValue", f"a delay of {delay} s in a life of {life} s")
        self._number += 1
        expires = math.inf if life is None else now + life
        message = Stored(f"m{self._number}", text, now + delay, now, expires)
        self._queues.setdefault(queue, {})[message.id] = message
        return message

    def make(self, queue: str) -> None:
        """Make a queue."""
        self._queues.setdefault(queue, {})

    def send_for(self, queue: str, text: str, delay: float, life: float | None, by_locks: Machine | None) -> Sent:
        """Put a message into a queue, which must be there, for a host."""
        if queue not in self._queues:
            raise StoreFailure(404, "QueueNotFound", queue, at=self.loop.now)
        stored = self.send(queue, text, delay, life)
        if self.watcher is not None:
            self.watcher.sent(queue, stored, by_locks, delay, life)
        return Sent(stored.id, str(stored.receipt), stored.inserted)

    def receive(self, queue: str, count: int, visibility: float, machine: Machine) -> list[QueueMessage]:
        """Take up to ``count`` visible messages, the oldest first, for a host."""
        if queue not in self._queues:
            raise StoreFailure(404, "QueueNotFound", queue, at=self.loop.now)
        taken = [stored for stored in self._there(queue) if stored.visible <= self.loop.now][:count]
        if self.watcher is not None:
            for stored in taken:
                self.watcher.received(queue, stored, machine)
        return [self._take(stored, visibility) for stored in taken]

    def hide(self, queue: str, id: str, receipt: str, visibility: float) -> Hidden:  # noqa: A002
        """Hide a message for a time; return its new receipt."""
        stored = self._find(queue, id, receipt)
        stored.visible = self.loop.now + visibility
        stored.receipt += 1
        return Hidden(str(stored.receipt), stored.visible)

    def delete(self, queue: str, id: str, receipt: str) -> None:  # noqa: A002
        """Delete a message."""
        stored = self._find(queue, id, receipt)
        del self._queues[queue][id]
        if self.watcher is not None:
            self.watcher.deleted(queue, stored)

    def left(self) -> dict[str, list[str]]:
        """Return the ids that are in each queue."""
        there = {queue: [stored.id for stored in self._there(queue)] for queue in self._queues}
        return {queue: names for queue, names in there.items() if names}

    def texts(self, queue: str) -> list[str]:
        """Return the texts of all messages in a queue."""
        return [stored.text for stored in self._there(queue)] if queue in self._queues else []

    def _there(self, queue: str) -> list[Stored]:
        messages, now = self._queues[queue], self.loop.now
        for over in [stored.id for stored in messages.values() if stored.expires <= now]:
            del messages[over]
        return list(messages.values())

    def _take(self, stored: Stored, visibility: float) -> QueueMessage:
        stored.visible = self.loop.now + visibility
        stored.receipt += 1
        stored.dequeued += 1
        return QueueMessage(
            id=stored.id,
            text=stored.text,
            dequeue_count=stored.dequeued,
            pop_receipt=str(stored.receipt),
            inserted=datetime.fromtimestamp(stored.inserted, UTC),
            expires=_NEVER if stored.expires == math.inf else datetime.fromtimestamp(stored.expires, UTC),
            next_visible=datetime.fromtimestamp(stored.visible, UTC),
        )

    def _find(self, queue: str, id: str, receipt: str) -> Stored:  # noqa: A002
        stored, now = self._queues.get(queue, {}).get(id), self.loop.now
        if stored is None or stored.expires <= now:
            raise StoreFailure(404, "MessageNotFound", f"message {id} is gone", at=now)
        if str(stored.receipt) != receipt:
            raise StoreFailure(400, "PopReceiptMismatch", f"message {id} belongs to another receiver", at=now)
        return stored


@dataclass(slots=True)
class VirtualQueue:
    """A machine's ``HostQueue``: each call is a request over the network."""

    _network: Network
    _queues: Queues
    _machine: Machine
    _name: str
    _closed: Callable[[], None] = lambda: None

    async def receive(self, count: int, seconds: int) -> list[QueueMessage]:
        receive = partial(self._queues.receive, self._name, count, seconds, self._machine)
        return await self._send("queue receive", receive)

    async def create(self) -> None:
        await self._send("queue create", partial(self._queues.make, self._name))

    async def now(self) -> float:
        return await self._send("queue time", lambda: self._queues.loop.now)

    async def hide(self, id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        return await self._send("queue update", partial(self._queues.hide, self._name, id, receipt, seconds), id)

    async def send(self, text: str, *, delay: int, life: int | None) -> Sent:
        by_locks = self._machine if PART.get() == "locks" else None
        send = partial(self._queues.send_for, self._name, text, delay, life, by_locks)
        return await self._send("queue send", send, text)

    async def delete(self, id: str, receipt: str) -> None:  # noqa: A002
        await self._send("queue delete", partial(self._queues.delete, self._name, id, receipt), id)

    async def take(self, most: int, seconds: int) -> list[Taken]:
        return [
            Taken(each.id, each.pop_receipt, each.text, each.dequeue_count)
            for each in await self.receive(most, seconds)
        ]

    async def aclose(self) -> None:
        self._closed()

    async def _send(self, call: str, execute: Callable[[], _T], message: str = "") -> _T:
        by_locks = PART.get() == "locks"
        request = QueueRequest(self._machine, call, self._name, execute, message=message, by_locks=by_locks)
        answer: _T = await self._network.send(request)
        return answer

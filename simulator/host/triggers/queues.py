"""Queue messages: the requests of a listener, the encoding of bodies, the poison queue, and pauses between polls.

The queues of a storage account are reached by azure-storage-queue, without retries, and failures are judged by their
error codes. An empty queue is polled less and less often (H-43).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import math
import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.request import getproxies_environment

from singleton.stores.azure_blob import judged
from singleton.stores.azure_queue import AzureMessageStore
from singleton.stores.message_store import GONE, MessageStore
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime
    from random import Random

    from azure.storage.queue.aio import QueueServiceClient

    from singleton.defer.trigger_queue import Encoding


_QUEUE_NAME: Final = re.compile(r"[a-z0-9](?:-?[a-z0-9])*\Z")
_CREATE_TRIES: Final = 10
_CREATE_PAUSE: Final = 1.0
_WEEK: Final = 604_800
QUEUE_GONE: Final = frozenset({"QueueNotFound", "QueueBeingDeleted", "QueueDisabled"})
MESSAGE_GONE: Final = GONE | QUEUE_GONE
"""The message was deleted, has expired, or belongs to another receiver (H-41)."""


@dataclass(slots=True, kw_only=True)
class QueueMessage:
    """A received message. ``pop_receipt`` changes with each renewal; ``text`` is the body as the queue holds it."""

    id: str
    text: str
    dequeue_count: int
    pop_receipt: str
    inserted: datetime | None = None
    expires: datetime | None = None
    next_visible: datetime | None = None
    body: bytes = b""


class HostQueue(MessageStore, Protocol):
    """One queue, from which messages can also be received."""

    async def receive(self, count: int, seconds: int) -> list[QueueMessage]:
        """Receive up to ``count`` messages, invisible to others for so many seconds."""


class HostQueues:
    """The requests of a host to its queues. All may raise ``StoreFailure``."""

    def __init__(self, open_queue: Callable[[str], HostQueue], *, patience: float = 15.0) -> None:
        self._open = open_queue
        self._patience = patience
        self._listening: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)

    def tell(self, queue: str, listener: Callable[[], None]) -> None:
        """Call ``listener`` whenever this host has put a message into the queue (H-44)."""
        self._listening[queue].append(listener)

    async def receive(self, queue: str, count: int, visibility: float) -> list[QueueMessage]:
        """Receive up to ``count`` messages, invisible to others for ``visibility`` seconds."""
        return await within(self._patience, self._open(queue).receive(count, math.ceil(visibility)))

    async def set_visibility(self, queue: str, message: QueueMessage, visibility: float) -> None:
        """Hide the message for ``visibility`` seconds from now, and renew its receipt."""
        hide = self._open(queue).hide(message.id, message.pop_receipt, math.ceil(visibility))
        message.pop_receipt = (await within(self._patience, hide)).receipt

    async def delete(self, queue: str, message: QueueMessage) -> None:
        """Delete the message."""
        await within(self._patience, self._open(queue).delete(message.id, message.pop_receipt))

    async def send(self, queue: str, text: str) -> str:
        """Put a message into the queue, and create the queue if it is missing; return the message's id."""
        store = self._open(queue)
        for _ in range(_CREATE_TRIES):
            try:
                sent = await within(self._patience, store.send(text, delay=0, life=_WEEK))
                self._sent(queue)
                return sent.id
            except StoreFailure as failure:
                if failure.code not in QUEUE_GONE:
                    raise
            try:
                await within(self._patience, store.create())
            except StoreFailure as failure:
                if failure.code not in QUEUE_GONE:
                    raise
                # It is being deleted; its name will be free again after a while.
                await asyncio.sleep(_CREATE_PAUSE)
        raise StoreFailure(detail=f"queue {queue} can't be created")

    def _sent(self, queue: str) -> None:
        for listener in self._listening[queue]:
            listener()


def decode(text: str, encoding: Encoding) -> bytes:
    """Return the body of a message.

    Raises:
        ValueError: it is not base64, though the host expects that.
    """
    if encoding == "none":
        return text.encode()
    try:
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError("its text is not base64, which host.json's messageEncoding asks for") from error


def encode(body: bytes, encoding: Encoding) -> str:
    """Return the text under which a body is put into a queue."""
    return base64.b64encode(body).decode() if encoding == "base64" else body.decode("utf-8", "replace")


def is_queue_name(name: str) -> bool:
    """Tell whether the service allows a queue of this name (H-40)."""
    return 3 <= len(name) <= 63 and _QUEUE_NAME.match(name) is not None


class AzureQueues(HostQueues):
    """The queues of the account that a connection string names. Use it on one event loop, and close it."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._service: QueueServiceClient | None = None
        super().__init__(lambda queue: _AzureQueue(self.open().get_queue_client(queue)))

    def open(self) -> QueueServiceClient:
        """Return the client of the account. The first call imports the SDK, which many apps do without.

        Raises:
            ValueError: the connection string can't be used.
        """
        if self._service is None:
            from azure.storage.queue.aio import QueueServiceClient

            # To read the environment's settings takes a turn of a thread for each request: seconds on a busy machine.
            proxies = bool(getproxies_environment())
            self._service = QueueServiceClient.from_connection_string(
                self._connection_string, retry_total=0, use_env_settings=proxies
            )
        return self._service

    async def close(self) -> None:
        """Close all connections."""
        if self._service is not None:
            await self._service.close()


class _AzureQueue(AzureMessageStore):
    async def receive(self, count: int, seconds: int) -> list[QueueMessage]:
        """See ``HostQueue.receive``."""
        pages = self._client.receive_messages(messages_per_page=count, visibility_timeout=seconds).by_page()
        # One page, one request: the plain iterator asks again until nothing is left. An empty queue has no page.
        page: AsyncIterator[Any] | None = await judged(anext(pages, None))
        return [] if page is None else [_message(raw) async for raw in page]


def _message(raw: Any) -> QueueMessage:
    return QueueMessage(
        id=str(raw.id),
        text=str(raw.content or ""),
        dequeue_count=int(raw.dequeue_count or 0),
        pop_receipt=str(raw.pop_receipt),
        inserted=raw.inserted_on,
        expires=raw.expires_on,
        next_visible=raw.next_visible_on,
    )


MINIMUM: Final = 0.1


class Backoff:
    """Exponential waits with a jitter of 20 %: 0.1 s, about 0.2, 0.3, 0.5, 0.9, 1.7 … and then always the maximum."""

    def __init__(self, maximum: float, random: Random, minimum: float = MINIMUM) -> None:
        self._minimum = min(minimum, maximum)
        self._maximum = maximum
        self._random = random
        self._exponent = 0
        self._at_maximum = False

    def reset(self) -> None:
        """Start again from the minimum: something was found."""
        self._exponent = 0
        self._at_maximum = False

    def next(self) -> float:
        """Return the next wait in seconds."""
        if self._at_maximum:
            return self._maximum
        wait = self._minimum
        if self._exponent > 0:
            wait += self._random.uniform(0.8, 1.2) * 2 ** (self._exponent - 1) * self._minimum
        if wait < self._maximum:
            self._exponent += 1
            return wait
        self._at_maximum = True
        return self._maximum

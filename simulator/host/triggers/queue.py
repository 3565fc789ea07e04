"""A queue trigger's listener, by the Functions host's rules (H-33 to H-46): receive, run, renew, complete, poison.

The queues of a storage account are reached by azure-storage-queue, without retries, and failures are judged by their
error codes. An empty queue is polled less and less often (H-43).
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import math
import re
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import blake2s
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.request import getproxies_environment

from simulator.host.app.app_model import HostError
from singleton.defer.trigger_queue import poison_queue
from singleton.stores.azure_blob import judged
from singleton.stores.azure_queue import AzureMessageStore
from singleton.stores.message_store import GONE, MessageStore
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from datetime import datetime
    from random import Random

    from azure.storage.queue.aio import QueueServiceClient

    from simulator.history.journal import Write
    from simulator.host.app.hostjson import QueueOptions
    from singleton.defer.trigger_queue import Encoding


_NOT_IN_XML: Final = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
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

    @property
    def dates(self) -> dict[str, datetime]:
        """The dates that the service told, under the Functions host's names."""
        found = {
            "InsertionTime": self.inserted,
            "ExpirationTime": self.expires,
            "NextVisibleTime": self.next_visible,
        }
        return {name: date for name, date in found.items() if date is not None}


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


def body_digest(body: bytes) -> str:
    """Return what stands for a message's body in journals."""
    return blake2s(body, digest_size=8).hexdigest()


def encode(body: bytes, encoding: Encoding) -> str:
    """Return the text under which a body is put into a queue.

    Raises:
        ValueError: the queue service can't carry the text, as the request is XML.
    """
    if encoding == "base64":
        return base64.b64encode(body).decode()
    text = body.decode("utf-8", "replace")
    if found := _NOT_IN_XML.search(text):
        raise ValueError(f"{found[0]!r} can't be in a message with messageEncoding none: the request is XML")
    return text


def is_queue_name(name: str) -> bool:
    """Tell whether the service allows a queue of this name (H-40)."""
    return 3 <= len(name) <= 63 and _QUEUE_NAME.match(name) is not None


class AzureQueues(HostQueues):
    """The queues of the account of a connection string. Use an object on one event loop, and close the object."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._service: QueueServiceClient | None = None
        super().__init__(lambda queue: AzureQueue(self.open().get_queue_client(queue)))

    def open(self) -> QueueServiceClient:
        """Return the client of the account. The first call imports the SDK, which many apps do without.

        Raises:
            HostError: the connection string can't be used.
        """
        if self._service is None:
            from azure.storage.queue.aio import QueueServiceClient

            # To read the environment's settings takes a turn of a thread for each request: seconds on a busy machine.
            proxies = bool(getproxies_environment())
            try:
                self._service = QueueServiceClient.from_connection_string(
                    self._connection_string, retry_total=0, use_env_settings=proxies
                )
            except ValueError as error:
                raise HostError(f"the storage's connection string can't be used: {error}") from error
        return self._service

    async def close(self) -> None:
        """Close all connections."""
        if self._service is not None:
            await self._service.close()


class AzureQueue(AzureMessageStore):
    """A ``HostQueue``, through the SDK."""

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


_log = logging.getLogger(__name__)
# A completion that the service refuses for the moment is repeated so often, with such a pause.
_TRIES: Final = 5
_PAUSE: Final = 0.2


@dataclass(kw_only=True, eq=False)
class QueueListener:
    """Feeds a function from its queue. `run` ends after `stop`, when every received message is completed."""

    function: str
    queue: str
    service: HostQueues
    options: QueueOptions
    visibility: float
    body: Callable[[QueueMessage], Awaitable[bool]]
    """Runs the function on a message; True means success."""
    write: Write
    random: Random
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _found: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _in_flight: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _trouble: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.options.max_polling_interval, self.random)
        self.service.tell(self.queue, self._found.set)  # what this host itself has sent is looked for at once (H-44)

    def stop(self) -> None:
        """Request no more messages (H-46)."""
        self._stop.set()
        self._found.set()

    async def run(self) -> None:
        """Listen until `stop`, then await what is in flight."""
        while not self._stop.is_set():
            self._found.clear()
            messages = await self._receive()
            if self._stop.is_set():  # another host gets what this one has not begun (H-89)
                await asyncio.gather(*map(self._give_back, messages))
                break
            for message in messages:
                task = asyncio.create_task(self._process(message), name=f"{self.function} {message.id}")
                self._in_flight.add(task)
                task.add_done_callback(self._in_flight.discard)
            if messages:
                self._backoff.reset()
                await self._room()
            else:
                await self._pause(self._backoff.next())
        while self._in_flight:
            await asyncio.wait(self._in_flight)

    async def _receive(self) -> list[QueueMessage]:
        try:
            messages = await self.service.receive(self.queue, self.options.batch_size, self.visibility)
        except StoreFailure as failure:
            # A listener does not create its queue; it looks for it again (H-45).
            reason = str(failure)
            if failure.code not in QUEUE_GONE and reason != self._trouble:
                if not self._trouble:
                    self.write("queue_unreachable", queue=self.queue, function=self.function, reason=reason)
                self._trouble = reason
                _log.warning("queue %s can't be polled: %s", self.queue, reason)
            return []
        if self._trouble:
            self._trouble = ""
            self.write("queue_reached", queue=self.queue, function=self.function)
        return messages

    async def _give_back(self, message: QueueMessage) -> None:
        await self._settle(message, lambda: self.service.set_visibility(self.queue, message, 0))

    async def _room(self) -> None:
        """Wait until few enough messages are in flight for the next request (H-34, H-42)."""
        stop = asyncio.create_task(self._stop.wait())
        while len(self._in_flight) > self.options.new_batch_threshold and not self._stop.is_set():
            await asyncio.wait({stop, *self._in_flight}, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        await asyncio.wait({stop})

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._found.wait()
                self._backoff.reset()

    async def _process(self, message: QueueMessage) -> None:
        try:
            await self._handle(message)
        except Exception as error:  # noqa: BLE001 - one message must not end the listener
            _log.exception("message %s of queue %s was not completed", message.id, self.queue)
            self._returned(message, f"{type(error).__name__}: {error}")

    async def _handle(self, message: QueueMessage) -> None:
        undecodable, digest = "", ""
        try:
            message.body = decode(message.text, self.options.message_encoding)
            digest = body_digest(message.body)
        except ValueError as error:
            undecodable = str(error)
        self.write(
            "message_received",
            queue=self.queue,
            id=message.id,
            dequeue_count=message.dequeue_count,
            function=self.function,
            digest=digest,
        )
        if message.dequeue_count > self.options.max_dequeue_count:
            await self._poison(message, f"dequeued {message.dequeue_count} times")
            return
        if undecodable:
            # The real host moves what it can't decode to the poison queue at once.
            _log.warning("message %s of queue %s can't be decoded: %s", message.id, self.queue, undecodable)
            await self._poison(message, undecodable)
            return
        if await self._run_renewing(message):
            await self._complete(message)
        elif message.dequeue_count >= self.options.max_dequeue_count:
            await self._poison(message, f"failed {message.dequeue_count} times")
        else:
            await self._retry_later(message)

    async def _run_renewing(self, message: QueueMessage) -> bool:
        done = asyncio.Event()
        renewal = asyncio.create_task(self._renew(message, done))
        try:
            return await self.body(message)
        finally:
            # A renewal under way is awaited, not cancelled: only its answer has the receipt that deletes the message.
            done.set()
            await asyncio.wait({renewal})

    async def _renew(self, message: QueueMessage, done: asyncio.Event) -> None:
        """Keep the message invisible while its function runs: renew at half time (H-35), sooner after a failure."""
        wait = self.visibility / 2
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await done.wait()
                    return
            try:
                await self.service.set_visibility(self.queue, message, self.visibility)
                wait = self.visibility / 2
            except StoreFailure as failure:
                if failure.code in MESSAGE_GONE:
                    # The function goes on; somebody else will get the message, or nobody (H-36).
                    return
                _log.warning("message %s of queue %s can't be renewed: %s", message.id, self.queue, failure)
                wait = min(self.visibility / 10, 1.0)

    async def _complete(self, message: QueueMessage) -> None:
        if await self._settle(message, lambda: self.service.delete(self.queue, message)):
            self.write("message_completed", queue=self.queue, id=message.id, function=self.function)

    async def _retry_later(self, message: QueueMessage) -> None:
        if poison_queue(self.queue) is None:
            self._left(message, "failed")
            return
        timeout = int(self.options.visibility_timeout)  # the service counts whole seconds, and the host cuts them off
        if await self._settle(message, lambda: self.service.set_visibility(self.queue, message, timeout)):
            self._returned(message, "failed")

    async def _poison(self, message: QueueMessage, why: str) -> None:
        poison = poison_queue(self.queue)
        if poison is None:
            self._left(message, why)
            return
        # Copied first, then deleted: a crash in between leaves both (H-39).
        if not await self._settle(message, lambda: self.service.send(poison, message.text)):
            return
        self.write("message_poisoned", queue=self.queue, id=message.id, poison=poison, reason=why)
        await self._settle(message, lambda: self.service.delete(self.queue, message))

    def _left(self, message: QueueMessage, why: str) -> None:
        """Leave a message invisible for its time. Then it is tried again, or skipped if past the maximum (H-40)."""
        self._returned(message, f"{why}; this queue has no poison queue")

    async def _settle(self, message: QueueMessage, request: Callable[[], Awaitable[object]]) -> bool:
        """Make a request until it works; tell whether it did."""
        reason = ""
        for attempt in range(_TRIES):
            if attempt:
                await asyncio.sleep(_PAUSE)
            try:
                await request()
                return True
            except StoreFailure as failure:
                if failure.code in MESSAGE_GONE:
                    self._returned(message, f"gone: {failure}")
                    return False
                reason = str(failure)
        self._returned(message, reason)
        return False

    def _returned(self, message: QueueMessage, reason: str) -> None:
        self.write("message_returned", queue=self.queue, id=message.id, function=self.function, reason=reason)

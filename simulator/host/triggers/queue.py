"""A queue trigger's listener, by the Functions host's rules (H-33 to H-46): receive, run, renew, complete, poison."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import blake2s
from typing import TYPE_CHECKING, Final

from simulator.host.triggers.queues import MESSAGE_GONE, QUEUE_GONE, Backoff, HostQueues, QueueMessage, decode
from singleton.defer.trigger_queue import poison_queue
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from random import Random

    from simulator.history.journal import Write
    from simulator.host.app.hostjson import QueueOptions

_log = logging.getLogger(__name__)
# A completion that the service refuses for the moment is repeated so often, with such a pause.
_TRIES: Final = 5
_PAUSE: Final = 0.2

RunMessage = Callable[[QueueMessage], Awaitable[bool]]
"""Runs the function on a message; True means success."""


class QueueListener:
    """Feeds one function from its queue. `run` ends when `stop` was called and all that was received is completed."""

    def __init__(
        self,
        *,
        function: str,
        queue: str,
        service: HostQueues,
        options: QueueOptions,
        visibility: float,
        run: RunMessage,
        write: Write,
        random: Random,
    ) -> None:
        self.queue = queue
        self._function = function
        self._service = service
        self._options = options
        self._visibility = visibility
        self._run = run
        self._write = write
        self._backoff = Backoff(options.max_polling_interval, random)
        self._stop = asyncio.Event()
        self._found = asyncio.Event()
        self._in_flight: set[asyncio.Task[None]] = set()
        self._trouble = ""
        service.tell(queue, self._found.set)  # what this host itself has sent is looked for at once (H-44)

    def stop(self) -> None:
        """Request no more messages (H-46)."""
        self._stop.set()
        self._found.set()

    async def run(self) -> None:
        """Listen until `stop`, then await what is in flight."""
        while not self._stop.is_set():
            self._found.clear()
            messages = await self._receive()
            for message in messages:
                task = asyncio.create_task(self._process(message), name=f"{self._function} {message.id}")
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
            messages = await self._service.receive(self.queue, self._options.batch_size, self._visibility)
        except StoreFailure as failure:
            # A listener does not create its queue; it looks for it again (H-45).
            if failure.code not in QUEUE_GONE and str(failure) != self._trouble:
                self._tell_trouble(str(failure))
            return []
        if self._trouble:
            self._trouble = ""
            self._write("queue_reached", queue=self.queue, function=self._function)
        return messages

    def _tell_trouble(self, reason: str) -> None:
        if not self._trouble:
            self._write("queue_unreachable", queue=self.queue, function=self._function, reason=reason)
        self._trouble = reason
        _log.warning("queue %s can't be polled: %s", self.queue, reason)

    async def _room(self) -> None:
        """Wait until few enough messages are in flight for the next request (H-34, H-42)."""
        stop = asyncio.create_task(self._stop.wait())
        while len(self._in_flight) > self._options.new_batch_threshold and not self._stop.is_set():
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
            message.body = decode(message.text, self._options.message_encoding)
            digest = blake2s(message.body, digest_size=8).hexdigest()
        except ValueError as error:
            undecodable = str(error)
        self._write(
            "message_received",
            queue=self.queue,
            id=message.id,
            dequeue_count=message.dequeue_count,
            function=self._function,
            digest=digest,
        )
        if message.dequeue_count > self._options.max_dequeue_count:
            await self._poison(message, f"dequeued {message.dequeue_count} times")
            return
        if undecodable:
            # The real host moves what it can't decode to the poison queue at once.
            _log.warning("message %s of queue %s can't be decoded: %s", message.id, self.queue, undecodable)
            await self._poison(message, undecodable)
            return
        if await self._run_renewing(message):
            await self._complete(message)
        elif message.dequeue_count >= self._options.max_dequeue_count:
            await self._poison(message, f"failed {message.dequeue_count} times")
        else:
            await self._retry_later(message)

    async def _run_renewing(self, message: QueueMessage) -> bool:
        done = asyncio.Event()
        renewal = asyncio.create_task(self._renew(message, done))
        try:
            return await self._run(message)
        finally:
            # A renewal under way is awaited, not cancelled: only its answer has the receipt that deletes the message.
            done.set()
            await asyncio.wait({renewal})

    async def _renew(self, message: QueueMessage, done: asyncio.Event) -> None:
        """Keep the message invisible while its function runs: renew at half time (H-35), sooner after a failure."""
        wait = self._visibility / 2
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await done.wait()
                    return
            try:
                await self._service.set_visibility(self.queue, message, self._visibility)
                wait = self._visibility / 2
            except StoreFailure as failure:
                if failure.code in MESSAGE_GONE:
                    # The function goes on; somebody else will get the message, or nobody (H-36).
                    return
                _log.warning("message %s of queue %s can't be renewed: %s", message.id, self.queue, failure)
                wait = min(self._visibility / 10, 1.0)

    async def _complete(self, message: QueueMessage) -> None:
        if await self._settle(message, lambda: self._service.delete(self.queue, message)):
            self._write("message_completed", queue=self.queue, id=message.id, function=self._function)

    async def _retry_later(self, message: QueueMessage) -> None:
        if poison_queue(self.queue) is None:
            self._left(message, "failed")
            return
        timeout = int(self._options.visibility_timeout)  # the service counts whole seconds, and the host cuts them off
        if await self._settle(message, lambda: self._service.set_visibility(self.queue, message, timeout)):
            self._returned(message, "failed")

    async def _poison(self, message: QueueMessage, why: str) -> None:
        poison = poison_queue(self.queue)
        if poison is None:
            self._left(message, why)
            return
        # Copied first, then deleted: a crash in between leaves both (H-39).
        if not await self._settle(message, lambda: self._service.send(poison, message.text)):
            return
        self._write("message_poisoned", queue=self.queue, id=message.id, poison=poison, reason=why)
        await self._settle(message, lambda: self._service.delete(self.queue, message))

    def _left(self, message: QueueMessage, why: str) -> None:
        """Leave it invisible for its time. Then it is tried again, or skipped if it is past the maximum (H-40)."""
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
        self._write("message_returned", queue=self.queue, id=message.id, function=self._function, reason=reason)

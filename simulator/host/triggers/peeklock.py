"""A listener of messages with locks, by the rule of the Service Bus trigger: receive, run, renew, settle.

A message is completed after a success and abandoned after a failure. While its function runs its lock is renewed, for
``maxAutoLockRenewalDuration`` at most: then it expires, and the message is delivered again while the function runs on.

Source: https://learn.microsoft.com/azure/azure-functions/functions-bindings-service-bus (host.json settings).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.bus import BusTrouble
from simulator.host.triggers.delivery import Delivery

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from simulator.bus import Bus
    from simulator.history.journal import Write
    from simulator.host.app.hostjson import BusOptions

_log = logging.getLogger(__name__)
_WAIT: Final = 5.0
_PAUSE: Final = 0.5
_TRIES: Final = 5


@dataclass(kw_only=True, eq=False)
class PeekLockListener:
    """Feeds a function from a source. `run` ends after `stop`, when every received message is settled."""

    function: str
    source: str
    receiver: Bus
    options: BusOptions
    lock: float
    body: Callable[[Delivery], Awaitable[bool]]
    """Runs the function on a delivery; True means success."""
    write: Write
    _stop: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _in_flight: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    def stop(self) -> None:
        """Receive nothing more."""
        self._stop.set()

    async def run(self) -> None:
        """Listen until `stop`, then await what is in flight."""
        stopped = asyncio.create_task(self._stop.wait())
        while not self._stop.is_set():
            if len(self._in_flight) >= self.options.max_concurrent_calls:
                await asyncio.wait({stopped, *self._in_flight}, return_when=asyncio.FIRST_COMPLETED)
                continue
            receiving = asyncio.create_task(self._receive())
            await asyncio.wait({stopped, receiving}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                receiving.cancel()
                await asyncio.wait({receiving})
            delivery = None if receiving.cancelled() else receiving.result()
            if delivery is not None:
                task = asyncio.create_task(self._process(delivery), name=f"{self.function} {delivery.id}")
                self._in_flight.add(task)
                task.add_done_callback(self._in_flight.discard)
        while self._in_flight:
            await asyncio.wait(self._in_flight)

    async def _receive(self) -> Delivery | None:
        try:
            raw = await self.receiver.receive(self.source, _WAIT)
        except BusTrouble as trouble:
            _log.warning("%s can't be received from: %s", self.source, trouble)
            await asyncio.sleep(_PAUSE)
            return None
        return None if raw is None else Delivery(**raw)

    async def _process(self, delivery: Delivery) -> None:
        about = {"queue": self.source, "id": delivery.id, "function": self.function}
        self.write("message_received", **about, dequeue_count=delivery.count)
        done = asyncio.Event()
        renewal = asyncio.create_task(self._renew(delivery, done))
        succeeded = False
        try:
            succeeded = await self.body(delivery)
        except Exception as error:  # noqa: BLE001 - one message must not end the listener
            _log.exception("message %s of %s was not processed", delivery.id, self.source)
            self.write("message_returned", **about, reason=f"{type(error).__name__}: {error}")
        finally:
            done.set()
            await asyncio.wait({renewal})
        if succeeded:
            await self._complete(delivery.token, about)
        else:
            await self._abandon(delivery, about)

    async def _complete(self, token: str, about: dict[str, str]) -> None:
        if await self._settled(lambda: self.receiver.complete(token)):
            self.write("message_completed", **about)
        else:
            self.write("message_returned", **about, reason="its lock had expired before it was completed")

    async def _abandon(self, delivery: Delivery, about: dict[str, str]) -> None:
        state = await self._settled(lambda: self.receiver.abandon(delivery.token))
        if state == "dead":
            why = f"failed {delivery.count} times"
            self.write("message_poisoned", **about, poison=f"{self.source}/$deadletterqueue", reason=why)
        else:
            self.write("message_returned", **about, reason="failed")

    async def _renew(self, delivery: Delivery, done: asyncio.Event) -> None:
        """Renew the lock at half time, as long as host.json says."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.options.max_renewal
        while not done.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(self.lock / 2):
                    await done.wait()
                    return
            if loop.time() + self.lock / 2 >= end:
                self.write("message_let_go", queue=self.source, id=delivery.id, function=self.function)
                return
            with suppress(BusTrouble):
                if not await self.receiver.renew(delivery.token):
                    return

    async def _settled(self, settle: Callable[[], Awaitable[object]]) -> object:
        """Settle a message; if the broker does not answer, again and again for a while."""
        for _ in range(_TRIES):
            try:
                return await settle()
            except BusTrouble as trouble:
                _log.warning("a message of %s can't be settled: %s", self.source, trouble)
                await asyncio.sleep(_PAUSE)
        return None

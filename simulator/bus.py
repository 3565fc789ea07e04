"""The broker as a server on this machine: a thread of the fleet, which receivers in other processes reach by HTTP.

A `Bus` is the receiver's side. A receiver may be killed at any time: its locked messages come back when their locks
expire.

What Service Bus promises of delivery, on a driven clock: peek and lock, settle, deliver again, give up.

A message is locked for its receiver when it is received. That is a delivery, and the count of deliveries grows by one.
The receiver completes it, which removes it, or abandons it, which makes it available at once. If it does neither, it
becomes available when its lock has expired, unless it was renewed before. A message whose last allowed delivery ends
without success is dead-lettered.

With sessions, the messages of one session are received one at a time, in their order.

The numbers are Service Bus's: https://learn.microsoft.com/azure/service-bus-messaging/message-transfers-locks-settlement
and https://learn.microsoft.com/azure/service-bus-messaging/service-bus-dead-letter-queues.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import aiohttp
    from aiohttp import web


MOST_DELIVERIES: Final = 10
"""How often Service Bus delivers a message by default before it is dead-lettered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entity:
    """A queue or a subscription."""

    name: str  # ``servicebus/QUEUE`` or ``servicebus/TOPIC/SUBSCRIPTION``, equal for every receiver
    lock: float  # seconds for which a received message is locked
    most: int = MOST_DELIVERIES
    sessions: bool = False  # whether the messages of one session are received in order, one at a time


@dataclass(slots=True, kw_only=True)
class Item:
    """A message, and the lock on it. All times are of the broker's clock."""

    entity: str
    id: str
    body: str
    metadata: Mapping[str, Any]
    sequence: int
    enqueued: float
    count: int = 0  # deliveries
    token: str = ""  # of the lock; empty if the message is available
    until: float = 0.0  # the expiry of the lock

    @property
    def session(self) -> str:
        """The session of the message; the empty text if to none."""
        return str(self.metadata.get("SessionId") or "")


Abandoned: TypeAlias = Literal["back", "dead", "gone"]
T = TypeVar("T")


@dataclass(slots=True)
class _LockedItem:
    entity: Entity
    items: list[Item] = field(default_factory=list)
    dead: list[Item] = field(default_factory=list)


class Broker:
    """The entities of a run. Not thread-safe; times come from ``clock``."""

    def __init__(self, clock: Callable[[], float], on_dead: Callable[[Item], None] = lambda _: None) -> None:
        """Start without entities; ``on_dead`` hears of each message that is dead-lettered as its lock expired."""
        self._clock = clock
        self._on_dead = on_dead
        self._held: dict[str, _LockedItem] = {}
        self._locked: dict[str, Item] = {}
        self._numbers = itertools.count(1)

    def open(self, entity: Entity) -> None:
        """Create an entity, unless the entity exists."""
        self._held.setdefault(entity.name, _LockedItem(entity))

    def send(self, entity: str, body: str, metadata: Mapping[str, Any], name: str = "") -> str:
        """Put a message into an entity; return its id, which is ``name`` if that is given."""
        item = Item(
            entity=entity,
            id=name or secrets.token_hex(16),
            body=body,
            metadata=metadata,
            sequence=next(self._numbers),
            enqueued=self._clock(),
        )
        self._held[entity].items.append(item)
        return item.id

    def receive(self, entity: str) -> Item | None:
        """Lock the first available message for a receiver, and count the delivery; None: there is none."""
        self._expire()
        held = self._held[entity]
        item = next(self._available(held), None)
        if item is not None:
            item.count += 1
            item.token = secrets.token_hex(16)
            item.until = self._clock() + held.entity.lock
            self._locked[item.token] = item
        return item

    def renew(self, token: str) -> bool:
        """Lock a message for its full time again; False: the lock has expired."""
        self._expire()
        item = self._locked.get(token)
        if item is None:
            return False
        item.until = self._clock() + self._held[item.entity].entity.lock
        return True

    def complete(self, token: str) -> bool:
        """Remove a message that was processed; False: its lock has expired, and it comes again."""
        self._expire()
        item = self._locked.pop(token, None)
        if item is not None:
            self._held[item.entity].items.remove(item)
        return item is not None

    def abandon(self, token: str) -> Abandoned:
        """Give a message back: it is available at once ("back"), or dead-lettered; "gone": its lock has expired."""
        self._expire()
        item = self._locked.pop(token, None)
        if item is None:
            return "gone"
        self._give_back(item)
        return "dead" if self.is_dead(item) else "back"

    def is_dead(self, item: Item) -> bool:
        """Tell whether a message was dead-lettered."""
        return item in self._held[item.entity].dead

    def left(self, entity: str) -> tuple[list[str], int]:
        """Return the ids of the messages that nobody has locked, and the number of those that somebody has."""
        self._expire()
        items = self._held[entity].items
        ready = [item.id for item in items if not item.token]
        return ready, len(items) - len(ready)

    def dead(self, entity: str) -> list[str]:
        """Return the ids of the messages that were dead-lettered."""
        self._expire()
        return [item.id for item in self._held[entity].dead]

    def waiting(self) -> int:
        """Return how many messages are in all entities, also those that are locked."""
        self._expire()
        return sum(len(held.items) for held in self._held.values())

    def next_expiry(self) -> float | None:
        """Return when the next lock expires; None: nothing is locked."""
        return min((item.until for item in self._locked.values()), default=None)

    def _available(self, held: _LockedItem) -> Iterator[Item]:
        busy: set[str] = set()
        for item in held.items:
            if not item.token and item.session not in busy:
                yield item
            if held.entity.sessions:  # whether it is locked or waits: what comes after it in its session must wait
                busy.add(item.session)

    def _expire(self) -> None:
        now = self._clock()
        for token, item in [*self._locked.items()]:
            if item.until <= now:
                del self._locked[token]
                self._give_back(item)
                if self.is_dead(item):
                    self._on_dead(item)

    def _give_back(self, item: Item) -> None:
        item.token = ""
        held = self._held[item.entity]
        if item.count >= held.entity.most:
            held.items.remove(item)
            held.dead.append(item)


HOST: Final = "127.0.0.1"
LONGEST_WAIT: Final = 10.0
"""Seconds for which a receiver may wait for a message in one request."""


class BusServer:
    """Runs a broker in a thread. `start` it; all methods may be called from other threads; `stop` it at the end."""

    def __init__(self, clock: Callable[[], float], on_dead: Callable[[Item], None]) -> None:
        self._broker = Broker(clock, on_dead)
        self._clock = clock
        self._turn = threading.RLock()
        self._loop = asyncio.new_event_loop()
        self._changed = asyncio.Event()
        self._runner: web.AppRunner
        self._thread = threading.Thread(target=self._loop.run_forever, name="message broker", daemon=True)
        self.url = ""

    def start(self) -> None:
        """Listen on a free port of this machine; `url` says where."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()

    def stop(self) -> None:
        """Close the port, and end the thread."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def ask(self, what: Callable[[Broker], T]) -> T:
        """Return the answer of the broker to a question or an order, while no receiver has its turn."""
        with self._turn:
            answer = what(self._broker)
        self._loop.call_soon_threadsafe(self._changed.set)
        return answer

    async def _listen(self) -> None:
        from aiohttp import web  # a third of a second, and only apps with such triggers need it

        app = web.Application()
        app.router.add_post("/receive", _answering(self._receive))
        for name in ("renew", "complete", "abandon"):
            app.router.add_post(f"/{name}", _answering(partial(self._settle, name)))
        # A receiver that is gone must not be given a message: its request ends with it.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, HOST, 0).start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"

    async def _receive(self, asked: Mapping[str, Any]) -> object:
        end = self._loop.time() + min(float(asked["wait"]), LONGEST_WAIT)
        while True:
            self._changed.clear()
            with self._turn:
                item = self._broker.receive(asked["entity"])
                expiry = self._broker.next_expiry()
            left = end - self._loop.time()
            if item is not None:
                return _told(item)
            if left <= 0:
                return None
            pause = left if expiry is None else min(left, max(expiry - self._clock(), 0.01))
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._changed.wait()

    async def _settle(self, how: str, asked: Mapping[str, Any]) -> object:
        with self._turn:
            answer = getattr(self._broker, how)(asked["token"])
        self._changed.set()  # the next message of its session
        return answer


def _told(item: Item) -> dict[str, object]:
    names = ("id", "body", "sequence", "enqueued", "count", "token", "until")
    return {**{name: getattr(item, name) for name in names}, "metadata": dict(item.metadata)}


def _answering(answer: Callable[[Mapping[str, Any]], Any]) -> Callable[[web.Request], Any]:
    async def handle(request: web.Request) -> web.Response:
        from aiohttp import web

        return web.json_response(await answer(await request.json()))

    return handle


PATIENCE: Final = 15.0


class BusTrouble(Exception):
    """The broker did not answer."""


class Bus:
    """A connection to the broker at a URL. Use a `Bus` on one event loop, and close the `Bus`."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    async def receive(self, entity: str, wait: float) -> dict[str, Any] | None:
        """Wait so many seconds for a message of an entity; it is locked from now on."""
        return cast("dict[str, Any] | None", await self._ask("receive", entity=entity, wait=wait))

    async def renew(self, token: str) -> bool:
        """Renew a message's lock; False: it has expired."""
        return bool(await self._ask("renew", token=token))

    async def complete(self, token: str) -> bool:
        """Remove a message that was processed; False: its lock has expired."""
        return bool(await self._ask("complete", token=token))

    async def abandon(self, token: str) -> Abandoned:
        """Give a message back: it comes again, is dead-lettered, or its lock has expired already."""
        return cast("Abandoned", await self._ask("abandon", token=token))

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _ask(self, what: str, **fields: object) -> Any:
        import aiohttp  # as above: the command imports this module, and needs no broker

        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=PATIENCE), connector=aiohttp.TCPConnector(limit=0)
            )
        try:
            async with self._session.post(f"{self._url}/{what}", json=fields) as answer:
                answer.raise_for_status()
                return await answer.json()
        except (TimeoutError, aiohttp.ClientError) as error:
            raise BusTrouble(f"the message broker did not answer: {type(error).__name__}: {error}") from error

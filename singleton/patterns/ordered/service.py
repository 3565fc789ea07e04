"""An inbox in this process: container, queue and sending. Most methods run on the lock thread.

Sending adds messages to the logs of the inbox: see ``protocol.py``.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import os
import random
import weakref
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from singleton.base.state import read_as, written_as
from singleton.base.tasks import undisturbed
from singleton.baseclient import BaseClient
from singleton.functions.deferrable import check_installed
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered, if_present
from singleton.locking.lease import as_failure
from singleton.patterns.ordered.bell_queue import queue_account
from singleton.patterns.ordered.bells import Bell, ring
from singleton.patterns.ordered.protocol import NEW, Names, chain_of, end_chain
from singleton.runtime.provided import provided_account
from singleton.settings.connection import StorageAccount
from singleton.stores.log_store import FULL, NO_LOG
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from singleton.base.errors import LockNotAcquired
    from singleton.base.hold import Hold
    from singleton.base.state import Keeper
    from singleton.patterns.ordered.bell_queue import BellQueue
    from singleton.patterns.ordered.entries import Entry
    from singleton.patterns.ordered.log_reader import Position
    from singleton.runtime.calls import Work
    from singleton.runtime.registry import Registry
    from singleton.settings.accounts import LockContainer
    from singleton.settings.options import SingletonOptions
    from singleton.stores.lock_keeping import BlobStore, Listed
    from singleton.stores.message_store import MessageStore, Sent

_PATIENCE: Final = 30.0
"""Seconds that a message may take into its log."""
_CALL: Final = 5.0
_BYTES_A_SECOND: Final = 500_000
_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_STEADY: Final = 0.5
"""Seconds by which wall clock and monotonic clock may move against each other between two messages."""
_REMEMBERED: Final = 4096
"""Keys of which is remembered when their bell was rung."""
_SILENCE: Final = _PATIENCE
"""Seconds after which a bell is rung for a message that is not the first in its log: the sender of the first may have
died before ringing, or this process may not know that its message was the first: a send gives up after this time."""


class Place(NamedTuple):
    """The log that messages of a key are added to: its first, or a part behind the full log ``chain``."""

    chain: str = ""
    part: int = 0


class Turn(asyncio.Lock):
    """The turn of the sends of a key. ``moved``: when a send of the key was last answered, by the loop's clock."""

    moved = -math.inf


class Sender:
    """Sends the messages of one process to one inbox."""

    def __init__(
        self, store: BlobStore, names: Names, *, wall: Callable[[], float], rng: random.Random | None = None
    ) -> None:
        self._store = store
        self._names = names
        self._wall = wall
        self._rng = rng or random.SystemRandom()
        self._id = ""
        self._numbers = itertools.count(1)
        self._clocks = 0.0
        self._process = 0
        self._turns: weakref.WeakValueDictionary[str, Turn] = weakref.WeakValueDictionary()
        self._places: dict[str, Place] = {}
        self._rung: OrderedDict[str, float] = OrderedDict()

    @undisturbed
    async def send(self, spot: str, entry: Entry, ring: Callable[[str], Awaitable[object]]) -> None:
        """Add a message to its log, under a number of this sender's unless it has one, and ring the bell if needed.

        A send that has begun goes on to its end. ``ring`` rings the bell of a spot. A bell that could not be rung is no
        error: the message is in the log.

        Raises:
            StorageError: the message was not sent, or the sender can't know; then the message will not be handled
                after a message that is sent later.
        """
        offset = await self._appended(spot, entry)
        now = asyncio.get_running_loop().time()
        if offset and now - self._rung.get(spot, -_SILENCE) < _SILENCE:
            return
        self._rung.pop(spot, None)
        if not await ring(spot):
            return
        self._rung[spot] = now
        if len(self._rung) > _REMEMBERED:
            self._rung.popitem(last=False)

    async def _appended(self, spot: str, entry: Entry) -> int:
        """Add a message to its log, in its turn; return its offset.

        The patience begins with the send, and anew with each answer to an earlier send of the key. So in an outage the
        sends of a key fail together, and in a burst each send gets its turn.
        """
        clock = asyncio.get_running_loop().time
        began, turn = clock(), self._turns.setdefault(spot, Turn())
        async with turn:
            if (ends := max(began, turn.moved) + _PATIENCE) <= clock():
                failure = StoreFailure(detail="no answer to the earlier messages of the key; this message was not sent")
                raise storage_error(self._names.log(spot), failure, what="log")
            if not entry.sender:
                entry = replace(entry, sender=self._named(), number=next(self._numbers))
            offset = await self._added(spot, entry.framed(), ends)
            turn.moved = clock()
            return offset

    def _named(self) -> str:
        """Return the id of this sender; another in a copy of the process."""
        before, self._clocks = self._clocks, self._wall() - asyncio.get_running_loop().time()
        if not self._id or abs(self._clocks - before) > _STEADY or self._process != os.getpid():
            self._id, self._process = f"{self._rng.getrandbits(64):016x}", os.getpid()
        return self._id

    async def _added(self, spot: str, block: bytes, ends: float) -> int:
        """Add a block to the log of a spot until ``ends``, whatever becomes of the requests; return its offset.

        0 also where an earlier request may have added it as the first. A machine that has slept past ``ends`` does not
        add it again: the key's reader may have forgotten this sender. Only the wall clock tells of the sleep.
        """
        loop = asyncio.get_running_loop()
        wall_ends = self._wall() + ends - loop.time()
        pause = _PAUSE
        place, may_be_first = self._places.get(spot, Place()), False
        while True:
            try:
                async with asyncio.timeout_at(min(ends, loop.time() + _CALL + len(block) / _BYTES_A_SECOND)):
                    offset = await self._store.append(self._name(spot, place), block)
            except Exception as error:  # noqa: BLE001 - whatever a store raises, it is a failure to answer
                failure = as_failure(error)
            else:
                if place.part:
                    self._places[spot] = place
                else:
                    self._places.pop(spot, None)
                return 0 if may_be_first else offset
            may_be_first = may_be_first or failure.leaves_doubt
            try:
                async with asyncio.timeout_at(min(ends, loop.time() + _CALL)):
                    found = await self._other(spot, place, failure)
            except Exception as error:  # noqa: BLE001
                found, failure = None, as_failure(error)
            if self._wall() > wall_ends:
                raise storage_error(self._name(spot, place), failure, what="log") from failure
            if found is not None and loop.time() < ends:
                place = found
                continue
            if failure.meaning in ("denied", "refused") or loop.time() + pause >= ends:
                raise storage_error(self._name(spot, place), failure, what="log") from failure
            await asyncio.sleep(max(pause, min(failure.retry_after or 0.0, ends - loop.time())))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _other(self, spot: str, place: Place, failure: StoreFailure) -> Place | None:
        """Return the next place for the entry after a refusal at ``place``; None: ``place`` again, a bit later."""
        name = self._name(spot, place)
        if failure.code == FULL:
            chain = place.chain
            if not chain:
                first = await self._store.tail(name, 0, 1)
                if not first.full:  # it is another by now
                    return place
                chain = chain_of(first)
            following = Place(chain, place.part + 1)
            await self._store.start_log(self._name(spot, following), NEW)
            return following
        if failure.code == NO_LOG and place.part:
            await end_chain(self._store, self._names.log(spot), place.chain)
            return Place()
        if failure.meaning == "missing":
            if not place.part:
                await self._store.start_log(name, NEW)
            return Place()
        return None

    def _name(self, spot: str, place: Place) -> str:
        return self._names.log(spot, place.chain, place.part)


_DAY: Final = 86_400
"""Seconds after which what a chain of logs left behind is deleted."""

_senders: weakref.WeakKeyDictionary[Registry, dict[tuple[LockContainer, Names, str], Sender]] = (
    weakref.WeakKeyDictionary()
)


class Service:
    """The storage of one inbox. Settings are read when it is first used."""

    def __init__(self, bells: BellQueue, options: SingletonOptions | None) -> None:
        name, self._connection, self._queue, self._encoding = bells
        self.names = Names(name)
        self._options = options
        self._clients: dict[Any, BaseClient] = {}
        self._accounts: dict[Any, StorageAccount] = {}

    @property
    def client(self) -> BaseClient:
        """The lock client of the inbox; under a replaced lock thread, the client for its account."""
        where = provided_account(self._connection)
        if where not in self._clients:
            self._clients[where] = BaseClient(self._connection, options=self._options)
        return self._clients[where]

    @property
    def _place(self) -> LockContainer:
        return self.client._place  # noqa: SLF001

    @property
    def _account(self) -> StorageAccount:
        where = provided_account(self._connection)
        if where not in self._accounts:
            account = StorageAccount()
            if where is None:
                check_installed("an inbox")
                account = queue_account(self._connection, os.environ)
            self._accounts[where] = account
        return self._accounts[where]

    def attempt(self, spot: str, owner: str = "") -> Work[Hold | LockNotAcquired]:
        """Ask once for the lock of a key."""
        return self.client._try(self.names.lock(spot), owner, None, 0.0)  # noqa: SLF001 - the inbox's own client

    def store(self, registry: Registry) -> BlobStore:
        """Return the container."""
        return registry.store(self._place)

    def queue(self, registry: Registry) -> MessageStore:
        """Return the queue of bells."""
        return registry.queue(self._account, self._queue)

    async def send(self, spot: str, entry: Entry, registry: Registry) -> None:
        """Send a message, and ring the bell if needed. Inboxes of a name share a sender in this process."""

        async def ring_first(spot: str) -> Sent | None:
            return await self.ring(registry, Bell(self.names.inbox, spot))

        senders = _senders.setdefault(registry, {})
        key = self._place, self.names, self._queue
        if key not in senders:
            senders[key] = Sender(self.store(registry), self.names, wall=registry.wall, rng=registry.rng)
        await senders[key].send(spot, entry, ring_first)

    async def ring(self, registry: Registry, bell: Bell, delay: float = 0) -> Sent | None:
        """Ring a bell, in so many seconds."""
        return await ring(self.queue(registry), bell, self._encoding, delay)

    async def keep(self, keeper: Keeper, spot: str, position: Position, registry: Registry) -> None:
        """Keep the position of the reader of a key."""
        await keeper.write(position.kept(self.names.uses(spot), registry.wall()))

    async def is_drained(self, registry: Registry, spot: str) -> bool:
        """Tell whether a key has no log: the messages that were sent before are then handled."""
        name = self.names.log(spot)
        return await if_present(lambda: self.store(registry).read(name), name, what="log") is None

    async def _is_read(self, store: BlobStore, spot: str) -> bool:
        name = self.names.lock(spot)
        found = await if_present(lambda: store.read(name), name)
        return found is not None and found.held

    async def look_if_due(self, hold: Hold, every: float, registry: Registry) -> None:
        """Look under a lock, unless somebody has looked since then."""
        keeper, at = hold.keeper(), registry.wall()
        last = read_as(hold.lock, await keeper.read())
        if not isinstance(last, int | float) or not 0 <= at - last < 0.9 * every:
            await self.look(registry)
            await keeper.write(written_as(at))

    async def look(self, registry: Registry) -> int:
        """Ring for each key with a log and without a reader; return how many. Delete the remains of chains."""
        store, rung = self.store(registry), 0
        last, chain = "", ""
        async for blob in self.listed(store, self.names.logs):
            spot, _, part = blob.name[len(self.names.logs) :].partition("/")
            if spot != last:
                last, chain = spot, ""
            if not part:
                chain = chain_of(blob)
                if not await self._is_read(store, spot):
                    rung += await self.ring(registry, Bell(self.names.inbox, spot, 1)) is not None
            elif part.partition("/")[0] != chain and blob.modified < self._at - _DAY:
                with contextlib.suppress(StoreFailure):  # the next look will
                    await store.drop(blob.name, blob.etag)
        return rung

    async def spots(self, store: BlobStore) -> AsyncIterator[str]:
        """Yield the spots that have a log."""
        async for blob in self.listed(store, self.names.logs):
            spot, slash, _ = blob.name[len(self.names.logs) :].partition("/")
            if not slash:
                yield spot

    async def listed(self, store: BlobStore, prefix: str) -> AsyncIterator[Listed]:
        """Yield the blobs of this prefix; ``_at`` is the service's clock."""
        marker = None
        while True:
            try:
                page = await answered(lambda: store.page(prefix, marker), call=30.0, answer=60.0)  # noqa: B023
            except StoreFailure as failure:
                if failure.code == "ContainerNotFound":
                    return
                raise storage_error(prefix, failure, what="the listing of") from failure
            self._at = page.at
            for blob in page.entries:
                yield blob
            marker = page.marker
            if marker is None:
                return

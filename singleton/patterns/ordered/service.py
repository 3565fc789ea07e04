"""An inbox in this process: container, queue and sending. Most methods run on the lock thread."""

from __future__ import annotations

import contextlib
import os
import weakref
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError
from singleton.base.state import read_as, written_as
from singleton.baseclient import BaseClient
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.container import keeping_of
from singleton.patterns.ordered.bells import Bell, ring
from singleton.patterns.ordered.log_writer import Sender
from singleton.patterns.ordered.protocol import Names, chain_of
from singleton.process.lock_thread import provided_account
from singleton.settings.connection import StorageAccount, checked_connection_string, resolve_queue_account
from singleton.stores.log_store import LogStore
from singleton.stores.protocol import HELD, ContentStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from singleton.base.hold import Hold
    from singleton.defer.trigger_queue import Encoding
    from singleton.patterns.ordered.entries import Entry
    from singleton.patterns.ordered.protocol import Store
    from singleton.process.calls import Work
    from singleton.process.registry import Registry
    from singleton.settings.accounts import LockContainer
    from singleton.settings.options import SingletonOptions
    from singleton.stores.lock_keeping import Listed
    from singleton.stores.message_store import MessageStore, Sent

_DAY: Final = 86_400
"""Seconds after which what a chain of logs left behind is deleted."""

_senders: weakref.WeakKeyDictionary[Registry, dict[tuple[LockContainer, Names, str], Sender]] = (
    weakref.WeakKeyDictionary()
)


class _Client(BaseClient):
    """The locks of an inbox."""

    @property
    def place(self) -> LockContainer:
        """The container."""
        return self._place

    def attempt(self, name: str, owner: str) -> Work[Hold | None]:
        """Ask for a lock once."""
        return self._try(name, owner, None, 0.0)

    def acquisition(self, name: str, timeout: float) -> Work[Hold]:
        """Wait for a lock."""
        return self._acquire(name, timeout, "")


class Service:
    """The storage of one inbox. Settings are read when it is first used."""

    def __init__(
        self, name: str, connection: str, queue: str, encoding: Encoding, options: SingletonOptions | None
    ) -> None:
        self.names = Names(name)
        self._connection = connection
        self._queue = queue
        self._encoding = encoding
        self._options = options
        self._clients: dict[Any, _Client] = {}
        self._accounts: dict[Any, StorageAccount] = {}

    @property
    def client(self) -> _Client:
        """The lock client of the inbox; under a replaced lock thread, the client for its account."""
        where = provided_account(self._connection)
        if where not in self._clients:
            self._clients[where] = _Client(self._connection, options=self._options)
        return self._clients[where]

    @property
    def _account(self) -> StorageAccount:
        where = provided_account(self._connection)
        if where not in self._accounts:
            if where is None:
                _check_installed()
            self._accounts[where] = StorageAccount() if where is not None else self._resolved()
        return self._accounts[where]

    def _resolved(self) -> StorageAccount:
        if "=" in self._connection:
            return StorageAccount(checked_connection_string(self._connection, "the connection string"))
        return resolve_queue_account(self._connection, os.environ)

    def attempt(self, spot: str, owner: str = "") -> Work[Hold | None]:
        """Ask once for the lock of a key."""
        return self.client.attempt(self.names.lock(spot), owner)

    # --- on the lock thread -------------------------------------------------------------------------------------------

    def store(self, registry: Registry) -> Store:
        """Return the container.

        Raises:
            ConfigurationError: it keeps neither logs nor state.
        """
        store: Any = registry.store(self.client.place)
        if isinstance(store, LogStore) and isinstance(store, ContentStore):
            there: Store = store  # type: ignore[assignment] # it is a LeaseStore, too
            return there
        raise ConfigurationError(f"a {type(store).__name__} can't keep logs: an inbox needs a store that can")

    def queue(self, registry: Registry) -> MessageStore:
        """Return the queue of bells."""
        return registry.queue(self._account, self._queue)

    async def send(self, spot: str, entry: Entry, registry: Registry) -> None:
        """Send a message, and ring the bell if needed. One sender in this process serves all inboxes of this name."""

        async def ring_first(spot: str) -> Sent | None:
            return await self.ring(registry, Bell(self.names.inbox, spot))

        senders = _senders.setdefault(registry, {})
        key = self.client.place, self.names, self._queue
        if key not in senders:
            senders[key] = Sender(self.store(registry), self.names, wall=registry.wall, rng=registry.rng)
        await senders[key].send(spot, entry, ring_first)

    async def ring(self, registry: Registry, bell: Bell, delay: float = 0) -> Sent | None:
        """Ring a bell, in so many seconds."""
        return await ring(self.queue(registry), bell, self._encoding, delay)

    async def is_drained(self, registry: Registry, spot: str) -> bool:
        """Tell whether a key has no log: then all that was sent before was handled."""
        name = self.names.log(spot)
        try:
            await answered(lambda: self.store(registry).read(name))
        except StoreFailure as failure:
            if failure.meaning == "missing":
                return True
            raise storage_error(name, failure, what="log") from failure
        return False

    async def look_if_due(self, hold: Hold, every: float, registry: Registry) -> None:
        """Look under a lock, unless somebody has looked since then."""
        keeper, at = hold.keeper(), registry.wall()
        last = read_as(hold.lock, await keeper.read())
        if not isinstance(last, int | float) or not 0 <= at - last < 0.9 * every:
            await self.look(registry)
            await keeper.write(written_as(at))

    async def look(self, registry: Registry) -> int:
        """Ring for each key that has a log and nobody at it; return how many. Delete what chains have left behind."""
        store, rung = self.store(registry), 0
        held = {blob.name[len(self.names.locks) :] async for blob in self._listed(store, self.names.locks, HELD)}
        last, chain = "", ""
        async for blob in self._listed(store, self.names.logs):
            spot, _, part = blob.name[len(self.names.logs) :].partition("/")
            if spot != last:
                last, chain = spot, ""
            if not part:
                chain = chain_of(blob)
                rung += spot not in held and await self.ring(registry, Bell(self.names.inbox, spot, 1)) is not None
            elif part.partition("/")[0] != chain and blob.modified < self._at - _DAY:
                with contextlib.suppress(StoreFailure):  # the next look will
                    await store.drop(blob.name, blob.etag)
        return rung

    async def spots(self, store: Store) -> AsyncIterator[str]:
        """Yield the spots that have a log."""
        async for blob in self._listed(store, self.names.logs):
            spot, slash, _ = blob.name[len(self.names.logs) :].partition("/")
            if not slash:
                yield spot

    async def _listed(self, store: Store, prefix: str, states: frozenset[Any] | None = None) -> AsyncIterator[Listed]:
        """Yield the blobs of this prefix, those whose lease is in one of the states; ``_at`` is the service's clock."""
        keeping, marker = keeping_of(store), None
        while True:
            try:
                page = await answered(lambda: keeping.page(prefix, marker), call=30.0, answer=60.0)  # noqa: B023
            except StoreFailure as failure:
                if failure.code == "ContainerNotFound":
                    return
                raise storage_error(prefix, failure, what="the listing of") from failure
            self._at = page.at
            for blob in page.entries:
                if states is None or blob.lease in states:
                    yield blob
            marker = page.marker
            if marker is None:
                return


def _check_installed() -> None:
    try:
        found = find_spec("azure.storage.queue")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise ConfigurationError(
            "an inbox needs the package azure-storage-queue: add azure-functions-singleton[defer] to requirements.txt "
            "(pip install 'azure-functions-singleton[defer]')"
        )

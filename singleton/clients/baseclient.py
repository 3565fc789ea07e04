"""What both lock clients share: the account, the options, and what each request means on the lock thread."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.base.errors import ConfigurationError, LockNotAcquired
from singleton.base.events import Call
from singleton.base.names import check_blob_name
from singleton.base.words import quoted
from singleton.clients.blocks import Again
from singleton.clients.checking import (
    check_owner,
    check_work,
    checked_options,
    checked_patience,
    checked_period,
    checked_timeout,
)
from singleton.clients.leadership import Leadership
from singleton.clients.locksets import acquire_all
from singleton.clients.telling import told, told_while_asking
from singleton.clients.worker import PeriodicWorker
from singleton.locking.holder import holder
from singleton.locking.slots import checked_limit, slot_name
from singleton.process.address import Address
from singleton.process.current import provided_account
from singleton.process.door import Door
from singleton.process.holders import naming_holder
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import resolve_blob_account
from singleton.settings.durations import seconds, span
from singleton.settings.localrun import warn_of_local_run
from singleton.settings.options import refuse_failover

_T = TypeVar("_T")

_ADDRESSES: Final = 1024
"""Addresses that a client remembers."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azure.storage.blob.aio import ContainerClient

    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.base.kinds import Seconds, Use
    from singleton.process.onthread import Work
    from singleton.process.registry import Registry
    from singleton.settings.accounts import GivenAccount, GivenClients
    from singleton.settings.connection import StorageAccount
    from singleton.settings.options import SingletonOptions


class BaseClient:
    """What both clients share: the account, the options, what each request means, and whether they are closed."""

    def __init__(
        self,
        connection: str | Callable[[str], ContainerClient] = "AzureWebJobsStorage",
        *,
        credential: Any = None,
        options: SingletonOptions | None = None,
        failover: Seconds | None = None,
    ) -> None:
        self._options = checked_options(options, failover)
        account = _account(connection, credential)
        self._place = LockContainer(account, self._options.container, self._options.http)
        self._brought = credential is not None or callable(connection)
        self._addresses: dict[str, Address] = {}
        self._told = False
        self._door = Door()

    def close(self) -> None:
        """Refuse new locks, and tell those who wait. What is held stays so until its block ends.

        The connections of a client that was made with a credential or a function are closed then, too.
        """
        self._door.close()

    @staticmethod
    def safe_name(text: str) -> str:
        """Return a name that a lock may have, made of any text: a file's path, what a user typed, nothing at all.

        A text that may be a name stays what it is. Of any other the name is what is left of it, and a hash; different
        texts have different names.

        Raises:
            ConfigurationError: it is no text.

        Example::

            with locks.lock(locks.safe_name(customer)): ...
        """
        from singleton.layouts.blob_name import safe_name

        return safe_name(text)

    def periodic(
        self,
        name: str,
        work: Callable[[Hold], object],
        *,
        every: Seconds,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
    ) -> PeriodicWorker:
        """Make a worker that does its work every so many seconds, on one instance at a time.

        Args:
            name: name of the lock.
            work: a function, or coroutine function, that gets the hold.
            every: seconds from tick to tick, above 0.
            at_least: seconds for which the lock is kept, however short the work is. So instances whose ticks come at
                other times skip theirs. It must be less than ``every``: the instance's own next tick needs the lock.
            max_hold: seconds after which the work's hold is lost, as for ``lock``.
            owner: as for ``lock``.

        Raises:
            ConfigurationError: the name or the period is wrong, or ``work`` can't be called with the hold alone.

        Example::

            with locks.periodic("cleanup", clean_up, every=60):
                serve()
        """
        check_work(work)
        period = checked_period(every, at_least)
        attempt = self._try(name, owner, None, at_least, max_hold, use="periodic")
        return PeriodicWorker(name, work, every=period, attempt=attempt)

    def leadership(self, name: str, *, owner: str = "") -> Leadership:
        """Make a candidate for a lock that one process holds for as long as it lives.

        Its lease lasts ``listener_lock_period``. The candidate asks for the lock every
        ``listener_lock_recovery_polling_interval``. If that is None, it asks once and waits for
        ``lock_acquisition_timeout``.

        Args:
            name: name of the lock.
            owner: as for ``lock``.

        Raises:
            ConfigurationError: the name is wrong.

        Example::

            with locks.leadership("poller") as leadership:
                while hold := leadership.wait():
                    while not hold.lost.wait(1):
                        poll()
        """
        recovery = self._options.recovery
        timeout = self._options.lock_acquisition_timeout if recovery is None else 0
        options = self._options.replace(lock_period=self._options.listener_lock_period)
        attempt = self._asked(name, timeout, owner, options=options)
        asking = told_while_asking(name, owner, attempt, for_ever=recovery is not None)
        address = self._address(name, options)
        return Leadership(name, attempt=asking, recovery=recovery, pause=lambda there, s: there.pause(address, s))

    def _known_address(self, name: str) -> Address:
        """Return the address of a lock under the client's own options; of those used last it is remembered."""
        address = self._addresses.get(name)
        if address is None:
            address = self._address(name)
            if len(self._addresses) >= _ADDRESSES:
                self._addresses.clear()
            self._addresses[name] = address
        return address

    def _address(self, name: str, options: SingletonOptions | None = None) -> Address:
        return Address.of(self._place, check_blob_name(name), options or self._options)

    def _acquire(
        self,
        name: str,
        timeout: Seconds | None,
        owner: str,
        limit: int | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
    ) -> Work[Hold]:
        asked = self._asked(name, timeout, owner, limit, at_least, max_hold, names_holder=limit is None)
        use: Use = "lock" if limit is None else "semaphore"
        otherwise = "raise" if timeout is not None and not checked_timeout(timeout) else "timeout"
        return lambda registry: told(Call(name, "", owner, mode=use), lambda: asked(registry), otherwise=otherwise)

    def _asked(
        self,
        name: str,
        timeout: Seconds | None,
        owner: str,
        limit: int | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        options: SingletonOptions | None = None,
        *,
        names_holder: bool = False,
    ) -> Work[Hold]:
        address = self._known_address(name) if options is None else self._address(name, options)
        patience = checked_timeout(timeout)
        check_owner(owner)
        least, most = span(at_least, max_hold)
        if limit is not None:
            check_blob_name(slot_name(name, checked_limit(limit) - 1))
            refuse_failover(self._options, f"semaphore {name!r}")

        async def attempt(registry: Registry) -> Hold:
            named = naming_holder(registry, address, patience) if names_holder else contextlib.nullcontext()
            async with named:
                return await registry.acquire(
                    address, timeout=patience, owner=owner, limit=limit, at_least=least, max_hold=most
                )

        return self._through(name, attempt)

    def _try(
        self,
        name: str,
        owner: str,
        limit: int | None,
        at_least: Seconds,
        max_hold: Seconds | None = None,
        use: Use | None = None,
        timeout: Seconds = 0.0,
    ) -> Work[Hold | None]:
        patience = checked_patience(timeout)
        asked = self._asked(name, patience, owner, limit, at_least, max_hold)
        kind: Use = use or ("lock" if limit is None else "semaphore")
        otherwise = "timeout" if patience else "skip"

        async def attempt(registry: Registry) -> Hold | None:
            try:
                return await told(Call(name, "", owner, mode=kind), lambda: asked(registry), otherwise=otherwise)
            except LockNotAcquired:
                return None

        return attempt

    def _acquire_all(self, names: Iterable[str], timeout: Seconds | None, owner: str) -> Work[tuple[Hold, ...]]:
        if isinstance(names, str):
            raise ConfigurationError(f"names is the text {quoted(names)}: give a list of names")
        addresses, patience = [self._address(name) for name in names], checked_timeout(timeout)
        check_owner(owner)
        given = [address.name for address in addresses]
        if not given:
            raise ConfigurationError("names is empty: give the name of one lock at least")
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(f"names has {quoted(twice)} twice: it would wait for itself")
        return self._through(
            ", ".join(given), lambda registry: acquire_all(registry, addresses, timeout=patience, owner=owner)
        )

    def _again(self, name: str, at_least: Seconds) -> Again:
        """Say how a block shares the hold of a block around it: it may have it kept for longer."""
        lock, kept = (self._place, name), seconds(at_least, "at_least")

        def first(hold: Hold) -> Work[None]:
            async def keep(registry: Registry) -> None:
                registry.keep(hold, kept)

            return keep

        return Again(lock, first if kept else None)

    def _holder(self, name: str) -> Work[Holder | None]:
        address = self._address(name)
        return self._through(name, lambda registry: holder(registry.store(address.place), name))

    def _lend(self, registry: Registry) -> None:
        """Keep what the client brought along open for as long as the client is."""
        if not self._told:  # at its first use: many a client is made at import, when the Functions host drops log lines
            self._told = True
            warn_of_local_run(os.environ, self._place.account.endpoint, self._options)
        if self._brought:
            registry.lent_to(self._door, self._place)

    def _through(self, names: str, work: Work[_T]) -> Work[_T]:
        """Do this work while the client is open."""
        self._door.check(names)

        async def do(registry: Registry) -> _T:
            self._lend(registry)
            return await work(registry)

        return lambda registry: self._door.through(names, lambda: do(registry))


def _account(
    connection: str | Callable[[str], ContainerClient], credential: Any
) -> StorageAccount | GivenAccount | GivenClients:
    if isinstance(connection, str) and credential is None:
        if connection.startswith(("https://", "http://")):
            raise ConfigurationError(
                "connection is a URL without a credential: give credential=…; a URL with a SAS goes into an app "
                "setting NAME__blobServiceUri, and NAME is given here"
            )
        return provided_account(connection) or resolve_blob_account(connection, os.environ)
    from singleton.settings.accounts import given

    return given(connection, credential)

"""What both lock clients share: the account, the options, and what each request means on the lock thread."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.base.errors import ConfigurationError, LockNotAcquired
from singleton.base.events import Call
from singleton.base.names import check_blob_name
from singleton.base.words import quoted
from singleton.clients.leadership import Leadership
from singleton.clients.locksets import acquire_all
from singleton.clients.telling import ToldAsk, told, told_while_asking
from singleton.clients.worker import PeriodicWorker
from singleton.locking.holder import holder
from singleton.locking.slots import MOST, slot_name
from singleton.process.current import provided_account
from singleton.process.door import Door
from singleton.process.registry import Address
from singleton.settings.connection import resolve_blob_account
from singleton.settings.durations import Limits, seconds
from singleton.settings.localrun import warn_of_local_run
from singleton.settings.options import SingletonOptions
from singleton.settings.place import Place

_T = TypeVar("_T")
_TIMEOUT = Limits(maximum=(2**31 - 1) / 1000, note=", or None to wait for as long as it takes")  # M-6

_ADDRESSES: Final = 1024
"""Addresses that a client remembers."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta
    from typing import TypeAlias

    from azure.storage.blob.aio import ContainerClient

    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.base.kinds import Use
    from singleton.process.onthread import Work
    from singleton.process.registry import Registry
    from singleton.settings.connection import StorageAccount
    from singleton.settings.given import GivenAccount, GivenClients

    Seconds: TypeAlias = float | timedelta


class BaseClient:
    """What both clients share: the account, the options, what each request means, and whether they are closed."""

    def __init__(
        self,
        connection: str | Callable[[str], ContainerClient] = "AzureWebJobsStorage",
        *,
        credential: Any = None,
        options: SingletonOptions | None = None,
    ) -> None:
        self._options = _checked_options(options)
        account = _account(connection, credential)
        self._place = Place(account, self._options.container)
        self._brought = credential is not None or callable(connection)
        self._addresses: dict[str, Address] = {}
        self._lent = False
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
        from singleton.layouts.safename import safe_name

        return safe_name(text)

    def periodic(
        self,
        name: str,
        work: Callable[[Hold], object],
        *,
        every: Seconds,
        at_least: Seconds = 0.0,
        owner: str = "",
    ) -> PeriodicWorker:
        """Make a worker that does its work every so many seconds, on one instance at a time.

        Args:
            name: name of the lock.
            work: a function, or coroutine function, that gets the hold.
            every: seconds from tick to tick, above 0.
            at_least: seconds for which the lock is kept, however short the work is, so that instances whose ticks come
                at other times skip theirs. Leave a bit to ``every``, for the instance's own next tick.
            owner: as for ``lock``.

        Raises:
            ConfigurationError: the name or the period is wrong.

        Example::

            with locks.periodic("cleanup", clean_up, every=60):
                serve()
        """
        if not callable(work):
            raise ConfigurationError(f"work is {quoted(work)}: give a function, or coroutine function, of the hold")
        attempt = self._try(name, owner, None, at_least, use="periodic")
        return PeriodicWorker(name, work, every=seconds(every, "every", above=0), attempt=attempt)

    def leadership(self, name: str, *, owner: str = "") -> Leadership:
        """Make a candidacy for a lock that one process is to have for as long as it lives.

        Its lease lasts ``listener_lock_period``, and it is tried for every ``listener_lock_recovery_polling_interval``.
        Where that is None, it is tried for once, for ``lock_acquisition_timeout``.

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
        recovery = self._options.listener_lock_recovery_polling_interval
        timeout = self._options.lock_acquisition_timeout if recovery is None else 0
        options = self._options.replace(lock_period=self._options.listener_lock_period)
        attempt = self._asked(name, timeout, owner, options=options)
        asking = told_while_asking(name, owner, attempt, for_ever=recovery is not None)
        return Leadership(name, attempt=asking, recovery=recovery)

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
        if not self._told:  # at its first use: many a client is made at import, when the Functions host drops log lines
            self._told = True
            warn_of_local_run(os.environ, self._place.account.endpoint, self._options)
        return Address.of(self._place, check_blob_name(name), options or self._options)

    def _acquire(
        self,
        name: str,
        timeout: Seconds | None,
        owner: str,
        limit: int | None = None,
        at_least: Seconds = 0.0,
    ) -> Work[Hold]:
        patience = None if timeout is None else checked_timeout(timeout)
        if (
            limit is None
            and (at_least == 0.0 or not seconds(at_least, "at_least"))
            and (self._lent or not self._brought)
        ):
            _check_owner(owner)
            self._door.check(name)
            return ToldAsk(self._known_address(name), owner, patience, self._door, self._through)
        asked = self._asked(name, timeout, owner, limit, at_least)
        use: Use = "lock" if limit is None else "semaphore"
        otherwise = "timeout" if patience is None or patience else "raise"
        return lambda registry: told(Call(name, "", owner, mode=use), lambda: asked(registry), otherwise=otherwise)

    def _asked(
        self,
        name: str,
        timeout: Seconds | None,
        owner: str,
        limit: int | None = None,
        at_least: Seconds = 0.0,
        options: SingletonOptions | None = None,
    ) -> Work[Hold]:
        address, patience = self._address(name, options), checked_timeout(timeout)
        _check_owner(owner)
        kept = seconds(at_least, "at_least")
        if limit is not None:
            check_blob_name(slot_name(name, checked_limit(limit) - 1))
        return self._through(
            name,
            lambda registry: registry.acquire(address, timeout=patience, owner=owner, limit=limit, at_least=kept),
        )

    def _try(
        self, name: str, owner: str, limit: int | None, at_least: Seconds, use: Use | None = None
    ) -> Work[Hold | None]:
        asked = self._asked(name, 0, owner, limit, at_least)
        kind: Use = use or ("lock" if limit is None else "semaphore")

        async def attempt(registry: Registry) -> Hold | None:
            try:
                return await told(Call(name, "", owner, mode=kind), lambda: asked(registry), otherwise="skip")
            except LockNotAcquired:
                return None

        return attempt

    def _acquire_all(self, names: Iterable[str], timeout: Seconds | None, owner: str) -> Work[tuple[Hold, ...]]:
        if isinstance(names, str):
            raise ConfigurationError(f"names is the text {quoted(names)}: give a list of names")
        addresses, patience = [self._address(name) for name in names], checked_timeout(timeout)
        _check_owner(owner)
        given = [address.name for address in addresses]
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(f"names has {quoted(twice)} twice: it would wait for itself")
        return self._through(
            ", ".join(given), lambda registry: acquire_all(registry, addresses, timeout=patience, owner=owner)
        )

    def _holder(self, name: str) -> Work[Holder | None]:
        address = self._address(name)
        return self._through(name, lambda registry: holder(registry.store(address.place), name))

    def _through(self, names: str, work: Work[_T]) -> Work[_T]:
        """Do this work while the client is open; what it brought along is kept open for so long."""
        self._door.check(names)

        async def do(registry: Registry) -> _T:
            if self._brought:
                registry.lent_to(self._door, self._place)
                self._lent = True
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
    from singleton.settings.given import given

    return given(connection, credential)


def _checked_options(options: object) -> SingletonOptions:
    if options is None:
        return SingletonOptions()
    if not isinstance(options, SingletonOptions):
        raise ConfigurationError(f"options is a value of type {type(options).__name__}: give SingletonOptions(…)")
    return options


def _check_owner(owner: object) -> None:
    if not isinstance(owner, str):
        raise ConfigurationError(f"owner is {quoted(owner)}: give a text")


def checked_hold(hold: object) -> Hold:
    """Return what is to be released if it is a hold."""
    from singleton.base.hold import Hold

    if not isinstance(hold, Hold):
        raise ConfigurationError(f"hold is {quoted(hold)}: give what acquire returned")
    return hold


def checked_timeout(timeout: Seconds | None) -> float | None:
    """Return a time-out in seconds if it is one."""
    return None if timeout is None else _TIMEOUT.check(timeout, "timeout")


def checked_limit(limit: object) -> int:
    """Return a semaphore's limit if it is one."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise ConfigurationError(f"limit is {quoted(limit)}: give a whole number from 1 to {MOST:,}")
    return limit

"""What both lock clients share: the account, the options, the checks of arguments, and each request as work.

A request is work for the lock thread. A worker loads an app with a client without the modules of requests: they are
imported with the first request.
"""

from __future__ import annotations

import contextlib
import os
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, get_args

from singleton.base.attribute_names import with_explained_attributes
from singleton.base.errors import ConfigurationError, LockNotAcquired
from singleton.base.forks import cached_property, importing
from singleton.base.kinds import OnLoss
from singleton.base.names import check_blob_name
from singleton.base.words import check_arity, quoted
from singleton.layouts.blob_name import safe_name
from singleton.runtime.closing import Closing
from singleton.runtime.provided import provided_account
from singleton.settings.argument_names import with_explained_arguments
from singleton.settings.connection import check_setting_name, resolve_blob_account
from singleton.settings.durations import Limits, seconds, span
from singleton.settings.options import SingletonOptions, refuse_failover

_T = TypeVar("_T")

_ADDRESSES: Final = 1024
"""Addresses that a client remembers."""
_TIMEOUT: Final = Limits(maximum=(2**31 - 1) / 1000, note=", or None to wait for as long as it takes")  # M-6
_NOTICE: Final = Limits(maximum=60, note=", or None to let the rest of the lease run out")

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from azure.storage.blob.aio import ContainerClient

    from singleton.base.hold import Hold
    from singleton.base.holder_record import Holder
    from singleton.base.kinds import Level, Seconds, Use
    from singleton.clients.leadership import Leadership
    from singleton.clients.periodic_worker import PeriodicWorker
    from singleton.operating.container_pass import Lifted
    from singleton.operating.lease_break import Broken
    from singleton.operating.locks import Met, Wanted
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Work
    from singleton.runtime.registry import Registry
    from singleton.settings.accounts import GivenAccount, GivenClients, LockContainer
    from singleton.settings.connection import StorageAccount
    from singleton.stores.lock_keeping import Page


@with_explained_arguments
@with_explained_attributes
class BaseClient:
    """What both clients share: the account, the options, what each request means, and whether they are closed."""

    def __init__(
        self,
        connection: str | Callable[[str], ContainerClient] = "AzureWebJobsStorage",
        *,
        credential: Any = None,
        options: SingletonOptions | None = None,
        failover: Seconds | None = None,
        on_loss: OnLoss = "raise",
    ) -> None:
        self._on_loss = _checked_on_loss(on_loss)
        self._options = _checked_options(options, failover)
        self._connection = connection
        self._given = _given_account(connection, credential)
        self._brought = credential is not None or callable(connection)
        self._addresses: dict[str, Address] = {}
        self._told = False
        self._door = Closing()

    @cached_property
    def _place(self) -> LockContainer:
        """The container of the locks. An app setting is looked up at the first use of a client.

        Many a client is made at import, and a Functions worker loads no function of an app whose import raises.
        """
        with importing:
            from singleton.settings.accounts import LockContainer

        account = self._given or resolve_blob_account(str(self._connection), os.environ)
        return LockContainer(account, self._options.container, self._options.http)

    def close(self) -> None:
        """Refuse new locks, and end waits with ``LockClosed``. A hold stays until the end of its block.

        The connections of a client that was made with a credential or a function are closed after the last hold.
        """
        self._door.close()

    @staticmethod
    def safe_name(text: str) -> str:
        """Return a name that a lock may have, made of any text: a file's path, a user's input, the empty text.

        A valid name stays unchanged. The name for another text is the valid part of the text, and a hash; different
        texts have different names.

        Raises:
            ConfigurationError: ``text`` is no text.

        Example::

            with locks.lock(locks.safe_name(customer)): ...
        """
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
        """Make a worker that does its work every ``every`` seconds, on one instance at a time.

        Args:
            name: name of the lock.
            work: a function, or coroutine function, that gets the hold. An awaitable which the function returns is
                awaited under the lock, and cancelled at the loss of the hold.
            every: seconds from tick to tick, above 0.
            at_least: seconds for which the lock is kept, however short the work is: instances with ticks in this time
                skip the ticks. Must be less than ``every``: the instance's own next tick needs the lock.
            max_hold: seconds after which the work's hold is lost, as for ``lock``.
            owner: as for ``lock``.

        Raises:
            ConfigurationError: the name or the period is wrong, or ``work`` can't be called with the hold alone.

        Example::

            with locks.periodic("cleanup", clean_up, every=60):
                serve()
        """
        with importing:
            from singleton.clients.periodic_worker import PeriodicWorker

        if not callable(work):  # now, before the first tick would tell
            raise ConfigurationError(f"work is {quoted(work)}: give a function, or coroutine function, of the hold")
        check_arity("work", work, "the hold alone", ", such as `def clean_up(hold): ...`")
        period, kept = seconds(every, "every", above=0), seconds(at_least, "at_least")
        if kept >= period:
            raise ConfigurationError(
                f"at_least is {kept:g} s and every is {period:g} s: the worker would find its own lock taken at its "
                f"next tick. Give an at_least below {period:g} s"
            )
        attempt = self._try(name, owner, None, at_least, max_hold, use="periodic")
        return PeriodicWorker(name, work, every=period, attempt=attempt, door=self._door)

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
        with importing:
            from singleton.clients.leadership import Leadership
            from singleton.clients.request_events import CandidateRequests

        recovery = self._options.recovery
        timeout = self._options.lock_acquisition_timeout if recovery is None else 0
        options = self._options.replace(lock_period=self._options.listener_lock_period)
        attempt = self._asked(name, timeout, owner, options=options)
        requests = CandidateRequests(name, owner, attempt, for_ever=recovery is not None)
        address = partial(self._address, name, options)
        return Leadership(name, requests=requests, recovery=recovery, address=address)

    def lock_name(
        self,
        function: str,
        scope: str | Iterable[str] = (),
        *,
        level: Level = "function",
        listener: bool = False,
        scope_hash: bool = False,
        limit: int | None = None,
    ) -> str:
        """Return the name of the lock that ``@singleton`` takes for invocations of a function with this scope.

        The app's id is the client's option ``host_id``, or comes from app settings and host.json, as the Functions host
        finds both here. Elsewhere give ``SingletonOptions(host_id=…)``. Without an option or a setting the id is made
        of this machine's name, which no app in Azure has, and a warning is logged. In the container
        ``azure-webjobs-hosts`` the name is the name in ``layout="webjobs"``.

        Args:
            function: the function's name, or the ``name`` of the declaration.
            scope: text of the scope's value, or texts of the values in order; none for a function without a scope.
            level: ``"host"`` for the lock that functions share.
            listener: for the lock of ``mode="listener"``, which each function has of its own.
            scope_hash: for a function that is declared with ``scope_hash=True``.
            limit: the limit of the declaration. With a limit the result is the name of a semaphore; the blobs are the
                name with ``/slot-0``, ``/slot-1`` and so on.

        Raises:
            ConfigurationError, ScopeError: no lock can have this name.
        """
        with importing:
            from singleton.operating.lock_names import app_id, name_in, scope_values, warn_of_machine

        scopes = scope_values(scope)
        app, container = app_id(self._options), self._options.container
        warn_of_machine(app, self._options)
        return name_in(container, app, function, scopes, level, listener=listener, scope_hash=scope_hash, limit=limit)

    def _on_loss_of(self, on_loss: OnLoss | None) -> OnLoss:
        return self._on_loss if on_loss is None else _checked_on_loss(on_loss)

    def _known_address(self, name: str) -> Address:
        """Return the address of a lock under the client's own options; recent addresses are remembered."""
        address = self._addresses.get(name)
        if address is None:
            address = self._address(name)
            if len(self._addresses) >= _ADDRESSES:
                self._addresses.clear()
            self._addresses[name] = address
        return address

    def _address(self, name: str, options: SingletonOptions | None = None) -> Address:
        with importing:
            from singleton.runtime.address import Address

        return Address.of(self._place, name, options or self._options)

    def _acquire(
        self,
        name: str,
        timeout: Seconds | None,
        owner: str,
        limit: int | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
    ) -> Work[Hold]:
        with importing:
            from singleton.base.events import Call
            from singleton.clients.request_events import told

        asked = self._asked(name, timeout, owner, limit, at_least, max_hold, names_holder=limit is None)
        use: Use = "lock" if limit is None else "semaphore"
        otherwise = "raise" if timeout is not None and not _checked_timeout(timeout) else "timeout"
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
        check_blob_name(name)
        patience = _checked_timeout(timeout)
        _check_owner(owner)
        least, most = span(at_least, max_hold)
        if limit is not None:
            with importing:
                from singleton.locking.semaphore import checked_limit, slot_name

            check_blob_name(slot_name(name, checked_limit(limit) - 1))
            refuse_failover(self._options, f"semaphore {name!r}")

        with importing:
            from singleton.runtime.holders import naming_holder

        async def attempt(registry: Registry) -> Hold:
            address = self._known_address(name) if options is None else self._address(name, options)
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
    ) -> Work[Hold | LockNotAcquired]:
        """Return work that acquires, or answers with the refusal: ``try_lock`` and workers raise none."""
        with importing:
            from singleton.base.events import Call
            from singleton.clients.request_events import told

        patience = _checked_timeout(timeout)
        if patience is None:
            raise ConfigurationError(
                "timeout is None: give the seconds after which try_lock gives up, or 0 to ask once. To wait for as "
                "long as it takes, use lock"
            )
        asked = self._asked(name, patience, owner, limit, at_least, max_hold)
        kind: Use = use or ("lock" if limit is None else "semaphore")
        otherwise = "timeout" if patience else "skip"

        async def attempt(registry: Registry) -> Hold | LockNotAcquired:
            try:
                return await told(Call(name, "", owner, mode=kind), lambda: asked(registry), otherwise=otherwise)
            except LockNotAcquired as refusal:
                return refusal.with_traceback(None)

        return attempt

    def _acquire_all(self, names: Iterable[str], timeout: Seconds | None, owner: str) -> Work[tuple[Hold, ...]]:
        with importing:
            from singleton.clients.request_events import acquire_all

        if isinstance(names, str):
            raise ConfigurationError(f"names is the text {quoted(names)}: give a list of names")
        given, patience = [check_blob_name(name) for name in names], _checked_timeout(timeout)
        _check_owner(owner)
        if not given:
            raise ConfigurationError("names is empty: give the name of one lock at least")
        twice = next((name for name in given if given.count(name) > 1), None)
        if twice is not None:
            raise ConfigurationError(f"names has {quoted(twice)} twice: it would wait for itself")

        async def attempt(registry: Registry) -> tuple[Hold, ...]:
            addresses = [self._address(name) for name in given]
            return await acquire_all(registry, addresses, timeout=patience, owner=owner)

        return self._through(", ".join(given), attempt)

    def _holder(self, name: str) -> Work[Holder | None]:
        with importing:
            from singleton.locking.holder import holder

        check_blob_name(name)
        return self._through(name, lambda registry: holder(registry.store(self._place), name))

    def _break(self, name: str, notice: Seconds | None) -> Work[Broken | None]:
        with importing:
            from singleton.operating.lease_break import break_hold

        check_blob_name(name)
        place, warning = self._place, None if notice is None else _NOTICE.check(notice, "notice")
        return self._through(name, lambda registry: break_hold(registry.store(place), name, warning, place.container))

    def _lift(self, *, dry_run: bool) -> Work[Lifted]:
        with importing:
            from singleton.operating.container_pass import Lift

        place = self._place

        async def lift(registry: Registry) -> Lifted:
            going = Lift(registry.store(place), place.container, dry_run=dry_run)
            while await going.go_on():
                pass
            return going.result

        return self._through(place.container, lift)

    def _page(self, prefix: str, marker: str | None) -> Work[Page]:
        with importing:
            from singleton.operating.container import next_page

        place = self._place
        return self._through(
            prefix or place.container,
            lambda registry: next_page(registry.store(place), place.container, prefix, marker),
        )

    def _nothing(self, met: Met, function: str | None, prefix: str) -> Work[None]:
        """Warn if a complete listing has nothing of what was asked for, though there are other locks."""
        with importing:
            from singleton.operating.lock_names import warn_of_nothing

        place = self._place
        return self._through(
            prefix or place.container,
            lambda registry: warn_of_nothing(registry.store(place), place.container, met, function, prefix),
        )

    def _lend(self, registry: Registry) -> None:
        """Keep what the client brought along open for as long as the client is."""
        if not self._told:  # at its first use: many a client is made at import, when the Functions host drops log lines
            with importing:
                from singleton.settings.localrun import warn_of_local_run

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


def _given_account(
    connection: str | Callable[[str], ContainerClient], credential: Any
) -> StorageAccount | GivenAccount | GivenClients | None:
    """Return the account of a client; None: an app setting names the account."""
    if isinstance(connection, str) and credential is None:
        if connection.startswith(("https://", "http://")):
            raise ConfigurationError(
                "connection is a URL without a credential: give the argument credential; a URL with a SAS goes into an "
                "app setting NAME__blobServiceUri, and NAME is given here"
            )
        provided = provided_account(connection)
        if provided is not None:
            return provided
        if "=" in connection:
            return resolve_blob_account(connection, {})
        check_setting_name(connection)
        return None
    with importing:
        from singleton.settings.accounts import given

    return given(connection, credential)


def _checked_options(options: object, failover: Seconds | None) -> SingletonOptions:
    options = SingletonOptions() if options is None else options
    if not isinstance(options, SingletonOptions):
        raise ConfigurationError(f"options is a value of type {type(options).__name__}: give SingletonOptions(…)")
    if failover is not None:
        options = options.replace(failover=failover)
    if options.container == "azure-webjobs-hosts":
        refuse_failover(options, f"container={options.container!r}, where .NET hosts have their locks")
    return options


def _check_owner(owner: object) -> None:
    if not isinstance(owner, str):
        raise ConfigurationError(f"owner is {quoted(owner)}: give a text")


def _checked_on_loss(on_loss: OnLoss) -> OnLoss:
    if on_loss not in get_args(OnLoss):
        raise ConfigurationError(f"on_loss is {quoted(on_loss)}: it must be one of 'raise', 'tell'")
    return on_loss


def _checked_timeout(timeout: Seconds | None) -> float | None:
    return None if timeout is None else _TIMEOUT.check(timeout, "timeout")


def listing(function: str | None, *, held: bool, older_than: Seconds | None) -> tuple[Wanted, Met]:
    """Return which locks are asked for, and what a list has of them at its beginning: nothing."""
    with importing:
        from singleton.operating.locks import Met, Wanted

    age = None if older_than is None else seconds(older_than, "older_than")
    return Wanted(function=function, held=held, older_than=age), Met()

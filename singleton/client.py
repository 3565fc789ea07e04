"""Locks without Functions: ``LockClient`` for threads, ``AsyncLockClient`` for coroutines.

Both clients send the requests of ``baseclient.py`` to the lock thread; a thread blocks, a coroutine awaits.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from singleton.base.errors import ConfigurationError
from singleton.base.forks import cached_property, importing
from singleton.base.words import listed, quoted
from singleton.baseclient import BaseClient, listing
from singleton.settings.argument_names import with_explained_arguments
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from singleton.base.hold import Hold
    from singleton.base.holder_record import Holder
    from singleton.base.kinds import OnLoss, Seconds
    from singleton.clients.blocks import AsyncBlock, AsyncTryBlock, Block, TryBlock  # noqa: F401 - names of bases
    from singleton.operating.container_pass import Lifted
    from singleton.operating.lease_break import Broken
    from singleton.operating.locks import LockInfo
    from singleton.runtime.calls import Calls, Work

_T = TypeVar("_T")
_BlockT = TypeVar("_BlockT")
_TryBlockT = TypeVar("_TryBlockT")
_SetBlockT = TypeVar("_SetBlockT")


class _BlockClient(BaseClient, Generic[_BlockT, _TryBlockT, _SetBlockT]):
    """The methods that make blocks. A subclass says which blocks."""

    @property
    @abstractmethod
    def _blocks(self) -> tuple[Callable[..., _BlockT], Callable[..., _TryBlockT], Callable[..., _SetBlockT]]:
        """The classes of blocks: of a lock, of an attempt, and of several locks."""

    def lock(
        self,
        name: str,
        *,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        reentrant: bool = False,
        owner: str = "",
        on_loss: OnLoss | None = None,
    ) -> _BlockT:
        """Hold the lock for the length of the block; as a decorator of a function, for the length of every call.

        Args:
            name: blob name of the lock, 1 to 1,024 characters (S-5).
            timeout: seconds to wait, at least 0; 0 asks once; None waits without limit.
            at_least: seconds from the acquisition for which the lock is kept, also after a shorter block: processes
                whose ticks come later don't repeat the work. The block itself ends at once. A process which ends
                earlier leaves the rest of its lease.
            max_hold: seconds from the acquisition after which the lock is not renewed. The hold is then lost, with the
                reason ``too long``. Another process gets the lock at the expiry of the lease, or at an earlier end of
                the block. None: the lock is renewed until the end of the block.
            reentrant: whether an inner block of the thread or task may ask for the lock again, also with
                ``reentrant=True``. The inner block gets the hold of the outer block; the lock is released at the end
                of the last block.
            owner: text for the blob's metadata and for errors.
            on_loss: ``raise``: a block whose hold was lost ends with ``LockLost``; a coroutine is cancelled at the
                loss. ``tell``: only ``hold.lost`` tells of the loss. None: as the client says, ``raise`` by default.

        Raises:
            LockNotAcquired: another holder has the lock.
            LockLost: at the end of the block, the hold was lost. See ``on_loss``.
            LockClosed: the client is closed, or was closed during the wait.
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            ConfigurationError: the name or the time-out is wrong.
        """
        again = None
        if reentrant:
            with importing:
                from singleton.clients.blocks import Again

            again = Again(lambda: (self._place, name), seconds(at_least, "at_least"))
        ask = partial(self._acquire, name, timeout, owner, None, at_least, max_hold)
        return self._blocks[0](name, self._on_loss_of(on_loss), ask, again)

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
        on_loss: OnLoss | None = None,
    ) -> _BlockT:
        """Hold one of ``limit`` slots of the semaphore for the length of the block.

        Slots are locks, ``{name}/slot-0``, ``{name}/slot-1`` …. If processes use different limits for a name, the
        highest limit counts. The hold's fencing token orders the holds of a slot only; it is no fence among the
        holders of the semaphore.

        Args:
            name: name of the semaphore; independent of a lock with the name.
            limit: greatest number of holders over the processes together, at least 1. Meant for some dozens: a refusal
                takes a request for every slot.
            timeout, at_least, max_hold, owner, on_loss: as for ``lock``.

        Raises:
            LockNotAcquired: no slot is free.
            LockLost, LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``.
        """
        with importing:
            from singleton.locking.semaphore import checked_limit

        return self._blocks[0](
            name,
            self._on_loss_of(on_loss),
            lambda: self._acquire(name, timeout, owner, checked_limit(limit), at_least, max_hold),
        )

    def try_lock(
        self,
        name: str,
        *,
        timeout: Seconds = 0.0,
        limit: int | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
        on_loss: OnLoss | None = None,
    ) -> _TryBlockT:
        """Hold the lock for the length of the block; enter the block with None while another holder has the lock.

        As a decorator of a function: hold the lock for every call, or skip the call and return None.

        Args:
            name, at_least, max_hold, owner, on_loss: as for ``lock``.
            timeout: seconds to wait, at least 0; 0 asks once.
            limit: for a slot of a semaphore, as for ``semaphore``; None for a lock.

        Raises:
            LockLost, LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``. None means a held
                lock, not an error.
        """
        return self._blocks[1](
            name,
            self._on_loss_of(on_loss),
            lambda: self._try(name, owner, limit, at_least, max_hold, timeout=timeout),
        )

    def lock_all(
        self,
        names: Iterable[str],
        *,
        timeout: Seconds | None = None,
        owner: str = "",
        on_loss: OnLoss | None = None,
    ) -> _SetBlockT:
        """Hold several locks for the length of the block, or none.

        The locks are acquired one after the other in the order of their names: with one order for every caller, two
        sets can't wait for each other. The holds come in the order of ``names``.

        Args:
            names: names of locks, without repeats.
            timeout: seconds to wait for the locks together.
            owner, on_loss: as for ``lock``. The loss of a single lock is a loss of the set.

        Raises:
            LockNotAcquired: a lock was not free in time; the acquired locks are released.
            LockLost: a lock was lost, in the block or during the wait for the next.
            LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``.
        """
        given = names if isinstance(names, str) else tuple(names)
        return self._blocks[2](
            listed(given), self._on_loss_of(on_loss), lambda: self._acquire_all(given, timeout, owner)
        )


def _lock_thread() -> Calls:
    """Return the lock thread of this process."""
    with importing:
        from singleton.runtime.lock_thread import runtime

    return runtime()


def _checked_hold(hold: object) -> Hold:
    """Return what is to be released if it is a hold."""
    with importing:
        from singleton.base.hold import Hold

    if not isinstance(hold, Hold):
        raise ConfigurationError(f"hold is {quoted(hold)}: give what acquire returned")
    return hold


def _with_named_blocks(client: type[_T]) -> type[_T]:
    """Copy the methods of ``_BlockClient`` into the client: ``help`` then names blocks, not type variables."""
    base = vars(client)["__orig_bases__"][0]
    names = [variable.__name__ for variable in _BlockClient.__parameters__]  # type: ignore[attr-defined]
    blocks = dict(zip(names, (block.__forward_arg__ for block in base.__args__), strict=True))
    for name, method in vars(_BlockClient).items():
        if isinstance(method, FunctionType):
            copy = FunctionType(method.__code__, method.__globals__, name, method.__defaults__, method.__closure__)
            copy.__kwdefaults__, copy.__doc__ = method.__kwdefaults__, method.__doc__
            copy.__qualname__ = f"{client.__name__}.{name}"
            copy.__annotations__ = {**method.__annotations__, "return": blocks[method.__annotations__["return"]]}
            setattr(client, name, copy)
    return with_explained_arguments(client)


@_with_named_blocks
class LockClient(_BlockClient["Block[Hold]", "TryBlock", "Block[tuple[Hold, ...]]"]):
    """Locks on the blobs of a container, for threads.

    Make one client and keep it for the life of the process; a second one costs little, because all clients share one
    lock thread, and clients with the same arguments share their connections.

    Args:
        connection: app setting (environment variable) of the storage account, or prefix of the settings of an
            identity; or a connection string; or the account's blob URL, with ``credential``; or a function which makes
            an ``azure.storage.blob.aio.ContainerClient`` for a container's name. The lock thread calls the function,
            uses the ``ContainerClient`` and closes it; make it with ``retry_total=0``.
        credential: an identity from ``azure.identity``, asked for tokens on a separate thread; an identity from
            ``azure.identity.aio``, used by the lock thread only; the account's key as text; an
            ``AzureNamedKeyCredential`` or an ``AzureSasCredential``. The client does not close the credential.
        options: container, lease period, polling …; ``SingletonOptions()`` by default.
        failover: seconds of a holder's silence after which another process may take a lock, from 2 to 10; 0: off.
            Default: the value in the options. Not for semaphores.
        on_loss: how a block whose hold was lost ends, unless the block says otherwise: ``raise`` or ``tell``. See
            ``lock``. A hold from ``acquire`` only tells of its loss.

    Raises:
        ConfigurationError: the connection is not set, or its value is wrong.

    Example::

        locks = LockClient("AzureWebJobsStorage")
        with locks.lock("ImportEligibility-A", timeout=60) as hold:
            ...
        with locks.try_lock("ImportEligibility-B") as hold:
            if hold is not None:
                ...
    """

    @cached_property
    def _blocks(self) -> Any:
        with importing:
            from singleton.clients.blocks import Block, TryBlock

        return Block, TryBlock, Block

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def acquire(
        self,
        name: str,
        *,
        limit: int | None = None,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
    ) -> Hold:
        """Take the lock, or with a limit a slot of the semaphore, until ``release``: for code which fits no block.

        Arguments and errors are as for ``lock`` and ``semaphore``.
        """
        return self._do(self._acquire(name, timeout, owner, limit, at_least, max_hold))

    def release(self, hold: Hold) -> None:
        """Release a hold from ``acquire``, on any thread. After a release or a loss the call does nothing."""
        _lock_thread().release(_checked_hold(hold))

    def holder(self, name: str) -> Holder | None:
        """Read the holder of the lock, in whichever process; None for a free lock, or a name without a lock.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
        """
        return self._do(self._holder(name))

    def locked(self, name: str) -> bool:
        """Tell whether the lock is held, in whichever process. The answer may be out of date when you read it.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
        """
        return self.holder(name) is not None

    def break_(self, name: str, notice: Seconds | None = None) -> Broken | None:
        """Take the lock away from its holder, in whichever process; None if it was free, or a waiter got it first.

        ``holder`` tells the two cases apart. If a waiter got the lock first, a warning names the old and new holder.

        For operators. Without ``notice`` the lease can't be renewed, and its rest runs out. A holder of this package
        stops before the expiry: two bodies never overlap. It learns of the break at its next renewal, within half a
        period. A holder of another library may go on.

        Args:
            name: name of the lock.
            notice: seconds until the end of the lease, from 0 to 60, if sooner than its expiry. Two bodies may then
                overlap; the result says for how long.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            StorageError: no lock has the name; the ``reason`` is "no such lock", and near misses are named.
            ConfigurationError: the lease has no expiry, and no notice was given.
        """
        return self._do(self._break(name, notice))

    def lift_epochs(self, *, dry_run: bool = False) -> Lifted:
        """Make future tokens greater than earlier ones, after a failover or restore of the storage account.

        For operators, while the app is stopped. Held locks are left unchanged; the result counts them.

        Args:
            dry_run: write nothing; return the result of a real call.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer. The call may be repeated.
            StorageError: the container does not exist.
        """
        return self._do(self._lift(dry_run=dry_run))

    def locks(
        self, prefix: str = "", *, function: str | None = None, held: bool = False, older_than: Seconds | None = None
    ) -> Iterator[LockInfo]:
        """Go through the locks of the container, in the order of their names: one request for 5,000 locks.

        If no lock has the prefix or the function, a warning at the end names similar prefixes or functions.

        Args:
            prefix: only names with this prefix.
            function: only locks of this function.
            held: only held locks.
            older_than: only locks held for at least this number of seconds, and free locks not written for this long.
                With ``fencing_tokens`` off the age is not known, and the lock is left out.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            StorageError: the container does not exist.
        """
        wanted, met = listing(function, held=held, older_than=older_than)
        marker: str | None = ""
        while marker is not None:
            page = self._do(self._page(prefix, marker or None))
            yield from wanted.among(page, self._place.container, met)
            marker = page.marker
        self._do(self._nothing(met, function, prefix))

    def _do(self, work: Work[_T]) -> _T:
        return _lock_thread().call(work)


@_with_named_blocks
class AsyncLockClient(_BlockClient["AsyncBlock[Hold]", "AsyncTryBlock", "AsyncBlock[tuple[Hold, ...]]"]):
    """Locks on the blobs of a container, for coroutines on any event loop.

    Make one client and keep it for the life of the process; a second one costs little, because all clients share one
    lock thread, and clients with the same arguments share their connections.

    The methods of ``LockClient``, with ``async with`` and ``await``; ``close`` is a plain method.

    Example::

        locks = AsyncLockClient("AzureWebJobsStorage")
        async with locks.lock("ImportEligibility-A", timeout=60) as hold:
            ...
    """

    @cached_property
    def _blocks(self) -> Any:
        with importing:
            from singleton.clients.blocks import AsyncBlock, AsyncTryBlock

        return AsyncBlock, AsyncTryBlock, AsyncBlock

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def acquire(
        self,
        name: str,
        *,
        limit: int | None = None,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
    ) -> Hold:
        """Take the lock, or a slot, until ``release``: for code which fits no block. See ``LockClient.acquire``."""
        return await self._do(self._acquire(name, timeout, owner, limit, at_least, max_hold))

    async def release(self, hold: Hold) -> None:
        """Release a hold from ``acquire``, in any task and loop. See ``LockClient.release``."""
        await _lock_thread().release_async(_checked_hold(hold))

    async def holder(self, name: str) -> Holder | None:
        """Read the holder of the lock; None for a free lock. See ``LockClient.holder``."""
        return await self._do(self._holder(name))

    async def locked(self, name: str) -> bool:
        """Tell whether the lock is held. See ``LockClient.locked``."""
        return await self.holder(name) is not None

    async def break_(self, name: str, notice: Seconds | None = None) -> Broken | None:
        """Take the lock away from its holder. See ``LockClient.break_``."""
        return await self._do(self._break(name, notice))

    async def lift_epochs(self, *, dry_run: bool = False) -> Lifted:
        """Make future tokens greater than earlier ones. See ``LockClient.lift_epochs``."""
        return await self._do(self._lift(dry_run=dry_run))

    async def locks(
        self, prefix: str = "", *, function: str | None = None, held: bool = False, older_than: Seconds | None = None
    ) -> AsyncIterator[LockInfo]:
        """Go through the locks of the container, with ``async for``. See ``LockClient.locks``."""
        wanted, met = listing(function, held=held, older_than=older_than)
        marker: str | None = ""
        while marker is not None:
            page = await self._do(self._page(prefix, marker or None))
            for info in wanted.among(page, self._place.container, met):
                yield info
            marker = page.marker
        await self._do(self._nothing(met, function, prefix))

    async def _do(self, work: Work[_T]) -> _T:
        return await _lock_thread().call_async(work)

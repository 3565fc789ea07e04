"""Locks without Functions: ``LockClient`` for threads, ``AsyncLockClient`` for coroutines, on the same lock thread.

What is asked of the lock thread is put together once, in ``baseclient.py``; the two differ in how they wait for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self, TypeVar

from singleton.clients.blocks import AsyncBlock, Block
from singleton.clients.checking import checked_hold, checked_limit
from singleton.operatorclient import OperatorClient, checked_wanted, is_nothing, newly_met
from singleton.process.current import runtime
from singleton.process.reentry import from_now_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.clients.checking import Seconds
    from singleton.operating.breaking import Broken
    from singleton.operating.lifting import Lifted
    from singleton.operating.locks import LockInfo
    from singleton.process.onthread import Work

_T = TypeVar("_T")


class LockClient(OperatorClient):
    """Locks on the blobs of one container, for any thread.

    Args:
        connection: app setting (environment variable) of the storage account, or prefix of such settings for an
            identity; or a connection string; or the account's blob URL, with ``credential``; or a function that makes
            an ``azure.storage.blob.aio.ContainerClient`` for a container's name. It is called on the lock thread, which
            uses and closes the client; make it with ``retry_total=0``.
        credential: what ``azure.storage.blob.aio`` takes; an identity from ``azure.identity.aio``. The lock thread uses
            it, so keep it for this.
        options: container, lease period, polling and so on; ``SingletonOptions()`` by default.
        failover: after how many seconds of a holder's silence another process may take a lock, from 2 to 10; 0: off.
            Default: what the options say. Semaphores don't go with it.

    Raises:
        ConfigurationError: nothing is set for the connection, or what is set is wrong.

    Example::

        locks = LockClient("AzureWebJobsStorage")
        with locks.lock("ImportEligibility-A", timeout=60) as hold:
            ...
        with locks.try_lock("ImportEligibility-B") as hold:
            if hold is not None:
                ...
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def lock(
        self, name: str, *, timeout: Seconds | None = None, at_least: Seconds = 0.0, owner: str = ""
    ) -> Block[Hold]:
        """Hold the lock for the length of the block.

        Args:
            name: blob name of the lock, 1 to 1,024 characters (S-5).
            timeout: seconds to wait, at least 0; 0 asks once; None waits for as long as it takes.
            at_least: seconds for which it is kept from now on, however short the block is, so that others whose clocks
                or ticks differ don't do the same again. The block ends at once; a process that ends earlier leaves
                the rest of its lease.
            owner: who asks, for the blob's metadata and for errors.

        Raises:
            LockNotAcquired: somebody else has it.
            LockClosed: the client is closed, or was while this waited.
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            ConfigurationError: the name or the time-out is wrong.
        """
        return self._held(lambda: self._acquire(name, timeout, owner, at_least=at_least))

    def semaphore(self, name: str, limit: int, *, timeout: Seconds | None = None, owner: str = "") -> Block[Hold]:
        """Hold one of ``limit`` slots of the semaphore for the length of the block.

        Its slots are locks, ``{name}/slot-0`` and so on. With other limits on the same name, there are as many holders
        as the highest of them allows. The hold's fencing token orders the holds of its slot only; it is no fence
        among the holders of the semaphore.

        Args:
            name: name of the semaphore; a lock of that name is something else.
            limit: most holders at a time, in all processes, at least 1. Meant for some dozens: where all slots are
                taken, finding that out takes a request for each.
            timeout, owner: as for ``lock``.

        Raises:
            LockNotAcquired: all slots are taken.
            LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``.
        """
        return self._held(lambda: self._acquire(name, timeout, owner, checked_limit(limit)))

    def try_lock(
        self, name: str, *, limit: int | None = None, at_least: Seconds = 0.0, owner: str = ""
    ) -> Block[Hold | None]:
        """Ask once: hold the lock for the length of the block, or enter it with None when somebody else has it.

        Args:
            name, at_least, owner: as for ``lock``.
            limit: for a slot of a semaphore, as for ``semaphore``; None for a lock.

        Raises:
            LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``. Only a lock that is in use
                is None.
        """
        return self._held(lambda: self._try(name, owner, limit, at_least))

    def lock_all(
        self, names: Iterable[str], *, timeout: Seconds | None = None, owner: str = ""
    ) -> Block[tuple[Hold, ...]]:
        """Hold all these locks for the length of the block, or none of them.

        They are acquired one after the other in the order of their names, the same for every caller, so that two sets
        can't wait for each other. The holds come in the order of ``names``.

        Args:
            names: names of locks, each once.
            timeout: seconds to wait for all of them together.
            owner: as for ``lock``.

        Raises:
            LockNotAcquired: one of them could not be had in time; those that were are given back.
            LockLost: one of them was lost while the others were waited for.
            LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``.
        """
        return self._held(lambda: self._acquire_all(names, timeout, owner))

    def acquire(self, name: str, *, limit: int | None = None, timeout: Seconds | None = None, owner: str = "") -> Hold:
        """Take the lock, or with a limit a slot of the semaphore, until ``release``: where no block fits.

        The arguments and errors are those of ``lock`` and ``semaphore``.
        """
        return from_now_on(self._do(self._acquire(name, timeout, owner, limit)))

    def release(self, hold: Hold) -> None:
        """Give back what ``acquire`` returned, from any thread. A second time, or after a loss, does nothing."""
        runtime().release(checked_hold(hold))

    def holder(self, name: str) -> Holder | None:
        """Read who has the lock, in whichever process; None when nobody has, or there is no lock of this name.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
        """
        return self._do(self._holder(name))

    def break_(self, name: str, notice: Seconds | None = None) -> Broken | None:
        """Take the lock away from whoever has it, whichever process; None when nobody had, or the next one got it.

        ``holder`` tells those two apart. That the next one got it is also logged as a warning, with who had it and who
        has it.

        For operators. Without ``notice`` the rest of the lease runs out and can't be renewed: its holder's own deadline
        comes first, so nobody gets in beside it. It learns of it at its next renewal, after half a period at most.

        Args:
            name: the lock's.
            notice: seconds after which the lease ends, 0 to 60, where that is sooner. What is returned says for how
                long two may be inside then.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            StorageError: there is no lock of this name, and its ``reason`` is "no such lock"; near misses are named.
            ConfigurationError: the lease is one that never ends by itself, and no notice was given.
        """
        return self._do(self._break(name, notice))

    def lift_epochs(self, *, function: str | None = None, dry_run: bool = False) -> Lifted:
        """Let all tokens go on above those ever given, after the storage account failed over or was restored.

        For operators, while the app is stopped. A lock that somebody has stays as it is: the result says how many.

        Args:
            function: only locks of this function.
            dry_run: write nothing; say what would be.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer. It may be called again.
            StorageError: there is no such container.
        """
        return self._do(self._lift(function, dry_run=dry_run))

    def locks(
        self, prefix: str = "", *, function: str | None = None, held: bool = False, older_than: Seconds | None = None
    ) -> Iterator[LockInfo]:
        """Go through the locks of the container, in the order of their names: one request for 5,000 of them.

        Where there are locks, and none with this prefix or none of this function, that is logged as a warning at the
        end, with near misses.

        Args:
            prefix: only names that begin with it.
            function: only those of this function.
            held: only those that somebody has.
            older_than: only those that somebody is known to have had for at least so many seconds, and free ones that
                were not written for so long. A holder with ``fencing_tokens`` off does not tell, and is left out.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            StorageError: there is no such container.
        """
        wanted = checked_wanted(function, held=held, older_than=older_than)
        met = newly_met()
        marker: str | None = None
        more = True
        while more:
            page = self._do(self._page(prefix, marker))
            yield from wanted.among(page, self._place.container, met)
            marker, more = page.marker, page.marker is not None
        if is_nothing(met, function, prefix):
            self._do(self._nothing(met, function, prefix))

    def _held(self, asks: Callable[[], Work[_T]]) -> Block[_T]:
        return Block(asks)

    def _do(self, work: Work[_T]) -> _T:
        return runtime().call(work)


class AsyncLockClient(OperatorClient):
    """Locks on the blobs of one container, for coroutines on any event loop.

    Its methods are those of ``LockClient``, with ``async with`` and ``await``; only ``close`` needs neither.

    Example::

        locks = AsyncLockClient("AzureWebJobsStorage")
        async with locks.lock("ImportEligibility-A", timeout=60) as hold:
            ...
    """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def lock(
        self, name: str, *, timeout: Seconds | None = None, at_least: Seconds = 0.0, owner: str = ""
    ) -> AsyncBlock[Hold]:
        """Hold the lock for the length of the block. See ``LockClient.lock``."""
        return self._held(lambda: self._acquire(name, timeout, owner, at_least=at_least))

    def semaphore(self, name: str, limit: int, *, timeout: Seconds | None = None, owner: str = "") -> AsyncBlock[Hold]:
        """Hold one of ``limit`` slots of the semaphore for the length of the block. See ``LockClient.semaphore``."""
        return self._held(lambda: self._acquire(name, timeout, owner, checked_limit(limit)))

    def try_lock(
        self, name: str, *, limit: int | None = None, at_least: Seconds = 0.0, owner: str = ""
    ) -> AsyncBlock[Hold | None]:
        """Ask once; enter the block with None when somebody else has the lock. See ``LockClient.try_lock``."""
        return self._held(lambda: self._try(name, owner, limit, at_least))

    def lock_all(
        self, names: Iterable[str], *, timeout: Seconds | None = None, owner: str = ""
    ) -> AsyncBlock[tuple[Hold, ...]]:
        """Hold all these locks for the length of the block, or none of them. See ``LockClient.lock_all``."""
        return self._held(lambda: self._acquire_all(names, timeout, owner))

    async def acquire(
        self, name: str, *, limit: int | None = None, timeout: Seconds | None = None, owner: str = ""
    ) -> Hold:
        """Take the lock, or a slot, until ``release``: where no block fits. See ``LockClient.acquire``."""
        return from_now_on(await self._do(self._acquire(name, timeout, owner, limit)))

    async def release(self, hold: Hold) -> None:
        """Give back what ``acquire`` returned, from any task and loop. See ``LockClient.release``."""
        await runtime().release_async(checked_hold(hold))

    async def holder(self, name: str) -> Holder | None:
        """Read who has the lock; None when nobody has. See ``LockClient.holder``."""
        return await self._do(self._holder(name))

    async def break_(self, name: str, notice: Seconds | None = None) -> Broken | None:
        """Take the lock away from whoever has it. See ``LockClient.break_``."""
        return await self._do(self._break(name, notice))

    async def lift_epochs(self, *, function: str | None = None, dry_run: bool = False) -> Lifted:
        """Let all tokens go on above those ever given. See ``LockClient.lift_epochs``."""
        return await self._do(self._lift(function, dry_run=dry_run))

    async def locks(
        self, prefix: str = "", *, function: str | None = None, held: bool = False, older_than: Seconds | None = None
    ) -> AsyncIterator[LockInfo]:
        """Go through the locks of the container, with ``async for``. See ``LockClient.locks``."""
        wanted = checked_wanted(function, held=held, older_than=older_than)
        met = newly_met()
        marker: str | None = None
        more = True
        while more:
            page = await self._do(self._page(prefix, marker))
            for info in wanted.among(page, self._place.container, met):
                yield info
            marker, more = page.marker, page.marker is not None
        if is_nothing(met, function, prefix):
            await self._do(self._nothing(met, function, prefix))

    def _held(self, asks: Callable[[], Work[_T]]) -> AsyncBlock[_T]:
        return AsyncBlock(asks)

    async def _do(self, work: Work[_T]) -> _T:
        return await runtime().call_async(work)

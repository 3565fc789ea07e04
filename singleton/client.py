"""Locks without Functions, for threads: ``LockClient``. The one for coroutines is in ``asyncclient.py``.

Both make the same requests of the lock thread, in ``baseclient.py``. They differ in how they wait for the answer.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from singleton.asyncclient import AsyncLockClient
from singleton.base.words import listed
from singleton.baseclient import BaseClient, checked_hold, is_nothing, listing
from singleton.clients.blocks import Block, TryBlock
from singleton.locking.slots import checked_limit
from singleton.process.current import runtime

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.base.kinds import Seconds
    from singleton.operating.breaking import Broken
    from singleton.operating.lifting import Lifted
    from singleton.operating.locks import LockInfo
    from singleton.process.onthread import Work

__all__ = ["AsyncLockClient", "LockClient"]

_T = TypeVar("_T")


class LockClient(BaseClient):
    """Locks on the blobs of one container, for any thread.

    Make one client and keep it for the life of the process; a second one costs little, because all clients share one
    lock thread, and clients with the same arguments share their connections.

    Args:
        connection: app setting (environment variable) of the storage account, or prefix of such settings for an
            identity; or a connection string; or the account's blob URL, with ``credential``; or a function that makes
            an ``azure.storage.blob.aio.ContainerClient`` for a container's name. It is called on the lock thread, which
            uses and closes the client; make it with ``retry_total=0``.
        credential: an identity from ``azure.identity``, which is asked for tokens on a thread of its own, or from
            ``azure.identity.aio``, which the lock thread uses, so keep it for this; or the account's key as text, an
            ``AzureNamedKeyCredential`` or an ``AzureSasCredential``. It stays yours, and is not closed with the client.
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
        self,
        name: str,
        *,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        reentrant: bool = False,
        owner: str = "",
    ) -> Block[Hold]:
        """Hold the lock for the length of the block, or as a decorator of a function, of each call.

        Args:
            name: blob name of the lock, 1 to 1,024 characters (S-5).
            timeout: seconds to wait, at least 0; 0 asks once; None waits for as long as it takes.
            at_least: seconds for which the lock is kept, counted from its acquisition, however short the block is. So
                others whose ticks come later don't do the same again. The block itself ends at once. A process that
                ends earlier leaves the rest of its lease.
            max_hold: seconds after which the lock is not renewed any more, counted from its acquisition. The hold is
                lost then, with the reason ``too long``. Others get the lock when its lease has run out, or when the
                block ends before that. None: it is renewed until the block ends.
            reentrant: whether a block inside this one, on the same thread or in the same task, may ask for the same
                lock, also with ``reentrant=True``. It gets this block's hold; the lock is given back when the last of
                them ends.
            owner: who asks, for the blob's metadata and for errors.

        Raises:
            LockNotAcquired: somebody else has it.
            LockClosed: the client is closed, or was while this waited.
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            ConfigurationError: the name or the time-out is wrong.
        """
        again = self._again(name, at_least) if reentrant else None
        return Block(name, partial(self._acquire, name, timeout, owner, None, at_least, max_hold), again)

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
    ) -> Block[Hold]:
        """Hold one of ``limit`` slots of the semaphore for the length of the block.

        Its slots are locks, ``{name}/slot-0`` and so on. With other limits on the same name, there are as many holders
        as the highest of them allows. The hold's fencing token orders the holds of its slot only; it is no fence
        among the holders of the semaphore.

        Args:
            name: name of the semaphore; a lock of that name is something else.
            limit: most holders at a time, in all processes, at least 1. Meant for some dozens: where all slots are
                taken, finding that out takes a request for each.
            timeout, at_least, max_hold, owner: as for ``lock``.

        Raises:
            LockNotAcquired: all slots are taken.
            LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``.
        """
        return Block(name, lambda: self._acquire(name, timeout, owner, checked_limit(limit), at_least, max_hold))

    def try_lock(
        self,
        name: str,
        *,
        timeout: Seconds = 0.0,
        limit: int | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
    ) -> TryBlock:
        """Hold the lock for the length of the block, or enter it with None when somebody else has it.

        As a decorator of a function it holds the lock for each call, or skips the call, which returns None then.

        Args:
            name, at_least, max_hold, owner: as for ``lock``.
            timeout: seconds to wait, at least 0; 0 asks once.
            limit: for a slot of a semaphore, as for ``semaphore``; None for a lock.

        Raises:
            LockClosed, StorageDenied, StorageUnavailable, ConfigurationError: as ``lock``. Only a lock that is in use
                is None.
        """
        return TryBlock(name, lambda: self._try(name, owner, limit, at_least, max_hold, timeout=timeout))

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
        given = names if isinstance(names, str) else tuple(names)
        return Block(listed(given), lambda: self._acquire_all(given, timeout, owner))

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
        """Take the lock, or with a limit a slot of the semaphore, until ``release``: where no block fits.

        The arguments and errors are those of ``lock`` and ``semaphore``.
        """
        return self._do(self._acquire(name, timeout, owner, limit, at_least, max_hold))

    def release(self, hold: Hold) -> None:
        """Give back what ``acquire`` returned, from any thread. A second time, or after a loss, does nothing."""
        runtime().release(checked_hold(hold))

    def holder(self, name: str) -> Holder | None:
        """Read who has the lock, in whichever process; None when nobody has, or there is no lock of this name.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
        """
        return self._do(self._holder(name))

    def locked(self, name: str) -> bool:
        """Tell whether somebody has the lock, in whichever process. It may have changed when you read the answer.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
        """
        return self.holder(name) is not None

    def break_(self, name: str, notice: Seconds | None = None) -> Broken | None:
        """Take the lock away from its holder, in whichever process; None when nobody had it, or the next one got it.

        ``holder`` tells these two apart. When the next one got it, a warning says who had the lock and who has it.

        For operators. Without ``notice`` the lease is not renewed any more, and its rest runs out. The holder stops
        before that, so no two are inside. It learns of the break at its next renewal, after half a period at most.

        Args:
            name: the lock's.
            notice: seconds after which the lease ends, from 0 to 60, if that is sooner. The result says for how long
                two may be inside then.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            StorageError: there is no lock of this name, and its ``reason`` is "no such lock"; near misses are named.
            ConfigurationError: the lease is one that never ends by itself, and no notice was given.
        """
        return self._do(self._break(name, notice))

    def lift_epochs(self, *, function: str | None = None, dry_run: bool = False) -> Lifted:
        """Make future tokens greater than all before, after the storage account failed over or was restored.

        For operators, while the app is stopped. Locks that somebody holds stay as they are; the result counts them.

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

        If no lock has this prefix, or none is of this function, a warning at the end names similar ones.

        Args:
            prefix: only names that begin with it.
            function: only those of this function.
            held: only those that somebody has.
            older_than: only those that somebody has had for at least so many seconds, and free ones that were not
                written for so long. With ``fencing_tokens`` off that is not known, and the lock is left out.

        Raises:
            StorageDenied, StorageUnavailable: the storage refuses, or does not answer.
            StorageError: there is no such container.
        """
        wanted, met = listing(function, held=held, older_than=older_than)
        marker: str | None = None
        more = True
        while more:
            page = self._do(self._page(prefix, marker))
            yield from wanted.among(page, self._place.container, met)
            marker, more = page.marker, page.marker is not None
        if is_nothing(met, function, prefix):
            self._do(self._nothing(met, function, prefix))

    def _do(self, work: Work[_T]) -> _T:
        return runtime().call(work)

"""Locks without Functions for coroutines: the methods of ``LockClient``, with ``async with`` and ``await``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Self, TypeVar

from singleton.base.words import listed
from singleton.baseclient import BaseClient, checked_hold, is_nothing, listing
from singleton.clients.blocks import AsyncBlock, AsyncTryBlock
from singleton.locking.semaphore import checked_limit
from singleton.runtime.lock_thread import runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.base.kinds import Seconds
    from singleton.operating.epoch_lift import Lifted
    from singleton.operating.lease_break import Broken
    from singleton.operating.locks import LockInfo
    from singleton.runtime.calls import Work

_T = TypeVar("_T")


class AsyncLockClient(BaseClient):
    """Locks on the blobs of a container, for coroutines on any event loop.

    Make one client and keep it for the life of the process; a second one costs little, because all clients share one
    lock thread, and clients with the same arguments share their connections.

    The methods of ``LockClient``, with ``async with`` and ``await``; ``close`` is a plain method.

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
        self,
        name: str,
        *,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        reentrant: bool = False,
        owner: str = "",
    ) -> AsyncBlock[Hold]:
        """Hold the lock for the length of the block. See ``LockClient.lock``."""
        again = self._again(name, at_least) if reentrant else None
        return AsyncBlock(name, partial(self._acquire, name, timeout, owner, None, at_least, max_hold), again)

    def semaphore(
        self,
        name: str,
        limit: int,
        *,
        timeout: Seconds | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
    ) -> AsyncBlock[Hold]:
        """Hold one of ``limit`` slots of the semaphore for the length of the block. See ``LockClient.semaphore``."""
        return AsyncBlock(name, lambda: self._acquire(name, timeout, owner, checked_limit(limit), at_least, max_hold))

    def try_lock(
        self,
        name: str,
        *,
        timeout: Seconds = 0.0,
        limit: int | None = None,
        at_least: Seconds = 0.0,
        max_hold: Seconds | None = None,
        owner: str = "",
    ) -> AsyncTryBlock:
        """Hold the lock, or enter the block with None while it is held elsewhere. See ``LockClient.try_lock``."""
        return AsyncTryBlock(name, lambda: self._try(name, owner, limit, at_least, max_hold, timeout=timeout))

    def lock_all(
        self, names: Iterable[str], *, timeout: Seconds | None = None, owner: str = ""
    ) -> AsyncBlock[tuple[Hold, ...]]:
        """Hold several locks for the length of the block, or none. See ``LockClient.lock_all``."""
        given = names if isinstance(names, str) else tuple(names)
        return AsyncBlock(listed(given), lambda: self._acquire_all(given, timeout, owner))

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
        await runtime().release_async(checked_hold(hold))

    async def holder(self, name: str) -> Holder | None:
        """Read the holder of the lock; None for a free lock. See ``LockClient.holder``."""
        return await self._do(self._holder(name))

    async def locked(self, name: str) -> bool:
        """Tell whether the lock is held. See ``LockClient.locked``."""
        return await self.holder(name) is not None

    async def break_(self, name: str, notice: Seconds | None = None) -> Broken | None:
        """Take the lock away from its holder. See ``LockClient.break_``."""
        return await self._do(self._break(name, notice))

    async def lift_epochs(self, *, function: str | None = None, dry_run: bool = False) -> Lifted:
        """Make future tokens greater than earlier ones. See ``LockClient.lift_epochs``."""
        return await self._do(self._lift(function, dry_run=dry_run))

    async def locks(
        self, prefix: str = "", *, function: str | None = None, held: bool = False, older_than: Seconds | None = None
    ) -> AsyncIterator[LockInfo]:
        """Go through the locks of the container, with ``async for``. See ``LockClient.locks``."""
        wanted, met = listing(function, held=held, older_than=older_than)
        marker: str | None = None
        more = True
        while more:
            page = await self._do(self._page(prefix, marker))
            for info in wanted.among(page, self._place.container, met):
                yield info
            marker, more = page.marker, page.marker is not None
        if is_nothing(met, function, prefix):
            await self._do(self._nothing(met, function, prefix))

    async def _do(self, work: Work[_T]) -> _T:
        return await runtime().call_async(work)

"""The state in a lock's blob, read and written by a section under its lease.

The way of a write: ``hold.state.write`` (``base/state.py``), on the lock thread ``SectionState.write`` with retries,
``FencingCounter.keep`` with the stamp of the hold, ``ContentStore.put`` on condition of the ETag.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, TypeVar

from singleton.base.errors import LockLost, StorageError, StorageUnavailable
from singleton.base.failover_mark import TOUCHES, good_for
from singleton.base.invocation import SpeakingOf
from singleton.base.state import MOST_STATE, Kept
from singleton.base.tasks import being_cancelled
from singleton.locking.acquisition import storage_error
from singleton.locking.lease import as_failure
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease
    from singleton.locking.record import SectionRecord

_T = TypeVar("_T")

_CALL: Final = 5.0
"""Seconds for a request with little content."""
_BYTES_A_SECOND: Final = 500_000
"""Rate of a slow connection, in bytes: a request with much content gets more time."""
_LONGEST: Final = _CALL + MOST_STATE / _BYTES_A_SECOND
_PATIENCE: Final = 30.0
"""Seconds of storage without a usable answer, at most, while the hold is good."""
_NOT_KNOWN: Final = "it is not known whether this was written: the state of lock"
_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 2.0


class SectionState:
    """The ``Keeper`` of a section. The end of the section waits for a read or write under way."""

    def __init__(self, lock: str, record: SectionRecord, fencing: FencingCounter, lease: Lease) -> None:
        self._lock = lock
        self._record = record
        self._fencing = fencing
        self._lease = lease

    async def read(self) -> Kept:
        """See ``Keeper.read``."""
        lease, fencing = self._lease, self._fencing

        async def request() -> Kept:
            await fencing.settle(lease.id, lease.owner, lease.served)
            self._count_as_touch()
            return await fencing.kept(lease.id)

        return await self._use(request, _LONGEST, "reading the state of lock")

    async def glance(self) -> Kept:
        """See ``Keeper.glance``. Under the lease, content found by the hold's stamp does not change."""
        if self._fencing.keeps_content:
            return await self.read()
        self._record.lost.raise_if_over()
        return Kept()

    async def write(self, kept: Kept) -> None:
        """See ``Keeper.write``. After a loss nobody looks for a write without an answer: the body must end at once."""
        lease, fencing = self._lease, self._fencing
        unanswered = False

        async def request() -> None:
            nonlocal unanswered
            try:
                await fencing.keep(lease.id, lease.owner, lease.served, kept)
            except BaseException as error:
                unanswered |= as_failure(error).leaves_doubt
                raise

        try:
            await self._use(request, _CALL + len(kept.body) / _BYTES_A_SECOND, _NOT_KNOWN)
        except (LockLost, StorageError) as error:
            if not unanswered or isinstance(error, StorageUnavailable):
                raise
            failure = StoreFailure(detail=f"no answer came before this: {error}")
            raise storage_error(self._lock, failure, what=_NOT_KNOWN) from error
        self._count_as_touch()

    def _count_as_touch(self) -> None:
        """Tell the lease of the last stamp: each write shows a living holder, as a touch does."""
        if (failover := self._fencing.failover) is not None:
            self._lease.touched(self._fencing.touched, good_for(failover))

    async def _use(self, request: Callable[[], Awaitable[_T]], seconds: float, otherwise: str) -> _T:
        self._record.lost.raise_if_over()
        if not self._record.begin_use():
            raise self._released()
        try:
            return await self._answered(request, seconds, otherwise)
        finally:
            self._record.end_use()

    async def _answered(self, request: Callable[[], Awaitable[_T]], seconds: float, otherwise: str) -> _T:
        """Repeat the request until an answer, while the section lasts and is good.

        A repeated write is safe: its ETag condition lets only one write pass.
        """
        loop, lease = asyncio.get_running_loop(), self._lease
        ends, pause = loop.time() + _PATIENCE, _PAUSE
        if (failover := self._fencing.failover) is not None:
            seconds = min(seconds, failover / TOUCHES)  # during a write no touch can be sent
        while True:
            try:
                return await self._asked(request, seconds)
            except (Exception, asyncio.CancelledError) as error:
                if being_cancelled():
                    raise
                failure = as_failure(error)
            self._judge(failure)
            pause = min(max(pause, failure.retry_after or 0.0), max(0.0, lease.deadline - loop.time()))
            if loop.time() + pause >= ends:
                raise storage_error(self._lock, failure, what=otherwise)
            await asyncio.wait({self._record.ended}, timeout=pause)
            self._record.lost.raise_if_over()
            if self._record.over:
                raise self._released()
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _asked(self, request: Callable[[], Awaitable[_T]], seconds: float) -> _T:
        """Send the request, for at most ``seconds``. A loss ends it at once, a release within ``_CALL`` seconds."""
        loop, ended = asyncio.get_running_loop(), self._record.ended
        over = False

        def end_in(left: float) -> None:
            when = patience.when()
            if when is not None and not over and not patience.expired():
                patience.reschedule(min(when, loop.time() + left))

        def end_soon(_: object) -> None:
            end_in(_CALL)

        with SpeakingOf(self._lease.whose):
            async with asyncio.timeout(seconds) as patience:
                forget = self._record.lost.add_callback(lambda _: end_in(0.0))
                ended.add_done_callback(end_soon)
                try:
                    return await request()
                finally:
                    over = True  # the callback may be on its way
                    ended.remove_done_callback(end_soon)
                    forget()

    def _judge(self, failure: StoreFailure) -> None:
        """Raise the error of a final failure."""
        if failure.loss is not None:
            self._lease.lose(failure.loss, failure)
        self._record.lost.raise_if_over()
        if failure.meaning in ("denied", "refused"):
            raise storage_error(self._lock, failure, what="the state of lock")

    def _released(self) -> LockLost:
        return self._record.lost.error("was released", "released")

"""Failover: a holder touches its lock to show that it lives, and a waiter takes the lock of a silent holder over.

**Touches.** A touch writes the stamp again, under the lease and on condition of the ETag of the last touch. A touch
that comes late, or twice, changes nothing: neither after another touch nor in another hold. A touch is good for less
than ``failover``, counted from before it was *sent*, and it never extends the lease: the hold is over at the earlier of
both deadlines (``Lease.touched``).

**Silence.** Every touch changes the blob's ETag. After two readings of the same ETag a waiter knows: no touch has
reached the blob in between: from the *reply* to the first reading to the *sending* of the second reading, by the
waiter's own clock. No clock is compared with another clock.

**Takeover.** Once a lease is known to be held, a waiter reads the blob before each request for the lease. If the holder
was silent for longer than *the holder's own* ``failover`` allows, the waiter releases the lease that the mark names, on
condition of the ETag of the reading: a touch on its way wins. The waiter forgets the reading before, because the next
holder has not touched the lock yet.

**Nobody else's lease.** Taking a lease changes no ETag: the present holder may be one that leaves no stamp. But the id
of a lease is asked for by one acquisition only. So a release by that id, however late, ends the lease of the silent
holder or nothing. If the service refuses it, somebody else has the lease, or nobody. Then this ETag says nothing of the
present holder. A mark of an older version names no lease; such a lease is broken, but only while the mark is younger
than a lease may last. Later, the lease of the mark's writer is over, and the present holder is somebody else.
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Protocol

from singleton.base.failover_mark import LEASE_KEY, MARK_KEY, TOUCHES, good_for, read_lease, read_mark, silent_for
from singleton.base.invocation import SpeakingOf
from singleton.base.invocation import log as _log
from singleton.base.tasks import being_cancelled
from singleton.locking.lease import as_failure
from singleton.locking.renewals import Renewable
from singleton.stores.protocol import LeaseStore, StoreFailure, within
from singleton.stores.stamps import EPOCH_KEY, metadata_value, written_epoch

if TYPE_CHECKING:
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease
    from singleton.locking.record import BlobGuard
    from singleton.stores.protocol import BlobState

_FASTEST_RETRY: Final = 1 / 20
_SHORTEST_TOUCH: Final = 1 / 10
"""Parts of ``failover``: the shortest pause before another touch, and the shortest time-out of a touch."""
_SHORTEST_LOOK: Final = 1.0
"""Seconds that a request of a waiter may take, at least."""
_LONGEST_LEASE: Final = 60.0
"""Seconds for which a mark without a lease id tells of the present lease, at most."""
_OF_USE: Final = 60.0
"""Seconds for which an idle lock is kept, when its holder might be found to be silent."""


class Touches(Renewable):
    """The touches of one hold, for ``Lease.add_touches``: a third of ``failover`` after the last one was sent.

    After a failure they come sooner and sooner, until the hold is lost.
    """

    __slots__ = ("_failover", "_fencing", "_lease", "_trouble")

    def __init__(self, lease: Lease, fencing: FencingCounter, failover: float) -> None:
        """Take the stamp of the lease for the first touch; ``failover``: seconds."""
        super().__init__(fencing.touched + failover / TOUCHES, lease.context)
        self._lease = lease
        self._fencing = fencing
        self._failover = failover
        self._trouble: StoreFailure | None = None

    @property
    def task_name(self) -> str:
        """The name of a touch's task."""
        return f"touch {self._lease.name}"

    def set_timer(self) -> None:
        """Set the timer of the lease anew."""
        self._lease.set_timer()

    async def renew(self) -> float:
        """Touch the lock; return when to do so again, infinite: never."""
        lease, failover = self._lease, self._failover
        begun = asyncio.get_running_loop().time()
        left = lease.deadline - begun
        if lease.lost is not None or left <= 0:
            return math.inf
        try:
            with SpeakingOf(lease.whose):
                async with asyncio.timeout(min(left, max(failover * _SHORTEST_TOUCH, left / 2))):
                    sent = await self._fencing.touch(lease.id, lease.owner, lease.served)
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled():
                raise
            return begun + self._retry_delay(as_failure(error), left)
        lease.touched(sent, good_for(failover))
        lease.forget_failure(self._trouble)
        return sent + failover / TOUCHES

    def _retry_delay(self, trouble: StoreFailure, left: float) -> float:
        """Note a touch that failed; return the delay before the next touch."""
        lease, failover = self._lease, self._failover
        self._trouble = trouble
        if trouble.loss is not None:
            lease.lose(trouble.loss, trouble)
        lease.note(trouble, "touch")
        delay = max(failover * _FASTEST_RETRY, min(left / 4, failover / TOUCHES / 2))
        last_try = left - failover * _SHORTEST_TOUCH
        return min(max(delay, trouble.retry_after or 0.0), max(last_try, failover * _FASTEST_RETRY))


class Suspicion:
    """The last reading of a lock that another process has.

    Attributes:
        etag: the ETag as of the last reading; None: nothing is known.
        due: when a second reading can show the holder's silence; infinite: silence says nothing about this holder.
    """

    etag: str | None = None
    due = math.inf

    def forget(self) -> None:
        """Know nothing any more."""
        self.etag, self.due = None, math.inf

    def read(self, state: BlobState, *, sent: float, replied: float, refuted: str | None = None) -> bool:
        """Take a reading with the times of its request; tell whether the holder's silence is proven.

        False: the lock is free, or the silence is not proven yet, or the holder never touches.
        """
        if not state.held or state.endless:
            self.forget()
            self.etag = state.etag if state.held else None
            return False
        if state.etag == self.etag:
            return sent >= self.due
        failover = None if state.etag == refuted else _failover_of(state)
        self.etag = state.etag
        self.due = math.inf if failover is None else replied + silent_for(failover)
        return False


def _failover_of(state: BlobState) -> float | None:
    """Return the ``failover`` of a holder that touches the lock; None: the mark is not of the present lease."""
    epoch = _epoch(state)
    current = state.age <= _LONGEST_LEASE or read_lease(_said(state, LEASE_KEY), epoch) is not None
    return read_mark(_said(state, MARK_KEY), epoch) if current else None


def _said(state: BlobState, key: str) -> str:
    return metadata_value(state, key) or ""


def _epoch(state: BlobState) -> int | None:
    return written_epoch(_said(state, EPOCH_KEY))


class _LeaseSource(Protocol):
    """The part of an ``Acquisition`` that a takeover needs: ``acquisition.py`` imports this module."""

    in_doubt: bool

    async def ask(self, owner: str) -> Lease: ...


class Takeover:
    """Asks as an ``Acquisition`` does, and remembers the last reading between two attempts."""

    def __init__(self, source: _LeaseSource, store: LeaseStore, name: str, failover: float, guard: BlobGuard) -> None:
        self._acquisition = source
        self._store = store
        self._name = name
        self._guard = guard
        self._call = max(_SHORTEST_LOOK, failover / 2)
        self._suspicion = Suspicion()

    @property
    def due(self) -> float:
        """When the next look may show that the holder is silent, by the loop's clock; infinite: not to be said."""
        return self._suspicion.due

    @property
    def remembers(self) -> bool:
        """Tell whether the last reading may still be of use: to a single attempt within a minute."""
        return asyncio.get_running_loop().time() - _OF_USE < self.due < math.inf

    async def ask(self, owner: str) -> Lease:
        """Ask for the lease once, as ``Acquisition.ask``; not if a read shows the lock held by a living holder."""
        if self._suspicion.etag is not None and await self._is_held() and not self._acquisition.in_doubt:
            raise StoreFailure(409, "LeaseAlreadyPresent", "as was read")
        try:
            lease = await self._acquisition.ask(owner)
        except StoreFailure as failure:
            if failure.meaning == "held" and self._suspicion.etag is None:
                await self._begin_to_watch()
            raise
        self._suspicion.forget()
        return lease

    async def _begin_to_watch(self) -> None:
        try:
            await self._look()
        except StoreFailure as failure:
            _log.debug("lock %s: not read: %s", self._name, failure)

    async def _is_held(self) -> bool:
        """Tell whether the lock is held. The lease of a holder that was silent for too long is ended first."""
        try:
            state, silent = await self._look()
        except StoreFailure as failure:
            if failure.meaning not in ("missing", "deleting"):
                raise
            self._suspicion.forget()
            return False
        if silent:
            await self._end(state)
            return False
        return state.held

    async def _look(self) -> tuple[BlobState, bool]:
        loop = asyncio.get_running_loop()
        sent = loop.time()
        state = await within(self._call, self._store.read(self._name))
        return state, self._suspicion.read(state, sent=sent, replied=loop.time(), refuted=self._guard.refuted)

    async def _end(self, state: BlobState) -> None:
        """End the lease of the mark on condition of this ETag. The acquire that follows shows the outcome."""
        self._suspicion.forget()
        store, lease_id = self._store, read_lease(_said(state, LEASE_KEY), _epoch(state))
        try:
            if lease_id is None:
                await within(self._call, store.break_(self._name, state.etag))
            else:
                await within(self._call, store.evict(self._name, lease_id, state.etag))
        except StoreFailure as failure:
            if failure.meaning == "lost":
                self._guard.refuted, self._guard.reading = state.etag, None
            _log.debug("lock %s: the lease of its silent holder was not ended: %s", self._name, failure)
        else:
            _log.warning(
                *("lock %s: its holder was silent for too long, so its lease was ended", self._name),
                extra={"lock": self._name},
            )

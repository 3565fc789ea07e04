"""Fencing tokens: numbers that strictly increase per lock, across holders, processes and crashes.

A token is the *epoch* of the lock's blob, times a thousand, plus the number of a section in this process. The epoch is
written to the blob under the lease, and is never taken from this machine's clock. A process hands the lock on to its
next section without a request, and the token still increases. The first epoch of a blob is a thousand times the second
in which the service made the blob. So tokens go on increasing after the blob was deleted and made again: no lock is
taken a thousand times a second. Tokens stay below 2^53, so JSON and JavaScript keep them exact.

A lease needs no stamp if the lock was in no other process meanwhile (``stamp``). A blob that this process made needs
none either: the service's reply has its first epoch. So a cycle takes two calls, and three with a new blob.

A copy of this process must forget the epochs: both processes would give the same token. A forked child starts with a
new registry (``runtime/lock_thread.py``). In a restored image of a machine the wall clock has moved against the
monotonic clock; then the blob is stamped.
"""

from __future__ import annotations

import asyncio
import math
import time
from typing import TYPE_CHECKING

from singleton.base.failover_mark import written_mark
from singleton.base.state import MOST_STATE, NOT_REPLACED, Kept
from singleton.stores.protocol import NOTHING, BlobState, StoreFailure
from singleton.stores.stamps import (
    EPOCH_KEY,
    EPOCHS_A_SECOND,
    Highest,
    epoch_in,
    foreign_bytes,
    kept_in,
    recorded_epoch,
    signature,
    tells_of_content,
    unsigned,
    without_content,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from singleton.stores.lock_keeping import BlobStore

SECTIONS = 1_000
"""Tokens of an epoch; the first is unused."""
_STEADY = 0.5
"""Seconds by which the wall clock may move against the monotonic clock between two leases."""
_STAMPED_BY_OTHERS = "another process has stamped the lock"


class FencingCounter:
    """The epoch of one lock, as this process last saw the blob; without ``counts``, the owner only.

    Attributes:
        failover: of the lock, in seconds; None: holders do not touch the lock.
        touched: when the last successful stamp was sent, by the loop's clock.
    """

    def __init__(
        self,
        store: BlobStore,
        name: str,
        *,
        counts: bool = True,
        failover: float | None = None,
        highest: Highest | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._name = name
        self._highest = highest or Highest()
        self.counts = counts
        self.touched = -math.inf
        self.failover = failover
        self._wall = wall
        self._epoch = -1  # none is known
        self._section = 0
        self._etag = ""
        self._others = NOTHING  # foreign metadata
        self._foreign = 0  # bytes of foreign content
        self._clocks = 0.0
        self._told_of_a_long_hold = False
        self._doubtful = False
        self._order: asyncio.Lock | None = None

    async def create(self, owner: str) -> bool:
        """Make a missing blob, with the first owner in its metadata; tell whether the blob was missing."""
        made = await self._store.create(self._name, self._signed(NOTHING, owner))
        if made is None:
            return False
        self._note(made)
        epoch, given = made.modified * EPOCHS_A_SECOND, max(self._epoch, self._highest.epoch)
        self._begin(max(epoch, given))
        if epoch <= given:  # deleted within the second: these tokens were given
            self._section = SECTIONS
        self._steady()
        return True

    async def stamp(self, lease_id: str, etag: str, owner: str) -> None:
        """Write the next epoch and the owner under the lease if necessary; keep foreign metadata.

        * No request, if no other process has stamped since our last hold, the epoch has tokens left, and the blob does
          not tell of a long hold, which would seem to go on. No request either, with neither token nor owner to write.
        * One request, if the blob is as we left it: the ETag tells. Else two: the blob may have a stamp of our own
          whose reply was lost. The blob is read, and the next epoch follows its epoch.
        * With ``failover`` the stamp is the first touch of the hold, and always necessary: a waiter may have read the
          present ETag long ago.

        The stamp is written on condition of the ETag. So a late stamp changes nothing, and the epoch only ever goes up.
        """
        if not self.spares_stamp(etag, owner):
            await self.stamp_anew(lease_id, etag, owner)

    def spares_stamp(self, etag: str, owner: str) -> bool:
        """Tell whether ``stamp`` needs no request. Call once per lease: the call compares the clocks."""
        if not (self.counts or owner):
            return True
        self._doubtful = False  # requests under the lease before are refused by now
        spare = self.counts and self.failover is None and not (self.spent or self._told_of_a_long_hold)
        return etag == self._etag and spare and self._steady()

    async def stamp_anew(self, lease_id: str, etag: str, owner: str) -> None:
        """Write the stamp."""
        if etag != self._etag:
            await self._read()
        self._section = SECTIONS
        try:
            await self._write(lease_id, owner)
        except StoreFailure as failure:
            if failure.meaning != "changed":
                raise
            await self._read()
            await self._write(lease_id, owner)

    async def begin_epoch(self, lease_id: str, owner: str) -> None:
        """Write the next epoch under a lease of ours whose tokens are used up."""
        async with self._in_order():
            await self.stamp(lease_id, self._etag, owner)

    async def raise_above(self, lease_id: str, owner: str, token: int) -> None:
        """Raise later tokens above the token that another lock gave to the section that begins under this lease.

        If the epoch of the token is above ours, the epoch is written: once, or twice if the blob is not as we left it,
        because the reply to a write of ours was lost. Until the write is known to be done, no token is left.

        Raises:
            StoreFailure: the epoch was not written, or the outcome is not known. Try again while the lease lasts.
        """
        epoch, section = divmod(token, SECTIONS)
        if epoch > self._epoch:
            async with self._in_order():
                self._section = SECTIONS
                await self._raise(lease_id, owner, epoch)
                self._begin(epoch)
        if epoch == self._epoch:
            self._section = max(self._section, section)

    async def _raise(self, lease_id: str, owner: str, epoch: int) -> None:
        try:
            await self._put(lease_id, owner, epoch)
        except StoreFailure as failure:
            if failure.meaning != "changed":
                raise
            await self._read()  # with its epoch: a later write of this hold's stamp must not go back
            if self._epoch > epoch:
                raise StoreFailure(412, "LeaseIdMismatchWithBlobOperation", _STAMPED_BY_OTHERS) from None
            if self._epoch < epoch:
                await self._put(lease_id, owner, epoch)

    async def sign(self, lease_id: str, owner: str, held: float) -> None:
        """Write the owner of a hold that has lasted ``held`` seconds. No outcome changes an epoch."""
        self._told_of_a_long_hold = True
        await self.touch(lease_id, owner, held)

    async def touch(self, lease_id: str, owner: str, held: float) -> float:
        """Write the stamp of this hold again; return when the request was sent, by the loop's clock.

        Raises:
            StoreFailure: the stamp was not written, or the outcome is not known. If the blob has another epoch, the
                lock is lost.
        """
        async with self._in_order():
            await self._rewrite(lease_id, owner, held)
            return self.touched

    async def keep(self, lease_id: str, owner: str, held: float, kept: Kept) -> None:
        """Replace the content of the blob, and write the stamp of this hold again, as ``touch`` does."""
        async with self._in_order():
            await self._rewrite(lease_id, owner, self._told(held), kept)

    async def settle(self, lease_id: str, owner: str, held: float) -> None:
        """Write the stamp if a write of content got no answer, on condition of the ETag that the write had.

        After that the write of content is done, or can't be done any more. Errors: as of ``touch``.
        """
        if self._doubtful:
            async with self._in_order():
                if self._doubtful:
                    await self._rewrite(lease_id, owner, self._told(held))

    async def kept(self, lease_id: str) -> Kept:
        """Read the content of the blob, under the lease, after ``settle``. Errors: as of ``touch``.

        The read does not take its place among the writes: touches would wait for the end of the read.
        """
        if self._foreign > 0:
            return Kept(foreign=self._foreign)
        return kept_in(await self._store.get(self._name, lease_id, MOST_STATE))

    async def _rewrite(self, lease_id: str, owner: str, held: float, kept: Kept | None = None) -> None:
        """Write the stamp of this hold again, perhaps with content, whatever became of the write before."""
        try:
            await self._put(lease_id, owner, self._epoch, held, kept)
            return
        except StoreFailure as failure:
            if failure.meaning != "changed":
                raise
        self._adopt(await self._store.read(self._name))
        await self._put(lease_id, owner, self._epoch, held, kept)

    def _told(self, held: float) -> float:
        """Return ``held`` if the blob tells of a long hold, else 0: then the next holder may spare its stamp."""
        return held if self._told_of_a_long_hold else 0.0

    def _adopt(self, state: BlobState) -> None:
        """Go on from a blob after a write of ours whose reply was lost."""
        if recorded_epoch(state) != self._epoch:
            raise StoreFailure(412, "LeaseIdMismatchWithBlobOperation", _STAMPED_BY_OTHERS)
        self._note(state)

    def _note(self, state: BlobState) -> None:
        self._etag, self._others = state.etag, unsigned(state.metadata, counts=self.counts)
        self._foreign = foreign_bytes(state)

    def _in_order(self) -> asyncio.Lock:
        """Return the lock under which writes are sent one after another: a write replaces the metadata as a whole."""
        if self._order is None:
            self._order = asyncio.Lock()
        return self._order

    async def _read(self) -> None:
        """Read the blob. If the epoch can't be read, nothing is remembered, so the next stamp reads again."""
        state = await self._store.read(self._name)
        epoch = max(self._epoch, self._highest.epoch, epoch_in(state)) if self.counts else 0
        self._note(state)
        self._epoch = epoch

    async def _write(self, lease_id: str, owner: str) -> None:
        epoch = self._epoch + 1
        await self._put(lease_id, owner, epoch)
        self._begin(epoch)
        self._steady()

    def _begin(self, epoch: int) -> None:
        self._epoch, self._section, self._told_of_a_long_hold = epoch, 0, False
        self._highest.epoch = max(self._highest.epoch, epoch)

    async def _put(self, lease_id: str, owner: str, epoch: int, held: float = 0.0, kept: Kept | None = None) -> None:
        """Write owner, epoch, the mark of ``failover``, and content."""
        others = self._others if kept is None else {**without_content(self._others), **kept.marks}
        metadata = self._signed(others, owner, held)
        if self.counts:
            metadata[EPOCH_KEY] = str(epoch)
        if self.failover is not None:
            metadata |= written_mark(self.failover, epoch, lease_id)
        sent = asyncio.get_running_loop().time()
        if kept is None:
            self._etag = await self._store.write(self._name, lease_id, metadata, self._etag)
        else:
            self._etag = await self._put_content(lease_id, metadata, kept.body)
        self._others, self._doubtful, self.touched = others, False, sent

    async def _put_content(self, lease_id: str, metadata: dict[str, str], body: bytes) -> str:
        """Write content. Until an answer arrives, the service may carry out the write at any time."""
        if self._foreign:
            raise StoreFailure(400, None, NOT_REPLACED.format(self._foreign), source="unsent")
        before, self._doubtful = self._doubtful, True
        try:
            return await self._store.put(self._name, lease_id, metadata, self._etag, body)
        except StoreFailure as failure:
            self._doubtful = before or failure.leaves_doubt
            raise

    def _signed(self, others: Mapping[str, str], owner: str, held: float = 0.0) -> dict[str, str]:
        """Return metadata of others with the owner, and without an epoch."""
        return {**others, **signature(owner, held, counts=self.counts)}

    @property
    def spent(self) -> bool:
        """Tell whether the epoch has no token left for a section under this lease.

        After a write of content without an answer no token is left either: the service may still carry out the write.
        """
        return self.counts and (self._doubtful or self._section >= SECTIONS - 1)

    @property
    def keeps_content(self) -> bool:
        """Tell whether content is in the blob, as this process last saw it, or may be."""
        return self._doubtful or self._foreign > 0 or any(map(tells_of_content, self._others))

    def next_token(self) -> int:
        """Return the token of the next section under a lease that was stamped, or needed no stamp."""
        assert not self.spent
        self._section += 1
        return self._epoch * SECTIONS + self._section

    def _steady(self) -> bool:
        """Compare the clocks: false if this process may be a copy, from a restored image of its machine."""
        before, self._clocks = self._clocks, self._wall() - asyncio.get_running_loop().time()
        return abs(self._clocks - before) <= _STEADY

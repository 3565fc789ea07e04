"""Fencing tokens: numbers that strictly increase per lock, across holders, processes and crashes.

The number comes from the lock blob, written under the lease, never from a clock of ours. A token is the blob's *epoch*,
with a section number of this process's own beneath it, so that handing the lock on inside a process needs no request
and still increases. The epoch counts up from a thousand times the second in which the service made the blob, so it goes
on increasing when somebody, or a lifecycle rule, deletes the blob and it is made again: no lock is taken a thousand
times a second. Tokens stay below 2^53, so that JSON and JavaScript keep them exact.

A lease of which we know that nobody has had the lock since our last one needs no stamp: the ETag in the acquire's reply
is the one that our own last write left, so the epoch is still ours, and its next section has a greater token. The same
holds for a blob that we made ourselves: its first epoch follows from when the service made it. So a cycle takes two
calls, and three with a new blob.

What is remembered of a lock is worth nothing in a copy of this process: two copies would give the same token. A fork
forgets it (``process/calls.py``). A restored image of a machine has a wall clock that has moved against the monotonic
one; then the blob is stamped.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import socket
import time
from typing import TYPE_CHECKING

from singleton.base.naming import current
from singleton.locking.fence.mark import MARK_KEY, written_mark
from singleton.stores.protocol import BlobState, LeaseStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EPOCH_KEY = "SingletonEpoch"
OWNER_KEY = "FunctionInstance"
"""The key under which WebJobs keeps the owner, too (W-57)."""
HOST_KEY = "SingletonHost"
"""The key of the machine that the owner runs on: the instance id in Azure, else the machine's name."""
PID_KEY = "SingletonPid"
"""The key of the owner's process id there."""
FUNCTION_KEY = "SingletonFunction"
"""The key of the function whose invocation asked, where one did."""
HELD_KEY = "SingletonHeld"
"""The key of how many seconds the owner's hold had lasted when it was written; 0 when it had just begun."""
STAMP_KEYS = frozenset(
    key.lower() for key in (EPOCH_KEY, OWNER_KEY, HOST_KEY, PID_KEY, FUNCTION_KEY, HELD_KEY, MARK_KEY)
)
"""All that a stamp writes, in lower case. A blob with other metadata keeps something else as well."""
SECTIONS = 1_000
"""Tokens per epoch, one of them unused."""
_EPOCHS_A_SECOND = 1_000
_STEADY = 0.5
"""Seconds by which wall clock and monotonic clock may move against each other between two uses of what we remember."""


class FencingCounter:
    """The epoch of one lock, as this process last saw it; without ``counts``, only who has it.

    Attributes:
        touched: when its last write that succeeded was sent, by the loop's clock.
    """

    __slots__ = (
        "_clocks",
        "_epoch",
        "_etag",
        "_failover",
        "_metadata",
        "_name",
        "_section",
        "_store",
        "_told_of_a_long_hold",
        "_wall",
        "counts",
        "touched",
    )

    def __init__(
        self,
        store: LeaseStore,
        name: str,
        *,
        counts: bool = True,
        failover: float | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._name = name
        self.counts = counts
        self.touched = -math.inf
        self._failover = failover
        self._wall = wall
        self._epoch = -1  # none is known
        self._section = 0
        self._etag = ""
        self._metadata: Mapping[str, str] = {}
        self._clocks = 0.0
        self._told_of_a_long_hold = False

    async def create(self, owner: str) -> bool:
        """Make the blob where it is missing; tell whether it was. The first owner stands on it from the beginning."""
        made = await self._store.create(self._name, self._signed({}, owner))
        if made is None:
            return False
        self._etag, self._metadata = made.etag, made.metadata
        epoch = made.modified * _EPOCHS_A_SECOND
        self._section = 0 if epoch > self._epoch else SECTIONS  # deleted within the second: these tokens were given
        self._epoch = max(epoch, self._epoch)
        self._clocks = self._difference()
        return True

    async def stamp(self, lease_id: str, etag: str, owner: str) -> None:
        """Write the next epoch and the owner under the lease, beside what others wrote, where that is needed.

        No request if nobody else has stamped since our last turn, the epoch has tokens left, and what stands on the
        blob is not of a long hold, which would seem to go on; one while the blob is as we left it (its ETag tells),
        else two; none where there is nothing to write. With ``failover`` it is the hold's first touch, and always
        needed: somebody may have read that ETag long ago.
        It is written on condition of that ETag: a stamp that arrives late, even under its own lease, changes nothing,
        so the epoch only ever goes up. Where the condition does not hold, that may be a stamp of our own whose reply
        was lost: it is read, and counted on from.
        """
        if not (self.counts or owner):
            return
        if etag != self._etag:
            await self._read()
        elif self._spares() and self._steady():
            return
        self._section = SECTIONS
        try:
            await self._write(lease_id, owner)
        except StoreFailure as failure:
            if failure.meaning != "changed":
                raise
            await self._read()
            await self._write(lease_id, owner)

    def _spares(self) -> bool:
        return self.counts and self._failover is None and not (self.spent or self._told_of_a_long_hold)

    async def go_on(self, lease_id: str, owner: str) -> None:
        """Write the next epoch under a lease of ours whose tokens are used up."""
        await self.stamp(lease_id, self._etag, owner)

    async def sign(self, lease_id: str, owner: str, held: float) -> None:
        """Write the owner of a hold that has lasted so many seconds. Whatever becomes of it, no epoch changes."""
        self._told_of_a_long_hold = True
        await self.touch(lease_id, owner, held)

    async def touch(self, lease_id: str, owner: str, held: float) -> float:
        """Write the stamp of this hold again; return when that was sent, by the loop's clock.

        Where the blob is not as we left it, that may be a write of ours whose reply was lost.

        Raises:
            StoreFailure: it was not written, or that is not known. Where another epoch stands there, the lock is lost.
        """
        try:
            return await self._put(lease_id, owner, self._epoch, held)
        except StoreFailure as failure:
            if failure.meaning != "changed":
                raise
        state = await self._store.read(self._name)
        if recorded_epoch(state) != self._epoch:
            raise StoreFailure(412, "LeaseIdMismatchWithBlobOperation", "another process has stamped the lock")
        self._etag, self._metadata = state.etag, state.metadata
        return await self._put(lease_id, owner, self._epoch, held)

    async def _read(self) -> None:
        """Read the blob. Of one whose epoch can't be read nothing is kept, so that it is read again."""
        state = await self._store.read(self._name)
        epoch = max(self._epoch, _epoch_in(state)) if self.counts else 0
        self._etag, self._metadata, self._epoch = state.etag, state.metadata, epoch

    async def _write(self, lease_id: str, owner: str) -> None:
        epoch = self._epoch + 1
        self.touched = await self._put(lease_id, owner, epoch)
        self._epoch, self._section = epoch, 0
        self._clocks = self._difference()
        self._told_of_a_long_hold = False

    async def _put(self, lease_id: str, owner: str, epoch: int, held: float = 0.0) -> float:
        """Write owner and epoch, and the mark of a hold that is touched; return when that was sent."""
        metadata = self._signed(self._metadata, owner, held)
        if self.counts:
            metadata[EPOCH_KEY] = str(epoch)
        if self._failover is not None:
            metadata[MARK_KEY] = written_mark(self._failover, epoch)
        sent = asyncio.get_running_loop().time()
        self._etag = await self._store.write(self._name, lease_id, metadata, self._etag)
        self._metadata = metadata
        return sent

    def _signed(self, metadata: Mapping[str, str], owner: str, held: float = 0.0) -> dict[str, str]:
        """Return metadata with the owner in the place of an earlier one, and without an epoch."""
        ours = STAMP_KEYS if self.counts else {OWNER_KEY.lower()}
        signed = {key: value for key, value in metadata.items() if key.lower() not in ours}
        if self.counts:
            signed[HOST_KEY] = _header_safe(this_host())
            signed[PID_KEY] = str(os.getpid())
            signed[HELD_KEY] = f"{max(held, 0.1):.1f}" if held else "0"
            if (asking := current()) is not None and asking.function:
                signed[FUNCTION_KEY] = _header_safe(asking.function)
        if owner:
            signed[OWNER_KEY] = _header_safe(owner)
        return signed

    @property
    def spent(self) -> bool:
        """Tell whether this epoch has no token left."""
        return self.counts and self._section >= SECTIONS - 1

    def next_token(self) -> int:
        """Return the token of the next section under a lease that was stamped, or needed no stamp."""
        assert not self.spent
        self._section += 1
        return self._epoch * SECTIONS + self._section

    def _steady(self) -> bool:
        """Tell whether the clocks show that this is no copy of the process that remembers."""
        before, self._clocks = self._clocks, self._difference()
        return abs(self._clocks - before) <= _STEADY

    def _difference(self) -> float:
        return self._wall() - asyncio.get_running_loop().time()


def this_host() -> str:
    """Name the machine that this process runs on, as an operator would look for it."""
    return os.environ.get("WEBSITE_INSTANCE_ID") or socket.gethostname() or "?"


def metadata_value(state: BlobState, key: str) -> str | None:
    """Return a value of the blob's metadata, whose keys have no case; None where there is none."""
    return next((value for spelt, value in state.metadata.items() if spelt.lower() == key.lower()), None)


def written_epoch(text: str) -> int | None:
    """Return the epoch that stands on a blob; None where that is no number of ours."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 15 else None


def recorded_epoch(state: BlobState) -> int | None:
    """Return the epoch of a blob that some process of ours has signed; None where that is not to be known."""
    text = metadata_value(state, EPOCH_KEY)
    if text is not None:
        return written_epoch(text)
    return None if metadata_value(state, HOST_KEY) is None else state.modified * _EPOCHS_A_SECOND


def lifted_epoch(state: BlobState) -> int:
    """Return an epoch above all that a blob can have had when it was last written, also those that it lost."""
    written = written_epoch(metadata_value(state, EPOCH_KEY) or "")
    return max((written or 0) + 1, (state.modified + 1) * _EPOCHS_A_SECOND)


def _epoch_in(state: BlobState) -> int:
    """Return the last epoch of a blob, or for a new one that with which it begins."""
    text = metadata_value(state, EPOCH_KEY)
    if text is None:
        return state.modified * _EPOCHS_A_SECOND
    if (epoch := written_epoch(text)) is not None:
        return epoch
    detail = f"the blob's metadata {EPOCH_KEY} is {text[:40]!r}, not a number of ours: somebody else wrote it"
    raise StoreFailure(400, None, f"{detail}; delete that key, or the blob")


def _header_safe(owner: str) -> str:
    """Metadata travels as HTTP headers: keep printable ASCII, at most 200 characters, and single spaces within."""
    kept = "".join(char if " " <= char < "\x7f" else "?" for char in owner[:200])
    return re.sub(r"^ | $| (?= )", "?", kept)

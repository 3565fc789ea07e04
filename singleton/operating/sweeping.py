"""How lock blobs that nobody uses are deleted, while others lock.

A blob is deleted by one request that has no lease id and names the ETag that was listed. The service refuses it while
anybody has the lease, and where anything was written since. So no hold is lost by it. Whoever asks for the lock next
finds no blob and makes it again, which costs that one a call or two, and nothing else: its tokens go on from the second
in which it is made (``locking/fencing.py``), and to keep that second a new one, nothing is deleted that was modified
less than a minute ago.

Where the storage answers slowly the sweep slows down, to one delete at a time, so that renewals get through.

Last-Modified is no sign of use: leases never change it. A lock that is used daily without a stamp may be swept.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final, Literal

from singleton.layouts.webjobs import CONTAINER as WEBJOBS
from singleton.locking.acquisition import storage_error
from singleton.locking.fencing import STAMP_KEYS, recorded_epoch
from singleton.locking.holder import answered
from singleton.operating.listing import next_page
from singleton.operating.locks import HELD, parts_of
from singleton.stores.keeping import IN_USE
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from singleton.stores.keeping import Listed, LockKeeping

YOUNGEST: Final = 60.0
"""Seconds since it was last modified, before which nothing is deleted."""
_PAGE: Final = 1000
_CALL: Final = 30.0
_ANSWER: Final = 120.0
"""Seconds for one delete, all tries together: a sweep has time."""
_MOST: Final = 16
"""Deletes under way at a time, where the storage answers fast."""
_SLOW: Final = 0.5
"""Seconds of an answer from which the storage has too much to do: those who lock come first."""

Fate = Literal["swept", "in_use", "changed", "gone", "young", "kept"]


@dataclass(slots=True)
class Swept:
    """What became of the blobs so far.

    Attributes:
        swept: deleted; in a dry run, those that would be.
        in_use: somebody has the lease.
        changed: written since they were listed.
        gone: somebody else deleted them.
        young: modified too short a time ago.
        kept: not empty, with state, or nothing says that they are locks of ours.
    """

    swept: int = 0
    in_use: int = 0
    changed: int = 0
    gone: int = 0
    young: int = 0
    kept: int = 0

    @property
    def seen(self) -> int:
        """All of them."""
        return sum(getattr(self, field.name) for field in fields(self))

    def count(self, fate: Fate) -> None:
        """Count one."""
        setattr(self, fate, getattr(self, fate) + 1)


class Sweep:
    """One sweep through a container, page by page.

    Args:
        keeping: the container.
        container: its name.
        older_than: seconds since a blob was last modified, at least; never less than a minute.
        prefix: only names that begin with it.
        dry_run: delete nothing.
    """

    def __init__(
        self, keeping: LockKeeping, container: str, *, older_than: float, prefix: str = "", dry_run: bool = False
    ) -> None:
        self.result = Swept()
        self._keeping = keeping
        self._container = container
        self._older_than = max(older_than, YOUNGEST)
        self._prefix = prefix
        self._dry_run = dry_run
        self._marker: str | None = None
        self._at_once = _MOST // 4

    async def go_on(self) -> bool:
        """Sweep the next page; tell whether there are more.

        Raises:
            StorageError: the storage refuses, or does not answer. What was deleted is counted.
        """
        page = await next_page(self._keeping, self._container, self._prefix, self._marker, _PAGE)
        # The service's clock has fractions of a second that Last-Modified has not: that one is less, never more.
        latest = page.at - self._older_than
        due: list[Listed] = []
        for blob in page.entries:
            fate = self._fate(blob, latest)
            if fate == "swept" and not self._dry_run:
                due.append(blob)
            else:
                self.result.count(fate)
        while due:
            batch, due = due[: self._at_once], due[self._at_once :]
            await self._delete_together(batch)
        self._marker = page.marker
        return page.marker is not None

    async def _delete_together(self, batch: list[Listed]) -> None:
        """Delete these at once; the next time more, or half as many where that took long."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        tasks = [asyncio.ensure_future(self._delete(blob)) for blob in batch]
        try:
            for task in tasks:
                self.result.count(await task)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        if loop.time() - began > _SLOW:
            self._at_once = max(1, self._at_once // 2)
        else:
            self._at_once = min(_MOST, self._at_once + 1)

    def _fate(self, blob: Listed, latest: float) -> Fate:
        """Say what is to become of a blob."""
        if not is_sweepable(blob, self._container):
            return "kept"
        if blob.modified >= latest:
            return "young"
        return "in_use" if blob.lease in HELD else "swept"

    async def _delete(self, blob: Listed) -> Fate:
        """Delete it, unless that is refused. A request that is sent again may find its own work done."""
        asked = 0

        async def request() -> None:
            nonlocal asked
            asked += 1
            await self._keeping.erase(blob.name, blob.etag)

        try:
            await answered(request, call=_CALL, answer=_ANSWER)
        except StoreFailure as failure:
            if failure.meaning == "missing":
                return "swept" if asked > 1 else "gone"
            if failure.meaning == "changed":
                return "changed"
            if failure.code == IN_USE:
                return "in_use"
            raise storage_error(blob.name, failure) from failure
        return "swept"


def is_sweepable(blob: Listed, container: str) -> bool:
    """Tell whether this is the blob of a lock of ours, and of nothing else.

    It is empty, and has no metadata but a stamp's: no state. It says of which machine its owner was, as only
    ours do; or it says nothing, and has a name that a layout makes. Where WebJobs has its locks, only those of
    functions are ours: the others may be the Functions host's own.
    """
    if blob.size or any(key.lower() not in STAMP_KEYS for key in blob.metadata):
        return False
    parts = parts_of(blob.name, container)
    if container == WEBJOBS:
        return parts is not None and parts.function is not None
    return parts is not None or recorded_epoch(blob) is not None

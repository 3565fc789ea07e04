"""How lock blobs that nobody uses are deleted, while others lock.

A blob is deleted by one request that has no lease id and names the ETag that was listed. The service refuses it while
anybody has the lease, and where anything was written since. So no hold is lost by it. Whoever asks for the lock next
finds no blob and makes it again, which costs that one a call or two, and nothing else: its tokens go on from the second
in which it is made (``locking/fencing.py``), and to keep that second a new one, nothing is deleted that was
modified less than a minute ago.

Last-Modified is no sign of use: leases never change it. A lock that is used daily without a stamp may be swept.

Whoever locks meanwhile comes first: a sweep rests five times as long as it worked, unless it is told not to, and works
on fewer blobs at a time where the storage gets slower by it (``pace.py``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from singleton.base.state import expired
from singleton.dotnet.webjobs import CONTAINER as WEBJOBS
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.container import find
from singleton.operating.container_pass import ContainerPass, Counts
from singleton.operating.locks import parts_of
from singleton.stores.lock_keeping import IN_USE
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import CONTENT_KEYS, STAMP_KEYS, recorded_epoch

if TYPE_CHECKING:
    from singleton.stores.lock_keeping import Listed, LockKeeping

YOUNGEST: Final = 60.0
"""Seconds since it was last modified, before which nothing is deleted."""
_CALL: Final = 30.0
_ANSWER: Final = 120.0
"""Seconds for one delete, all tries together: a sweep has time."""
_REST: Final = 5.0
"""The lockers have five sixths of the time, also of a storage that does one thing at a time."""

Fate: TypeAlias = Literal["swept", "in_use", "changed", "gone", "young", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Counts):
    """What became of the blobs.

    Attributes:
        swept: deleted; in a dry run, those that would be.
        in_use: somebody has the lease.
        changed: written since they were listed.
        gone: somebody else deleted them.
        young: modified too short a time ago.
        kept: blobs that are not empty, have state in use, or are not locks of this library.
    """

    swept: int = 0
    in_use: int = 0
    changed: int = 0
    gone: int = 0
    young: int = 0
    kept: int = 0


class Sweep(ContainerPass[Swept]):
    """One sweep through a container, page by page.

    Args:
        keeping: the container.
        container: its name.
        older_than: seconds since a blob was last modified, at least; never less than a minute.
        prefix: only names that begin with it.
        dry_run: delete nothing.
        fast: without rests, for an hour in which nobody locks.
    """

    def __init__(
        self,
        keeping: LockKeeping,
        container: str,
        *,
        older_than: float,
        prefix: str = "",
        dry_run: bool = False,
        fast: bool = False,
    ) -> None:
        rest = 0.0 if fast else _REST
        super().__init__(keeping, container, Swept, "swept", prefix=prefix, dry_run=dry_run, rest=rest)
        self._older_than = max(older_than, YOUNGEST)

    def _end_of(self, blob: Listed, at: float) -> Fate:
        if not (is_sweepable(blob, self._container) or is_of_no_use(blob, at)):
            return "kept"
        # The service's clock has fractions of a second that Last-Modified has not: that one is less, never more.
        if blob.modified >= at - self._older_than:
            return "young"
        return "in_use" if blob.held else "swept"

    async def _work_on(self, blob: Listed) -> Fate:
        """Delete it, unless that is refused. A request that is sent again may find its own work done."""
        asked = 0

        async def request() -> None:
            nonlocal asked
            asked += 1
            if asked > 1:
                self._pace.failed()
            await self._keeping.erase(blob.name, blob.etag)

        try:
            await answered(request, call=_CALL, answer=_ANSWER)
        except StoreFailure as failure:
            # A delete of a blob that is gone may be answered like one of a blob that was written: that takes a look.
            if failure.meaning == "missing" or (failure.meaning == "changed" and await self._is_gone(blob)):
                return "swept" if asked > 1 else "gone"
            if failure.meaning == "changed":
                return "changed"
            if failure.code == IN_USE:
                return "in_use"
            raise storage_error(blob.name, failure) from failure
        return "swept"

    async def _is_gone(self, blob: Listed) -> bool:
        found, _ = await find(self._keeping, self._container, blob.name, answer=_ANSWER)
        return found is None


def is_of_no_use(blob: Listed, at: float) -> bool:
    """Tell whether this is the blob of a lock of this library whose state has expired."""
    return expired(blob.metadata, at) and all(key.lower() in STAMP_KEYS | CONTENT_KEYS for key in blob.metadata)


def is_sweepable(blob: Listed, container: str) -> bool:
    """Tell whether this is certainly the blob of a lock of this library.

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

"""The deletion of unused lock blobs, while apps use the locks.

A blob is deleted by one request, without a lease id, on condition of the listed ETag. The service refuses the request
while the blob has a lease, and after any write since the listing. So no hold is lost by a sweep. The next acquire makes
the blob again, which costs a call or two, and nothing else: the tokens go on from the second in which the blob is made
(``locking/fencing.py``). To keep this second a new one, no blob is deleted within a minute of the last write.

Last-Modified is no sign of use: leases never change Last-Modified. A lock in daily use without a stamp may be swept.

Apps come first: a sweep rests five times as long as the work lasted, unless ``fast``, and works on fewer blobs at a
time where the storage gets slower (``container_pass.py``).
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
"""Least seconds between the last write of a blob and its deletion."""
_CALL: Final = 30.0
_ANSWER: Final = 120.0
"""Seconds for one delete, all tries together: a sweep has time."""
_REST: Final = 5.0
"""The lockers have five sixths of the time, also of a storage that does one thing at a time."""

Fate: TypeAlias = Literal["swept", "in_use", "changed", "gone", "young", "kept"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Counts):
    """Outcomes of a sweep, as numbers of blobs.

    Attributes:
        swept: deleted; in a dry run, blobs to delete.
        in_use: not deleted, because the lease is held.
        changed: not deleted, because of a write since the listing.
        gone: deleted by another client.
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
    """One sweep of a container, page by page.

    Args:
        keeping: the container.
        container: name of the container.
        older_than: least seconds since the last write of a blob; never less than a minute.
        prefix: only blobs whose names begin with this text.
        dry_run: delete nothing.
        fast: without rests, for an hour in which no app uses locks.
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
        """Delete the blob, unless the service refuses. A repeated request may find the blob deleted by the first."""
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
    """Tell whether the blob is a lock of this library with expired state."""
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

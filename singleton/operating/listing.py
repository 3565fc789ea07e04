"""Which locks there are: read page by page, so that a hundred thousand need no more memory than five thousand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from singleton.base.errors import StorageError
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.locks import lock_info
from singleton.stores.protocol import MOST_LISTED, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.operating.locks import LockInfo
    from singleton.stores.lock_keeping import Listed, LockKeeping, Page

NO_CONTAINER: Final = "no container"
"""The reason of an error that says so."""
_CALL: Final = 30.0
"""Seconds for one page: five thousand entries take a while to send and to read."""
PATIENT: Final = 60.0
"""Seconds for one answer, all tries together, where nobody looks on."""


@dataclass(slots=True, kw_only=True)
class Met:
    """What a listing came across, whatever of it was asked for.

    Attributes:
        locks: how many there are.
        functions: those that have any.
        ageless: locks that were left out because nobody knows how long their holder has had them.
        unsure: locks that somebody has and that were left out because they seem to be another function's, which is not
            sure: the name has none, and the hold is young.
    """

    locks: int = 0
    functions: set[str] = field(default_factory=set)
    ageless: int = 0
    unsure: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which locks of a listing are asked for.

    Attributes:
        function: only those of this function.
        held: only those that somebody has.
        older_than: only those that somebody is known to have had for at least so many seconds; of the free ones, those
            that were last written so long ago.
    """

    function: str | None = None
    held: bool = False
    older_than: float | None = None

    def among(self, page: Page, container: str, met: Met | None = None) -> Iterator[LockInfo]:
        """Yield those on this page; add to ``met`` what is there."""
        met = Met() if met is None else met
        latest = None if self.older_than is None else page.at - self.older_than
        for blob in page.entries:
            lock = lock_info(blob, container)
            if lock is None:
                continue
            met.locks += 1
            if lock.function:
                met.functions.add(lock.function)
            if self.held and not lock.held:
                continue
            if self.function is not None and lock.function != self.function:
                met.unsure += lock.held and not lock.function_sure
                continue
            if latest is not None:
                met.ageless += _is_ageless(lock)
                if not _is_older(lock, latest):
                    continue
            yield lock


def _is_older(lock: LockInfo, latest: float) -> bool:
    """Tell whether somebody has had the lock since then at the latest; one that nobody has, whether it was written."""
    if lock.holder is None:
        return lock.modified.timestamp() <= latest
    return lock.holder.since is not None and lock.holder.since.timestamp() <= latest


def _is_ageless(lock: LockInfo) -> bool:
    """Tell whether the lock's holder does not record since when it has it, not even after half a lease period."""
    return lock.holder is not None and lock.holder.since is None and lock.holder.renewed is not False


async def next_page(
    keeping: LockKeeping,
    container: str,
    prefix: str,
    marker: str | None,
    most: int = MOST_LISTED,
    *,
    answer: float = PATIENT,
) -> Page:
    """Read the page behind this marker, or the first; ``answer``: seconds for it, all tries together.

    Raises:
        StorageError: the storage refuses, or does not answer; or there is no such container.
    """
    try:
        return await answered(lambda: keeping.page(prefix, marker, most), call=_CALL, answer=answer)
    except StoreFailure as failure:
        if failure.meaning == "missing":
            raise no_container(container, failure) from failure
        raise storage_error(container, failure, what="the listing of container") from failure


def no_container(container: str, failure: StoreFailure) -> StorageError:
    """Say that the container is not there."""
    return StorageError(
        f"there is no container {container!r}: no lock was ever taken in it, or its name is wrong ({failure})",
        reason=NO_CONTAINER,
        status=failure.status,
        code=failure.code,
    )


async def find(keeping: LockKeeping, container: str, name: str, *, answer: float) -> tuple[Listed | None, float]:
    """Return the blob of this name, or None where there is none, and the service's clock.

    Raises:
        StorageError: as ``next_page``.
    """
    page = await next_page(keeping, container, name, None, 1, answer=answer)
    found = next((blob for blob in page.entries if blob.name == name), None)
    return found, page.at

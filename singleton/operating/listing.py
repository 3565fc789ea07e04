"""Which locks there are: read page by page, so that a hundred thousand need no more memory than five thousand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.errors import StorageError
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.locks import lock_info
from singleton.stores.keeping import MOST_LISTED
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.operating.locks import LockInfo
    from singleton.stores.keeping import Listed, LockKeeping, Page

NO_CONTAINER: Final = "no container"
"""The reason of an error that says so."""
_CALL: Final = 30.0
"""Seconds for one page: five thousand entries take a while to send and to read."""
PATIENT: Final = 60.0
"""Seconds for one answer, all tries together, where nobody looks on."""
_ALIKE: Final = 1000
"""Names that are looked at for one that was meant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which locks of a listing are asked for.

    Attributes:
        function: only those of this function.
        held: only those that somebody has.
        older_than: only those that somebody has had for at least so many seconds; of the free ones, those that were
            stamped so long ago.
    """

    function: str | None = None
    held: bool = False
    older_than: float | None = None

    def among(self, page: Page, container: str, functions: set[str] | None = None) -> Iterator[LockInfo]:
        """Yield those on this page; add to ``functions`` the names of all that have locks there."""
        latest = None if self.older_than is None else page.at - self.older_than
        for blob in page.entries:
            info = lock_info(blob, container)
            if info is not None and info.function and functions is not None:
                functions.add(info.function)
            if info is None or (self.held and not info.held) or (latest is not None and not _is_older(info, latest)):
                continue
            if self.function is None or info.function == self.function:
                yield info


def _is_older(lock: LockInfo, latest: float) -> bool:
    """Tell whether somebody has had the lock since then at the latest; one that nobody has, whether it was stamped."""
    holder = lock.holder
    if holder is not None and holder.renewed is False:
        return False
    return ((holder and holder.since) or lock.modified).timestamp() <= latest


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
        f"container {container!r} is not there: no lock was ever taken in it, or its name is wrong ({failure})",
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


async def names_like(keeping: LockKeeping, container: str, name: str, *, answer: float) -> list[str]:
    """Return a few names of locks that may have been meant by this one, of which there is no blob.

    They are those that are spelt much like it; else those of which it is the scope, a value of it, or the function.
    """
    import difflib

    folder = name[: name.rfind("/") + 1]
    names: set[str] = set()
    parts: list[str] = []
    for prefix in dict.fromkeys((name[: len(folder) + 3], folder, "")):
        page = await next_page(keeping, container, prefix, None, _ALIKE, answer=answer)
        locks = [lock for blob in page.entries if (lock := lock_info(blob, container)) is not None]
        names.update(lock.name for lock in locks)
        parts += [lock.name for lock in locks if name == lock.function or name in lock.scope]
        if close := difflib.get_close_matches(name, names, n=3, cutoff=0.75):
            return close
    return list(dict.fromkeys(parts))[:3]

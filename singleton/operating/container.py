"""A container for operators: pages of blobs, a blob by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from singleton.base.errors import StorageError
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.stores.protocol import MOST_LISTED, StoreFailure

if TYPE_CHECKING:
    from singleton.stores.lock_keeping import BlobStore, Listed, Page


NO_CONTAINER: Final = "no container"
"""Reason of the error for a container that does not exist."""
_CALL: Final = 30.0
"""Seconds for one page: five thousand entries take a while to send and to read."""
PATIENT: Final = 60.0
"""Seconds for one answer, all tries together, of a command without a person at the screen."""


async def next_page(
    store: BlobStore,
    container: str,
    prefix: str,
    marker: str | None,
    most: int = MOST_LISTED,
    *,
    answer: float = PATIENT,
) -> Page:
    """Read the page behind this marker, or the first; ``answer``: seconds for the page, all tries together."""
    try:
        return await answered(lambda: store.page(prefix, marker, most), call=_CALL, answer=answer)
    except StoreFailure as failure:
        if failure.meaning == "missing":
            raise StorageError(
                f"there is no container {container!r}: no lock was ever taken in it, or its name is wrong ({failure})",
                reason=NO_CONTAINER,
                status=failure.status,
                code=failure.code,
            ) from failure
        raise storage_error(container, failure, what="the listing of container") from failure


async def find(store: BlobStore, container: str, name: str, *, answer: float) -> tuple[Listed | None, float]:
    """Return the blob of this name, or None, and the service's clock in seconds. ``StorageError``: as ``next_page``."""
    page = await next_page(store, container, name, None, 1, answer=answer)
    found = next((blob for blob in page.entries if blob.name == name), None)
    return found, page.at

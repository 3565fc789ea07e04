"""A container as operators use it: its store's methods that no lock needs, pages of its blobs, one blob by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError, StorageError
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.stores.azure_blob import AzureBlobLeaseStore
from singleton.stores.lock_keeping import LockKeeping
from singleton.stores.protocol import MOST_LISTED, StoreFailure
from singleton.stores.request_count import counted

if TYPE_CHECKING:
    from singleton.stores.lock_keeping import Listed, Page
    from singleton.stores.protocol import LeaseStore

NO_CONTAINER: Final = "no container"
"""Reason of the error for a container that does not exist."""
_CALL: Final = 30.0
"""Seconds for one page: five thousand entries take a while to send and to read."""
PATIENT: Final = 60.0
"""Seconds for one answer, all tries together, of a command without a person at the screen."""


def keeping_of(store: LeaseStore) -> LockKeeping:
    """Return the methods that list, break and delete in the container of this store.

    Raises:
        ConfigurationError: a store of the user's own lacks these methods.
    """
    if isinstance(store, LockKeeping):
        return store
    if isinstance(store, AzureBlobLeaseStore):
        from singleton.operating.azure_container import AzureKeeping

        return counted(AzureKeeping(store.container), "blob")
    raise ConfigurationError(
        f"the store, a {type(store).__name__}, can't list or break locks: it needs the methods of "
        "singleton.stores.lock_keeping.LockKeeping as well"
    )


async def next_page(
    keeping: LockKeeping,
    container: str,
    prefix: str,
    marker: str | None,
    most: int = MOST_LISTED,
    *,
    answer: float = PATIENT,
) -> Page:
    """Read the page behind this marker, or the first; ``answer``: seconds for the page, all tries together.

    Raises:
        StorageError: the storage refuses or does not answer, or the container does not exist.
    """
    try:
        return await answered(lambda: keeping.page(prefix, marker, most), call=_CALL, answer=answer)
    except StoreFailure as failure:
        if failure.meaning == "missing":
            raise no_container(container, failure) from failure
        raise storage_error(container, failure, what="the listing of container") from failure


def no_container(container: str, failure: StoreFailure) -> StorageError:
    """Return the error for a container that does not exist."""
    return StorageError(
        f"there is no container {container!r}: no lock was ever taken in it, or its name is wrong ({failure})",
        reason=NO_CONTAINER,
        status=failure.status,
        code=failure.code,
    )


async def find(keeping: LockKeeping, container: str, name: str, *, answer: float) -> tuple[Listed | None, float]:
    """Return the blob of this name (None: no such blob), and the service's clock in seconds.

    Raises:
        StorageError: as ``next_page``.
    """
    page = await next_page(keeping, container, name, None, 1, answer=answer)
    found = next((blob for blob in page.entries if blob.name == name), None)
    return found, page.at

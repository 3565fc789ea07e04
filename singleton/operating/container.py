"""A container for operators: the store's methods that no lock needs, pages of blobs, a blob by name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, cast

from singleton.base.errors import ConfigurationError, StorageError
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.stores.azure_blob import AzureBlobLeaseStore, if_it_is, judged
from singleton.stores.listing_page import in_quotes
from singleton.stores.lock_keeping import Listed, LockKeeping, Page
from singleton.stores.protocol import MOST_LISTED, StoreFailure
from singleton.stores.reply_headers import clock
from singleton.stores.request_count import counted

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties
    from azure.storage.blob.aio import ContainerClient

    from singleton.stores.protocol import LeaseState, LeaseStore


class AzureKeeping:
    """A ``LockKeeping`` of a container. The opener of the container's client closes the client."""

    def __init__(self, container: ContainerClient) -> None:
        self._container = container

    async def page(self, prefix: str, marker: str | None = None, most: int = MOST_LISTED) -> Page:
        """See ``LockKeeping.page``."""
        told: list[float] = []

        def note_clock(response: Any) -> None:
            if (at := clock(response.http_response.headers)) is not None:
                told.append(at)

        pages = self._container.list_blobs(
            name_starts_with=prefix, include=["metadata"], results_per_page=most, raw_response_hook=note_clock
        ).by_page(marker)
        found = await judged(anext(pages))
        entries = [_listed(blob) async for blob in found]
        token: str | None = getattr(pages, "continuation_token", None)
        return Page(entries=tuple(entries), marker=token or None, at=told[-1] if told else time.time())

    async def shorten(self, name: str, after: int | None, etag: str | None = None) -> int:
        """See ``LockKeeping.shorten``."""
        from azure.storage.blob.aio import BlobLeaseClient

        lease = BlobLeaseClient(self._container.get_blob_client(name))
        return int(await judged(lease.break_lease(lease_break_period=after, **if_it_is(etag))))

    async def erase(self, name: str, etag: str) -> None:
        """See ``LockKeeping.erase``."""
        await judged(self._container.get_blob_client(name).delete_blob(**if_it_is(etag)))


def _listed(blob: BlobProperties) -> Listed:
    return Listed(
        name=str(blob.name),
        etag=in_quotes(str(blob.etag)),
        lease=cast("LeaseState", str(blob.lease.state)),
        modified=int(blob.last_modified.timestamp()),
        metadata=dict(blob.metadata or {}),
        size=int(blob.size or 0),
        endless=blob.lease.duration == "infinite",
    )


NO_CONTAINER: Final = "no container"
"""Reason of the error for a container that does not exist."""
_CALL: Final = 30.0
"""Seconds for one page: five thousand entries take a while to send and to read."""
PATIENT: Final = 60.0
"""Seconds for one answer, all tries together, of a command without a person at the screen."""


def keeping_of(store: LeaseStore) -> LockKeeping:
    """Return the methods that list, break and delete. ``ConfigurationError``: a store of the user's own lacks them."""
    if isinstance(store, LockKeeping):
        return store
    if isinstance(store, AzureBlobLeaseStore):
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
    """Read the page behind this marker, or the first; ``answer``: seconds for the page, all tries together."""
    try:
        return await answered(lambda: keeping.page(prefix, marker, most), call=_CALL, answer=answer)
    except StoreFailure as failure:
        if failure.meaning == "missing":
            raise StorageError(
                f"there is no container {container!r}: no lock was ever taken in it, or its name is wrong ({failure})",
                reason=NO_CONTAINER,
                status=failure.status,
                code=failure.code,
            ) from failure
        raise storage_error(container, failure, what="the listing of container") from failure


async def find(keeping: LockKeeping, container: str, name: str, *, answer: float) -> tuple[Listed | None, float]:
    """Return the blob of this name, or None, and the service's clock in seconds. ``StorageError``: as ``next_page``."""
    page = await next_page(keeping, container, name, None, 1, answer=answer)
    found = next((blob for blob in page.entries if blob.name == name), None)
    return found, page.at

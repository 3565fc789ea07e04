"""A container through azure-storage-blob, for operators: ``LockKeeping``, and what a container shows of its account.

``LockKeeping`` is a listing by pages, a break with a period, a delete on a condition. Versions, soft delete and a
hierarchy are found without the right to read the account's settings: a blob that is made and deleted shows them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, cast

from singleton.stores.azure_blob import done, if_it_is, judged
from singleton.stores.lock_keeping import Listed, Page
from singleton.stores.protocol import MOST_LISTED
from singleton.stores.reply_headers import clock

if TYPE_CHECKING:
    from azure.storage.blob import BlobProperties
    from azure.storage.blob.aio import ContainerClient

    from singleton.stores.protocol import LeaseState


class AzureKeeping:
    """A ``LockKeeping`` of one container. It owns nothing: the client is closed by whoever opened it."""

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
        etag=_quoted(str(blob.etag)),
        lease=cast("LeaseState", str(blob.lease.state)),
        modified=int(blob.last_modified.timestamp()),
        metadata=dict(blob.metadata or {}),
        size=int(blob.size or 0),
        endless=blob.lease.duration == "infinite",
    )


def _quoted(etag: str) -> str:
    """Return an ETag as conditions have it: a listing leaves its quotes out."""
    return etag if etag.endswith('"') else f'"{etag}"'


async def keeps_versions(container: ContainerClient, name: str) -> bool:
    """Make a blob, and tell whether the account gave it a version."""
    reply = await judged(container.get_blob_client(name).upload_blob(b"", overwrite=True))
    return bool(reply.get("version_id"))


async def keeps_deleted(container: ContainerClient, name: str) -> int | None:
    """Delete that blob; return for how many days the account keeps it, or None where it does not."""
    await judged(container.get_blob_client(name).delete_blob())
    pages = container.list_blobs(name_starts_with=name, include=["deleted"]).by_page()
    kept = [blob async for blob in await judged(anext(pages)) if blob.name == name and blob.deleted]
    return kept[0].remaining_retention_days or 0 if kept else None


async def is_hierarchical(container: ContainerClient) -> bool:
    """Tell whether the account has a hierarchical namespace (Data Lake)."""
    told = await judged(container.get_account_information())
    return bool(told.get("is_hns_enabled"))


async def make(container: ContainerClient) -> None:
    """Make the container, if it is not there."""
    await done(container.create_container(), "ContainerAlreadyExists")


async def drop(container: ContainerClient) -> None:
    """Delete the container, if it is there."""
    await done(container.delete_container(), "ContainerNotFound", "ContainerBeingDeleted")

"""What can be seen of an account through one container of it: versions, soft delete, a hierarchy.

Nothing here needs the right to read the account's settings: a blob that is made and deleted shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.stores.azure_blob import done, judged

if TYPE_CHECKING:
    from azure.storage.blob.aio import ContainerClient


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

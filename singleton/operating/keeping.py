"""How operators reach those methods of a container's store that locks don't need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from singleton.base.errors import ConfigurationError
from singleton.stores.azure_blob import AzureBlobLeaseStore
from singleton.stores.lock_keeping import LockKeeping
from singleton.stores.request_count import counted

if TYPE_CHECKING:
    from singleton.stores.protocol import LeaseStore


def keeping_of(store: LeaseStore) -> LockKeeping:
    """Return what lists, breaks and deletes in the container of this store.

    Raises:
        ConfigurationError: it is a store of somebody's own, which can't.
    """
    if isinstance(store, LockKeeping):
        return store
    if isinstance(store, AzureBlobLeaseStore):
        from singleton.stores.azure_container import AzureKeeping

        return counted(AzureKeeping(store.container), "blob")
    raise ConfigurationError(
        f"the store, a {type(store).__name__}, can't list or break locks: it needs the methods of "
        "singleton.stores.lock_keeping.LockKeeping as well"
    )

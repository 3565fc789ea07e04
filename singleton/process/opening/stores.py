"""Opens the stores of an account, on the lock thread: makes clients from settings.

A lock's requests go straight to the service (``stores/direct_blob.py``), or through the SDK: where the options say so,
and where the caller brings clients of its own. Neither asks twice: the lock does. Nothing is sent before a store is
used.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, Final, Literal

from singleton.process.opening.identity import open_credential
from singleton.process.opening.threaded import ThreadedCredential, blocks
from singleton.settings.given import GivenAccount, GivenClients
from singleton.stores.azure_blob import AzureBlobLeaseStore, quiet_logger

if TYPE_CHECKING:
    from typing import TypeAlias

    from singleton.settings.connection import StorageAccount
    from singleton.stores.azure_queue import AzureMessageStore
    from singleton.stores.direct_blob import DirectBlobStore

    Account: TypeAlias = StorageAccount | GivenAccount | GivenClients

_ONCE: Final[dict[str, Any]] = {"retry_total": 0, "permit_redirects": False}
"""Options of the SDK's clients: each request is sent once, and to nobody else."""


def open_container(
    account: Account, container: str, http: Literal["direct", "sdk"] = "direct"
) -> DirectBlobStore | AzureBlobLeaseStore:
    """Make a store for a container. Call it on the loop that will use it.

    Args:
        account: by its connection, or what the caller brought along. A credential object stays the caller's, and is
            not closed with the store; the caller's client is.
        container: the container's name.
        http: see ``SingletonOptions``.

    Raises:
        ConfigurationError: the account's key is none, or of which account it is can't be told.
    """
    if isinstance(account, GivenClients):
        _load_the_rest_of_the_sdk()
        return AzureBlobLeaseStore(account.make(container))
    if http == "sdk":
        return open_through_sdk(account, container)
    from singleton.process.opening.direct import way_to
    from singleton.stores.direct_blob import DirectBlobStore

    return DirectBlobStore(way_to(account, open_credential), container)


def open_through_sdk(account: StorageAccount | GivenAccount, container: str, **transport: Any) -> AzureBlobLeaseStore:
    """Make a store for a container that asks through azure-storage-blob.

    ``transport``: options of the SDK's client that say how requests travel, ``transport`` above all.
    """
    from azure.storage.blob.aio import BlobServiceClient

    _load_the_rest_of_the_sdk()
    options = {**_ONCE, "logger": quiet_logger(), **transport}
    own: Any = None
    if isinstance(account, GivenAccount):
        own = ThreadedCredential(account.credential) if blocks(account.credential) else None
        service = BlobServiceClient(account.endpoint, credential=own or account.credential, **options)
    elif account.connection_string is not None:
        service = BlobServiceClient.from_connection_string(account.connection_string, **options)
    else:
        own = open_credential(account.credential) if account.credential is not None else None
        service = BlobServiceClient(account.account_url or "", credential=own, **options)
    return AzureBlobLeaseStore(
        service.get_container_client(container), close_with=(service, own) if own else (service,)
    )


def open_queue(account: StorageAccount, queue: str, **transport: Any) -> AzureMessageStore:
    """Make a store for a queue. Call it on the loop that will use it; ``transport`` as for ``open_through_sdk``."""
    from azure.storage.queue.aio import QueueClient

    from singleton.stores.azure_queue import AzureMessageStore

    _load_the_rest_of_the_sdk()
    options = {**_ONCE, "logger": quiet_logger(), **transport}
    if account.connection_string is not None:
        return AzureMessageStore(QueueClient.from_connection_string(account.connection_string, queue, **options))
    credential = open_credential(account.credential) if account.credential is not None else None
    client = QueueClient(account.account_url or "", queue, credential=credential, **options)
    return AzureMessageStore(client, close_with=(credential,) if credential else ())


def _load_the_rest_of_the_sdk() -> None:
    """Import what the SDK would import at its first request, while anybody may fork."""
    with contextlib.suppress(ImportError):
        importlib.import_module("azure.core.rest._aiohttp")
    importlib.import_module("encodings.utf_8_sig")

"""Opens the stores of an account, on the lock thread: makes clients from settings.

A lock's requests go straight to the service (``stores/direct_blob.py``), or through the SDK: by an option, and with
clients of the caller's own. Neither way sends a request twice: only the lock repeats requests. Nothing is sent before
the first use of a store.
"""

from __future__ import annotations

import contextlib
import importlib
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing
from singleton.base.tasks import Deciding
from singleton.settings.accounts import GivenAccount, GivenClients
from singleton.stores.access import Access, AccountKey, SharedAccessSignature
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.refusals import Destination
from singleton.stores.wire import Wire

if TYPE_CHECKING:
    from typing import TypeAlias

    from azure.core.pipeline.transport import AioHttpTransport

    from singleton.settings.connection import StorageAccount
    from singleton.stores.azure_blob import AzureBlobLeaseStore, Judging
    from singleton.stores.azure_queue import AzureMessageStore

    Account: TypeAlias = StorageAccount | GivenAccount | GivenClients

_ONCE: Final[dict[str, Any]] = {"retry_total": 0, "permit_redirects": False}
"""Options of the SDK's clients: a request is sent once, without redirects."""
_KEPT: Final = 1.0
"""Seconds that an idle connection of the SDK's is kept: shorter than a request's time-out, so a retry dials anew."""


def open_container(
    account: Account, container: str, http: Literal["direct", "sdk"] = "direct"
) -> DirectBlobStore | AzureBlobLeaseStore:
    """Make a store for a container, on the loop of the store's later requests.

    A credential object of the caller's stays open when the store is closed; the caller's client is closed with it.
    ``http``: see ``SingletonOptions``. Errors: as of ``way_to``.
    """
    if isinstance(account, GivenClients):
        with importing:
            from singleton.stores.azure_blob import AzureBlobLeaseStore, Judging

        _load_the_rest_of_the_sdk()
        with Deciding("the function that makes clients", awaited=False):
            client = account.make(container)
            to = Destination.of(f"container {container!r}", f"{client.scheme}://{client.primary_hostname}", "")
            return AzureBlobLeaseStore(client, judged=Judging(to))
    if http == "sdk":
        return open_through_sdk(account, container)
    return DirectBlobStore(way_to(account, f"container {container!r}"), container)


def way_to(account: StorageAccount | GivenAccount, what: str = "blobs") -> Wire:
    """Return the way to an account's blobs; ``what`` of the account is asked for, for messages.

    Raises:
        ConfigurationError: the account's key is none, or of which account it is can't be told.
    """
    try:
        to = Destination.of(what, account.endpoint, account.setting)
        with Deciding("the account's credential", awaited=False):
            return Wire(account.endpoint, _way_in(account), to)
    except ConfigurationError as error:
        error.__traceback__ = None  # frames beneath have the key among their locals
        raise


def _way_in(account: StorageAccount | GivenAccount) -> Access:
    """Return the way in: by a credential of azure-core's, or by a key or signature as text."""
    if isinstance(account, GivenAccount):
        credential: Any = account.credential
        if hasattr(credential, "get_token"):
            with importing:
                from singleton.runtime.accounts.credentials import ThreadedCredential, blocks
                from singleton.stores.bearer_token import Token

            return Token(ThreadedCredential(credential), close=True) if blocks(credential) else Token(credential)
        if hasattr(credential, "named_key"):
            return AccountKey(lambda: (credential.named_key.name, credential.named_key.key))
    elif account.credential is not None:
        with importing:
            from singleton.runtime.accounts.credentials import open_credential
            from singleton.stores.bearer_token import Token

        return Token(open_credential(account.credential), close=True)
    if (signed := _signature_of(account)) is not None:
        return signed
    if isinstance(account, GivenAccount):
        named_key = account_in(account.endpoint), str(account.credential)
    else:
        named_key = account.told.account, account.told.key
    return AccountKey(lambda: named_key)


def _signature_of(account: StorageAccount | GivenAccount) -> SharedAccessSignature | None:
    """Return the shared access signature of an account; None: the account has another way in."""
    if isinstance(account, GivenAccount):
        credential: Any = account.credential
        if hasattr(credential, "signature"):
            return SharedAccessSignature(lambda: str(credential.signature))
        signed = isinstance(credential, str) and "sig=" in credential
        return SharedAccessSignature(lambda: str(credential)) if signed else None
    told = account.told
    return None if account.credential is not None or told.key else SharedAccessSignature(lambda: told.signature)


def account_in(endpoint: str) -> str:
    """Return the account that a URL names: ``https://NAME.blob.…``, or the emulator's ``http://127.0.0.1:10000/NAME``.

    Raises:
        ConfigurationError: the URL names no account, as with a custom domain.
    """
    parts = urlsplit(endpoint)
    name, dot, rest = (parts.hostname or "").partition(".")
    if dot and f".{rest}.".find(".blob.") >= 0:
        for suffix in ("-secondary", "-ipv6", "-dualstack"):
            name = name.partition(suffix)[0]
        return name
    if found := parts.path.strip("/").partition("/")[0]:
        return found
    raise ConfigurationError(
        f"the URL {endpoint} does not name the account of the key: give an AzureNamedKeyCredential as credential, with "
        "the account's name and its key"
    )


def open_through_sdk(account: StorageAccount | GivenAccount, container: str, **transport: Any) -> AzureBlobLeaseStore:
    """Make a store for a container that asks through azure-storage-blob.

    ``transport``: options of the SDK's client that say how requests travel, ``transport`` above all.
    """
    with importing:
        from azure.storage.blob.aio import BlobServiceClient

        from singleton.stores.azure_blob import AzureBlobLeaseStore

    what = f"container {container!r}"
    service, own, judged = _client_of_sdk(BlobServiceClient, account, what, (), transport)
    return AzureBlobLeaseStore(service.get_container_client(container), close_with=(service, *own), judged=judged)


def open_queue(account: StorageAccount, queue: str, **transport: Any) -> AzureMessageStore:
    """Make a store for a queue, on the loop of its later requests; ``transport`` as for ``open_through_sdk``."""
    with importing:
        from azure.storage.queue.aio import QueueClient

        from singleton.stores.azure_queue import AzureMessageStore, check_answer

    options = {"raw_response_hook": check_answer, **transport}
    client, own, judged = _client_of_sdk(QueueClient, account, f"queue {queue!r}", (queue,), options)
    return AzureMessageStore(client, close_with=own, judged=judged)


def _client_of_sdk(
    kind: Any, account: StorageAccount | GivenAccount, what: str, named: tuple[str, ...], transport: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], Judging]:
    """Make a client of the SDK's; return it, credentials of ours to be closed with it, and the judge of its answers."""
    with importing:
        from singleton.runtime.accounts.credentials import ThreadedCredential, blocks, open_credential
        from singleton.stores.azure_blob import Judging, quiet_logger

    _load_the_rest_of_the_sdk()
    options = {**_ONCE, "logger": quiet_logger(), **transport}
    if "transport" not in options:
        options["transport"] = _transport()
    own: Any = None
    if isinstance(account, GivenAccount):
        own = ThreadedCredential(account.credential) if blocks(account.credential) else None
        client = kind(account.endpoint, *named, credential=own or account.credential, **options)
    elif account.connection_string is not None:
        client = kind.from_connection_string(account.connection_string, *named, **options)
    else:
        own = open_credential(account.credential) if account.credential is not None else None
        client = kind(account.account_url or "", *named, credential=own, **options)
    to = Destination.of(what, f"{client.scheme}://{client.primary_hostname}", account.setting)
    return client, (own,) if own else (), Judging(to, _signature_of(account))


def _transport() -> AioHttpTransport:
    """Make the SDK's own transport, with each look-up of a host for itself: aiohttp's cache lets all wait for one.

    A connection that was idle for ``_KEPT`` seconds is closed, because the network may have dropped it without a word.
    """
    with importing:
        import aiohttp
        from azure.core.pipeline.transport import AioHttpTransport

    class Transport(AioHttpTransport):  # type: ignore[misc] # azure-core says Any
        session: Any

        async def open(self) -> None:
            if not self.session:  # aiohttp needs the running loop
                connector = aiohttp.TCPConnector(use_dns_cache=False, keepalive_timeout=_KEPT)
                jar = aiohttp.DummyCookieJar()
                self.session = aiohttp.ClientSession(
                    connector=connector, cookie_jar=jar, trust_env=True, auto_decompress=False
                )
            await super().open()

    return Transport()


def _load_the_rest_of_the_sdk() -> None:
    """Import the modules that the SDK would import at its first request, while another thread may fork."""
    with importing:
        with contextlib.suppress(ImportError):
            importlib.import_module("azure.core.rest._aiohttp")
        importlib.import_module("encodings.utf_8_sig")

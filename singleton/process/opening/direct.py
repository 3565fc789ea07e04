"""What a storage account's settings mean for direct requests: its URL, and how they are authorised."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from singleton.base.errors import ConfigurationError
from singleton.process.opening.threaded import ThreadedCredential, blocks
from singleton.settings.given import GivenAccount
from singleton.settings.storagestring import parse_connection_string
from singleton.stores.access import Access, AccountKey, Signature, Token
from singleton.stores.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.settings.connection import StorageAccount
    from singleton.settings.credentials import CredentialSpec


def way_to(account: StorageAccount | GivenAccount, open_credential: Callable[[CredentialSpec], Any]) -> Wire:
    """Return the way to an account's blobs.

    Raises:
        ConfigurationError: the account's key is none, or of which account it is can't be told.
    """
    try:
        return _way_to(account, open_credential)
    except ConfigurationError as error:
        error.__traceback__ = None  # frames beneath have the key among their locals
        raise


def _way_to(account: StorageAccount | GivenAccount, open_credential: Callable[[CredentialSpec], Any]) -> Wire:
    if isinstance(account, GivenAccount):
        return Wire(account.endpoint, _given(account))
    if account.connection_string is not None:
        told = parse_connection_string(account.connection_string, "the connection string")
        named_key = told.account, told.key
        return Wire(told.endpoint, AccountKey(lambda: named_key) if told.key else Signature(lambda: told.signature))
    endpoint, _, signature = (account.account_url or "").partition("?")
    if account.credential is not None:
        return Wire(endpoint, Token(open_credential(account.credential), close=True))
    return Wire(endpoint, Signature(lambda: signature))


def _given(account: GivenAccount) -> Access:
    """Return the way in by a credential of azure-core's, or by a key or signature as text."""
    credential: Any = account.credential
    if blocks(credential):
        return Token(ThreadedCredential(credential), close=True)
    if hasattr(credential, "get_token"):
        return Token(credential)
    if hasattr(credential, "named_key"):
        return AccountKey(lambda: (credential.named_key.name, credential.named_key.key))
    if hasattr(credential, "signature"):
        return Signature(lambda: str(credential.signature))
    if "sig=" in credential:
        return Signature(lambda: str(credential))
    named_key = account_in(account.endpoint), str(credential)
    return AccountKey(lambda: named_key)


def account_in(endpoint: str) -> str:
    """Return the account that a URL names: ``https://NAME.blob.…``, or the emulator's ``http://127.0.0.1:10000/NAME``.

    Raises:
        ConfigurationError: it names none, as a domain of one's own.
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

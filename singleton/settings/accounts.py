"""Accounts that the caller gives, and the container of an account in which locks are.

A given account is a URL with a credential object, or a function that makes the caller's own blob clients (D-22).
"""

from __future__ import annotations

import shlex
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from singleton.base.callables import refuse_async
from singleton.base.errors import ConfigurationError
from singleton.settings.connection import DEFAULT_CONNECTION, check_signature, checked_url

if TYPE_CHECKING:
    from collections.abc import Callable

    from azure.storage.blob.aio import ContainerClient

    from singleton.settings.connection import StorageAccount


@dataclass(frozen=True, slots=True)
class GivenAccount:
    """An account's URL and a credential object for it. Equal accounts share connections."""

    endpoint: str
    credential: Any
    setting: ClassVar[str] = ""

    def __repr__(self) -> str:
        return f"GivenAccount({self.endpoint} by a credential of the caller's)"


@dataclass(frozen=True, slots=True)
class GivenClients:
    """A function of the caller's that makes the client of a container."""

    make: Callable[[str], ContainerClient]
    setting: ClassVar[str] = ""
    endpoint: ClassVar[str] = ""
    """What the caller's clients lead to is not known before one is made."""


@dataclass(frozen=True, slots=True)
class LockContainer:
    """A container of a storage account. The way of its requests is no part of its identity.

    ``http``: see ``SingletonOptions``; the ``LockContainer`` that opens the store decides.
    """

    account: StorageAccount | GivenAccount | GivenClients
    container: str
    http: Literal["direct", "sdk"] = field(default="direct", compare=False)

    def __hash__(self) -> int:
        """Return the hash of the container's name, which a string caches: a lock looks places up several times."""
        return hash(self.container)

    def break_command(self, name: str) -> str:
        """Return the command line which breaks a lock of this container. No option depends on the current folder."""
        options = ["--container", self.container]
        if self.account.setting and self.account.setting != DEFAULT_CONNECTION:
            options += ["--connection", self.account.setting]
        elif not self.account.setting and self.account.endpoint.startswith("https:"):
            options += ["--account", self.account.endpoint]
        elif not self.account.setting and self.account.endpoint:
            options += ["--connection", "UseDevelopmentStorage=true"]  # no identity's token is sent over http
        words = [*options, "--", name] if name.startswith("-") else [name, *options]
        return shlex.join(["singleton-locks", "break", *words])


def given(connection: object, credential: object) -> GivenAccount | GivenClients:
    """Return what was given in place of a connection. Refuse a credential without its URL, and one of another kind."""
    refuse_async(connection, "connection")
    if callable(connection):
        if credential is not None:
            raise ConfigurationError("credential is given with a function that makes clients: give it to these clients")
        return GivenClients(connection)
    if not isinstance(connection, str):
        raise ConfigurationError(
            f"connection has the type {type(connection).__name__}: give the name of an app setting, a connection "
            "string, an account's URL with a credential, or a function that makes clients"
        )
    if "://" not in connection:
        raise ConfigurationError(
            "credential is given, and connection is not an account's URL: give https://<account>.blob.core.windows.net"
        )
    url = checked_url(connection.strip(), "connection")
    if isinstance(credential, str):
        credential = credential.strip()  # of a file or a vault, which may end with a line break
    _check_credential(credential)
    if hasattr(credential, "get_token") and not url.startswith("https:"):
        raise ConfigurationError("connection is not an https URL: an identity's token is only sent over https")
    if "?" in url:
        raise ConfigurationError("connection has a query (a SAS), and credential is given as well: keep one of them")
    return GivenAccount(url, credential)


def _check_credential(credential: object) -> None:
    """Refuse what azure-storage-blob would, and unhashable credentials: equal credentials share connections."""
    if isinstance(credential, type):
        raise ConfigurationError(
            f"credential is the class {credential.__name__}: give an object, {credential.__name__}(…)"
        )
    known = (
        isinstance(credential, str)
        or callable(getattr(credential, "get_token", None))
        or any(hasattr(credential, member) for member in ("signature", "named_key"))
    )
    if not known or not isinstance(credential, Hashable):
        raise ConfigurationError(
            f"credential has the type {type(credential).__name__}: give an identity from azure.identity or "
            "azure.identity.aio, the account's key as text, an AzureNamedKeyCredential or an AzureSasCredential"
        )
    signature = credential if isinstance(credential, str) else getattr(credential, "signature", "")
    check_signature(str(signature), "credential")

"""Which queue a function's messages come from: its trigger's settings, resolved as the Functions host does.

The queue's account is the trigger's, which need not be the lock's; and where two settings name one, the host takes
the other than for blobs (H-25).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal

from singleton.connection import DEFAULT_CONNECTION, checked_account_name, checked_connection_string, configured, redact
from singleton.credentials import CredentialSpec, credential_of
from singleton.errors import ConfigurationError
from singleton.messages import quoted
from singleton.settings import section, setting
from singleton.storagestring import checked_url

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from singleton.triggers import Trigger

Encoding = Literal["base64", "none"]
QUEUE_TRIGGER: Final = "queueTrigger"
_LONGEST_NAME: Final = 63


@dataclass(frozen=True, slots=True)
class QueueAccount:
    """How to reach a storage account's queues: by a connection string, or by a URL and perhaps an identity."""

    connection_string: str | None = None
    account_url: str | None = None
    credential: CredentialSpec | None = None

    def __repr__(self) -> str:
        where = "a connection string" if self.account_url is None else self.account_url.partition("?")[0]
        return f"QueueAccount({where})"


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A queue of a storage account, how the host encodes bodies in it, and how often it tries a message (H-33)."""

    account: QueueAccount
    queue: str
    encoding: Encoding = "base64"
    max_dequeue_count: int = 5

    @property
    def poison(self) -> QueuePlace | None:
        """Where the host puts messages that failed too often (H-39); None: nowhere (H-40)."""
        name = f"{self.queue}-poison"
        return None if self.queue.endswith("-poison") or len(name) > _LONGEST_NAME else replace(self, queue=name)


def queue_place(trigger: Trigger, settings: Mapping[str, str], app_dir: Path | None) -> QueuePlace:
    """Return the queue that a trigger listens to.

    Raises:
        ConfigurationError: a setting that it needs is missing or wrong.
    """
    queue = _resolved(str(trigger.settings.get("queueName") or ""), "queueName", settings).lower()  # as the host does
    connection = _resolved(str(trigger.settings.get("connection") or ""), "connection", settings)
    account = resolve_queue_account(connection.strip() or DEFAULT_CONNECTION, settings)
    return QueuePlace(account, queue, message_encoding(app_dir, settings), max_dequeue_count(app_dir, settings))


def resolve_queue_account(name: str, settings: Mapping[str, str]) -> QueueAccount:
    """Return the account that a queue trigger's connection names: ``__accountName``, then ``__queueServiceUri``.

    Raises:
        ConfigurationError: nothing is set for this name, or what is set is wrong.
    """
    from singleton.runtime import provided_account

    if provided_account(name) is not None:  # where locks live elsewhere, queues do, and no setting is asked
        return QueueAccount()
    place = configured(name, settings)
    if place.value:
        return QueueAccount(checked_connection_string(place.value, f"app setting {place.name}"))
    account, given = place.keys.get("accountname"), place.keys.get("queueserviceuri")
    if account:
        url = f"https://{checked_account_name(account, f'{place.name}__accountName')}.queue.core.windows.net"
    elif given:
        url = checked_url(given, f"{place.name}__queueServiceUri")
    else:
        raise ConfigurationError(
            f"connection {place.name}: set {place.name}__accountName or {place.name}__queueServiceUri to reach queues"
        )
    if "sig=" in url.partition("?")[2]:
        return QueueAccount(account_url=url)
    if not url.startswith("https:"):
        raise ConfigurationError(f"{place.name}: an identity is only used over https, not with {redact(url)}")
    return QueueAccount(account_url=url, credential=credential_of(place.name, place.keys, settings))


def message_encoding(app_dir: Path | None, settings: Mapping[str, str]) -> Encoding:
    """Return ``extensions.queues.messageEncoding`` of host.json, or of the app setting over it (H-31, H-33).

    Raises:
        ConfigurationError: it is neither base64 nor none.
    """
    where, value = _queue_option("messageEncoding", "base64", app_dir, settings)
    match str(value).strip().lower():
        case "base64":
            return "base64"
        case "none":
            return "none"
    raise ConfigurationError(f'{where} is {quoted(value)}: give "base64" or "none"')


def max_dequeue_count(app_dir: Path | None, settings: Mapping[str, str]) -> int:
    """Return ``extensions.queues.maxDequeueCount``: how often the host tries a message (H-33).

    Raises:
        ConfigurationError: it is no whole number from 1.
    """
    where, value = _queue_option("maxDequeueCount", 5, app_dir, settings)
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit() and int(text) >= 1):
        raise ConfigurationError(f"{where} is {quoted(value)}: give a whole number, at least 1")
    return int(text)


def _queue_option(name: str, default: object, app_dir: Path | None, settings: Mapping[str, str]) -> tuple[str, object]:
    """Return where an option of the queues stands, and its value; an app setting stands over host.json (H-31)."""
    where, value = f"host.json: extensions.queues.{name}", default
    for key, given in _in_host_json(app_dir):
        if key.casefold() == name.casefold():
            value = given
    for spelt, key, text in section(settings, "AzureFunctionsJobHost__extensions__queues"):
        if key.casefold() == name.casefold():
            where, value = f"app setting {spelt}", text
    return where, value


def _in_host_json(app_dir: Path | None) -> list[tuple[str, object]]:
    if app_dir is None:
        return []
    from singleton.hostjson import section_entries

    for name, queues in section_entries(app_dir / "host.json", "extensions"):
        if name.casefold() == "queues" and isinstance(queues, dict):
            return list(queues.items())
    return []


def _resolved(text: str, what: str, settings: Mapping[str, str]) -> str:
    """Fill in each ``%SETTING%``."""

    def value(match: re.Match[str]) -> str:
        found = setting(settings, match[1])
        if found is None:
            raise ConfigurationError(f"the trigger's {what} is {quoted(text)}: there is no app setting {match[1]}")
        return found

    return re.sub(r"%([^%]+)%", value, text)

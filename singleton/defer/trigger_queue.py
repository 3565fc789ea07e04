"""Which queue a function's messages come from: its trigger's settings, resolved as the Functions host does.

The queue's account is the trigger's, which may differ from the lock's. Where two settings name an account, the host
prefers ``__accountName``, unlike for blobs (H-25).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from singleton.base.appsettings import setting
from singleton.base.errors import ConfigurationError
from singleton.base.words import as_json, quoted
from singleton.settings.connection import DEFAULT_CONNECTION
from singleton.settings.hostjson import as_text, extension_values, whole_number

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from singleton.settings.connection import StorageAccount

Encoding = Literal["base64", "none"]
"""How a queue's messages are written: the ``messageEncoding`` of host.json."""
_LONGEST_NAME: Final = 63


class TriggerQueue(NamedTuple):
    """A queue of a storage account, how the host encodes bodies in it, and how often it tries a message (H-33)."""

    account: StorageAccount
    queue: str
    encoding: Encoding = "base64"
    max_dequeue_count: int = 5


def poison_queue(queue: str) -> str | None:
    """Return where the host moves messages that failed too often (H-39); None: it moves none (H-40)."""
    name = f"{queue}-poison"
    return None if queue.endswith("-poison") or len(name) > _LONGEST_NAME else name


def trigger_queue(
    trigger: Mapping[str, Any],
    settings: Mapping[str, str],
    app_dir: Path | None,
    account_named: Callable[[str], StorageAccount],
) -> TriggerQueue:
    """Return the queue that a trigger with these settings listens to; ``account_named`` resolves its connection.

    ``ConfigurationError``: a setting is missing or wrong.
    """
    queue = _resolved(str(trigger.get("queueName") or ""), "queueName", settings).lower()  # as the host does
    connection = _resolved(str(trigger.get("connection") or ""), "connection", settings)
    account = account_named(connection.strip() or DEFAULT_CONNECTION)
    return TriggerQueue(account, queue, message_encoding(app_dir, settings), max_dequeue_count(app_dir, settings))


def message_encoding(app_dir: Path | None, settings: Mapping[str, str]) -> Encoding:
    """Return ``extensions.queues.messageEncoding`` of host.json, or of the app setting over it (H-31, H-33).

    ``ConfigurationError``: the value is neither base64 nor none; .NET also takes their numbers, 1 and 0.
    """
    where, value = _queue_option("messageEncoding", "base64", app_dir, settings)
    match (as_text(value) or "").strip().lower():
        case "base64" | "1":
            return "base64"
        case "none" | "0":
            return "none"
    raise ConfigurationError(f'{where} is {as_json(value)}: give "base64" or "none"')


def max_dequeue_count(app_dir: Path | None, settings: Mapping[str, str]) -> int:
    """Return ``extensions.queues.maxDequeueCount``: how often the host tries a message (H-33).

    ``ConfigurationError``: the value is no whole number from 1.
    """
    where, value = _queue_option("maxDequeueCount", 5, app_dir, settings)
    number = whole_number(value)
    if number is None or number < 1:
        raise ConfigurationError(f"{where} is {as_json(value)}: give a whole number of at least 1")
    return number


def _queue_option(name: str, default: object, app_dir: Path | None, settings: Mapping[str, str]) -> tuple[str, object]:
    return extension_values(app_dir, settings, "queues").get(name.casefold(), ("", default))


def _resolved(text: str, what: str, settings: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        found = setting(settings, match[1])
        if found is None:
            raise ConfigurationError(
                f"the trigger's {what} is {quoted(text)}: there is no app setting {match[1]}: set it"
            )
        return found

    return re.sub(r"%([^%]+)%", value, text)

"""The Functions host's names for what comes with a message, and the attributes under which Python has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAMES = (
    *("ApplicationProperties", "ContentType", "CorrelationId", "DeadLetterErrorDescription", "DeadLetterReason"),
    *("DeadLetterSource", "DeliveryCount", "DequeueCount", "EnqueuedSequenceNumber", "EnqueuedTimeUtc"),
    *("ExpirationTime", "ExpiresAtUtc", "Id", "InsertionTime", "Key", "Label", "LockToken", "LockedUntil", "MessageId"),
    *("NextVisibleTime", "Offset", "Partition", "PartitionKey", "PopReceipt", "ReplyTo", "ReplyToSessionId"),
    *("ScheduledEnqueueTimeUtc", "SequenceNumber", "SessionId", "State", "Subject", "TimeToLive", "Timestamp", "To"),
    *("Topic", "TransactionPartitionKey", "UserProperties"),
)
_SPELT_OTHERWISE = {"NextVisibleTime": "time_next_visible"}
ON_EVENTS = {"EnqueuedTimeUtc": "enqueued_time", "Properties": "properties", "SystemProperties": "system_properties"}


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).removeprefix("_")


ATTRIBUTES = {name: _SPELT_OTHERWISE.get(name, _snake(name)) for name in _NAMES}


def held(value: object, attributes: Mapping[str, str]) -> dict[str, object]:
    """Return what the object has of these attributes, by the host's names for them."""
    found = {name: getattr(value, attribute, None) for name, attribute in attributes.items()}
    return {name: each for name, each in found.items() if each is not None}

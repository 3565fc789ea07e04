"""The properties of a message: the Functions host's names for them, and which of them belong to the message itself.

The host lets the top-level properties of a JSON object win over the properties of the message, whatever their case:
with a body of ``{"Id": "k"}`` the message's ``id`` is ``k`` (H-80). Null and lists replace nothing, and nothing does
where the trigger asks for bytes. A name that the body has is not trusted, whatever stands there.

``received`` reads all that ``"defer"`` needs to put a storage queue's message back: id, receipt, and when the message
ends. If the body hides some of that, the message goes back without.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError, ScopeError
from singleton.base.forks import importing
from singleton.base.json_values import read_json

if TYPE_CHECKING:
    from datetime import datetime

    from singleton.defer.deferral import Received
    from singleton.defer.trigger_queue import Encoding
    from singleton.functions.triggers import Trigger

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
_NO_END: Final = 9000  # messages that never expire do so in the year 9999
_REPLACED: Final = "\N{REPLACEMENT CHARACTER}".encode()


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name).removeprefix("_")


ATTRIBUTES = {name: _SPELT_OTHERWISE.get(name, _snake(name)) for name in _NAMES}


def held(value: object, attributes: Mapping[str, str]) -> dict[str, object]:
    """Return the object's values of ``attributes`` that are not None, by the host's names."""
    found = {name: getattr(value, attribute, None) for name, attribute in attributes.items()}
    return {name: each for name, each in found.items() if each is not None}


def is_binary(trigger: Trigger | None) -> bool:
    """Tell whether the trigger asks for bytes: then the host does not look into the body."""
    kind = None if trigger is None else trigger.settings.get("dataType")
    return str(getattr(kind, "name", kind)).upper() in {"BINARY", "STREAM"}


def replaced_names(message: Any, trigger: Trigger | None = None) -> frozenset[str]:
    """Return the attributes of a message that are, or may be, its body's. An unknown trigger may ask for text."""
    theirs = _properties(message, trigger)
    return frozenset(attribute for name, attribute in ATTRIBUTES.items() if name.casefold() in theirs)


def own(message: object, attribute: str, replaced: frozenset[str]) -> Any:
    """Return an attribute of the message itself; None: no value, or the body replaces the value."""
    return None if attribute in replaced else getattr(message, attribute, None)


def own_id(message: object, trigger: Trigger | None = None) -> str | None:
    """Return the id of the message itself, of an event its sequence number; None: no id, or it may be the body's."""
    theirs = _properties(message, trigger)
    for name in ("id", "message_id", "sequence_number"):
        shown = getattr(message, name, None)
        text = shown.decode("utf-8", "replace") if isinstance(shown, bytes) else str(shown)
        if isinstance(shown, str | bytes | int) and text and not _may_be_bodys(text, name.replace("_", ""), theirs):
            return text
    return None


def _may_be_bodys(shown: str, name: str, theirs: Mapping[str, list[object]] | str) -> bool:
    """Tell whether the host may have taken what it shows for ``name`` from the body; an object it shows as JSON."""
    if isinstance(theirs, str):
        return name in theirs
    return any(shown.startswith("{") if isinstance(value, Mapping) else value != "" for value in theirs.get(name, ()))


def _properties(message: Any, trigger: Trigger | None) -> Mapping[str, list[object]] | str:
    """Return what the body's object has, by names in lower case; of what only the host may read, the whole text.

    It reads more than JSON: comments, single quotes, names without quotes. An SDK's message shows nothing of its body.
    """
    body = message.get_body() if hasattr(message, "get_body") and not is_binary(trigger) else None
    if not isinstance(body, str | bytes):
        return {}
    try:
        read = read_json(body)
    except ScopeError:
        text = (body if isinstance(body, str) else body.decode("utf-8", "replace")).strip().casefold()
        return text if text.startswith("{") and text.endswith("}") else {}
    theirs: dict[str, list[object]] = {}
    for name, value in read.items() if isinstance(read, Mapping) else ():
        if not (value is None or isinstance(value, list)):
            theirs.setdefault(name.casefold(), []).append(value)
    return theirs


def is_whole(message: Any, trigger: Trigger) -> bool:
    """Tell whether a message came with id and receipt, or with a body that replaces them."""
    given = {name: getattr(message, name, None) for name in ("id", "pop_receipt")}
    if not callable(getattr(message, "get_body", None)) or not all(isinstance(each, str) for each in given.values()):
        return False
    blank = {name for name, value in given.items() if not value}
    return not blank or blank <= replaced_names(message, trigger)


def received(function: str, trigger: Trigger, message: Any, encoding: Encoding) -> Received:
    """Read the message of an invocation. ``ConfigurationError``: its body may not be what is in the queue."""
    with importing:
        from singleton.defer.deferral import Received

    if is_damaged(message, trigger):
        raise ConfigurationError(
            f"{function} can't defer this message: its body has the character U+FFFD, with which the host replaces "
            "bytes that are no text, so it may not be what is in the queue; give the trigger "
            "data_type=func.DataType.BINARY"
        )
    body: bytes = message.get_body()
    replaced = replaced_names(message, trigger)
    known = partial(own, message, replaced=replaced)
    return Received(
        id=known("id"),
        receipt=known("pop_receipt"),
        text=base64.b64encode(body).decode() if encoding == "base64" else body.decode(),
        inserted=_instant(known("insertion_time")),
        invisible_until=_instant(known("time_next_visible")),
        expires=_end(known("expiration_time")),
        dequeue_count=None if "dequeue_count" in replaced else known("dequeue_count") or 1,
    )


def is_damaged(message: Any, trigger: Trigger) -> bool:
    """Tell whether bytes of a body may have been replaced: such a message can't be put back."""
    return _REPLACED in message.get_body() and not is_binary(trigger)


def _instant(date: datetime | None) -> float | None:
    return None if date is None else date.timestamp()


def _end(date: datetime | None) -> float | None:
    return math.inf if date is not None and date.year > _NO_END else _instant(date)

"""What may come with a message of each trigger: the names that the Functions host sends, and what their values are.

A wrong name would be a value that no function sees, and a wrong value would fail each invocation in the worker. Both
are refused before anything starts.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.work.scenario import ScenarioError
from singleton.base.words import as_json, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["text", "number", "time", "span", "object", "list"]

_WHAT: Final[Mapping[Kind, str]] = {
    "text": "a text",
    "number": "a whole number",
    "time": 'a time, such as "2026-11-24T10:30:00Z"',
    "span": 'a time span, such as "00:00:30"',
    "object": "an object",
    "list": "a list",
}
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,7})?(Z|[+-]00:00)?", re.ASCII)
_SPAN: Final = re.compile(r"([01]\d|2[0-3]):[0-5]\d:[0-5]\d", re.ASCII)
_EXTENSION: Final = re.compile(r"[a-z0-9]+", re.ASCII)
_INTEGERS: Final = range(-(2**63), 2**63)


def _all(kind: Kind, names: str) -> dict[str, Kind]:
    return dict.fromkeys(names.split(), kind)


_CLOUD: Final[Mapping[str, Kind]] = {
    **_all("text", "specversion id source type subject datacontenttype dataschema"),
    "time": "time",
}
_NAMES: Final[Mapping[str, Mapping[str, Kind]]] = {
    "serviceBus": {
        **_all("text", "SessionId MessageId CorrelationId Subject Label To ReplyTo ReplyToSessionId ContentType"),
        **_all("text", "PartitionKey TransactionPartitionKey LockToken"),
        **_all("text", "DeadLetterReason DeadLetterErrorDescription DeadLetterSource"),
        **_all("number", "DeliveryCount SequenceNumber EnqueuedSequenceNumber State"),
        **_all("time", "EnqueuedTimeUtc ExpiresAtUtc LockedUntil ScheduledEnqueueTimeUtc"),
        **_all("object", "ApplicationProperties UserProperties"),
        "TimeToLive": "span",
    },
    "eventHub": {
        **_all("text", "PartitionKey Offset"),
        **_all("object", "Properties SystemProperties PartitionContext"),
        "SequenceNumber": "number",
        "EnqueuedTimeUtc": "time",
    },
    "eventGrid": {**_all("text", "id topic subject eventType dataVersion metadataVersion"), "eventTime": "time"},
    "kafka": {**_all("text", "Key Topic Timestamp"), **_all("number", "Partition Offset"), "Headers": "list"},
    "blob": {**_all("text", "path BlobTrigger Uri"), **_all("object", "Properties Metadata")},
    "cosmosDB": {},
    "sql": {},
    "mysql": {},
}
"""Of the triggers that are known here; others take what is given."""


def check_metadata(trigger: str, metadata: Mapping[str, Any], where: str) -> None:
    """See whether the host could send this metadata with a message of a trigger.

    Raises:
        ScenarioError: a name or a value of it is wrong; the message says which, and what is allowed.
    """
    known = _NAMES.get(trigger)
    cloud = trigger == "eventGrid" and "specversion" in metadata
    if cloud:
        known = _CLOUD
    if known is None:
        return
    if metadata and not known:
        raise ScenarioError(f"{where}: {trigger} has no metadata: leave it out")
    for name, value in metadata.items():
        kind = known.get(name)
        if kind is not None:
            if not _fits(kind, value):
                raise ScenarioError(f'{where}: "{name}" of its metadata is {as_json(value)}: it must be {_WHAT[kind]}')
        elif cloud and _EXTENSION.fullmatch(name) and name != "data":
            if not isinstance(value, str | int):
                raise ScenarioError(
                    f'{where}: "{name}" of its metadata is {as_json(value)}: an extension of a cloud event must be a '
                    "text, a whole number, true or false"
                )
        elif not (trigger == "eventHub" and name.startswith("iothub-") and isinstance(value, str)):
            raise ScenarioError(
                f'{where}: "{name}" of its metadata is unknown to {trigger}{did_you_mean(name, known)}; '
                f"it knows {', '.join(known)}"
            )
    _check_size(trigger, metadata, where)


def _fits(kind: Kind, value: object) -> bool:
    match kind:
        case "text":
            return isinstance(value, str)
        case "number":
            return isinstance(value, int) and not isinstance(value, bool) and value in _INTEGERS
        case "time":
            return isinstance(value, str) and _TIME.fullmatch(value) is not None and _is_time(value)
        case "span":
            return isinstance(value, str) and _SPAN.fullmatch(value) is not None
        case "object":
            return isinstance(value, dict)
        case "list":
            return isinstance(value, list)


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text[:19])
    except ValueError:
        return False
    return True


def _check_size(trigger: str, metadata: Mapping[str, Any], where: str) -> None:
    """See whether the length of a blob is a number, as the worker reads it."""
    properties = metadata.get("Properties", {}) if trigger == "blob" else {}
    for name in ("ContentLength", "Length"):
        value = properties.get(name)
        if value is not None and not _fits("number", value):
            raise ScenarioError(
                f'{where}: "Properties.{name}" of its metadata is {as_json(value)}: it must be a whole number'
            )

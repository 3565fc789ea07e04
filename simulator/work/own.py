"""The user's own messages, deliveries and requests: a JSON file, read before anything starts.

{"queue": "orders", "body": {"Id": 7}}                                          a message of a queue
{"function": "on_event", "body": {"Id": 7}, "metadata": {"PartitionKey": "a"}}  whatever triggers this function
{"function": "ship", "body": {"Id": 7}, "metadata": {"method": "POST", "route": {"id": "7"}}}    a request

The metadata have the names that the Functions host sends. A wrong name would be a value that no function sees, and a
wrong value would fail each invocation in the worker. Both are refused before anything starts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.host.triggers.bindings import path_fits
from simulator.work.request_specs import RequestSpec, own_request
from simulator.work.scenario import ScenarioError
from singleton.base.words import as_json, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from simulator.work.apps import App, AppFunction


ValueCheck = Literal["text", "number", "time", "span", "object", "list"]

_WHAT: Final[Mapping[ValueCheck, str]] = {
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


def _all(kind: ValueCheck, names: str) -> dict[str, ValueCheck]:
    return dict.fromkeys(names.split(), kind)


_CLOUD: Final[Mapping[str, ValueCheck]] = {
    **_all("text", "specversion id source type subject datacontenttype dataschema"),
    "time": "time",
}
_NAMES: Final[Mapping[str, Mapping[str, ValueCheck]]] = {
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
"""Metadata of known triggers; a trigger that is not listed takes any metadata."""


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


def _fits(kind: ValueCheck, value: object) -> bool:
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


LARGEST: Final = 48 * 1024  # bytes of a queue's body: 64 KiB in base64
LARGEST_ELSEWHERE: Final = 256 * 1024  # bytes of a message of Service Bus' standard tier
_OF_DOCUMENTS: Final = ("cosmosDB", "sql", "mysql")
_FORMS: Final = (
    'write one {"queue": "NAME", "body": …} or {"function": "NAME", "body": …, "metadata": {…}} a line, or one object '
    '{"NAME": [ … ]} in all, with the bodies of each queue'
)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message, delivery or request to send."""

    queue: str  # its source: a storage queue, or another one by its name
    body: str
    key: str  # the value of its scope, for people to read
    metadata: Mapping[str, Any] = field(default_factory=dict)  # the sender's fields beside the body
    request: RequestSpec | None = None  # what to ask, if it is a request
    own: bool = False  # whether it is the user's, and not made


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One message of a file, before it is known which app it is for."""

    where: str
    body: object
    queue: object = None
    function: object = None
    metadata: object = None


def read_own(path: Path, app: App) -> dict[str, list[Outgoing]]:
    """Read the user's own messages, by source.

    The file is either JSON lines, one message each, or one JSON object that has for each queue the list of its bodies.
    A body that is a text is sent as it is, any other as JSON.

    Raises:
        ScenarioError: the file can't be read, or one of its messages can't be sent; the message says where.
    """
    found: dict[str, list[Outgoing]] = {}
    for entry in check_messages(path):
        sent = _to_function(entry, app) if entry.function is not None else _to_queue(entry, app)
        found.setdefault(sent.queue, []).append(sent)
    return found


def check_messages(path: Path) -> list[Entry]:
    """Read a file of messages without looking at any app.

    Raises:
        ScenarioError: it can't be read, has no messages, or one of them can't be sent to anything.
    """
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"--messages {path}: it is not UTF-8 text (byte {error.start})") from error
    except OSError as error:
        raise ScenarioError(f"--messages {path}: {error.strerror or error}") from error
    found = [*_entries(text, f"--messages {path}")]
    if not found:
        raise ScenarioError(f'--messages {path}: it is empty; write a line {{"queue": "NAME", "body": …}} a message')
    for entry in found:
        _body(entry.body, entry.where, LARGEST if entry.queue is not None else LARGEST_ELSEWHERE)
    return found


def read_messages(path: Path, app: App) -> dict[str, list[str]]:
    """Read the user's own messages of an app that has storage queues only, by queue; see `read_own`."""
    return {queue: [message.body for message in messages] for queue, messages in read_own(path, app).items()}


def _entries(text: str, source: str) -> Iterator[Entry]:
    try:
        whole = json.loads(text)
    except ValueError:
        whole = None
    if isinstance(whole, dict) and not ({"queue", "body"} <= whole.keys() or "function" in whole):
        for queue, bodies in whole.items():
            if not isinstance(bodies, list):
                raise ScenarioError(f"{source}: {queue!r} must have a list of bodies: {{{json.dumps(queue)}: [ … ]}}")
            for number, body in enumerate(bodies, start=1):
                yield Entry(where=f"{source}: message {number} of {queue!r}", queue=queue, body=body)
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        where = f"{source}, line {number}"
        try:
            entry = json.loads(line)
        except ValueError as error:
            raise ScenarioError(f"{where}: not JSON ({error}); {_FORMS}") from error
        if not isinstance(entry, dict) or not ({"queue", "body"} <= entry.keys() or "function" in entry):
            raise ScenarioError(f"{where}: no object with a queue and a body, or with a function; {_FORMS}")
        if unknown := sorted(entry.keys() - {"queue", "function", "body", "metadata"}):
            raise ScenarioError(f"{where}: there is no {unknown[0]!r} in a message; {_FORMS}")
        if "queue" in entry and "function" in entry:
            raise ScenarioError(f"{where}: give a queue or a function, not both")
        yield Entry(
            where=where,
            body=entry.get("body", ""),
            queue=entry.get("queue"),
            function=entry.get("function"),
            metadata=entry.get("metadata"),
        )


def _to_queue(entry: Entry, app: App) -> Outgoing:
    """Return a message of a storage queue, or of a Service Bus queue if only that has the name."""
    queue, where = entry.queue, entry.where
    if isinstance(queue, str) and queue not in app.queues:
        for function in app.entities:
            if queue.lower() in (function.source, function.source.removeprefix("servicebus/")):
                return _delivered(entry, function)
    if isinstance(queue, str) and queue in app.queues:
        _no_metadata(entry)
        return Outgoing(queue, _body(entry.body, where, LARGEST), "")
    if isinstance(queue, str):
        for function in app.functions:
            if function.idle and queue.lower() in (function.wanted.lower(), f"servicebus/{function.wanted.lower()}"):
                raise ScenarioError(
                    f"{where}: {function.name!r}, which listens to {queue!r}, is not run: {function.idle}"
                )
    names = (each.source.removeprefix("servicebus/") for each in app.entities if each.trigger == "serviceBus")
    known = [*dict.fromkeys((*app.queues, *names))]
    if not known:
        others = [each.name for each in app.functions if each.source]
        hint = f'; for other triggers write {{"function": "{others[0]}", "body": …}}' if others else ""
        raise ScenarioError(f"{where}: the app listens to no queue{hint}")
    told = ", ".join(map(repr, known))
    raise ScenarioError(
        f"{where}: the app listens to no queue {queue!r}, but to {told}{did_you_mean(str(queue), known)}"
    )


def _to_function(entry: Entry, app: App) -> Outgoing:
    names = [function.name for function in app.functions]
    function = next((each for each in app.functions if each.name == entry.function), None)
    if function is None:
        raise ScenarioError(
            f"{entry.where}: the app has no function {entry.function!r}, but {', '.join(map(repr, names))}"
            f"{did_you_mean(str(entry.function), names)}"
        )
    if not function.source:
        why = function.idle or f"a {function.trigger} gets no messages"
        raise ScenarioError(f"{entry.where}: {function.name!r} is given nothing: {why}")
    if function.queue:
        _no_metadata(entry)
        return Outgoing(function.queue, _body(entry.body, entry.where, LARGEST), "")
    if function.route is None:
        return _delivered(entry, function)
    body = _body(entry.body, entry.where, LARGEST_ELSEWHERE)
    asked = own_request(function, body, _metadata(entry), entry.where)
    return Outgoing(function.source, body, "", request=asked)


def _delivered(entry: Entry, function: AppFunction) -> Outgoing:
    metadata = _metadata(entry)
    check_metadata(function.trigger, metadata, entry.where)
    if function.sessions and not metadata.get("SessionId"):
        raise ScenarioError(
            f'{entry.where}: {function.source} takes messages of sessions only: give "metadata": {{"SessionId": "…"}}'
        )
    path = metadata.get("path") or metadata.get("BlobTrigger")
    if function.path and path is not None and not path_fits(function.path, path):
        raise ScenarioError(
            f"{entry.where}: the blob {json.dumps(path)} does not trigger {function.name!r}: its path is "
            f"{function.path!r}"
        )
    body = _body(entry.body, entry.where, LARGEST_ELSEWHERE)
    if function.trigger in _OF_DOCUMENTS and not _is_documents(body):
        raise ScenarioError(f'{entry.where}: {function.name!r} is given documents: give "body": [{{…}}]')
    return Outgoing(function.source, body, "", metadata=metadata)


def _is_documents(text: str) -> bool:
    """Tell whether a body is what the worker makes documents or rows of: an object, or a list of objects."""
    try:
        found = json.loads(text)
    except ValueError:
        return False
    return all(isinstance(each, dict) for each in (found if isinstance(found, list) else [found]))


def _metadata(entry: Entry) -> Mapping[str, Any]:
    if entry.metadata is None:
        return {}
    if not isinstance(entry.metadata, Mapping):
        raise ScenarioError(f"{entry.where}: its metadata must be an object, not {json.dumps(entry.metadata)}")
    return entry.metadata


def _no_metadata(entry: Entry) -> None:
    if entry.metadata:
        raise ScenarioError(f"{entry.where}: a storage queue's message has no metadata of the sender's: leave it out")


def _body(body: object, where: str, most: int) -> str:
    text = body if isinstance(body, str) else json.dumps(body)
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise ScenarioError(f"{where}: its body has half a character (a lone surrogate)") from error
    if size > most:
        raise ScenarioError(f"{where}: its body has {size:,} bytes; a queue takes {most:,} at most")
    return text

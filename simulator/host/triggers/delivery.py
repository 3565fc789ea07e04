"""A delivered message, event, blob or document: its metadata, and the function's argument, by the worker's rules.

``metadata`` has the sender's fields, under the Functions host's names; missing fields are made up. As for a queue's
message, the top-level properties of a JSON body replace metadata (Service Bus, Event Hubs).

And sources: the origins of the work of a function that is neither on a timer nor on a storage queue: HTTP, Service
Bus, others.

HTTP and Service Bus are simulated by their rules. Messages of other sources follow no rules: the user's messages are
delivered unchanged, at least once.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.host.app.app_model import SettingsError
from simulator.host.app.function_index import binding_class
from simulator.host.app.settings import is_set, resolve
from simulator.host.triggers.bindings import BINARY, datum, made_path, path_names, properties, replaced_by
from singleton.base.words import did_you_mean, quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.host.app.app_model import IndexedFunction, Parameter


DeliveryWay = Literal["simulated", "delivered"]
BATCHES: Final = frozenset({"cosmosdbtrigger", "sqltrigger", "mysqltrigger"})
"""Triggers that deliver lists, with any declared cardinality."""
_SERVICE_BUS: Final = "servicebus"
_BLOB: Final = "blobtrigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a function's work.

    Attributes:
        name: equal for functions that share the source: ``http/FUNCTION``, ``servicebus/QUEUE``,
            ``servicebus/TOPIC/SUB…``, and for other triggers the trigger and the function.
        how: by the trigger's own rules, or only delivered.
        route: the template of an HTTP trigger; None for other triggers.
        methods: the methods of an HTTP trigger, in capitals; empty: every method.
        sessions: whether messages of one session come in order, one at a time.
        many: whether one delivery is a batch.
        path: of a blob trigger: the pattern of its blobs; "" for other triggers.
    """

    name: str
    how: DeliveryWay
    route: str | None = None
    methods: tuple[str, ...] = ()
    sessions: bool = False
    many: bool = False
    path: str = ""

    @property
    def is_http(self) -> bool:
        """Whether callers ask for it, and wait for an answer."""
        return self.route is not None

    def told(self) -> dict[str, Any]:
        """Return what the journal and ``--describe`` tell of it."""
        if self.is_http:
            return {"source": self.name, "how": self.how, "route": self.route, "methods": list(self.methods)}
        kinds = {"sessions": self.sessions, "many": self.many}
        where = {"path": self.path} if self.path else {}
        return {"source": self.name, "how": self.how, "queue": self.name, **kinds, **where}


def source_of(function: IndexedFunction, settings: Mapping[str, str]) -> Source:
    """Return where the work of a function comes from that is on neither a timer nor a storage queue.

    Raises:
        SettingsError: a ``%NAME%`` of its trigger has no value, or its connection has no setting.
    """
    trigger = function.trigger
    _check_connection(trigger, settings)
    match function.kind:
        case "http":
            return _http(function, settings)
        case "serviceBus" if not is_batch(trigger):
            return Source(
                name=_entity(trigger, settings),
                how="simulated",
                sessions=_says(trigger, "isSessionsEnabled", "true"),
            )
        case _:
            name = f"{function.trigger_label}/{function.name}"
            path = _path(trigger, settings)
            sessions = function.kind == "serviceBus" and _says(trigger, "isSessionsEnabled", "true")
            return Source(name=name, how="delivered", sessions=sessions, many=is_batch(trigger), path=path)


def is_batch(trigger: Parameter) -> bool:
    """Tell whether one invocation gets a list: the trigger always delivers one, or is asked to."""
    return trigger.binding.lower() in BATCHES or _says(trigger, "cardinality", "many")


def _http(function: IndexedFunction, settings: Mapping[str, str]) -> Source:
    route = function.trigger.settings.get("route")
    methods = function.trigger.settings.get("methods") or ()
    names = tuple(str(getattr(method, "value", method)).upper() for method in methods)
    text = function.name if route is None else resolve(str(route), settings, "its route")
    return Source(name=f"http/{function.name}", how="simulated", route=text or function.name, methods=names)


def _path(trigger: Parameter, settings: Mapping[str, str]) -> str:
    if trigger.binding.lower() != _BLOB:
        return ""
    return resolve(str(trigger.settings.get("path") or ""), settings, "its path").strip("/")


def _entity(trigger: Parameter, settings: Mapping[str, str]) -> str:
    """Return the name of a queue or a subscription; upper and lower case are one to Service Bus."""

    def named(key: str) -> str:
        name = resolve(str(trigger.settings.get(key) or ""), settings, f"its {key}").strip().lower()
        if not name:
            raise SettingsError(f"its {key} is empty")
        return name

    if trigger.settings.get("queueName") is not None:
        return f"{_SERVICE_BUS}/{named('queueName')}"
    return f"{_SERVICE_BUS}/{named('topicName')}/{named('subscriptionName')}"


def _check_connection(trigger: Parameter, settings: Mapping[str, str]) -> None:
    """See whether a trigger's connection is set: without it the host does not run the function (H-86)."""
    connection = trigger.settings.get("connection") or trigger.settings.get("connectionStringSetting")
    if not isinstance(connection, str):
        return
    name = resolve(connection, settings, "its connection")
    if not is_set(settings, name):
        raise SettingsError(
            f"there is no setting for its connection {quoted(name)}, so Azure does not run it either: add it to "
            "local.settings.json or to the environment; any value does here, as nothing connects there"
            f"{did_you_mean(name, settings)}"
        )


def _says(trigger: Parameter, key: str, value: str) -> bool:
    found = trigger.settings.get(key)
    return str(getattr(found, "value", found)).strip().lower() == value


LONG: Final = 14 * 86400.0
"""Seconds after which Service Bus drops a message that nobody has processed."""
_OF_EVENTS: Final = ("id", "topic", "subject", "eventType", "eventTime", "dataVersion")
_REPLACED: Final = frozenset({"servicebustrigger", "eventhubtrigger"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One delivery of a message."""

    id: str
    body: str
    metadata: Mapping[str, Any]  # the sender's fields about the message
    count: int  # the number of this delivery, from 1
    sequence: int  # the number of the message in its source
    enqueued: float  # when the message was sent, in seconds since the epoch
    token: str  # of the lock on the message
    until: float  # when the lock on the message expires without a renewal


def delivered_input(trigger: Parameter, delivery: Delivery) -> Any:
    """Return the trigger's value: an event, a message, a stream, documents; or text or bytes if it takes these.

    Raises:
        ValueError: the worker can't make one of such a body.
    """
    if trigger.converter == "generic" and trigger.binding.lower() != "blobtrigger":
        if trigger.data_type in BINARY:
            return delivery.body.encode()
        return json.dumps(_event(delivery)) if trigger.binding.lower() == "eventgridtrigger" else delivery.body
    converter = binding_class(trigger.converter)
    if converter is None or trigger.converter == "generic":
        return delivery.body.encode() if trigger.annotation is bytes or trigger.data_type in BINARY else delivery.body
    names = delivery_names(trigger, delivery)
    told = {name: _told(value) for name, value in names.items()}
    if trigger.binding.lower() in _REPLACED and trigger.data_type not in BINARY and not is_batch(trigger):
        told |= replaced_by(delivery.body, told)
    if is_batch(trigger):
        told = _of_a_batch(trigger, delivery, told)
    try:
        return converter.decode(_body(trigger, delivery), trigger_metadata=told)
    except NotImplementedError as error:  # so the converters of azure.functions refuse a body
        raise ValueError(f"the worker can't make a {trigger.binding} of this body: {error}") from error


def delivery_names(trigger: Parameter, delivery: Delivery) -> dict[str, object]:
    """Return what comes with a delivery, under the Functions host's names."""
    sent = dict(delivery.metadata)
    match trigger.binding.lower():
        case "servicebustrigger":
            return _of_service_bus(delivery) | sent
        case "eventhubtrigger":
            return _of_event_hubs(delivery) | sent
        case "kafkatrigger":
            return {"Key": "", "Partition": 0, "Offset": delivery.sequence, "Timestamp": _iso(delivery.enqueued)} | sent
        case "eventgridtrigger":
            return _event(delivery)
        case "blobtrigger":
            return _of_blob(trigger, delivery)
        case _:
            return sent


def _body(trigger: Parameter, delivery: Delivery) -> Any:
    match trigger.binding.lower():
        case "eventgridtrigger":
            return datum(json.dumps(_event(delivery)), "json")
        case "blobtrigger":
            return datum(delivery.body.encode(), "bytes")
        case "servicebustrigger" | "eventhubtrigger" | "kafkatrigger" if is_batch(trigger):
            return datum(SimpleNamespace(string=_bodies(delivery)), "collection_string")
        case "servicebustrigger" | "eventhubtrigger" | "kafkatrigger":
            return (
                datum(delivery.body.encode(), "bytes")
                if trigger.data_type in BINARY
                else datum(delivery.body, "string")
            )
        case _:
            return datum(delivery.body, "json" if _is_json(delivery.body) else "string")


def _bodies(delivery: Delivery) -> list[str]:
    """Return the bodies of a batch: the elements of a JSON list, or the only one."""
    try:
        found = json.loads(delivery.body)
    except ValueError:
        found = delivery.body
    items = found if isinstance(found, list) else [found]
    return [item if isinstance(item, str) else json.dumps(item) for item in items]


def _of_a_batch(trigger: Parameter, delivery: Delivery, told: dict[str, Any]) -> dict[str, Any]:
    """Return what comes with a batch: for each name the list of its values."""
    many = len(_bodies(delivery))
    match trigger.binding.lower():
        case "eventhubtrigger":
            own = {name: told[name].python_value for name in ("PartitionKey", "SequenceNumber", "Offset")}
            own["EnqueuedTimeUtc"] = _iso(delivery.enqueued)
            each = [{**own, "SequenceNumber": delivery.sequence + at} for at in range(many)]
            lists: dict[str, Any] = {"SystemPropertiesArray": each, "PropertiesArray": [{}] * many}
        case "servicebustrigger":
            lists = {f"{name}Array": [value.python_value] * many for name, value in told.items()}
            lists["MessageIdArray"] = [f"{delivery.id}-{at}" for at in range(many)]
        case _:
            return told
    return {name: datum(json.dumps(value), "json") for name, value in lists.items()}


def _of_service_bus(delivery: Delivery) -> dict[str, object]:
    return {
        "MessageId": delivery.id,
        "DeliveryCount": delivery.count,
        "SequenceNumber": delivery.sequence,
        "EnqueuedSequenceNumber": delivery.sequence,
        "EnqueuedTimeUtc": _date(delivery.enqueued),
        "ExpiresAtUtc": _date(delivery.enqueued + LONG),
        "LockedUntil": _date(delivery.until),
        "LockToken": delivery.token,
        "ApplicationProperties": {},
        "UserProperties": {},
    }


def _of_event_hubs(delivery: Delivery) -> dict[str, object]:
    return {
        "PartitionKey": "",
        "SequenceNumber": delivery.sequence,
        "Offset": str(delivery.sequence * 64),
        "EnqueuedTimeUtc": _date(delivery.enqueued),
        "Properties": {},
        "SystemProperties": {},
        "PartitionContext": {"PartitionId": "0"},
    }


def _event(delivery: Delivery) -> dict[str, object]:
    """Return an Event Grid event, or a cloud event if it has a ``specversion``; the body is its data."""
    try:
        data = json.loads(delivery.body)
    except ValueError:
        data = delivery.body
    sent = dict(delivery.metadata)
    if "specversion" in sent:
        made = {"id": delivery.id, "source": "/simulated", "type": "simulated", "time": _iso(delivery.enqueued)}
        return {**made, **sent, "data": data}
    told = (delivery.id, "/simulated", "simulated", "simulated", _iso(delivery.enqueued), "1.0")
    made = dict(zip(_OF_EVENTS, told, strict=True))
    return {**made, **sent, "data": data}


def _of_blob(trigger: Parameter, delivery: Delivery) -> dict[str, object]:
    """Return what comes with a blob; ``path`` (or ``BlobTrigger``) is its name with its container."""
    sent = dict(delivery.metadata)
    pattern = str(trigger.settings.get("path") or "")
    path = str(sent.pop("path", None) or sent.get("BlobTrigger") or made_path(pattern, delivery.sequence))
    size = {"Length": len(delivery.body.encode()), "ContentLength": len(delivery.body.encode())}
    made: dict[str, object] = {
        "BlobTrigger": path,
        "Uri": f"http://127.0.0.1/devstoreaccount1/{path}",
        "Properties": size,
        "Metadata": {},
    }
    return {**path_names(pattern, path), **made, **sent}


def output_names(trigger: Parameter, delivery: Delivery) -> dict[str, object]:
    """Return the names that an output's ``{names}`` may use."""
    return {**delivery_names(trigger, delivery), **properties(delivery.body)}


def _told(value: object) -> Any:
    if isinstance(value, datetime):
        return datum(json.dumps(value.strftime("%Y-%m-%dT%H:%M:%S.%fZ")), "json")
    return datum(value, "string") if isinstance(value, str) else datum(json.dumps(value), "json")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _date(instant: float) -> datetime:
    return datetime.fromtimestamp(instant, UTC)


def _iso(instant: float) -> str:
    return _date(instant).strftime("%Y-%m-%dT%H:%M:%S.%fZ")

"""What the worker passes for each kind of trigger, made by the library's own converters as the worker makes it."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

from azure.functions import meta
from azure.functions.meta import Datum

if TYPE_CHECKING:
    from collections.abc import Mapping

WHEN = "2026-11-28T12:00:00+00:00"
QUEUE = {
    "Id": Datum("m-1", "string"),
    "DequeueCount": Datum("2", "json"),
    "PopReceipt": Datum("pop", "string"),
    **{name: Datum(json.dumps(WHEN), "json") for name in ("ExpirationTime", "InsertionTime", "NextVisibleTime")},
}
SERVICE_BUS = {
    "MessageId": Datum("sb-1", "string"),
    "DeliveryCount": Datum("3", "json"),
    "SessionId": Datum("tenant-7", "string"),
    "EnqueuedTimeUtc": Datum(json.dumps("2026-11-28T12:00:00Z"), "json"),
    "UserProperties": Datum('{"tenant": "north"}', "json"),
    "ApplicationProperties": Datum('{"tenant": "north"}', "json"),
    "Topic": Datum("sent, but no attribute", "string"),
}
EVENT_HUB = {
    "EnqueuedTimeUtc": Datum(json.dumps("2026-11-28T12:00:00Z"), "json"),
    "Offset": Datum("42", "string"),
    "PartitionKey": Datum("p-1", "string"),
    "SequenceNumber": Datum("17", "json"),
    "SystemProperties": Datum('{"iothub-device": "d-1"}', "json"),
    "Properties": Datum('{"tenant": "north"}', "json"),
    "PartitionContext": Datum('{"PartitionId": "3"}', "json"),
}
KAFKA = {
    "Key": Datum("k-1", "string"),
    "Offset": Datum("42", "json"),
    "Partition": Datum("3", "json"),
    "Topic": Datum("orders", "string"),
    "Timestamp": Datum(json.dumps("2026-11-28T12:00:00Z"), "json"),
    "Headers": Datum("[]", "json"),
}
BLOB = {
    "BlobTrigger": Datum("orders/2026/first.order.json", "string"),
    "Uri": Datum(json.dumps("http://127.0.0.1:10000/devstoreaccount1/orders/2026/first.order.json"), "json"),
    "Properties": Datum('{"ContentLength": 3, "ETag": "0x1"}', "json"),
    "Metadata": Datum('{"tenant": "north"}', "json"),
}
EVENT: dict[str, object] = {
    "id": "e-1",
    "topic": "t",
    "subject": "orders/7",
    "eventType": "Order.Made",
    "eventTime": "2026-11-28T12:00:00Z",
    "dataVersion": "1",
}
CLOUD_EVENT: dict[str, object] = {
    "specversion": "1.0",
    "id": "c-1",
    "source": "/orders",
    "type": "made",
    "subject": "orders/7",
    "time": "2026-11-28T12:00:00Z",
    "tenant": "north",
}


def decoded(binding: str, data: object, kind: str, metadata: Mapping[str, Any] | None = None) -> Any:
    """Return what the binding's converter makes of the host's data."""
    registry: Any = meta.get_binding_registry  # untyped
    return registry().get(binding).decode(Datum(data, kind), trigger_metadata=metadata)


def queue_message(body: bytes = b"{}") -> Any:
    return decoded("queueTrigger", body, "bytes", QUEUE)


def service_bus_message(body: bytes = b"{}") -> Any:
    return decoded("serviceBusTrigger", body, "bytes", SERVICE_BUS)


def event_hub_event(body: bytes = b"{}") -> Any:
    return decoded("eventHubTrigger", body, "bytes", EVENT_HUB)


def kafka_event(value: bytes | str = b"{}", key: str | None = "k-1") -> Any:
    """Return an event: of a value in bytes, or of a text, which the extension hands over in an envelope."""
    if isinstance(value, bytes):
        return decoded("kafkaTrigger", value, "bytes", KAFKA)
    own = {"Offset": 42, "Partition": 3, "Topic": "orders", "Timestamp": "2026-11-28T12:00:00.000Z"}
    envelope = {**own, "Value": value, "Key": key, "Headers": [{"Key": "tenant", "Value": "bm9ydGg="}]}
    return decoded("kafkaTrigger", json.dumps(envelope), "string", KAFKA)


def tool_call(**arguments: object) -> str:
    """Return the call of an MCP tool, as the host hands it over."""
    call = {"name": "ship", "arguments": arguments, "sessionid": "s-1", "transport": {"name": "http-streamable"}}
    return str(decoded("mcpToolTrigger", json.dumps(call), "string"))


def prompt(**arguments: str) -> Any:
    """Return the call of an MCP prompt."""
    return decoded(
        "mcpPromptTrigger", json.dumps({"name": "greet", "arguments": arguments, "sessionid": "s-1"}), "json"
    )


def tick() -> Any:
    return decoded("timerTrigger", json.dumps({"Schedule": {}, "ScheduleStatus": {}, "IsPastDue": False}), "json", {})


def event_grid_event(data: object) -> Any:
    return decoded("eventGridTrigger", json.dumps({**EVENT, "data": data}), "json", {})


def cloud_event(data: object) -> Any:
    return decoded("eventGridTrigger", json.dumps({**CLOUD_EVENT, "data": data}), "json", {})


def blob(content: bytes = b"{}") -> Any:
    return decoded("blobTrigger", content, "bytes", BLOB)


def http_request(
    body: bytes = b"", *, route: Mapping[str, str] | None = None, query: Mapping[str, str] | None = None
) -> Any:
    def texts(pairs: Mapping[str, str] | None) -> dict[str, Datum]:
        return {name: Datum(value, "string") for name, value in (pairs or {}).items()}

    request = {
        "method": Datum("POST", "string"),
        "url": Datum("https://app.example/api/orders", "string"),
        "headers": texts({"X-Tenant": "north"}),
        "query": texts(query),
        "params": texts(route),
        "body": Datum(body, "bytes"),
    }
    return decoded("httpTrigger", request, "http", {})


def documents(*made: Mapping[str, object]) -> Any:
    return decoded("cosmosDBTrigger", json.dumps(made), "json", {})


def activity_input(value: object) -> Any:
    """Return the input as an orchestrator gave it, over the Durable extension and back."""
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # about types of its own
        return decoded("activityTrigger", json.dumps(value), "json", {"instanceId": Datum("i-1", "string")})

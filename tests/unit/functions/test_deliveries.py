"""What each trigger delivers, made by the library's own converters: scopes, and the names that the host has for it."""

from __future__ import annotations

import io
import json
import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import azure.functions as func
import hypothesis
import pytest
from azure.functions.meta import Datum
from azure.storage.blob import BlobClient
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from singleton import ScopeError, singleton
from tests.support import deliveries as given
from tests.support.lock_thread import an_app, guard_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from singleton.functions.guard import Guard

ORDER = {"Id": 419, "Order": {"Customer": {"Id": "c-1"}}, "Zone": "north"}
BODY = json.dumps(ORDER).encode()


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def scoped(value: object, binding: str = "", *, path: str = "", **declared: Any) -> str:
    """Return the scope's part of the lock's name; with a binding, above a trigger of that type."""

    def job(msg: Any) -> None: ...

    if binding:
        app = func.FunctionApp()
        more: dict[str, Any] = {"path": path} if path else {}
        more |= {"maxItemsPerInvocation": 1} if binding == "cosmosDBTrigger" else {}
        target: Any = singleton(**declared)(app.generic_trigger(arg_name="msg", type=binding, **more)(job))
        guard: Guard = guard_of(target._function.get_user_function())
    else:
        guard = guard_of(singleton(**declared)(job))
    return guard.call({"msg": value}, None).lock.removeprefix("locks/app/job.")


def refused(value: object, binding: str = "", **declared: Any) -> str:
    with pytest.raises(ScopeError) as caught:
        scoped(value, binding, **declared)
    return str(caught.value)


ABOVE = ["", "above"]
DELIVERED: dict[str, tuple[str, Callable[[], Any]]] = {
    "queue message": ("queueTrigger", lambda: given.queue_message(BODY)),
    "service bus message": ("serviceBusTrigger", lambda: given.service_bus_message(BODY)),
    "event hub event": ("eventHubTrigger", lambda: given.event_hub_event(BODY)),
    "kafka event of bytes": ("kafkaTrigger", lambda: given.kafka_event(BODY)),
    "kafka event of a text": ("kafkaTrigger", lambda: given.kafka_event(BODY.decode())),
    "event grid event": ("eventGridTrigger", lambda: given.event_grid_event(ORDER)),
    "cloud event": ("eventGridTrigger", lambda: given.cloud_event(ORDER)),
    "blob": ("blobTrigger", lambda: given.blob(BODY)),
    "HTTP request": ("httpTrigger", lambda: given.http_request(BODY)),
    "the only document": ("cosmosDBTrigger", lambda: given.documents(ORDER)),
    "activity input": ("activityTrigger", lambda: given.activity_input(ORDER)),
    "JSON text as activity input": ("activityTrigger", lambda: given.activity_input(BODY.decode())),
    "text": ("queueTrigger", BODY.decode),
}
WITHOUT_ENVELOPE = [kind for kind in DELIVERED if "grid" not in kind and "cloud" not in kind]


@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("kind", DELIVERED)
def test_a_scope_is_found_in_the_json_of(kind: str, above: str) -> None:
    binding, deliver = DELIVERED[kind]
    assert scoped(deliver(), above and binding, scope="Id") == "419"
    assert scoped(deliver(), above and binding, scope="Order:Customer:Id") == "c-1"
    assert "has no property 'id'" in refused(deliver(), above and binding, scope="id")


@pytest.mark.parametrize("above", ABOVE)
@pytest.mark.parametrize("kind", WITHOUT_ENVELOPE)
def test_the_bodys_properties_are_names_in_a_scope_id_of(kind: str, above: str) -> None:
    binding, deliver = DELIVERED[kind]
    assert scoped(deliver(), above and binding, scope_id="{zone}-{order.customer.id}") == "north-c-1"


# --- names that come with the payload --------------------------------------------------------------------------------


def test_a_queue_messages_names() -> None:
    message = given.queue_message(b"plain")
    assert scoped(message, scope_id="{queueTrigger}-{Id}-{dequeueCount}-{PopReceipt}") == "plain-m-1-2-pop"
    assert scoped(message, scope_id="{NextVisibleTime:yyyyMMdd}") == "20261128"


def test_a_service_bus_messages_names() -> None:
    message = given.service_bus_message(b"plain")
    assert scoped(message, scope_id="{SessionId}-{MessageId}-{DeliveryCount}") == "tenant-7-sb-1-3"
    assert scoped(message, scope_id="{ApplicationProperties.tenant}{UserProperties.tenant}") == "northnorth"
    assert scoped(message, scope_id="{EnqueuedTimeUtc:yyyyMMddHH}") == "2026112812"


def test_what_the_host_sends_beyond_the_messages_attributes_is_a_name_too() -> None:
    assert scoped(given.service_bus_message(), scope_id="{Topic}") == "sent%2C%20but%20no%20attribute"
    assert scoped(given.event_hub_event(), scope_id="{PartitionContext.PartitionId}{Properties.tenant}") == "3north"


@pytest.mark.parametrize("value", [b'{"Id": 419}', '{"Id": 419}', b"plain", "plain", "", b"", "null", "[1]"])
def test_a_kafka_events_names(value: bytes | str) -> None:
    event = given.kafka_event(value)
    assert scoped(event, scope_id="{Key}-{Offset}-{partition}-{Topic}-{Timestamp:yyyyMMdd}") == (
        "k-1-42-3-orders-20261128"
    )


def test_of_a_kafka_event_in_an_envelope_the_envelopes_names_come_first() -> None:
    event = given.kafka_event('{"Key": "theirs", "Value": "theirs", "Id": 7, "Deep": {"Id": 8}}')
    assert scoped(event, scope="Key") == scoped(event, scope_id="{Key}") == "k-1"
    assert scoped(event, scope="Deep:Id", scope_id="{Deep.Id}-{Id}") == "8-7.8"
    assert scoped(given.kafka_event("7"), scope="Value") == "7"


def test_a_kafka_event_without_a_key_or_a_value_has_no_scope_by_that() -> None:
    assert "is null: every message needs a value" in refused(given.kafka_event('{"Key": "theirs"}', None), scope="Key")
    assert "it has 'Offset', 'Partition', 'Topic'" in refused(given.kafka_event("plain"), scope="Id")


def test_a_kafka_value_that_looks_like_an_envelope_in_part_is_a_value() -> None:
    event = given.kafka_event(b'{"Topic": "theirs", "Value": "{\\"Id\\": 7}"}')
    assert scoped(event, scope="Topic") == "theirs"
    assert "has no property 'Id'; it has 'Topic', 'Value'" in refused(event, scope="Id")


def test_metadata_that_is_not_the_json_that_it_says_it_is_does_no_harm() -> None:
    broken = {**given.SERVICE_BUS, "State": Datum("{", "json")}
    message = given.decoded("serviceBusTrigger", b"{}", "bytes", {**given.SERVICE_BUS})
    message._ServiceBusMessage__trigger_metadata = broken
    assert scoped(message, scope_id="{SessionId}") == "tenant-7"
    assert "no value for {Topic}" in refused(message, scope_id="{Topic}")


def test_an_event_hub_events_names() -> None:
    event = given.event_hub_event(b"plain")
    assert scoped(event, scope_id="{PartitionKey}-{SequenceNumber}-{Offset}") == "p-1-17-42"
    assert scoped(event, scope_id="{EnqueuedTimeUtc:yyyyMMdd}") == "20261128"


def test_an_event_grid_events_names_are_the_whole_events_and_its_data_is_one_of_them() -> None:
    event = given.event_grid_event({"id": "tenant", "Zone": "north"})
    assert scoped(event, scope_id="{id}-{subject}-{eventType}") == "e-1-orders%2F7-Order%2EMade"
    assert scoped(event, scope_id="{data.id}-{data.zone}") == "tenant-north"
    assert scoped(event, scope="id") == "tenant"
    assert "the binding data has" in (message := refused(event, scope_id="{Zone}"))
    assert "'data'" in message


def test_a_cloud_events_names_and_its_extensions() -> None:
    event = given.cloud_event({"Zone": "north"})
    assert scoped(event, scope_id="{source}-{type}-{tenant}-{data.Zone}") == "%2Forders-made-north-north"


def test_a_requests_route_wins_over_its_query_and_that_over_its_body() -> None:
    body, query, route = b'{"a": "body", "b": "body", "c": "body"}', {"a": "query", "b": "query"}, {"a": "route"}
    request = given.http_request(body, route=route, query=query)
    assert scoped(request, "httpTrigger", scope_id="{a}-{b}-{c}") == "route-query-body"
    assert scoped(request, scope_id="{headers.x-tenant}-{query.a}") == "north-query"
    assert scoped(request, scope="a") == "body"


def test_the_functions_key_in_a_query_is_no_name_nor_shown() -> None:
    request = given.http_request(query={"code": "secret-key", "id": "7"})
    assert scoped(request, scope_id="{id}") == "7"
    message = refused(request, scope_id="{code}")
    assert "secret-key" not in message
    assert "no value for {code}" in message


def test_a_request_without_a_json_body_has_its_route_and_query() -> None:
    for body in (b"", b"a=1&b=2", b"\xff"):
        assert scoped(given.http_request(body, route={"id": "7"}), scope_id="{id}") == "7"
        assert "can't be parsed as JSON" in refused(given.http_request(body), scope="id")


# --- blobs -----------------------------------------------------------------------------------------------------------


def test_a_blob_is_read_for_its_scope_and_is_still_there_for_the_function() -> None:
    blob = given.blob(BODY)
    assert blob.read(3) == BODY[:3]
    blob = given.blob(BODY)
    assert scoped(blob, "blobTrigger", scope="Id") == "419"
    assert scoped(blob, "blobTrigger", scope_id="{Zone}") == "north"
    assert blob.read() == BODY


def test_a_blobs_names() -> None:
    names = "{BlobTrigger}|{Uri}|{Metadata.tenant}|{Properties.ContentLength}"
    blob = given.blob(b"not JSON")
    path = "orders%2F2026%2Ffirst%2Eorder%2Ejson"
    assert (
        scoped(blob, scope_id=names)
        == f"{path}%7Chttp%3A%2F%2F127%2E0%2E0%2E1%3A10000%2Fdevstoreaccount1%2F{path}%7Cnorth%7C3"
    )


@pytest.mark.parametrize(
    ("path", "template", "scope"),
    [
        ("orders/{name}", "{name}", "2026%2Ffirst%2Eorder%2Ejson"),
        ("orders/{year}/{name}.{ext}", "{year}-{name}-{EXT}", "2026-first%2Eorder-json"),
        ("%BOX%/{year}/{name}", "{year}", "2026"),
        ("{box}/{name}", "{box}", "orders"),
    ],
)
def test_the_parts_of_a_blobs_path_have_the_names_that_its_trigger_gives_them(
    path: str, template: str, scope: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOX", "orders")
    assert scoped(given.blob(), "blobTrigger", path=path, scope_id=template) == scope


@pytest.mark.parametrize("path", ["orders", "other/{name}", "orders/{name}.csv"])
def test_a_path_that_does_not_fit_the_blob_gives_no_names(path: str) -> None:
    assert "no value for {name}" in refused(given.blob(), "blobTrigger", path=path, scope_id="{name}")


class Unreadable(io.BytesIO):
    def read(self, _: int | None = -1) -> bytes:
        pytest.fail("the content was read")


def test_a_blob_is_not_read_for_a_name_that_its_path_or_properties_have() -> None:
    blob = given.blob(b'{"name": "of the content"}')
    blob._io = Unreadable()
    assert scoped(blob, "blobTrigger", path="orders/{year}/{name}", scope_id="{name}") == "first%2Eorder%2Ejson"
    assert scoped(blob, scope_id="{Metadata.tenant}") == "north"


def test_a_stream_that_can_be_read_only_once_is_not_read() -> None:
    class Once(io.BytesIO):
        def seekable(self) -> bool:
            return False

    assert "can be read only once" in refused(Once(BODY), scope="Id")
    assert "such as '{name}', in scope_id or key" in refused(Once(BODY), scope="Id")
    assert scoped(io.BytesIO(BODY), scope="Id") == "419"


# --- batches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("above", ABOVE)
def test_documents_can_be_scoped_one_by_one_only(above: str) -> None:
    two = given.documents(ORDER, ORDER)
    message = refused(two, above and "cosmosDBTrigger", scope="Id")
    assert "parameter msg is a batch (documents: 2), which has no single scope" in message
    assert "max_items_per_invocation=1" in message
    assert "a batch (documents: 0)" in refused(given.documents(), above and "cosmosDBTrigger", scope_id="{Id}")


def test_a_row_of_a_table_can_be_scoped_alone() -> None:
    row = {"Operation": 0, "Item": {"Id": 7}}
    assert scoped(func.SqlRowList([func.SqlRow.from_dict(row)]), scope="Item:Id") == "7"


@pytest.mark.parametrize("above", ABOVE)
def test_a_batch_of_one_message_is_refused_as_it_would_be_under_load(above: str) -> None:
    message = refused([given.service_bus_message(BODY)], above and "serviceBusTrigger", scope="Id")
    assert "a batch (messages: 1), which has no single scope: set the trigger's cardinality" in message


# --- Durable activities ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "scope"), [("c-1", "c-1"), (419, "419"), (1.5, "1%2E5"), (True, "True"), ("", None), ([1], None)]
)
def test_a_plain_activity_input_is_named_data_or_by_its_parameter(value: object, scope: str | None) -> None:
    delivered = given.activity_input(value)
    if scope is None:
        refused(delivered, "activityTrigger", scope_id="{data}")
    else:
        assert scoped(delivered, "activityTrigger", scope_id="{data}") == scope
        assert scoped(delivered, "activityTrigger", scope_id="{msg}") == scope
    assert "the body " in refused(delivered, "activityTrigger", scope="Id")


def test_a_list_as_activity_input_is_no_batch() -> None:
    assert "the body is a list, which has no property 'Id'" in refused([1, 2], "activityTrigger", scope="Id")


class Order:
    """A type of the user's, which Durable carries as its own JSON."""

    def __init__(self, order: str) -> None:
        self.order = order

    @staticmethod
    def to_json(order: Order) -> object:
        return {"Id": order.order}

    @staticmethod
    def from_json(made: Any) -> Order:
        return Order(made["Id"])


def test_an_activity_input_of_the_users_own_type_is_read_as_it_is_written() -> None:
    delivered = given.activity_input({"__class__": "Order", "__module__": __name__, "__data__": {"Id": "o-7"}})
    assert isinstance(delivered, Order)
    assert scoped(delivered, "activityTrigger", scope="Id") == "o-7"
    assert scoped(delivered, "activityTrigger", scope_id="{Id}") == "o-7"


# --- objects of the SDKs and of web frameworks -----------------------------------------------------------------------


def test_a_message_of_the_service_bus_sdk_is_read_and_named() -> None:
    message = SimpleNamespace(
        body=[BODY[:5], BODY[5:]],
        body_type="data",
        delivery_count=2,
        message_id="sb-1",
        session_id="tenant-7",
        application_properties={b"tenant": b"north"},
    )
    assert scoped(message, scope="Id") == "419"
    assert "message 'sb-1'" in refused(message, scope="Nope")
    assert scoped(message, scope_id="{SessionId}-{ApplicationProperties.Tenant}") == "tenant-7-north"


def test_an_event_of_the_event_hubs_sdk_is_read_and_named() -> None:
    event = SimpleNamespace(
        body=[BODY], body_type="data", body_as_str=BODY.decode, partition_key=b"p-1", enqueued_time=None, offset="42"
    )
    assert scoped(event, scope="Id") == "419"
    assert scoped(event, scope_id="{PartitionKey}-{Offset}") == "p-1-42"


def test_a_blob_client_has_names_and_no_content() -> None:
    client = BlobClient.from_connection_string("UseDevelopmentStorage=true", "orders", "2026/a.json")
    assert scoped(client, scope_id="{BlobTrigger}") == "orders%2F2026%2Fa%2Ejson"
    assert scoped(client, "blobTrigger", path="orders/{year}/{name}", scope_id="{year}") == "2026"
    assert "a blob client, whose content isn't downloaded for a scope" in refused(client, scope="Id")


def test_a_streamed_request_has_a_route_and_no_body_yet() -> None:
    request = SimpleNamespace(path_params={"id": "7"}, query_params={"zone": "north"}, headers={}, stream=pytest.fail)
    assert scoped(request, scope_id="{id}-{zone}") == "7-north"
    assert "a streamed request, whose body can't be read before the function reads it" in refused(request, scope="Id")


# --- hostile payloads -------------------------------------------------------------------------------------------------

SECRET = "s3cr3t"
names = st.sampled_from(["Id", "id", "data", "msg", "Name", "headers", "query", "code", "", "\ud800", "a.b", "../x"])
leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just(SECRET))
values = st.recursive(leaves, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=3))
bodies = st.one_of(st.binary(max_size=30), values.map(lambda value: json.dumps(value).encode()))
KINDS: dict[str, Callable[[bytes], Any]] = {
    "queueTrigger": given.queue_message,
    "serviceBusTrigger": given.service_bus_message,
    "eventHubTrigger": given.event_hub_event,
    "blobTrigger": given.blob,
    "httpTrigger": lambda body: given.http_request(body, route={"Id": "../~x"}, query={"Name": SECRET}),
    "eventGridTrigger": lambda body: given.event_grid_event(body.decode("latin-1")),
    "cosmosDBTrigger": lambda body: given.documents({"Id": body.decode("latin-1")}),
    "activityTrigger": lambda body: body.decode("utf-8", "surrogateescape"),
    "otherTrigger": lambda body: body,
}
CHECKED = re.compile(r"([A-Za-z0-9_~-]|%[0-9A-F]{2})+(\.([A-Za-z0-9_~-]|%[0-9A-F]{2})+)*")


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@hypothesis.given(
    st.sampled_from([*KINDS]),
    bodies,
    st.sampled_from(
        [{"scope": "Id"}, {"scope_id": "{Id}"}, {"scope_id": "x{data.Name}"}, {"scope_id": "{msg}-{Name}"}]
    ),
    st.booleans(),
)
def test_no_payload_leaves_its_place_or_fails_otherwise_than_by_saying_what_is_wrong(
    kind: str, body: bytes, declared: dict[str, str], above: bool
) -> None:
    said, name = "", "x"
    try:
        name = scoped(KINDS[kind](body), kind if above else "", **declared)
    except ScopeError as error:
        said = str(error)
    assert SECRET not in said
    assert CHECKED.fullmatch(name), name
    assert len(name) < 250

"""What functions get of deliveries: each trigger's own type, as azure-functions makes it for the real worker."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import azure.functions as func
import pytest

from simulator.expected.key import Declared, expected_key
from simulator.host.app.app_model import Parameter
from simulator.host.expected_keys import _delivered
from simulator.host.triggers.delivery import Delivery, delivered_input, output_names
from simulator.host.web.site import HttpRequest

WHEN = datetime(2026, 11, 23, 12, tzinfo=UTC)


def delivery(body: Any, **metadata: Any) -> Delivery:
    text = body if isinstance(body, str) else json.dumps(body)
    told = {"count": 2, "sequence": 7, "enqueued": WHEN.timestamp(), "token": "t-1", "until": WHEN.timestamp() + 20}
    return Delivery(id="d-1", body=text, metadata=metadata, **told)  # type: ignore[arg-type]


def trigger(binding: str, *, annotation: Any = None, **settings: Any) -> Parameter:
    plain = annotation in (str, bytes)
    return Parameter(
        name="it",
        binding=binding,
        converter="generic" if plain else binding,
        annotation=annotation,
        settings=settings,
        data_type=settings.pop("data_type", None),
    )


def test_a_service_bus_message_has_its_count_its_lock_and_what_its_sender_said() -> None:
    sent = delivery({"Id": 1}, SessionId="s-1", ApplicationProperties={"a": 1}, UserProperties={"a": 1})
    message = delivered_input(trigger("serviceBusTrigger"), sent)
    assert isinstance(message, func.ServiceBusMessage)
    assert (message.message_id, message.delivery_count, message.lock_token) == ("d-1", 2, "t-1")
    assert (message.session_id, message.sequence_number, message.enqueued_time_utc) == ("s-1", 7, WHEN)
    assert (message.get_body(), message.user_properties) == (b'{"Id": 1}', {"a": 1})


def test_the_properties_of_a_json_body_take_the_place_of_what_comes_with_it() -> None:
    message = delivered_input(trigger("serviceBusTrigger"), delivery({"messageid": "theirs"}))
    assert message.message_id == "theirs"
    message = delivered_input(trigger("serviceBusTrigger", data_type=2), delivery({"messageid": "theirs"}))
    assert message.message_id == "d-1"


def test_an_event_of_event_hubs_has_its_partition_and_a_batch_has_several() -> None:
    event = delivered_input(trigger("eventHubTrigger"), delivery("text", PartitionKey="p"))
    assert isinstance(event, func.EventHubEvent)
    assert (event.get_body(), event.partition_key, event.sequence_number) == (b"text", "p", 7)
    assert event.enqueued_time == WHEN
    events = delivered_input(trigger("eventHubTrigger", cardinality="many"), delivery([{"a": 1}, "two"]))
    assert [each.get_body() for each in events] == [b'{"a": 1}', b"two"]
    assert [each.sequence_number for each in events] == [7, 8]


def test_a_batch_of_service_bus_is_a_list_of_messages() -> None:
    messages = delivered_input(trigger("serviceBusTrigger", cardinality="many"), delivery([1, 2]))
    assert [(each.get_body(), each.message_id) for each in messages] == [(b"1", "d-1-0"), (b"2", "d-1-1")]


def test_an_event_of_event_grid_has_the_body_as_its_data() -> None:
    event = delivered_input(trigger("eventGridTrigger"), delivery({"Id": 3}, subject="orders/7"))
    assert isinstance(event, func.EventGridEvent)
    assert (event.id, event.subject, event.get_json()) == ("d-1", "orders/7", {"Id": 3})
    cloud = delivered_input(trigger("eventGridTrigger"), delivery({"Id": 3}, specversion="1.0", source="/s"))
    assert (type(cloud).__name__, cloud.source, cloud.get_json()) == ("CloudEvent", "/s", {"Id": 3})


def test_a_blob_has_the_path_that_was_said_or_one_of_its_pattern() -> None:
    where = trigger("blobTrigger", path="orders/{year}/{name}.json")
    blob = delivered_input(where, delivery("text", path="orders/2026/a.json"))
    assert (blob.name, blob.length, blob.read()) == ("orders/2026/a.json", 4, b"text")
    assert delivered_input(where, delivery("text")).name == "orders/blob-7/blob-7.json"
    assert delivered_input(trigger("blobTrigger", path="orders"), delivery("text")).name == "orders/blob-7"
    assert output_names(where, delivery("text", path="orders/2026/a.json"))["name"] == "a"
    assert delivered_input(trigger("blobTrigger", annotation=str, path="orders/{name}"), delivery("text")) == "text"
    assert delivered_input(trigger("blobTrigger", annotation=bytes, path="orders/{name}"), delivery("text")) == b"text"


def test_documents_rows_events_of_kafka_and_plain_data_are_what_the_worker_makes_of_them() -> None:
    documents = delivered_input(trigger("cosmosDBTrigger"), delivery([{"id": "1"}, {"id": "2"}]))
    assert [document["id"] for document in documents] == ["1", "2"]
    assert len(delivered_input(trigger("cosmosDBTrigger"), delivery({"id": "1"}))) == 1
    event = delivered_input(trigger("kafkaTrigger"), delivery("text", Key="k", Topic="t"))
    assert (event.get_body(), event.key, event.topic, event.offset) == (b"text", "k", "t", 7)
    assert delivered_input(trigger("anything", annotation=str), delivery("text")) == "text"
    assert delivered_input(trigger("anything", annotation=bytes, data_type=2), delivery("text")) == b"text"


@pytest.mark.parametrize(
    ("declared", "cause", "parameter", "values"),
    [
        ({"scope_id": "{SessionId}"}, delivery({"a": 1}, SessionId="s"), trigger("serviceBusTrigger"), ["s"]),
        ({"scope_id": "{SessionId}"}, delivery({"sessionId": "b"}, SessionId="s"), trigger("serviceBusTrigger"), ["b"]),
        ({"scope": "Id"}, delivery({"Id": 4}), trigger("eventHubTrigger"), ["4"]),
        (
            {"scope": "Id", "scope_id": "{subject}"},
            delivery({"Id": 4}, subject="s"),
            trigger("eventGridTrigger"),
            ["s", "4"],
        ),
        (
            {"scope_id": "{year}"},
            delivery({"year": 1}, path="o/2026/x"),
            trigger("blobTrigger", path="o/{year}/{n}"),
            ["2026"],
        ),
        (
            {"scope_id": "{id}-{zone}-{Order.Id}-{headers.x-a}"},
            HttpRequest(
                id="r",
                method="POST",
                url="",
                headers={"x-a": "h"},
                query={"zone": "q", "id": "q", "code": "key"},
                route={"id": "7"},
                body=b'{"zone": "body", "Order": {"Id": "o"}}',
            ),
            trigger("httpTrigger"),
            ["7-q-o-h"],
        ),
    ],
)
def test_the_expected_key_is_read_from_what_was_delivered(
    declared: dict[str, str], cause: object, parameter: Parameter, values: list[str]
) -> None:
    ship = Declared(function="ship", host_id="app", **declared)  # type: ignore[arg-type]
    key = expected_key(ship, _delivered(parameter, cause), {})
    assert key == json.dumps(["default", "app", "function", "ship", *values])


def test_no_key_is_expected_where_times_are_named_or_the_body_may_not_be() -> None:
    ship = Declared(function="ship", host_id="app", scope_id="{EnqueuedTimeUtc}")
    key = expected_key(ship, _delivered(trigger("serviceBusTrigger"), delivery({})), {})
    assert "not read here" in getattr(key, "reason", "")
    ship = Declared(function="ship", host_id="app", scope_id="{Id}")
    key = expected_key(ship, _delivered(trigger("eventGridTrigger"), delivery({"Zone": 1})), {})
    assert key == json.dumps(["default", "app", "function", "ship", "d-1"])
    ship = Declared(function="ship", host_id="app", scope_id="{Zone}")
    key = expected_key(ship, _delivered(trigger("eventGridTrigger"), delivery({"Zone": 1})), {})
    assert "there is no value for {Zone}" in getattr(key, "reason", "")


@pytest.mark.parametrize(
    ("body", "several"), [([{"Id": 1}, {"Id": 2}], True), ([{"Id": 1}], False), ("no list", False)]
)
def test_a_list_of_more_than_one_document_is_known_as_such(body: object, *, several: bool) -> None:
    assert _delivered(trigger("cosmosDBTrigger"), delivery(body)).several is several
    assert not _delivered(trigger("cosmosDBTrigger", annotation=str), delivery(body)).several  # it is one text

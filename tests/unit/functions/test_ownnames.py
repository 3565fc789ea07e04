"""Which of a message's own names are to be trusted: those that its body does not have."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import azure.functions as func
import pytest

from singleton.functions.contention import Contention
from singleton.functions.message_properties import is_binary, own_id, replaced_names
from singleton.functions.triggers import Trigger

QUEUE = Trigger("queueTrigger", "msg", {})


class Delivered:
    """A message of which the worker shows all names."""

    id = message_id = "shown"
    dequeue_count = delivery_count = 3

    def __init__(self, body: object) -> None:
        self._body = body

    def get_body(self) -> Any:
        return self._body


@pytest.mark.parametrize(
    ("body", "replaced"),
    [
        (b'{"Id": "k"}', {"id"}),
        ('{"iD": 0}', {"id"}),
        (b'\xef\xbb\xbf{"id": ""}', {"id"}),
        (b'{"Id": {"a": 1}, "PopReceipt": false}', {"id", "pop_receipt"}),
        (b'{"id": null, "ID": "k"}', {"id"}),
        (b'{"Id": null, "DequeueCount": [1]}', set()),
        (b'{"Order": {"Id": "k"}}', set()),
        (
            b'{"dequeuecount": 1, "InsertionTime": 1, "ExpirationTime": 1, "NEXTVISIBLETIME": 1}',
            {"dequeue_count", "insertion_time", "expiration_time", "time_next_visible"},
        ),
        (b'{"MessageId": 1, "DeliveryCount": 1}', {"message_id", "delivery_count"}),
        (b'[{"Id": "k"}]', set()),
        (b'"Id"', set()),
        (b"Id", set()),
        (b"", set()),
        (b"\xff\xfe", set()),
        (b'{"Id": ' * 100_000, set()),
        (b'{"N": ' + b"9" * 100_000 + b"}", set()),
        (None, set()),
        (7, set()),
    ],
)
def test_a_name_that_the_body_has_is_not_the_messages_own(body: object, replaced: set[str]) -> None:
    assert replaced_names(Delivered(body)) == replaced


@pytest.mark.parametrize("body", [b"{'Id': 'k'}", b'{Id: "k", /* so */ }', b'{"Id": 01}'])
def test_what_only_the_host_may_read_is_not_trusted(body: bytes) -> None:
    assert replaced_names(Delivered(body)) == {"id"}


def test_a_body_that_is_nested_too_deeply_breaks_nothing() -> None:
    assert replaced_names(Delivered(b'{"Id":' * 100_000 + b"1" + b"}" * 100_000)) == {"id"}


@pytest.mark.parametrize("kind", [func.DataType.BINARY, "binary", func.DataType.STREAM])
def test_where_bytes_are_asked_for_all_names_are_the_messages(kind: object) -> None:
    trigger = Trigger("queueTrigger", "msg", {"dataType": kind})
    assert is_binary(trigger)
    assert replaced_names(Delivered(b'{"Id": "k"}'), trigger) == frozenset()


def test_a_mock_has_whatever_it_says() -> None:
    assert replaced_names(Mock()) == frozenset()
    assert own_id(Mock(id="m-1"), "id", "message_id") == "m-1"
    assert own_id(Mock(), "id", "message_id") is None


def contention(body: object) -> tuple[str | None, int]:
    call: Any = Mock(arguments={"msg": Delivered(body)}, function="job", lock="lock", owner="inv-1")
    known, unknown = Contention.over(call, QUEUE), Contention.over(call, None)
    assert known == unknown
    return known.message_id, known.dequeue_count


def test_a_policy_is_told_the_messages_own_id_and_count_or_none() -> None:
    assert contention(b'{"Key": "k"}') == ("shown", 3)
    assert contention(b'{"Id": "k", "MessageId": "k"}') == (None, 3)
    assert contention(b'{"dequeueCount": 9, "DeliveryCount": 9}') == ("shown", 0)
    assert contention(None) == ("shown", 3)


def test_a_policy_is_told_the_delivery_count_of_a_service_bus_message() -> None:
    received = Mock(spec=["get_body", "message_id", "delivery_count"], message_id="m-1", delivery_count=3)
    received.get_body.return_value = b"{}"
    call: Any = Mock(arguments={"msg": received}, function="job", lock="lock", owner="inv-1")
    asked = Contention.over(call, Trigger("serviceBusTrigger", "msg", {}))
    assert (asked.message_id, asked.dequeue_count) == ("m-1", 3)

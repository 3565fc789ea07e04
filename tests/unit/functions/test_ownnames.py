"""Which of a message's own names are to be trusted: those that its body does not have."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import azure.functions as func
import pytest

from singleton import ScopeError, once, singleton
from singleton.functions.contention import Contention
from singleton.functions.message_properties import is_binary, own_id, replaced_names
from singleton.functions.triggers import ONCE_MARK, Trigger
from tests.support import deliveries as given
from tests.support.lock_thread import an_app, guard_of

if TYPE_CHECKING:
    from pathlib import Path

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
    assert own_id(Mock(id="m-1")) == "m-1"
    assert own_id(Mock()) is None


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


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def over(message: Any, binding: str) -> list[tuple[str | None, int]]:
    """Return what a policy is told of a message, by the trigger and without."""
    call: Any = Mock(arguments={"msg": message}, function="job", lock="lock", owner="inv-1")
    told = [Contention.over(call, trigger) for trigger in (Trigger(binding, "msg", {}), None)]
    return [(each.message_id, each.dequeue_count) for each in told]


def test_a_policy_is_told_id_and_count_of_the_messages_of_the_sdks() -> None:
    bus: dict[str, Any] = {"body": [b'{"MessageId": "theirs"}'], "body_type": "data", "delivery_count": 3}
    named = SimpleNamespace(**bus, message_id="m-1", sequence_number=17)
    assert over(named, "serviceBusTrigger") == [("m-1", 3)] * 2
    unnamed = SimpleNamespace(**bus, message_id=None, sequence_number=17)
    assert over(unnamed, "serviceBusTrigger") == [("17", 3)] * 2
    hub: dict[str, Any] = {"body": [b"{}"], "body_type": "data", "body_as_str": str, "sequence_number": 17}
    assert over(SimpleNamespace(**hub, message_id=None), "eventHubTrigger") == [("17", 0)] * 2
    assert over(SimpleNamespace(**hub, message_id=b"m-2"), "eventHubTrigger") == [("m-2", 0)] * 2


def test_a_policy_is_told_the_id_of_each_kind_of_message_that_has_one() -> None:
    assert over(given.queue_message(), "queueTrigger") == [("m-1", 2)] * 2
    assert over(given.service_bus_message(), "serviceBusTrigger") == [("sb-1", 3)] * 2
    assert over(given.event_hub_event(), "eventHubTrigger") == [("17", 0)] * 2
    assert over(given.event_grid_event({}), "eventGridTrigger") == [("e-1", 0)] * 2
    assert over(given.cloud_event({}), "eventGridTrigger") == [("c-1", 0)] * 2
    for other in (given.http_request(), given.blob(), given.documents({}), "{}", given.tick(), [given.queue_message()]):
        assert over(other, "otherTrigger") == [(None, 0)] * 2


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"{}", True),
        (b'{"Id": null, "id": [1]}', True),
        (b'{"Id": {"a": 1}}', True),  # shown as JSON
        (b'{"ID": ""}', True),  # shown as nothing
        (b'{"Id": "k"}', False),
        (b'{"Id": 0}', False),
        (b'{"Id": false}', False),
        (b'{"Id": " "}', False),
        (b'{"Id": {"a": 1}, "id": "k"}', False),
        (b'{"Id": "k", "id": {"a": 1}}', False),
        (b'{"id": "", "Id": "k"}', False),
        (b"{'Id': 'k'}", False),
    ],
)
def test_an_id_is_the_messages_own_where_it_can_not_be_the_bodys(body: bytes, named: bool) -> None:
    message = given.queue_message(body)
    assert own_id(message) == ("m-1" if named else None)
    for declared in ({"scope": "Nope"}, {"scope_id": "{Nope}"}, {"scope_id": "{Deep}"}, {"scope": "Deep"}):
        with pytest.raises(ScopeError) as told:
            guard_of(singleton(**declared)(a_function)).call({"msg": message}, None)  # type: ignore[call-overload]
        assert str(told.value).count("message 'm-1'") == named


def a_function(msg: object) -> None: ...


@pytest.mark.parametrize("shown", ["", '{"a": 1}'])
def test_what_may_be_the_bodys_object_is_no_id(shown: str) -> None:
    message = Mock(spec=["get_body", "id"], id=shown)
    message.get_body.return_value = b'{"Id": {"a": 1}}'
    assert own_id(message) is None


@pytest.mark.parametrize(
    ("message", "name"),
    [
        (given.queue_message(), "m-1"),
        (given.service_bus_message(), "sb-1"),
        (given.event_hub_event(), "17"),
        (given.event_grid_event({}), "e-1"),
        (given.cloud_event({}), "c-1"),
        (given.blob(), "orders/2026/first.order.json"),
        (SimpleNamespace(body=[b"{}"], body_type="data", delivery_count=1, message_id="sb-2"), "sb-2"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
@pytest.mark.parametrize(
    "declared",
    [
        {"scope": "Nope"},
        {"scope_id": "{Nope}"},
        {"scope_id": "{Nope}", "scope": "Id"},
        {"scope_id": "{Nope}", "layout": "webjobs"},
        {"scope": "Nope", "layout": "dequeueable"},
    ],
)
def test_each_error_about_a_scope_names_the_message(message: Any, name: str, declared: dict[str, Any]) -> None:
    with pytest.raises(ScopeError) as told:
        guard_of(singleton(**declared)(a_function)).call({"msg": message}, None)
    assert str(told.value).count(f"message {name!r}") == 1


def test_each_error_about_a_key_names_the_message() -> None:
    for key in ("Nope", "{Nope}"):
        guard = getattr(once(key=key)(a_function), ONCE_MARK)()
        with pytest.raises(ScopeError, match="message 'm-1'"):
            guard.call({"msg": given.queue_message()}, None)

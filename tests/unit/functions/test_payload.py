"""Payloads and scopes: from what the worker passes to the name of the lock (D-10 to D-17, W-35 to W-43, H-47)."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

import azure.functions as func
import pytest
from azure.functions.eventgrid import EventGridEventInConverter
from azure.functions.queue import QueueMessage
from azure.functions.servicebus import ServiceBusMessage

from singleton import ScopeError, singleton
from singleton.decorator import guards_of
from singleton.functions.payload import BindingData, find_payload
from singleton.functions.triggers import ToolCall, Trigger
from tests.support.lock_thread import Context, an_app

if TYPE_CHECKING:
    from pathlib import Path

    from singleton.functions.guard import Guard

BODY = b'{"Id": 419, "Order": {"Customer": {"Id": "c-1"}}, "Zone": "north"}'
LATER = datetime(2026, 11, 28, 12, 0, tzinfo=UTC)
QUEUE = Trigger("queueTrigger", "msg", {})


@pytest.fixture(autouse=True)
def _app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


def queue_message(body: bytes = BODY, **changes: Any) -> QueueMessage:
    """Return the message that the worker makes, which knows more than ``func.QueueMessage``."""
    known = {
        "id": "m-1",
        "dequeue_count": 2,
        "expiration_time": LATER,
        "insertion_time": LATER,
        "time_next_visible": LATER,
        "pop_receipt": "pop",
    }
    kind: Any = QueueMessage
    made: QueueMessage = kind(body=body, **known | changes)
    return made


def service_bus_message(body: bytes = BODY) -> ServiceBusMessage:
    return ServiceBusMessage(body=body, message_id="sb-1", application_properties={}, user_properties={})


def event_grid_event() -> func.EventGridEvent:
    return func.EventGridEvent(
        id="e-1", data=json.loads(BODY), topic="t", subject="s", event_type="y", event_time=None, data_version="1"
    )


def http_request(body: bytes = BODY) -> func.HttpRequest:
    return func.HttpRequest(method="POST", url="/", body=body)


def guard(**arguments: Any) -> Guard:
    @singleton(**arguments)
    def job(msg: Any) -> None: ...

    (found,) = guards_of(job)
    return found


def lock(arguments: dict[str, Any], **declared: Any) -> str:
    """Return the lock's name for an invocation with these arguments, without the app's folder."""
    return guard(**declared).call(arguments, None).lock.removeprefix("locks/app/")


def refusal(arguments: dict[str, Any], **declared: Any) -> str:
    with pytest.raises(ScopeError) as caught:
        guard(**declared).call(arguments, None)
    return str(caught.value)


# --- kinds of payloads ----------------------------------------------------------------------------------------------

PAYLOADS: dict[str, Any] = {
    "queue message": queue_message(),
    "queue message of a test": func.QueueMessage(id="m-1", body=BODY),
    "text": BODY.decode(),
    "bytes": BODY,
    "parsed JSON": json.loads(BODY),
    "service bus message": service_bus_message(),
    "event hub event": func.EventHubEvent(body=BODY),
    "event grid event": event_grid_event(),
    "HTTP request": http_request(),
}


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_scope_is_found_in_the_json_of(kind: str) -> None:
    assert lock({"msg": PAYLOADS[kind]}, scope="Id") == "job.419"
    assert lock({"msg": PAYLOADS[kind]}, scope="Order:Customer:Id") == "job.c-1"


@pytest.mark.parametrize("kind", [kind for kind in PAYLOADS if kind != "event grid event"])
def test_a_scope_id_is_filled_from_the_json_of(kind: str) -> None:
    assert lock({"msg": PAYLOADS[kind]}, scope_id="zone-{Zone}-{order.customer.id}") == "job.zone-north-c-1"


@pytest.mark.parametrize("kind", PAYLOADS)
def test_a_path_that_is_not_there_is_a_scope_error_of(kind: str) -> None:
    assert "has no property 'Nope'; it has 'Id', 'Order', 'Zone'" in refusal({"msg": PAYLOADS[kind]}, scope="Nope")


def test_the_message_is_named_in_the_error() -> None:
    assert "message 'm-1'" in refusal({"msg": queue_message(b"{}")}, scope="Nope")
    assert "message 'sb-1'" in refusal({"msg": service_bus_message()}, scope="Nope")
    assert "message 'e-1'" in refusal({"msg": event_grid_event()}, scope="Nope")


def test_a_message_whose_body_has_an_id_is_not_called_by_that() -> None:
    assert "the body has no property" in refusal({"msg": queue_message(b'{"ID": 5}', id="5")}, scope="Nope")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "can't be parsed as JSON"),
        (b"hello", "can't be parsed as JSON"),
        (b"\xff\xfe\x00", "byte 0 is not UTF-8"),
        (b'{"Id": 1', "can't be parsed as JSON"),
        (b"[1]", "is a list, which has no property 'Id'"),
        (b'"text"', "is text, which has no property 'Id'"),
        (b"null", "is null, which has no property 'Id'"),
        (b"{}", "has no property 'Id'; it is an empty object"),
        (b'{"id": 1}', "names are case-sensitive"),
        (b'{"Id": null}', "is null: every message needs a value"),
        (b'{"Id": ""}', "is empty"),
        (b'{"Id": "  "}', "is blank"),
        (b'{"Id": {"a": 1}}', "is an object"),
        (b'{"Id": [1]}', "is a list"),
    ],
)
def test_a_body_without_a_usable_scope_is_refused_and_says_why(body: bytes, said: str) -> None:
    message = refusal({"msg": queue_message(body)}, scope="Id")
    assert said in message
    assert "hello" not in message


def test_an_event_grid_event_of_the_worker_is_read_as_well() -> None:
    assert EventGridEventInConverter.check_input_type_annotation(type(event_grid_event()))


# --- which parameter is the payload ----------------------------------------------------------------------------------


def test_a_message_goes_before_texts_of_other_bindings() -> None:
    arguments = {"blob": '{"Id": "wrong"}', "msg": queue_message(), "out": object(), "more": {"Id": "wrong"}}
    assert lock(arguments, scope="Id") == "job.419"


def test_the_only_text_is_the_payload_beside_what_is_none() -> None:
    assert lock({"out": object(), "msg": BODY.decode(), "timer": None}, scope="Id") == "job.419"


def test_two_texts_are_ambiguous_below_the_trigger_and_the_remedy_is_named() -> None:
    message = refusal({"msg": "{}", "blob": b"{}"}, scope="Id")
    assert "may be any of the parameters msg, blob" in message
    assert "put @singleton (or @once) above the trigger's decorator" in message


class Order:
    def to_json(self) -> str:
        return '{"Id": "wrong"}'


@pytest.mark.parametrize(
    "beside", [io.BytesIO(b'{"Id": "wrong"}'), [{"Id": "wrong"}], {"Id": "wrong"}, 5, True, Order()]
)
def test_a_text_beside_what_an_input_binding_may_deliver_is_ambiguous(beside: Any) -> None:
    message = refusal({"msg": BODY.decode(), "extra": beside}, scope="Id")
    assert "may be any of the parameters msg, extra" in message


def test_a_number_that_is_the_input_of_an_activity_is_its_payload() -> None:
    assert lock({"step": 5}, scope_id="{step}") == "job.5"


def test_an_object_with_two_spellings_of_a_name_has_no_value_for_it() -> None:
    message = queue_message(b'{"ref": 1, "Ref": 2, "zip": null, "Zip": 3, "no": 4, "NO": 4}')
    assert "property 'Ref' and one that differs in case" in refusal({"msg": message}, scope_id="{ref}")
    assert lock({"msg": message}, scope_id="{ZIP}-{No}") == "job.3-4"
    assert lock({"msg": message}, scope="ref") == "job.1"


def test_an_argument_of_a_tool_may_have_a_name_of_the_call_in_another_case() -> None:
    call = ToolCall({"name": "ship", "arguments": {"Name": "a"}})
    assert lock({"call": call}, scope_id="{name}") == "job.a"


def test_a_timer_has_no_payload_whatever_is_bound_beside_it() -> None:
    assert "For a timer, use scope_id" in refusal({"timer": TimerRequest(), "blob": BODY.decode()}, scope="Id")


def test_above_the_trigger_its_parameter_is_known() -> None:
    found = find_payload({"blob": '{"Id": "wrong"}', "msg": BODY.decode()}, QUEUE)
    assert found is not None
    assert found.read() == BODY.decode()


class TimerRequest:
    past_due = False


def test_a_timer_has_no_payload() -> None:
    assert find_payload({"timer": TimerRequest()}, None) is None
    assert find_payload({"timer": TimerRequest()}, Trigger("timerTrigger", "timer", {})) is None
    message = refusal({"timer": TimerRequest()}, scope="Id")
    assert "For a timer, use scope_id" in message


@pytest.mark.parametrize(
    "batch",
    [
        [queue_message(), queue_message()],
        [func.EventHubEvent(body=BODY)],
        ["{}", "{}"],
        [],
    ],
    ids=["queue messages", "events", "texts", "empty"],
)
def test_a_batch_has_no_single_scope(batch: Any) -> None:
    with pytest.raises(
        ScopeError, match=rf"parameter msg is a batch \(messages: {len(batch)}\).*cardinality"
    ) as caught:
        find_payload({"msg": batch}, QUEUE)
    assert caught.value.reason == "batch"


def test_a_batch_below_the_trigger_is_refused_too() -> None:
    assert "is a batch (messages: 1)" in refusal({"msg": [queue_message()]}, scope="Id")


# --- binding data -----------------------------------------------------------------------------------------------------


def test_a_queue_messages_own_properties_are_binding_data() -> None:
    data = BindingData(lambda: find_payload({"msg": queue_message(b"plain text")}, None))
    assert data["DequeueCount"] == 2
    assert data["id"] == "m-1"
    assert data["POPRECEIPT"] == "pop"
    assert data["QueueTrigger"] == "plain text"
    assert data["ExpirationTime"] == data["InsertionTime"] == data["NextVisibleTime"] == LATER
    assert sorted(data) == [
        *("dequeuecount", "expirationtime", "id", "insertiontime", "nextvisibletime", "popreceipt", "queuetrigger")
    ]
    assert "nope" not in data
    assert cast("str", 5) not in data
    assert len(data) == 7


def test_a_property_of_the_body_goes_before_the_messages_own() -> None:
    assert lock({"msg": queue_message()}, scope_id="{Id}") == "job.419"
    assert lock({"msg": queue_message(b"{}")}, scope_id="{Id}") == "job.m-1"


@pytest.mark.parametrize("body", [b'{"Id": null}', b'{"iD": [1]}', b'{"iD": "m-1", "ID": null}'])
def test_null_and_lists_in_the_body_take_the_place_of_nothing(body: bytes) -> None:
    """H-80."""
    assert lock({"msg": queue_message(body)}, scope_id="{Id}") == "job.m-1"
    assert "is empty" in refusal({"msg": queue_message(b'{"Zone": null}')}, scope_id="{Zone}")


def test_in_the_layout_of_dotnet_they_do_as_properties_of_a_type() -> None:
    null = lock({"msg": queue_message(b'{"Id": null}')}, scope_id="{Id}", layout="webjobs")
    assert null == lock({"msg": queue_message()}, layout="webjobs")


def test_of_a_message_in_bytes_no_property_takes_the_place_of_its_own() -> None:
    """H-80."""
    binary = replace(
        guard(scope_id="{Id}-{Zone}"), find_trigger=lambda: QUEUE._replace(settings={"dataType": "BINARY"})
    )
    assert binary.call({"msg": queue_message()}, None).lock == "locks/app/job.m-1-north"
    assert lock({"msg": queue_message(b'{"iD": 5}')}, scope_id="{Id}") == "job.5"


def test_a_body_that_is_no_json_still_has_the_messages_properties() -> None:
    for body in (b"text", b"[1]", b"\xff", b"", b"[" * 100_000):
        assert lock({"msg": queue_message(body)}, scope_id="{DequeueCount}") == "job.2"


def test_dates_are_formatted() -> None:
    assert lock({"msg": queue_message()}, scope_id="{InsertionTime:yyyyMMdd}") == "job.20261128"


@pytest.mark.parametrize("body", ["some text", b"some text"], ids=["text", "bytes"])
def test_queue_trigger_is_the_text_of_a_bare_payload(body: str | bytes) -> None:
    assert lock({"msg": body}, scope_id="{QueueTrigger}") == "job.some%20text"


def test_parsed_json_has_no_text_rather_than_the_same_for_all() -> None:
    assert "no value for {QueueTrigger}" in refusal({"msg": {"Id": 1}}, scope_id="x{QueueTrigger}")


def test_a_placeholder_that_the_message_lacks_is_a_scope_error_that_lists_what_there_is() -> None:
    message = refusal({"msg": "{}"}, scope_id="{Tenant}")
    assert "there is no value for {Tenant}" in message
    assert "queuetrigger" in message


def test_text_of_a_blob_lacks_its_path_and_the_error_says_what_has_it() -> None:
    blob = Trigger("blobTrigger", "msg", {"path": "orders/{name}"})
    found = replace(guard(scope_id="{name}"), find_trigger=lambda: blob)
    assert found.call({"msg": '{"name": "a"}'}, None).lock == "locks/app/job.a"
    with pytest.raises(ScopeError, match="it has only the names of its JSON: annotate it as"):
        found.call({"msg": "content"}, None)


def test_numbers_are_spelt_as_in_the_body_whichever_way_the_scope_is_named() -> None:
    for text in ("1.10", "1e3", "12345678901234567890", "1.0"):
        message = queue_message(f'{{"N": {text}}}'.encode())
        assert lock({"msg": message}, scope_id="{N}") == lock({"msg": message}, scope="N")


# --- names ------------------------------------------------------------------------------------------------------------


def test_a_setting_may_hold_the_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCK_SCOPE", "{Zone}")
    assert lock({"msg": queue_message()}, scope_id="%LOCK_SCOPE%") == "job.north"
    assert "no value for {Zone}" in refusal({"timer": TimerRequest()}, scope_id="%LOCK_SCOPE%")


def test_a_scope_id_of_settings_and_text_needs_no_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGION", "north")
    assert lock({"timer": TimerRequest()}, scope_id="%REGION%-import") == "job.north-import"
    assert lock({"a": "{}", "b": "{}"}, scope_id="%REGION%-import") == "job.north-import"
    assert lock({"msg": [queue_message()]}, scope_id="%REGION%-import") == "job.north-import"


def test_both_scopes_make_one_name_in_which_neither_can_pass_for_the_other() -> None:
    both = lock({"msg": '{"Id": "b"}'}, scope_id="a", scope="Id")
    assert both == "job.a.b"
    assert lock({"msg": '{"Id": "a.b"}'}, scope="Id") == "job.a%2Eb"


def test_the_functions_name_is_the_workers() -> None:
    call = guard().call({"msg": BODY}, Context("inv-7", "Renamed"))
    assert (call.lock, call.function, call.owner) == ("locks/app/Renamed", "Renamed", "inv-7")


def test_without_a_context_the_functions_own_name_counts() -> None:
    call = guard().call({"msg": BODY}, None)
    assert (call.lock, call.function, call.owner) == ("locks/app/job", "job", "")


def test_functions_of_one_host_share_the_lock_that_they_name() -> None:
    context = Context("inv-7", "Renamed")
    for function in (None, context):
        named = guard(level="host", scope="Zone").call({"msg": BODY}, function)
        assert named.lock == "locks/app/~north"


def test_the_option_host_id_goes_before_the_functions_host_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__hostId", "shared")
    assert guard().call({}, None).lock == "locks/shared/job"


def test_a_hostile_scope_stays_below_its_function() -> None:
    message = {"msg": json.dumps({"Id": "../../other/~x.y%2F"})}
    assert lock(message, scope="Id") == "job.%2E%2E%2F%2E%2E%2Fother%2F%7Ex%2Ey%252F"

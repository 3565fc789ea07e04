"""What a function takes and gives, turned by the worker's own converters."""

from __future__ import annotations

import json
import re
import typing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from simulator.host.app.function_index import index_function
from simulator.host.triggers.bindings import ScheduleStatus, queue_input, timer_input
from simulator.host.triggers.queue import QueueMessage
from simulator.host.triggers.schedule import Schedule

if typing.TYPE_CHECKING:
    from simulator.host.app.app_model import IndexedFunction, Parameter

HERE = Path(__file__).parent


def indexed(body: typing.Callable[..., Any], *outputs: str, **binding: Any) -> IndexedFunction:
    app = func.FunctionApp()
    builder: Any = body
    for name in outputs:
        builder = app.queue_output(arg_name=name, queue_name="next", connection="C")(builder)
    app.queue_trigger(arg_name="msg", queue_name="orders", connection="C", **binding)(builder)
    (function,) = app.get_functions()
    return index_function(function, HERE)


def message(body: bytes) -> QueueMessage:
    moment = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    return QueueMessage(
        id="m-1",
        text="",
        body=body,
        dequeue_count=3,
        pop_receipt="receipt",
        inserted=moment,
        expires=moment.replace(day=28),
        next_visible=moment.replace(hour=11),
    )


def trigger(body: typing.Callable[..., Any], **binding: Any) -> Parameter:
    return indexed(body, **binding).trigger


def takes_message(msg: func.QueueMessage) -> None: ...
def takes_text(msg: str) -> None: ...
def takes_bytes(msg: bytes) -> None: ...


def test_a_queue_message_has_all_that_the_real_one_has() -> None:
    given = queue_input(trigger(takes_message), message(b'{"Key": "\xc3\xa9"}'))
    assert isinstance(given, func.QueueMessage)
    assert (given.id, given.dequeue_count, given.pop_receipt) == ("m-1", 3, "receipt")
    assert given.get_json() == {"Key": "é"}
    assert given.insertion_time == datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    assert given.expiration_time == datetime(2026, 11, 28, 10, 0, tzinfo=UTC)
    assert given.time_next_visible == datetime(2026, 11, 21, 11, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ({"Id": "k", "pOpReCeIpT": "p", "DEQUEUECOUNT": "7"}, ("k", "p", 7)),
        ({"id": 1, "PopReceipt": True, "DequeueCount": 2.5}, "invalid literal for int() with base 10: '2.5'"),
        ({"id": {"a": [1]}, "PopReceipt": "2026-11-22T10:20:30Z"}, ("{'a': [1]}", "11/22/2026 10:20:30", 3)),
        ({"Id": None, "PopReceipt": [1], "Order": {"Id": "k"}}, ("m-1", "receipt", 3)),
        ({"Id": ""}, ("", "receipt", 3)),
        ([{"Id": "k"}], ("m-1", "receipt", 3)),
        ({"InsertionTime": "2026-11-22T10:20:30Z"}, "the body's own InsertionTime took the place of the message's"),
        ({"expirationtime": "soon"}, "the body's own ExpirationTime took the place of the message's"),
        ({"NextVisibleTime": 7}, "the body's own NextVisibleTime took the place of the message's"),
    ],
)
def test_a_bodys_properties_replace_the_messages_own(body: object, shown: object) -> None:
    text = json.dumps(body).encode()
    if isinstance(shown, str):
        with pytest.raises(ValueError, match=re.escape(shown)):
            queue_input(trigger(takes_message), message(text))
    else:
        given = queue_input(trigger(takes_message), message(text))
        assert (given.id, given.pop_receipt, given.dequeue_count) == shown
    assert queue_input(trigger(takes_text), message(text)) == text.decode()
    binary = queue_input(trigger(takes_message, data_type=func.DataType.BINARY), message(text))
    assert (binary.id, binary.pop_receipt, binary.dequeue_count) == ("m-1", "receipt", 3)


@pytest.mark.parametrize("body", [b"", b"{", b'{"Id": ', b'{"a":' * 100_000, b"7"])
def test_a_body_that_is_no_json_object_replaces_nothing(body: bytes) -> None:
    assert queue_input(trigger(takes_message), message(body)).id == "m-1"


def test_text_is_bare_and_bytes_need_the_data_type() -> None:
    assert queue_input(trigger(takes_text), message(b"abc")) == "abc"
    assert queue_input(trigger(takes_bytes), message(b"abc")) == "abc"
    assert queue_input(trigger(takes_bytes, data_type=func.DataType.BINARY), message(b"\xff")) == b"\xff"
    binary = queue_input(trigger(takes_message, data_type=func.DataType.BINARY), message(b"\xff"))
    assert binary.get_body() == b"\xff"


@pytest.mark.parametrize("body", [takes_message, takes_text, takes_bytes])
def test_a_body_that_is_no_text_fails_where_binary_data_is_not_asked_for(body: Any) -> None:
    with pytest.raises(UnicodeDecodeError):
        queue_input(trigger(body), message(b"\xff"))


def timer_trigger(body: typing.Callable[..., Any]) -> Parameter:
    app = func.FunctionApp()
    app.timer_trigger(arg_name="timer", schedule="0 * * * * *")(body)
    (function,) = app.get_functions()
    return index_function(function, HERE).trigger


def test_a_timer_request_knows_whether_it_is_late_and_its_schedule() -> None:
    def body(timer: func.TimerRequest) -> None: ...

    late: Any = timer_input(timer_trigger(body), ScheduleStatus(last=1.5, next=60.0, last_updated=1.5), past_due=True)
    assert issubclass(type(late), func.TimerRequest)
    assert late.past_due
    assert late.schedule_status["Next"] == "1970-01-01T00:01:00+00:00"
    plain = timer_input(timer_trigger(body), None, past_due=False)
    assert not plain.past_due
    assert plain.schedule_status == {}
    assert (plain.schedule, late.schedule) == ({"AdjustForDST": True}, {"AdjustForDST": True})


def test_a_time_span_does_not_follow_daylight_saving() -> None:
    def body(timer: func.TimerRequest) -> None: ...

    told: Any = timer_input(timer_trigger(body), None, past_due=False, adjusts=Schedule.parse("00:05:00").adjusts)
    assert told.schedule == {"AdjustForDST": False}
    assert Schedule.parse("0 * * * * *").adjusts


def test_a_schedule_status_survives_its_json() -> None:
    status = ScheduleStatus(last=1_795_256_390.000_25, next=1_795_256_400.0, last_updated=1_795_256_390.000_25)
    assert ScheduleStatus.from_json(status.to_json()) == status
    assert ScheduleStatus.from_json(ScheduleStatus().to_json()) == ScheduleStatus()


@pytest.mark.parametrize(
    ("instant", "shown"),
    [
        (1.5, "1970-01-01T00:00:01.5+00:00"),
        (60.0, "1970-01-01T00:01:00+00:00"),
        (2.000_000_1, "1970-01-01T00:00:02.0000001+00:00"),
        (0.0, "0001-01-01T00:00:00+00:00"),
    ],
)
def test_a_timer_is_told_in_the_hosts_json(instant: float, shown: str) -> None:
    def body(timer: str) -> None: ...

    told = timer_input(timer_trigger(body), ScheduleStatus(last=instant), past_due=True)
    assert told.startswith(f'{{"Schedule":{{"AdjustForDST":true}},"ScheduleStatus":{{"Last":"{shown}","Next":"0001-')
    assert told.endswith('},"IsPastDue":true}')

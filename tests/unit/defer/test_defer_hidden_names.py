"""``on_contention="defer"`` where a body has an ``Id``, a ``DequeueCount`` or the like: the host shows these (H-80)."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import LockNotAcquired, singleton
from tests.support.deferrals import LOCK, LONG_AGO, Queue, TooBad, a_function, call, failing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.lock_thread import LockThread

pytestmark = pytest.mark.usefixtures("thread")
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])
NAMED = b'{"Id": "k"}'
anyhow_named = pytest.mark.parametrize(
    "name", [".", "..", "", "k", "x" * 500, "\N{GRINNING FACE}/?#%", 7, 1.5, True, {"a": 1}], ids=repr
)
IN_VAIN = pytest.mark.parametrize(
    "body",
    [
        NAMED,
        b'{"popreceipt": "x"}',
        b'{"Id": "..", "PopReceipt": ""}',
        b'{"DequeueCount": 90}',
        b'{"Id": 1, "DequeueCount": 0}',
    ],
)


def notes(thread: LockThread) -> list[str]:
    return [name for name in thread.memory.names() if name.startswith("deferred")]


def put_back(thread: LockThread, queue: Queue, function: Callable[..., Any], message: Any) -> Any:
    """Have a message be put back; return it as it is received the next time."""
    thread.taken_by_another_process(LOCK)
    assert call(function, message) is None
    thread.given_back_by_the_other(LOCK)
    queue.ended_by_the_host()
    return queue.delivered()


# --- the message goes back --------------------------------------------------------------------------------------------


@both_kinds
@anyhow_named
def test_the_copy_goes_and_the_host_deletes_the_original(
    thread: LockThread, queue: Queue, kind: str, name: object
) -> None:
    thread.taken_by_another_process(LOCK)
    body = json.dumps({"Id": name}).encode()
    assert call(a_function(kind), queue.message(body)) is None
    assert dict(queue.store.calls) == {"now": 1, "send": 1}
    assert queue.ended_by_the_host()
    ((copy, left, dequeued),) = queue.left()
    assert (left, dequeued) == (body, 0)
    told = thread.events[-1]
    assert (told.kind, told.message_id, told.copy_id) == ("deferred", None, copy)


def test_it_stays_away_for_the_delay(thread: LockThread, queue: Queue) -> None:
    thread.taken_by_another_process(LOCK)
    call(a_function(), queue.message(NAMED))
    *_, copy = queue.store._messages.values()
    assert 7 <= copy.visible - copy.inserted <= 13


def test_with_binary_data_the_message_is_known_by_its_own_names(thread: LockThread, queue: Queue) -> None:
    thread.taken_by_another_process("locks/app/job.k")
    trigger = {"queue_name": "orders", "connection": "Orders", "data_type": func.DataType.BINARY}
    message = queue.message(NAMED, binary=True)
    assert call(a_function(trigger=trigger, scope="Id"), message) is None
    assert not queue.ended_by_the_host()
    assert thread.events[-1].message_id == message.id


def test_what_another_receiver_may_have_by_now_waits_for_its_turn(
    thread: LockThread, queue: Queue, tmp_path: Path
) -> None:
    (tmp_path / "host.json").write_text('{"singleton": {"lockAcquisitionTimeout": "00:00:00.1"}}')
    thread.taken_by_another_process(LOCK)
    with pytest.raises(LockNotAcquired):
        call(a_function(), queue.message(NAMED, next_visible=LONG_AGO))
    assert len(queue.left()) == 1
    assert "send" not in queue.store.calls


# --- its failures -----------------------------------------------------------------------------------------------------


@both_kinds
@IN_VAIN
def test_what_always_fails_is_poison_after_as_many_failures_as_any_other(
    thread: LockThread, queue: Queue, kind: str, body: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    function, message = failing(kind), queue.message(body)
    for _ in range(4):
        with pytest.raises(TooBad):
            call(function, message)
        message = put_back(thread, queue, function, queue.delivered())
    assert thread.kinds().count("poisoned") == 0
    caplog.clear()
    if b"id" in body.lower() or b"popreceipt" in body:
        assert call(function, message) is None  # a success, by which the host deletes it
        (told,) = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert told.exc_info is not None
        assert told.exc_info[0] is TooBad
        assert queue.ended_by_the_host()
    else:
        with pytest.raises(TooBad):
            call(function, message)
    assert thread.kinds().count("poisoned") == 1
    assert queue.left() == []
    assert [each for _, each, _ in queue.left("orders-poison")] == [body]
    assert notes(thread) == []


@IN_VAIN
def test_failures_of_one_delivery_after_another_go_with_the_copy(thread: LockThread, queue: Queue, body: bytes) -> None:
    function, _ = failing("sync"), queue.message(body)
    for count in range(1, 4):
        with pytest.raises(TooBad):
            function(msg=queue.delivered(count=count), context=None)
    message = put_back(thread, queue, function, queue.delivered(count=4))
    with pytest.raises(TooBad):
        call(function, message)
    assert "poisoned" not in thread.kinds()
    message = queue.delivered(count=2)
    if b"dequeuecount" in body.lower() and b"id" not in body.lower():
        with pytest.raises(TooBad):
            function(msg=message, context=None)
    else:
        assert function(msg=message, context=None) is None
    assert thread.kinds().count("poisoned") == 1


@IN_VAIN
def test_contention_alone_poisons_nothing_however_often(thread: LockThread, queue: Queue, body: bytes) -> None:
    function, message = failing("sync"), queue.message(body)
    for _ in range(20):
        message = put_back(thread, queue, function, message)
    assert notes(thread) == []
    with pytest.raises(TooBad):
        call(function, message)
    assert "poisoned" not in thread.kinds()


@IN_VAIN
def test_what_was_never_put_back_is_the_hosts_to_poison(thread: LockThread, queue: Queue, body: bytes) -> None:
    function, _ = failing("sync"), queue.message(body)
    for count in range(1, 6):
        with pytest.raises(TooBad):
            function(msg=queue.delivered(count=count), context=None)
    assert "poisoned" not in thread.kinds()
    assert len(queue.left()) == 1
    assert notes(thread) == []


def test_beside_an_output_that_refuses_none_a_failure_is_raised_and_the_host_counts(
    thread: LockThread, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleton.functions.message_deferral.may_end_as_success", lambda _: False)
    function, message = failing("sync"), queue.message(NAMED)
    for _ in range(4):
        with pytest.raises(TooBad):
            call(function, message)
        message = put_back(thread, queue, function, queue.delivered())
    with pytest.raises(TooBad):
        call(function, message)
    assert queue.left("orders-poison") == []
    assert len(queue.left()) == 1


def test_two_guards_count_one_failure_once(thread: LockThread, queue: Queue) -> None:
    app = func.FunctionApp()

    def job(msg: func.QueueMessage) -> None:
        raise TooBad

    builder = app.queue_trigger(arg_name="msg", queue_name="orders", connection="Orders")(job)
    singleton(on_contention="defer")(singleton(mode="listener")(builder))
    function = builder._function.get_user_function()
    message = queue.message(b'{"DequeueCount": 1}')
    for _ in range(2):
        with pytest.raises(TooBad):
            call(function, message)
    (note,) = notes(thread)
    assert thread.do(lambda: thread.memory.noted(note)) == {"since": "1", "last": "inv-1"}

"""``on_contention="defer"``: what becomes of invocations and their messages, and which declarations can't be kept."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import ConfigurationError, LockEvent, LockNotAcquired, holds, singleton, subscribe
from singleton.decorator import guards_of
from singleton.defer.trigger_queue import message_encoding, trigger_queue
from singleton.settings.connection import StorageAccount, resolve_queue_account
from singleton.stores.protocol import StoreFailure
from singleton.testing import memory_locks
from tests.support.deferrals import LOCK, LONG_AGO, Queue, TooBad, a_function, call, failing
from tests.support.lock_thread import FOREIGN, Context, LockThread

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from singleton.functions.contention import Contention
    from singleton.stores.message_store import Hidden

APP = """
import sys
from singleton import singleton
from singleton.runtime.lock_thread import runtime

@singleton(on_contention="POLICY")
def job(msg): ...

async def nothing(): ...

assert not {"azure.core", "azure.storage.queue", "aiohttp"} & set(sys.modules)
runtime().call(lambda _: nothing())
print("azure.storage.queue.aio" in sys.modules)
"""
pytestmark = pytest.mark.usefixtures("thread")
both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])


# --- the message goes back --------------------------------------------------------------------------------------------


@both_kinds
def test_the_message_goes_back_and_the_invocation_ends_as_a_success(
    thread: LockThread, queue: Queue, kind: str
) -> None:
    thread.taken_by_another_process(LOCK)
    message = queue.message(b'{"Key": 7}')
    assert call(a_function(kind), message) is None
    ((copy, body, dequeued),) = queue.left()
    assert (body, dequeued) == (b'{"Key": 7}', 0)
    assert copy != message.id
    assert thread.kinds() == ["waiting", "contended:defer", "deferred"]
    told = thread.events[-1]
    assert (told.message_id, told.copy_id, told.owner) == (message.id, copy, "inv-1")


@both_kinds
def test_a_free_lock_costs_the_queue_nothing(queue: Queue, kind: str) -> None:
    assert call(a_function(kind), queue.message()) is None
    assert queue.opened == []


def test_it_waits_for_its_time_out_first(thread: LockThread, queue: Queue) -> None:
    thread.taken_by_another_process(LOCK)
    call(a_function(timeout=0.05), queue.message())
    assert thread.kinds() == ["waiting", "contended:defer", "deferred"]


def test_the_delay_is_the_options_give_or_take_a_quarter(thread: LockThread, queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"singleton": {"deferDelay": "00:01:40"}}')
    thread.taken_by_another_process(LOCK)
    function = a_function()
    for _ in range(20):
        call(function, queue.message())
    delays = [each.visible - each.inserted for each in queue.store._messages.values()]
    assert all(75 <= delay <= 125 for delay in delays)
    assert len(set(delays)) > 5


def test_the_queue_is_the_triggers_and_not_the_locks(thread: LockThread, queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"extensions": {"queues": {"messageEncoding": "none"}}}')
    thread.taken_by_another_process(LOCK)
    call(a_function(connection="AzureWebJobsStorage"), queue.message())
    ((account, name),) = queue.opened
    assert name == "orders"
    assert thread.do(queue.texts) == ["{}"]  # as host.json says: not encoded
    assert "QueueEndpoint=http://127.0.0.1:10001/devstoreaccount1" in (account.connection_string or "")


@both_kinds
def test_a_policy_of_ones_own_is_told_of_the_message_and_may_defer(thread: LockThread, queue: Queue, kind: str) -> None:
    asked: list[Contention] = []

    def policy(contention: Contention) -> Any:
        asked.append(contention)
        return "defer"

    thread.taken_by_another_process(LOCK)
    message = queue.message(dequeue_count=3)
    call(a_function(kind, on_contention=policy), message)
    assert [(each.message_id, each.dequeue_count) for each in asked] == [(message.id, 3)]
    assert len(queue.left()) == 1
    assert queue.left()[0][0] != message.id


app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="Orders")
@singleton(scope_id="below", on_contention="defer")
def below(msg: func.QueueMessage) -> None: ...


def test_below_the_trigger_its_queue_is_found(thread: LockThread, queue: Queue) -> None:
    from singleton.decorator import guards_of

    function = below._function.get_user_function()
    (guard,) = guards_of(function)
    message = queue.message()
    thread.taken_by_another_process(guard.call({"msg": message}, Context()).lock)
    call(function, message)
    assert [name for _, name in queue.opened] == ["orders"]


# --- it fails, and nothing is lost ------------------------------------------------------------------------------------


@both_kinds
def test_a_message_whose_receipt_is_too_old_to_tell_whose_it_is_waits_for_its_turn(
    thread: LockThread, queue: Queue, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    thread.taken_by_another_process(LOCK)
    hide = queue.store.hide

    async def given_back_meanwhile(id: str, receipt: str, seconds: int) -> Hidden:  # noqa: A002
        await thread.memory.release(LOCK, FOREIGN)
        return await hide(id, receipt, seconds)

    queue.store.hide = given_back_meanwhile  # type: ignore[method-assign]
    message = queue.message(pop_receipt="an older one", next_visible=LONG_AGO)
    inside: list[str] = []

    def look(event: LockEvent) -> None:
        if event.kind == "body_started":  # calls of other tests' worlds may wait for the garbage collector
            inside.extend(each.lock for each in holds().held if each.lock == LOCK)

    end = subscribe(look)
    assert call(a_function(kind), message) is None
    end()
    assert inside == [LOCK], "it had given up, and holds() knows it again"
    assert thread.kinds() == ["waiting", "contended:defer", "acquired", "body_started", "body_ended:ok", "released"]
    assert [name for name, _, _ in queue.left()] == [message.id]
    assert "can't be put back: its receipt is too old" in caplog.text


@both_kinds
def test_a_message_that_can_not_be_put_back_fails_when_its_time_to_wait_is_over(
    thread: LockThread, queue: Queue, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "host.json").write_text('{"singleton": {"lockAcquisitionTimeout": "00:00:00.1"}}')
    thread.taken_by_another_process(LOCK)
    message = queue.message(pop_receipt="an older one", next_visible=LONG_AGO)
    with pytest.raises(LockNotAcquired):
        call(a_function(kind), message)
    assert [name for name, _, _ in queue.left()] == [message.id]


@pytest.mark.parametrize(
    "value", ["{}", b"{}", [], func.QueueMessage(body=b"{}")], ids=["text", "bytes", "batch", "bare"]
)
def test_what_came_without_id_and_receipt_is_refused_before_the_lock_is_asked_for(
    thread: LockThread, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=r"parameter msg is a .* Annotate the parameter as func\.QueueMessage"):
        call(a_function(), value)
    assert thread.kinds() == []


def test_where_nothing_is_locked_any_message_will_do(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"singleton": {"enabled": false}}')
    assert call(a_function(), func.QueueMessage(body=b"{}")) is None


def test_a_trigger_that_is_not_known_is_refused_with_the_remedy() -> None:
    @singleton(on_contention="defer")
    def job(msg: func.QueueMessage) -> None: ...

    with pytest.raises(ConfigurationError, match="Put @singleton above the trigger's decorator"):
        job(msg=func.QueueMessage(body=b""))


def test_a_body_that_may_not_be_what_is_in_the_queue_is_not_put_there(thread: LockThread, queue: Queue) -> None:
    thread.taken_by_another_process(LOCK)
    message = queue.message("caf\N{REPLACEMENT CHARACTER}".encode())
    with pytest.raises(ConfigurationError, match=r"U\+FFFD.*DataType.BINARY"):
        call(a_function(), message)
    assert [name for name, _, _ in queue.left()] == [message.id]


def test_bytes_go_back_as_they_were_where_the_trigger_is_binary(thread: LockThread, queue: Queue) -> None:
    thread.taken_by_another_process(LOCK)
    body = b"\xff\x00" + "\N{REPLACEMENT CHARACTER}".encode()
    trigger = {"queue_name": "orders", "connection": "Orders", "data_type": func.DataType.BINARY}
    call(a_function(trigger=trigger), queue.message(body, binary=True))
    assert [each for _, each, _ in queue.left()] == [body]


# --- a message's own failures -----------------------------------------------------------------------------------------


def fails_and_is_put_back(thread: LockThread, queue: Queue, function: Callable[..., Any], message: Any) -> Any:
    """Have a message fail once, and be put back at its next delivery; return it as it is received after that."""
    with pytest.raises(TooBad):
        call(function, message)
    thread.taken_by_another_process(LOCK)
    call(function, queue.delivered())
    thread.given_back_by_the_other(LOCK)
    return queue.delivered()


@both_kinds
def test_a_message_that_fails_and_is_put_back_in_turn_is_poison_after_as_many_failures_as_any_other(
    thread: LockThread, queue: Queue, kind: str
) -> None:
    function = failing(kind)
    message = queue.message(b"bad")
    for _ in range(4):
        message = fails_and_is_put_back(thread, queue, function, message)
        assert message.dequeue_count == 1
    assert thread.kinds().count("poisoned") == 0
    with pytest.raises(TooBad):
        call(function, message)
    assert thread.kinds().count("poisoned") == 1
    assert queue.left() == []
    assert [name for _, name in queue.opened] == ["orders", "orders-poison"]
    assert [body for _, body, _ in queue.left("orders-poison")] == [b"bad"]
    assert [name for name in thread.memory.names() if name.startswith("deferred")] == []


def test_a_poisoned_message_is_told_of_while_it_is_in_its_queue_so_who_reads_the_events_never_sees_it_nowhere(
    thread: LockThread, queue: Queue
) -> None:
    function = failing("sync")
    message = queue.message(b"bad")
    for _ in range(4):
        message = fails_and_is_put_back(thread, queue, function, message)
    left: list[tuple[int, int]] = []

    def note(event: LockEvent) -> None:
        if event.kind == "poisoned":
            left.append((len([*queue.store.messages()]), len([*queue.poison.messages()])))

    unsubscribe = subscribe(note)
    with pytest.raises(TooBad):
        call(function, message)
    unsubscribe()
    assert left == [(1, 1)]
    assert queue.left() == []


def test_a_body_that_ran_until_its_host_had_renewed_the_message_is_poison_all_the_same(
    thread: LockThread, queue: Queue
) -> None:
    function = failing("sync")
    message = queue.message(b"bad")
    for _ in range(4):
        message = fails_and_is_put_back(thread, queue, function, message)
    name, receipt = queue._last

    async def renewed() -> tuple[str, str]:
        return name, (await queue.store.hide(name, receipt, 600)).receipt

    queue._last = thread.do(renewed)
    assert call(function, message) is None  # a success, by which the host deletes it
    assert queue.ended_by_the_host()
    assert queue.left() == []
    assert [body for _, body, _ in queue.left("orders-poison")] == [b"bad"]


@both_kinds
def test_contention_alone_poisons_nothing_however_often(thread: LockThread, queue: Queue, kind: str) -> None:
    function = failing(kind)
    thread.taken_by_another_process(LOCK)
    message = queue.message(b"fine")
    for _ in range(20):
        call(function, message)
        message = queue.delivered()
    thread.given_back_by_the_other(LOCK)
    with pytest.raises(TooBad):
        call(function, message)
    assert "poisoned" not in thread.kinds()
    assert thread.memory.names() == [LOCK]


def test_a_message_that_was_never_put_back_is_the_hosts_to_poison(thread: LockThread, queue: Queue) -> None:
    with pytest.raises(TooBad):
        call(failing("sync"), queue.message(dequeue_count=5))
    assert len(queue.left()) == 1
    assert "poisoned" not in thread.kinds()


def test_a_message_that_the_host_is_about_to_poison_is_left_to_it(thread: LockThread, queue: Queue) -> None:
    function = failing("sync")
    fails_and_is_put_back(thread, queue, function, queue.message(b"bad"))
    with pytest.raises(TooBad):
        call(function, queue.delivered(count=5))
    assert "poisoned" not in thread.kinds()
    assert len(queue.left()) == 1
    assert [name for name in thread.memory.names() if name.startswith("deferred")] == []


def test_how_often_a_message_is_tried_is_host_jsons(thread: LockThread, queue: Queue, tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"extensions": {"queues": {"maxDequeueCount": 2}}}')
    function = failing("sync")
    message = fails_and_is_put_back(thread, queue, function, queue.message(b"bad"))
    with pytest.raises(TooBad):
        call(function, message)
    assert [body for _, body, _ in queue.left("orders-poison")] == [b"bad"]


def test_where_failures_can_not_be_noted_the_message_still_goes_back(
    thread: LockThread, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object) -> None:
        raise StoreFailure(503, "ServerBusy")

    thread.memory.note = refuse  # type: ignore[assignment]
    thread.memory.noted = refuse  # type: ignore[assignment]
    message = fails_and_is_put_back(thread, queue, failing("sync"), queue.message(b"bad"))
    assert message.get_body() == b"bad"
    assert "was not noted (503 ServerBusy)" in caplog.text


# --- what can't be declared -------------------------------------------------------------------------------------------


def test_only_a_queues_messages_can_be_put_back() -> None:
    app = func.FunctionApp()

    def job(msg: func.ServiceBusMessage) -> None: ...

    bus = app.service_bus_queue_trigger(arg_name="msg", queue_name="orders", connection="Orders")
    singleton(on_contention="defer")(bus(job))
    with pytest.raises(ConfigurationError, match="its trigger is a serviceBusTrigger"):
        app.get_functions()


@pytest.mark.parametrize("timeout", [241, timedelta(minutes=5)])
def test_a_wait_during_which_the_host_changes_the_receipt_is_refused(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="give at most 240 seconds"):
        a_function(timeout=timeout)
    a_function(timeout=240)


def test_without_the_queue_client_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleton.functions.deferrable.find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"\[defer\].*: add azure-storage-queue\[aio\] to "):
        a_function()
    assert importlib.util.find_spec("azure.storage.queue")


# --- where the queue is -----------------------------------------------------------------------------------------------


def test_of_two_settings_the_account_name_wins_for_queues() -> None:
    settings = {"Q__accountName": "orders", "Q__queueServiceUri": "https://other.queue.core.windows.net"}
    assert resolve_queue_account("Q", settings).account_url == "https://orders.queue.core.windows.net"
    del settings["Q__accountName"]
    assert resolve_queue_account("Q", settings).account_url == "https://other.queue.core.windows.net"


def test_a_queue_is_found_by_the_documented_short_form_of_its_address() -> None:
    settings = {"Q__serviceUri": "https://orders.queue.core.windows.net/", "Q__credential": "managedidentity"}
    trigger = {"queueName": "orders", "connection": "Q"}
    found = trigger_queue(trigger, settings, None, lambda name: resolve_queue_account(name, settings))
    assert repr(found.account) == "StorageAccount(https://orders.queue.core.windows.net by ManagedIdentityCredential)"


def test_a_signed_url_needs_no_identity_and_none_is_sent_without_encryption() -> None:
    signed = resolve_queue_account("Q", {"Q__queueServiceUri": "https://a.queue.core.windows.net/?sv=1&sig=x"})
    assert signed.credential is None
    assert "sig=" not in repr(signed)
    with pytest.raises(ConfigurationError, match="only sent over https"):
        resolve_queue_account("Q", {"Q__queueServiceUri": "http://a.queue.core.windows.net"})


@pytest.mark.parametrize("settings", [{}, {"Q__clientId": "x"}])
def test_a_connection_without_an_account_is_refused(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="Q__accountName"):
        resolve_queue_account("Q", settings)


def test_no_key_is_shown() -> None:
    assert "c2VjcmV0" not in repr(StorageAccount("AccountName=a;AccountKey=c2VjcmV0"))


def test_the_encoding_is_host_jsons_and_an_app_setting_stands_over_it(tmp_path: Path) -> None:
    (tmp_path / "host.json").write_text('{"Extensions": {"Queues": {"MessageEncoding": "None"}}}')
    name = "AzureFunctionsJobHost__extensions__queues__messageEncoding"
    assert message_encoding(None, {}) == "base64"
    assert message_encoding(tmp_path, {}) == "none"
    assert message_encoding(tmp_path, {name: "base64"}) == "base64"
    with pytest.raises(ConfigurationError, match="messageEncoding is 'utf8': give"):
        message_encoding(tmp_path, {name: "utf8"})


@pytest.mark.process
@pytest.mark.parametrize("policy", ["defer", "wait"])
def test_the_queue_client_is_imported_with_the_lock_thread_where_a_function_defers_and_else_not_at_all(
    policy: str, tmp_path: Path
) -> None:
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    (tmp_path / "app.py").write_text(APP.replace("POLICY", policy))
    done = subprocess.run([sys.executable, "app.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == (str(policy == "defer"), "")


def test_a_function_that_was_tested_with_locks_in_memory_notes_failures_where_its_locks_are_now() -> None:
    (guard,) = guards_of(a_function())
    with memory_locks():
        in_memory = guard._deferring.notes()
    assert guard._deferring.notes() != in_memory

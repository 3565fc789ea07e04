"""``@ordered`` on the functions of an app, as the worker finds and calls them."""

from __future__ import annotations

import asyncio
import inspect
import sys
import types
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import (
    AsyncLockClient,
    ConfigurationError,
    Inbox,
    InboxMessage,
    StorageUnavailable,
    current_hold,
    ordered,
)
from singleton.patterns.ordered.bells import Bell
from singleton.testing import memory, memory_locks, virtual_time
from singleton.testing.storage.memory_queue import MemoryMessageStore

if TYPE_CHECKING:
    from collections.abc import Iterator

BELL = Bell("orders", "k")


class Context:
    invocation_id = "inv-1"
    thread_local_storage = None


def queue() -> MemoryMessageStore:
    found = next(iter(memory.current().registry._queues.values()))
    assert isinstance(found, MemoryMessageStore)
    return found


def in_seconds() -> list[float]:
    now = asyncio.get_running_loop().time()
    return sorted(max(0.0, message.visible - now) for message in queue().messages())


def bell(**known: str) -> func.QueueMessage:
    return func.QueueMessage(id="m-1", body=BELL.text("none").encode(), pop_receipt="r-1", **known)


def queue_app(kind: str, order: str, body: Any, **arguments: Any) -> Any:
    """Return the function as the worker calls it."""
    app = func.FunctionApp()
    inbox = Inbox("orders")

    def ship(message: InboxMessage) -> None:
        body(message)

    async def async_ship(message: InboxMessage) -> None:
        body(message)
        await asyncio.sleep(0)

    async_ship.__name__ = "ship"
    function: Any = ship if kind == "sync" else async_ship
    trigger = app.queue_trigger(arg_name="message", queue_name="orders", connection="AzureWebJobsStorage")
    if order == "below":
        trigger(ordered(inbox, **arguments)(function))
    else:
        ordered(inbox, **arguments)(trigger(function))
    (found,) = app.get_functions()
    assert found.get_function_name() == "ship"
    return found.get_user_function()


@virtual_time
async def test_a_body_has_no_part_in_the_state_of_its_keys_lock() -> None:
    refused: list[str] = []

    def body(message: InboxMessage) -> None:
        with pytest.raises(ConfigurationError) as error:
            current_hold().state.write({"cursor": message.body})
        refused.append(str(error.value))

    function = queue_app("async", "below", body)
    await Inbox("orders").asend("k", 1)
    await function(message=bell(), context=Context())
    (said,) = refused
    assert said.startswith("lock 'inbox/orders/keys/k' keeps no state: the inbox keeps its position there.")


@pytest.mark.parametrize("order", ["below", "above"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_function_gets_the_messages_of_a_bells_key(kind: str, order: str) -> None:
    @virtual_time
    async def run() -> None:
        seen: list[Any] = []

        def body(message: InboxMessage) -> None:
            assert (current_hold().lock, current_hold().owner) == ("inbox/orders/keys/k", "inv-1")
            seen.append((message.key, message.body, message.attempt))

        function = queue_app(kind, order, body)
        for number in range(3):
            await Inbox("orders").asend("k", number)
        if kind == "sync":
            assert await asyncio.to_thread(function, message=bell(), context=Context()) is None
        else:
            assert await function(message=bell(), context=Context()) is None
        assert seen == [("k", 0, 1), ("k", 1, 1), ("k", 2, 1)]
        assert in_seconds() == [0.0], "the one that was sent, which is not this one"

    run()


def test_the_worker_is_shown_a_function_of_the_same_kind_without_our_annotation() -> None:
    for kind in ("sync", "async"):
        function = queue_app(kind, "below", print)
        assert inspect.iscoroutinefunction(function) == (kind == "async")
        parameters = inspect.signature(function).parameters
        assert [*parameters] == ["message", "context"]
        assert parameters["message"].annotation is inspect.Parameter.empty
        assert "message" not in function.__annotations__


def failing(message: InboxMessage) -> None:
    raise ValueError(message.body)


@virtual_time
async def test_an_invocation_whose_message_fails_fails_and_its_bell_is_ours_to_ring() -> None:
    function = queue_app("async", "below", failing)
    await Inbox("orders").asend("k", 0)
    queue()._messages.clear()
    with pytest.raises(ValueError, match="0"):
        await function(message=bell(), context=Context())
    assert in_seconds() == [1.0]
    assert queue().calls["delete"] == 1, "the host must not have it back, and count"
    await function(message=bell(), context=Context())  # too early: it is put off
    assert in_seconds() == [1.0, 1.0]


@virtual_time
async def test_an_invocation_fails_whose_handler_meets_trouble_of_a_storage_of_its_own() -> None:
    def troubled(message: InboxMessage) -> None:
        raise StorageUnavailable("the storage of invoices does not answer")

    function = queue_app("async", "below", troubled)
    await Inbox("orders").asend("k", 0)
    with pytest.raises(StorageUnavailable, match="invoices"):
        await function(message=bell(), context=Context())


@virtual_time
async def test_an_invocation_whose_bell_can_not_be_deleted_ends_as_a_success() -> None:
    function = queue_app("async", "below", failing)
    await Inbox("orders").asend("k", 0)
    message = func.QueueMessage(id="", body=BELL.text("none").encode(), pop_receipt="")
    assert await function(message=message, context=Context()) is None
    assert 1.0 in in_seconds()


@virtual_time
async def test_an_invocation_that_finds_its_key_in_use_ends_and_rings_later() -> None:
    function = queue_app("async", "below", failing)
    await Inbox("orders").asend("k", 0)
    queue()._messages.clear()
    async with AsyncLockClient().lock("inbox/orders/keys/k"):
        assert await function(message=bell(), context=Context()) is None
    assert in_seconds() == [1.0]


def test_without_virtual_time_it_works_in_memory_too() -> None:
    seen: list[Any] = []
    with memory_locks():
        inbox = Inbox("orders")
        inbox.send("k", {"n": 1})
        queue_app("sync", "above", lambda message: seen.append(message.body))(message=bell(), context=Context())
    assert seen == [{"n": 1}]


def test_other_parameters_are_the_workers() -> None:
    app = func.FunctionApp()
    seen: list[Any] = []

    @app.queue_trigger(arg_name="message", queue_name="orders", connection="AzureWebJobsStorage")
    @app.queue_output(arg_name="out", queue_name="shipped", connection="AzureWebJobsStorage")
    @ordered(Inbox("orders"))
    def ship(message: InboxMessage, out: func.Out[str], context: func.Context) -> None:
        seen.append((message.body, out, context.invocation_id))

    function: Any = app.get_functions()[0].get_user_function()
    with memory_locks():
        Inbox("orders").send("k", 1)
        function(message=bell(), out="out", context=Context())
    assert seen == [(1, "out", "inv-1")]
    assert function.__annotations__["out"] is not None


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_items_which_an_output_gets_lazily_are_made_under_the_keys_lock(kind: str) -> None:
    class Out(func.Out[Any]):
        value: Any = None

        def set(self, val: Any) -> None:
            self.value = val

        def get(self) -> Any:
            return self.value

    def items(message: InboxMessage) -> Iterator[str]:
        yield current_hold().lock + message.body

    @ordered(Inbox("orders"))
    def ship(message: InboxMessage, out: Any) -> None:
        out.set(items(message))

    @ordered(Inbox("orders"))
    async def ship_async(message: InboxMessage, out: Any) -> None:
        out.set(items(message))

    out = Out()
    with memory_locks():
        Inbox("orders").send("k", "!")
        if kind == "sync":
            ship(bell(), out)  # type: ignore[arg-type]
        else:
            asyncio.run(ship_async(bell(), out))  # type: ignore[arg-type]
    assert out.value == ["inbox/orders/keys/k!"]


def stepwise(message: InboxMessage) -> Any:
    yield


def test_what_can_not_be_declared_is_refused() -> None:
    app, inbox = func.FunctionApp(), Inbox("orders")
    with pytest.raises(ConfigurationError, match="needs an inbox"):
        ordered("orders")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="attempts is 0"):
        ordered(inbox, attempts=0)(failing)
    with pytest.raises(ConfigurationError, match="no parameter"):
        ordered(inbox)(lambda: None)
    with pytest.raises(ConfigurationError, match="it is a generator function"):
        ordered(inbox)(stepwise)
    ordered(inbox)(app.timer_trigger(arg_name="message", schedule="* * * * * *")(failing))
    with pytest.raises(ConfigurationError, match="use a queueTrigger"):
        app.get_functions()


def test_in_a_worker_a_wrong_declaration_fails_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure_functions_worker", types.ModuleType("azure_functions_worker"))
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__failFast", "false")
    declared: Any = ordered(Inbox("orders"), attempts=0)(failing)
    with pytest.raises(ConfigurationError, match="attempts is 0"):
        declared(message=None)


@virtual_time
async def test_a_plain_function_that_returns_a_coroutine_has_failed() -> None:
    def ship(message: InboxMessage) -> Any:
        return asyncio.sleep(0, message.body)

    function: Any = ordered(Inbox("orders"))(ship)
    await Inbox("orders").asend("k", 0)
    with pytest.raises(ConfigurationError, match="give a coroutine function"):
        await asyncio.to_thread(function, bell())
    assert await Inbox("orders").alook() == 1, "its message is still there"


def shipping(order: str, inbox: Inbox, **binding: str) -> Any:
    """Return the function of an app for an inbox and a trigger, as the worker calls it."""
    app = func.FunctionApp()
    given: dict[str, Any] = {"queue_name": "orders", "connection": "AzureWebJobsStorage", **binding}
    trigger = app.queue_trigger(arg_name="message", **given)

    def ship(message: InboxMessage) -> None: ...

    if order == "below":
        globals()["shipping_app"] = app  # as an app's module has it
        trigger(ordered(inbox)(ship))
    else:
        ordered(inbox)(trigger(ship))
    (found,) = app.get_functions()
    return found.get_user_function()


ACCOUNTS = {
    "AzureWebJobsStorage": "DefaultEndpointsProtocol=https;AccountName=app;AccountKey=a2V5",
    "Same": "DefaultEndpointsProtocol=https;AccountName=app;AccountKey=b3RoZXI=",
    "Bells": "DefaultEndpointsProtocol=https;AccountName=bells;AccountKey=a2V5",
    "Domain": "BlobEndpoint=https://files.example.com;SharedAccessSignature=sig=x",
    "Identity__accountName": "app",
    "Other__queueServiceUri": "https://bells.queue.core.windows.net",
    "Queue": "parcels",
}


@pytest.mark.parametrize("order", ["above", "below"])
@pytest.mark.parametrize(
    ("inbox", "binding", "wrong"),
    [
        (
            Inbox("orders"),
            {"queue_name": "other"},
            "queue 'other', and inbox 'orders' .* in queue 'orders'",
        ),
        (Inbox("orders"), {"queue_name": "%Queue%"}, "queue 'parcels', and"),
        (Inbox("orders", queue="bells"), {}, r"queue 'orders', and inbox 'orders' has its bells in queue 'bells'"),
        (Inbox("orders", "Bells"), {}, "the account of 'AzureWebJobsStorage', and .* the account of 'Bells'"),
        (Inbox("orders", "Other"), {}, "the account of 'AzureWebJobsStorage', and .* the account of 'Other'"),
        (Inbox("orders", ACCOUNTS["Bells"]), {}, r"the account of a connection string: give both the same"),
        (Inbox("orders", encoding="none"), {}, "messageEncoding 'base64', and .* encoding 'none'"),
    ],
    ids=["queue", "setting", "inbox", "account", "identity", "connection string", "encoding"],
)
def test_a_trigger_that_gets_no_bell_of_the_inbox_is_an_error_before_any_invocation(
    order: str, inbox: Inbox, binding: dict[str, str], wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ACCOUNTS.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=wrong):
        shipping(order, inbox, **binding)


@pytest.mark.parametrize("order", ["above", "below"])
@pytest.mark.parametrize(
    ("inbox", "binding"),
    [
        (Inbox("orders"), {"queue_name": "Orders"}),
        (Inbox("orders"), {"queue_name": "orders-poison"}),
        (Inbox("orders", queue="parcels"), {"queue_name": "%Queue%"}),
        (Inbox("orders", "Same"), {}),
        (Inbox("orders", "Identity"), {}),
        (Inbox("orders", "Domain"), {}),
        (Inbox("orders", ACCOUNTS["Same"]), {}),
        (Inbox("orders", "Bells"), {"connection": "bells"}),
        (Inbox("orders"), {"queue_name": "%NotSetHere%"}),
        (Inbox("orders", "NotSetHere"), {}),
    ],
    ids=str,
)
def test_a_trigger_that_gets_the_bells_or_whose_settings_are_missing_here_is_accepted(
    order: str, inbox: Inbox, binding: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in ACCOUNTS.items():
        monkeypatch.setenv(name, value)
    with memory_locks():
        shipping(order, inbox, **binding)(message=bell(), context=Context())

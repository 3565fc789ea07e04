"""The worker's rules for one function: what is indexed, as what, and what is refused with which words."""

from __future__ import annotations

import typing
from pathlib import Path
from typing import Any

import azure.functions as func
import pytest

from simulator.host.app.app_model import AppError
from simulator.host.app.function_index import index_function
from singleton import singleton

if typing.TYPE_CHECKING:
    from simulator.host.app.app_model import IndexedFunction

HERE = Path(__file__).parent


def index(declare: typing.Callable[[func.FunctionApp], object]) -> IndexedFunction:
    app = func.FunctionApp()
    declare(app)
    (function,) = app.get_functions()
    return index_function(function, HERE)


def queue_function(body: Any, **binding: Any) -> IndexedFunction:
    settings = {"arg_name": "msg", "queue_name": "orders", "connection": "AzureWebJobsStorage", **binding}
    return index(lambda app: app.queue_trigger(**settings)(body))


def takes_message(msg: func.QueueMessage) -> None: ...
def takes_text(msg: str) -> None: ...
def takes_bytes(msg: bytes) -> None: ...
def takes_anything(msg) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
def takes_message_and_context(msg: func.QueueMessage, context: func.Context) -> None: ...
def takes_bare_context(msg: func.QueueMessage, context) -> None: ...  # type: ignore[no-untyped-def]  # noqa: ANN001
async def is_async(msg: func.QueueMessage) -> None: ...


@pytest.mark.parametrize(
    ("body", "converter", "is_async_body", "wants_context"),
    [
        (takes_message, "queueTrigger", False, False),
        (takes_text, "generic", False, False),
        (takes_bytes, "generic", False, False),
        (takes_anything, "queueTrigger", False, False),
        (takes_message_and_context, "queueTrigger", False, True),
        (takes_bare_context, "queueTrigger", False, True),
        (is_async, "queueTrigger", True, False),
    ],
)
def test_plain_functions_are_indexed(body: Any, converter: str, is_async_body: bool, wants_context: bool) -> None:
    function = queue_function(body)
    assert function.name == body.__name__
    assert function.trigger.converter == converter
    assert function.is_async is is_async_body
    assert function.wants_context is wants_context
    assert function.kind == "queue"
    assert function.not_driven is None
    assert function.place.startswith("test_host_indexing.py, line ")


@pytest.mark.parametrize("body", [takes_message, takes_bare_context, is_async])
def test_a_guard_changes_nothing_but_the_context(body: Any) -> None:
    bare, guarded = queue_function(body), queue_function(singleton(scope="Id")(body))
    assert guarded.wants_context
    assert (guarded.name, guarded.is_async, guarded.place) == (bare.name, bare.is_async, bare.place)
    assert guarded.trigger == bare.trigger


def test_the_name_that_the_app_gives_wins() -> None:
    function = index(
        lambda app: app.function_name("Ship")(
            app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(takes_message)
        )
    )
    assert function.name == "Ship"


def test_a_binding_may_itself_be_called_context() -> None:
    def body(context: func.QueueMessage) -> None: ...

    function = queue_function(body, arg_name="context")
    assert not function.wants_context
    assert function.trigger.name == "context"


def test_outputs_and_return_values_are_known() -> None:
    def body(msg: func.QueueMessage, out: func.Out[str]) -> str:
        out.set("x")
        return msg.get_body().decode()

    def declare(app: func.FunctionApp) -> None:
        builder = app.queue_output(arg_name="out", queue_name="next", connection="C")(body)
        builder = app.queue_output(arg_name="$return", queue_name="next", connection="C")(builder)
        app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(builder)

    function = index(declare)
    assert function.outputs["out"].converter == "generic"
    assert function.returns is not None
    assert function.returns.binding == "queue"
    assert function.may_return


def test_without_a_return_binding_no_value_may_be_returned() -> None:
    assert not queue_function(takes_message).may_return


def test_an_http_function_is_driven() -> None:
    def body(req: func.HttpRequest) -> func.HttpResponse:
        return func.HttpResponse(req.url)

    function = index(lambda app: app.route(route="x")(body))
    assert (function.kind, function.trigger_label) == ("http", "http")
    assert function.not_driven is None


def test_an_input_that_only_the_real_host_can_give_is_named() -> None:
    def body(msg: func.QueueMessage, blob: func.InputStream) -> None: ...

    function = index(
        lambda app: app.blob_input(arg_name="blob", path="a/b", connection="C")(
            app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(body)
        )
    )
    assert function.not_driven == "its input 'blob' (blob) is not provided by the simulator"


def test_a_generic_trigger_is_what_its_type_says() -> None:
    function = index(
        lambda app: app.generic_trigger(arg_name="msg", type="queueTrigger", queueName="orders", connection="C")(
            takes_message
        )
    )
    assert function.kind == "queue"
    assert function.trigger.settings["queueName"] == "orders"


def test_a_retry_policy_is_kept() -> None:
    def tick(timer: func.TimerRequest) -> None: ...

    function = index(
        lambda app: app.retry(strategy="fixed_delay", max_retry_count="3", delay_interval="00:00:05")(
            app.timer_trigger(arg_name="timer", schedule="0 * * * * *")(tick)
        )
    )
    assert function.kind == "timer"
    assert function.retry is not None
    assert function.retry["max_retry_count"] == "3"


def wrong_name(message: func.QueueMessage) -> None: ...
def extra(msg: func.QueueMessage, limit: int) -> None: ...
def nothing() -> None: ...
def many(*args: object, **kwargs: object) -> None: ...
def wrong_type(msg: dict) -> None: ...  # type: ignore[type-arg]
def union(msg: str | None) -> None: ...
def builtin_generic(msg: list[str]) -> None: ...
def typing_generic(msg: typing.List[str]) -> None: ...  # noqa: UP006
def unresolved(msg: NoSuchType) -> None: ...  # type: ignore[name-defined] # noqa: F821
def wrong_context(msg: func.QueueMessage, context: str) -> None: ...
def out_as_input(msg: func.Out[str]) -> None: ...


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (wrong_name, "it declares 'message', which no decorator binds; bound are 'msg'"),
        (extra, "it declares 'limit', which no decorator binds"),
        (nothing, "its decorators bind 'msg', which it does not declare; it declares no parameter"),
        (many, "'args', 'kwargs', which no decorator binds"),
        (wrong_type, "the annotation dict of 'msg' does not fit its binding 'queueTrigger'"),
        (union, "no type to the worker"),
        (builtin_generic, "no type to the worker"),
        (typing_generic, "does not fit its binding"),
        (unresolved, "NoSuchType"),
        (wrong_context, '"context" must be azure.functions.Context, not str'),
        (out_as_input, "is an input, but its annotation is func.Out"),
    ],
)
def test_what_the_worker_refuses_is_refused_with_name_place_and_remedy(body: Any, named: str) -> None:
    with pytest.raises(AppError) as caught:
        queue_function(body)
    assert named in str(caught.value)
    assert str(caught.value).startswith(f"function {body.__name__!r} (test_host_indexing.py, line ")
    assert "\n" not in str(caught.value)


def returns_nothing(msg: func.QueueMessage) -> None: ...
def returns_out(msg: func.QueueMessage) -> func.Out[str]: ...  # type: ignore[empty-body]
def returns_generic(msg: func.QueueMessage) -> list[str]: ...  # type: ignore[empty-body]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (returns_nothing, "the annotation NoneType of '$return' does not fit its binding 'queue'"),
        (returns_out, "the return annotation must not be func.Out"),
        (returns_generic, "its return annotation is list[str]"),
    ],
)
def test_a_bound_return_value_must_fit(body: Any, named: str) -> None:
    def declare(app: func.FunctionApp) -> None:
        builder = app.queue_output(arg_name="$return", queue_name="next", connection="C")(body)
        app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(builder)

    with pytest.raises(AppError) as caught:
        index(declare)
    assert named in str(caught.value)


def plain_output(msg: func.QueueMessage, out: str) -> None: ...
def two_types(msg: func.QueueMessage, out: func.Out) -> None: ...  # type: ignore[type-arg]
def wrong_output(msg: func.QueueMessage, out: func.Out[int]) -> None: ...


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (plain_output, "'out' is an output, so it must be func.Out[...], not str"),
        (two_types, "the output 'out' needs one type"),
        (wrong_output, "the annotation int of 'out' does not fit its binding 'queue'"),
    ],
)
def test_an_output_must_be_out_of_something(body: Any, named: str) -> None:
    def declare(app: func.FunctionApp) -> None:
        builder = app.queue_output(arg_name="out", queue_name="next", connection="C")(body)
        app.queue_trigger(arg_name="msg", queue_name="orders", connection="C")(builder)

    with pytest.raises(AppError) as caught:
        index(declare)
    assert named in str(caught.value)

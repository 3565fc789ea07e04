"""An app with a function of every shape; each gives back what it sees, or what its message says."""

from __future__ import annotations

import functools
import json
import os
from typing import TYPE_CHECKING, Any, TypeVar, cast

import azure.functions as func
from orders import elsewhere  # type: ignore[import-not-found] # a module of the app's own folder
from shapes import ANSWERS, ANSWERS_OF, LATE, SHAPES  # type: ignore[import-not-found]

from singleton import Contention, singleton

if TYPE_CHECKING:
    from collections.abc import Callable

    from shapes import Shape

app = func.FunctionApp()
F = TypeVar("F")
Made = tuple["Callable[..., Any]", "Callable[..., Any]"]
"""A function, sync and async."""


# --- functions of every shape, which give back what they see ----------------------------------------------------------

ANNOTATIONS = {"queue": func.QueueMessage, "binary": func.QueueMessage, "timer": func.TimerRequest}
RETURNS = {"return": "queue", "hub": "eventHub"}


def seen(given: Any) -> str:
    """Return all that a body sees of its trigger."""
    if isinstance(given, func.QueueMessage):
        names = ("id", "dequeue_count", "pop_receipt", "insertion_time", "expiration_time", "time_next_visible")
        shown = {"body": given.get_body().decode(), **{name: getattr(given, name) for name in names}}
    elif isinstance(given, func.TimerRequest):
        shown = {name: getattr(given, name) for name in ("past_due", "schedule_status", "schedule")}
    else:
        shown = {"text": given}
    return json.dumps(shown, default=str)


def given_back(output: str, given: Any) -> str | None:
    """Return what a body makes of what it sees."""
    if output == "error":
        raise LookupError(seen(given))
    return None if output == "none" else f"saw {seen(given)}"


def bodies(output: str) -> Made:
    def body(given: Any) -> str | None:
        return given_back(output, given)

    async def body_async(given: Any) -> str | None:
        return given_back(output, given)

    return body, body_async


def bodies_with_out(output: str) -> Made:
    def body(given: Any, out: Any) -> None:
        out.set(given_back(output, given))

    async def body_async(given: Any, out: Any) -> None:
        out.set(given_back(output, given))

    return body, body_async


def tell(contention: Contention) -> Any:
    """Fail with all that a policy is told but the invocation's id."""
    told = (contention.function, contention.lock, contention.message_id, contention.dequeue_count)
    raise PermissionError(f"told {told}")


def guard(shape: Shape) -> Callable[[Any], Any]:
    """Return a shape's declaration."""
    policies: dict[str, Any] = {"chosen": lambda _: "skip", "told": tell}
    policy = policies.get(shape.policy, shape.policy)
    if shape.lock == "free":
        return singleton(on_contention=policy)
    timeout = 2.0 if shape.waits else None
    return singleton(scope_id="busy", level="host", on_contention=policy, timeout=timeout)


def add_shape(name: str, shape: Shape) -> None:
    sync, other = (bodies_with_out if shape.output == "out" else bodies)(shape.output)
    body = sync if shape.kind == "sync" else other
    body.__annotations__ = {"given": ANNOTATIONS.get(shape.trigger, str)}
    if shape.output == "out":
        body.__annotations__["out"] = func.Out[str]
    kind = func.DataType.BINARY if shape.trigger == "binary" else None
    trigger = timer if shape.ticks else queue(name.replace("_", "-"), arg_name="given", data_type=kind)
    app.function_name(name)(trigger(outputs(RETURNS.get(shape.output, shape.output))(guard(shape)(body))))


# --- their bindings ---------------------------------------------------------------------------------------------------


def queue(name: str, **more: Any) -> Callable[[F], F]:
    """Return the decorator of a queue trigger."""
    options = {"arg_name": "msg", "connection": "AzureWebJobsStorage", **more}
    made: Any = app.queue_trigger(queue_name=f"%PREFIX%-{name}", **options)
    return cast("Callable[[F], F]", made)


def timer(function: F) -> F:
    decorate: Any = app.timer_trigger(arg_name="given", schedule="0 0 0 1 1 *")
    return cast("F", decorate(function))


def outputs(kind: str) -> Callable[[F], F]:
    """Return the decorator of an output binding."""
    if kind in ("none", "error"):
        return lambda function: function
    name, kind = ("out", "queue") if kind == "out" else ("$return", kind)
    more = {"queueName": "%PREFIX%-written", "path": "box/file", "tableName": "t", "connection": "AzureWebJobsStorage"}
    return cast("Callable[[F], F]", app.generic_output_binding(arg_name=name, type=kind, **more))


for name, shape in SHAPES.items():
    add_shape(name, shape)


# --- functions that answer as their messages say ----------------------------------------------------------------------


def answer(msg: func.QueueMessage) -> Any:
    wanted = msg.get_json()["answer"]
    return LATE[wanted]() if wanted in LATE else ANSWERS[wanted]


def made(kind: str, output: str) -> Any:
    """Return a guarded function that answers as its message says: it returns it, or puts it out."""
    guard = singleton(scope="Id", level="host")
    if output == "out":

        def put(msg: func.QueueMessage, out: func.Out[str]) -> None:
            out.set(answer(msg))

        async def put_async(msg: func.QueueMessage, out: func.Out[str]) -> None:
            out.set(answer(msg))

        return guard(put if kind == "sync" else put_async)

    def give(msg: func.QueueMessage) -> Any:
        return answer(msg)

    async def give_async(msg: func.QueueMessage) -> Any:
        return answer(msg)

    del give.__annotations__["return"], give_async.__annotations__["return"]
    return guard(give if kind == "sync" else give_async)


def add(name: str, of: str, function: Any) -> None:
    app.function_name(name)(queue(name.replace("_", "-").lower())(outputs(of)(function)))


for name in ANSWERS_OF:
    kind, of = name.split("_")
    add(name, of, made(kind, of))


# --- others -----------------------------------------------------------------------------------------------------------

add("elsewhere", "queue", elsewhere)


@queue("folder")
@outputs("queue")
@singleton
def folder(msg: func.QueueMessage, context: func.Context) -> str:
    return str(context.function_directory)  # type: ignore[attr-defined, unused-ignore]


@queue("folder-async")
@outputs("queue")
@singleton
async def folder_async(msg: func.QueueMessage, context: func.Context) -> str:
    return str(context.function_directory)  # type: ignore[attr-defined, unused-ignore]


def careless(function: F) -> F:
    """Wrap any function in a plain one."""
    whole: Any = function

    @functools.wraps(whole)
    def around(*args: Any, **kwargs: Any) -> Any:
        return whole(*args, **kwargs)

    return cast("F", around)


@queue("promise")
@singleton
@careless
async def promise(msg: func.QueueMessage) -> None:
    raise AssertionError("the body ran")


if "MISDECLARED" in os.environ:

    @queue("misdeclared")
    @outputs("queue")
    @singleton(scope="")
    def misdeclared(msg: func.QueueMessage, context: func.Context) -> str:
        raise AssertionError("the body ran")

    @singleton(on_contention="skip")
    @queue("misdeclared-above")
    @outputs("queue")
    async def misdeclared_above(msg: func.QueueMessage) -> str:
        raise AssertionError("the body ran")

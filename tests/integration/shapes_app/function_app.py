"""An app with a function of every shape; each reads what it is to return in its message."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any, TypeVar, cast

import azure.functions as func
from orders import elsewhere  # type: ignore[import-not-found] # a module of the app's own folder
from shapes import ANSWERS, ANSWERS_OF, BUSY_OF  # type: ignore[import-not-found]

from singleton import singleton

if TYPE_CHECKING:
    from collections.abc import Callable

app = func.FunctionApp()
F = TypeVar("F")


def queue(name: str) -> Callable[[F], F]:
    """Return the decorator of a trigger."""
    made: Any = app.queue_trigger(arg_name="msg", queue_name=f"%PREFIX%-{name}", connection="AzureWebJobsStorage")
    return cast("Callable[[F], F]", made)


def output(kind: str) -> Callable[[F], F]:
    """Return the decorator of an output binding."""
    if kind == "none":
        return lambda function: function
    name, kind = ("out", "queue") if kind == "out" else ("$return", kind)
    more = {"queueName": "%PREFIX%-written", "path": "box/file", "tableName": "t", "connection": "AzureWebJobsStorage"}
    return cast("Callable[[F], F]", app.generic_output_binding(arg_name=name, type=kind, **more))


def made(kind: str, output: str, guard: Callable[[Any], Any]) -> Any:
    """Return a guarded function that answers as its message says: it returns it, or puts it out."""
    if output == "out":

        def put(msg: func.QueueMessage, out: func.Out[str]) -> None:
            out.set(ANSWERS[msg.get_json()["answer"]])

        async def put_async(msg: func.QueueMessage, out: func.Out[str]) -> None:
            out.set(ANSWERS[msg.get_json()["answer"]])

        return guard(put if kind == "sync" else put_async)

    def give(msg: func.QueueMessage) -> Any:
        return ANSWERS[msg.get_json()["answer"]]

    async def give_async(msg: func.QueueMessage) -> Any:
        return ANSWERS[msg.get_json()["answer"]]

    del give.__annotations__["return"], give_async.__annotations__["return"]
    return guard(give if kind == "sync" else give_async)


def add(name: str, of: str, function: Any) -> None:
    app.function_name(name)(queue(name.replace("_", "-").lower())(output(of)(function)))


for name in ANSWERS_OF:
    kind, of = name.split("_")
    add(name, of, made(kind, of, singleton(scope="Id", level="host")))

for name in BUSY_OF:
    kind, of, policy = name.split("_")
    on_contention: Any = (lambda _: "skip") if policy == "chosen" else policy
    add(name, of, made(kind, of, singleton(scope_id="busy", level="host", on_contention=on_contention)))

add("elsewhere", "queue", elsewhere)


@queue("folder")
@output("queue")
@singleton
def folder(msg: func.QueueMessage, context: func.Context) -> str:
    return str(context.function_directory)  # type: ignore[attr-defined, unused-ignore]


@queue("folder-async")
@output("queue")
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
    @output("queue")
    @singleton(scope="")
    def misdeclared(msg: func.QueueMessage, context: func.Context) -> str:
        raise AssertionError("the body ran")

    @singleton(on_contention="skip")
    @queue("misdeclared-above")
    @output("queue")
    async def misdeclared_above(msg: func.QueueMessage) -> str:
        raise AssertionError("the body ran")

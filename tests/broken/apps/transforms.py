"""Arguments and results that decorators of the app's own change, above and below, and bodies that change arguments."""

import asyncio
import functools
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()
pages = func.Blueprint()  # type: ignore[no-untyped-call]


@dataclass
class Order:
    Id: str
    steps: int = 0


def parsed(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def parsing(msg: func.QueueMessage, **more: Any) -> str:
        order = Order(str(msg.get_json()["Id"]))
        return f"{order.steps}: {await function(order, **more)}"

    return parsing


def as_mapping(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def mapped(msg: func.QueueMessage) -> str:
        return json.dumps(function({**msg.get_json(), "context": None}))

    return mapped


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@parsed
@singleton(scope_id="orders")
async def ship(msg, context: func.Context) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001 - as the worker takes it
    for _ in range(3):
        msg.steps += 1
        await asyncio.sleep(0.05)
    return f"{context.function_name} {msg.Id}"


@pages.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@pages.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
@as_mapping
def bill(msg) -> str:  # type: ignore[no-untyped-def]  # noqa: ANN001 - as the worker takes it
    time.sleep(0.1)
    msg["done"] = msg.pop("context")
    return msg  # type: ignore[no-any-return]


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage", data_type=func.DataType.BINARY)
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:01")
@singleton(scope="Id")
def mail(msg: bytes) -> None:
    time.sleep(0.1)
    if len(msg) % 3 == 0:
        raise ValueError("not this time")


app.register_functions(pages)

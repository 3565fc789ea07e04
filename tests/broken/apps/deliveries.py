"""Batches, blobs, events and activities, requests behind WSGI and ASGI, and a listener with a lock."""

import asyncio
import time
import typing
from collections.abc import Callable
from typing import Any

import azure.durable_functions as df
import azure.functions as func

from singleton import singleton

app: func.FunctionApp = df.DFApp()


@app.service_bus_queue_trigger(arg_name="msg", queue_name="busorders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def bus(msg: func.ServiceBusMessage, context: func.Context) -> None:
    await asyncio.sleep(0.1)
    assert context.invocation_id and msg.metadata is not None  # noqa: PT018 - read


@app.event_hub_message_trigger(
    arg_name="events", event_hub_name="hub", connection="AzureWebJobsStorage", cardinality="many"
)
@singleton
def hub(events: typing.List[func.EventHubEvent]) -> None:  # noqa: UP006 - the worker knows no other list
    events.clear()


@app.blob_trigger(arg_name="blob", path="files/{name}", connection="AzureWebJobsStorage")
@singleton(scope_id="{Id}")
def read(blob: func.InputStream) -> None:
    blob.read()


@app.event_grid_trigger(arg_name="event")
@singleton(scope="Id", on_contention="raise")
def grid(event: func.EventGridEvent) -> None:
    time.sleep(0.1)


@app.activity_trigger(input_name="order")  # type: ignore[untyped-decorator] # no stubs
@singleton(scope="Id")
def book(order: typing.Dict[str, object]) -> str:  # noqa: UP006 - as of the batch
    order["Booked"] = True
    return "done"


def plain_site(environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    start("201 Created", [("X-A", "b")])
    return [b"hello ", b"wsgi"]


@app.route(route="wsgi/{*rest}", methods=["GET"])
@singleton
def wsgi(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    return func.WsgiMiddleware(plain_site).handle(req, context)  # type: ignore[no-any-return, no-untyped-call]


async def async_site(scope: dict[str, Any], receive: Callable[..., Any], send: Callable[..., Any]) -> None:
    if scope["type"] != "http":
        return
    await receive()
    await asyncio.sleep(0.1)
    await send({"type": "http.response.start", "status": 202, "headers": [(b"x-a", b"b")]})
    await send({"type": "http.response.body", "body": b"hello asgi"})


@app.route(route="asgi/{*rest}", methods=["POST"])
@singleton(on_contention="conflict")
async def asgi(req: func.HttpRequest, context: func.Context) -> func.HttpResponse:
    return await func.AsgiMiddleware(async_site).handle_async(req, context)  # type: ignore[no-any-return, no-untyped-call]


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(mode="listener")
@singleton
def tick(timer: func.TimerRequest) -> None:
    time.sleep(0.1)

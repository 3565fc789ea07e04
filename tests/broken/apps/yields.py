"""Outputs of all kinds: generators, lists that are kept and grow, output parameters, a stream that is refused."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()
shipped: list[str] = []


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def ship(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - as the worker takes it
    yield "begun"
    time.sleep(0.1)
    yield f"shipped {msg.get_json()['Id']}"


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - as the worker takes it
    await asyncio.sleep(0.1)
    return (f"{word} {msg.get_json()['Id']}" for word in ("bill", "sent"))


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def mail(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - as the worker takes it
    time.sleep(0.1)
    return ["mail", msg.get_json()["Id"]]


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="out", queue_name="answers", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="more", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer", defer_delay=2)
def remark(msg: func.QueueMessage, out: func.Out[str], more: func.Out[str]) -> None:
    out.set("first")
    out.set(f"noted {msg.get_json()['Id']}")
    shipped.append(msg.id or "")
    del shipped[:-5]
    more.set(iter(shipped))  # type: ignore[arg-type]


@app.queue_trigger(arg_name="msg", queue_name="streams", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def stream(msg: func.QueueMessage):  # type: ignore[no-untyped-def]  # noqa: ANN201 - as the worker takes it
    return (text for text in ("no output takes", "these"))

"""Three hundred messages, of no scope, each of which takes a moment; and one body that recurses."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton()
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.15)


def walk(msg: func.QueueMessage, depth: int = 3) -> None:
    time.sleep(0.05)
    if depth:
        walk(msg, depth - 1)


def entered(msg: func.QueueMessage) -> None:
    walk(msg)


app.function_name("bill")(
    app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")(
        singleton(scope="Id")(entered)
    )
)

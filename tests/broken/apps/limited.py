"""Orders that take five seconds each, with a functionTimeout of twelve."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(5)

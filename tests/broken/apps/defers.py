"""Orders that are put back where another of their customer is under way."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.6)

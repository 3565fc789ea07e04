"""Orders that wait for so long, and no longer."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(timeout=3)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(2.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="skip", timeout=1)
def bill(msg: func.QueueMessage) -> None: ...

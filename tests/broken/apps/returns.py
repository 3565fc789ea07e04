"""Orders of a customer that are put back again and again, of which some fail each time."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Customer", on_contention="defer", defer_delay=1)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.4)
    if msg.get_json()["Number"] % 3 == 0:
        raise RuntimeError("never")

"""Two functions with one lock: bodies of the first go on after `max_hold`."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(level="host", scope_id="all", max_hold=2, lock_acquisition_polling_interval=1)
def ship(msg: func.QueueMessage) -> None:
    time.sleep(22 if msg.dequeue_count == 1 else 0.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(level="host", scope_id="all", lock_acquisition_polling_interval=1)
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.5)

"""Locks of short sections over a network that loses answers: held, tried once, and with slots."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", handoff_window=0)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer", lock_acquisition_polling_interval=1)
def bill(msg: func.QueueMessage) -> None:
    time.sleep(0.5)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@singleton(limit=2, timeout=4, lock_acquisition_polling_interval=1)
async def mail(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)

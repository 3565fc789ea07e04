"""Semaphores: callers that wait for a slot, and messages that go back while each slot is in use."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(limit=2)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.6)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(limit=2, on_contention="defer", defer_delay=1)
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.6)

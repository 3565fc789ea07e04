"""Async bodies that go on when they are told to end, and one that blocks the loop on which it could be told."""

import asyncio
import contextlib
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    for _ in range(16):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)
    time.sleep(3)  # noqa: ASYNC251 - as some apps do

"""A function under its new and its former name, side by side."""

import asyncio

import azure.functions as func

from singleton import OldLock, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Customer", also=OldLock(name="send"))
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1)


@app.queue_trigger(arg_name="msg", queue_name="former-orders", connection="AzureWebJobsStorage")
@singleton(scope="Customer")
async def send(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1)

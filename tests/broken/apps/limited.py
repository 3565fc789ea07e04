"""Orders and entries of bills that take five seconds each, with a functionTimeout of twelve."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(5)


@singleton
def note_down(entry: str) -> None:
    time.sleep(5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
def bill(msg: func.QueueMessage) -> None:
    note_down(str(msg.id))

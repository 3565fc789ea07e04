"""Locks where other libraries have theirs, and one without fencing tokens."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope_id="{Id}", layout="webjobs")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", layout="dequeueable")
def bill(msg: func.QueueMessage) -> None: ...


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def remark(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)

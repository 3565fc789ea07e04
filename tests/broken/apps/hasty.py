"""Waiters that coalesce, and give up before the lock is free: a failure, and the message comes back."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="coalesce", timeout=1)
async def refresh(msg: func.QueueMessage) -> None:
    await asyncio.sleep(3)

"""Async bodies that take their time, step by step."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    for _ in range(16):
        await asyncio.sleep(0.5)

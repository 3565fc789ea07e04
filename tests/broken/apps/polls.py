"""Orders of a customer that wait for one another, and whose lock is asked for each second."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", lock_acquisition_polling_interval=1)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.2)

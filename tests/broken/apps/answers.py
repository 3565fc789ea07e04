"""Orders, each of which is answered in another queue."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> str:
    await asyncio.sleep(0.2)
    return f"shipped {msg.get_json()['Id']}"


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@app.queue_output(arg_name="$return", queue_name="answers", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def bill(msg: func.QueueMessage) -> str:
    time.sleep(0.2)
    return f"billed {msg.get_json()['Id']}"

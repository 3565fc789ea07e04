"""A listener with bodies that take no time: two of them hardly ever meet."""

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(mode="listener")
async def ship(msg: func.QueueMessage) -> None: ...

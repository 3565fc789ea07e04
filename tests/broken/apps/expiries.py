"""Results of ``once`` that are kept for a day, or for two seconds, under keys of two parts."""

import asyncio

import azure.functions as func

from singleton import once

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@once(key="{Year}-{Number}", keep=86400)
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)


@app.queue_trigger(arg_name="msg", queue_name="checks", connection="AzureWebJobsStorage")
@once(key="Number", keep=2)
def check(msg: func.QueueMessage) -> None: ...

"""Functions that take their context: by keyword, with a default, and under a policy."""

import asyncio

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage, context: func.Context) -> None:
    await asyncio.sleep(0.3)
    if context.invocation_id != current_hold().owner:
        raise RuntimeError("the context of another invocation")


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="skip")
def bill(msg: func.QueueMessage, context: func.Context) -> None:
    if context.invocation_id != current_hold().owner:
        raise RuntimeError("the context of another invocation")

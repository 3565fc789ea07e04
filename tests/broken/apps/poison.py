"""Orders of which some fail always, with every policy: they end as poison by the app's own errors."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)
    if msg.get_json()["Number"] % 4 == 0:
        raise RuntimeError("never")


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def bill(msg: func.QueueMessage) -> None:
    if msg.get_json()["Number"] % 4 == 0:
        raise KeyError("never")


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="skip")
def remark(msg: func.QueueMessage) -> None:
    if msg.get_json()["Number"] % 4 == 0:
        raise KeyError("never")

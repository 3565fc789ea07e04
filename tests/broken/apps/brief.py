"""Short bodies under a policy of the app's own, which lets all wait whose message has not failed."""

import asyncio
from typing import Literal

import azure.functions as func

from singleton import Contention, singleton

app = func.FunctionApp()


def unless_it_failed(contention: Contention) -> Literal["wait", "raise"]:
    return "wait" if contention.dequeue_count < 3 else "raise"


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention=unless_it_failed)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.7)

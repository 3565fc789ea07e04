"""Policies of the app's own, and one that fails, so that messages end as poison."""

import asyncio
from typing import Literal

import azure.functions as func

from singleton import Contention, singleton

app = func.FunctionApp()


def by_count(contention: Contention) -> Literal["wait", "defer"]:
    return "wait" if (contention.dequeue_count or 1) > 1 else "defer"


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention=by_count)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(on_contention="raise")
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.5)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention=lambda _: "skip")
def tidy(timer: func.TimerRequest) -> None: ...

"""One app in two regions, whose host.json has one hostId: a timer, work by key, and work of two at a time."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.timer_trigger(schedule="*/2 * * * * *", arg_name="timer")
@singleton(on_contention="skip", at_least=1)
def settle(timer: func.TimerRequest) -> None:
    time.sleep(1)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope_id="{Tenant}")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)


@app.queue_trigger(arg_name="msg", queue_name="calls", connection="AzureWebJobsStorage")
@singleton(limit=2)
async def call(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)

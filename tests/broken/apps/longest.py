"""Bodies of 70 seconds, guarded and not, beside short ones."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
async def load(timer: func.TimerRequest) -> None:
    await asyncio.sleep(70)


@app.timer_trigger(arg_name="timer", schedule="*/30 * * * * *")
def sweep(timer: func.TimerRequest) -> None:
    time.sleep(70)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)

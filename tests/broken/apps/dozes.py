"""Bodies that take longer than a lease, under pauses and errors too short to cost one."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
def load(timer: func.TimerRequest) -> None:
    for _ in range(250):
        time.sleep(0.1)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(25 if msg.get_json()["Number"] < 3 else 0.2)

"""Functions that their host tries again within one delivery."""

import asyncio
from itertools import count

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()
numbers = count(1)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:01")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)
    if next(numbers) % 4 == 0:
        raise RuntimeError("not yet")


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@app.retry(strategy="fixed_delay", max_retry_count="2", delay_interval="00:00:01")
@singleton(on_contention="raise")
def tidy(timer: func.TimerRequest) -> None:
    if next(numbers) % 2:
        raise RuntimeError("not yet")

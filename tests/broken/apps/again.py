"""Long bodies that their host tries again within one delivery, after they have lost their locks, too."""

import asyncio
import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@app.retry(strategy="fixed_delay", max_retry_count="3", delay_interval="00:00:01")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(4)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@app.retry(strategy="fixed_delay", max_retry_count="3", delay_interval="00:00:01")
@singleton(scope="Id", on_contention="defer")
def bill(msg: func.QueueMessage) -> None:
    for _ in range(40):
        time.sleep(0.1)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@app.retry(strategy="fixed_delay", max_retry_count="3", delay_interval="00:00:01")
@singleton(on_contention="skip")
async def tidy(timer: func.TimerRequest) -> None:
    await asyncio.sleep(6)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@app.retry(strategy="fixed_delay", max_retry_count="3", delay_interval="00:00:01")
@singleton(mode="listener")
async def lead(timer: func.TimerRequest) -> None:
    await asyncio.sleep(3)

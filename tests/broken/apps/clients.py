"""Locks of lock clients alone: no function has a guard."""

import asyncio
import time
from datetime import timedelta

import azure.functions as func

from singleton import AsyncLockClient, LockClient, SingletonOptions

app = func.FunctionApp()
options = SingletonOptions(lock_acquisition_polling_interval=1)
locks = LockClient("AzureWebJobsStorage", options=options)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
def reserve(msg: func.QueueMessage) -> None:
    with locks.lock("stock"):
        time.sleep(0.3)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
async def bill(msg: func.QueueMessage) -> None:
    async with AsyncLockClient("AzureWebJobsStorage", options=options) as client, client.semaphore("printers", 2):
        await asyncio.sleep(0.2)


@app.timer_trigger(arg_name="timer", schedule="*/3 * * * * *")
def report(timer: func.TimerRequest) -> None:
    with locks.try_lock("report", timeout=timedelta(milliseconds=2900)) as hold:
        if hold is not None:
            time.sleep(9)

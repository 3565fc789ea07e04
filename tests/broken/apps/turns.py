"""Processes that hand a lock on among their own callers for four seconds at a time; locks with failover."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(handoff_window=4, lock_acquisition_polling_interval=1, failover=2)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(mode="listener", failover=2)
async def lead(timer: func.TimerRequest) -> None:
    await asyncio.sleep(0.1)

"""Listeners of a queue and of a timer, beside functions that all hosts run."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(mode="listener")
async def sweep(timer: func.TimerRequest) -> None:
    await asyncio.sleep(0.5)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(mode="listener")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)

"""Locks that are kept for seconds after their bodies: by every policy, on a lock and on a semaphore."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", at_least=6)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.1)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer", at_least=8)
def bill(msg: func.QueueMessage) -> None: ...


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(on_contention="raise", at_least=4)
async def remark(msg: func.QueueMessage) -> None: ...


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@singleton(limit=2, at_least=5)
async def send(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip", at_least=20)
def tidy(timer: func.TimerRequest) -> None: ...


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(at_least=7)
async def load(timer: func.TimerRequest) -> None:
    await asyncio.sleep(0.3)

"""Functions that differ in their options: a limit, a shared scope, a lease, a poll, a name."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(limit=3)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(2.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", level="host")
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(scope="Id", level="host")
async def remark(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@singleton(scope="Id", scope_hash=True, name="letter", lock_period=30, lock_acquisition_polling_interval=1)
async def mail(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.3)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip", at_least=3)
async def tidy(timer: func.TimerRequest) -> None:
    await asyncio.sleep(0.5)

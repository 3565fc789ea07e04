"""Waits that end soon: by every policy, on a lock, a semaphore and a lock of a client in the body."""

import asyncio

import azure.functions as func

from singleton import AsyncLockClient, LockNotAcquired, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", timeout=3)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="defer", timeout=4)
def bill(msg: func.QueueMessage) -> None: ...


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(on_contention="raise", timeout=2)
async def remark(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@singleton(limit=2, timeout=6)
def send(msg: func.QueueMessage) -> None: ...


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip", timeout=2)
def tidy(timer: func.TimerRequest) -> None: ...


@app.route(route="order", methods=["POST"])
@singleton(on_contention="conflict", timeout=2)
async def order(req: func.HttpRequest) -> func.HttpResponse:
    await asyncio.sleep(0.3)
    return func.HttpResponse("done")


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton
async def copy(timer: func.TimerRequest) -> None:
    async with AsyncLockClient("AzureWebJobsStorage") as locks:
        try:
            async with locks.lock("copy", timeout=2):
                await asyncio.sleep(0.2)
        except LockNotAcquired:
            pass

"""Waits of four seconds under every policy, short ones behind a long one, and a lock asked for by its own body."""

import asyncio
import contextlib
import time

import azure.functions as func

from singleton import AsyncLockClient, LockNotAcquired, StorageUnavailable, singleton

app = func.FunctionApp()
locks = AsyncLockClient("AzureWebJobsStorage")


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(timeout=4)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(on_contention="skip", timeout=4)
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.5)


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(on_contention="defer", timeout=4, defer_delay=2)
async def remark(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.5)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@singleton(limit=2, on_contention="raise", timeout=4)
def send(msg: func.QueueMessage) -> None:
    time.sleep(1.5)


@app.queue_trigger(arg_name="msg", queue_name="calls", connection="AzureWebJobsStorage")
@singleton(on_contention="raise", timeout=4, max_waiting=1)
async def phone(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.5)


@app.route(route="order", methods=["POST"])
@singleton(on_contention="conflict", timeout=4)
async def order(req: func.HttpRequest) -> func.HttpResponse:
    await asyncio.sleep(1.5)
    return func.HttpResponse("done")


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="raise", timeout=4)
def tidy(timer: func.TimerRequest) -> None:
    with contextlib.suppress(LockNotAcquired):
        tidy(timer)


@app.queue_trigger(arg_name="msg", queue_name="tills", connection="AzureWebJobsStorage")
async def pay(msg: func.QueueMessage) -> None:
    await asyncio.gather(attempt(0, timeout=20), *(attempt(0.5 * number, timeout=0.7) for number in range(1, 10)))


async def attempt(pause: float, *, timeout: float) -> None:
    await asyncio.sleep(pause)
    with contextlib.suppress(StorageUnavailable):
        async with locks.try_lock("till", timeout=timeout) as hold:
            if hold is not None:
                await asyncio.sleep(6)

"""Bodies that keep state with their lock, results with a key, and blocks of a lock client."""

import asyncio
import time

import azure.functions as func

from singleton import AsyncLockClient, current_hold, once, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    state = current_hold().state
    for _ in range(6):
        await asyncio.sleep(0.5)
        await state.awrite(1 + await state.aread(default=0))


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def bill(msg: func.QueueMessage) -> None:
    state = current_hold().state
    for _ in range(6):
        time.sleep(0.5)
        state.write(1 + state.read(default=0))


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@once(key="{id}")
@singleton(scope="Id")
async def remark(msg: func.QueueMessage) -> None:
    await asyncio.sleep(2)


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@once(key="{id}")
async def send(msg: func.QueueMessage) -> None:
    await asyncio.sleep(2)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
async def copy(timer: func.TimerRequest) -> None:
    async with AsyncLockClient("AzureWebJobsStorage") as locks, locks.lock("copy") as hold:
        for _ in range(4):
            await asyncio.sleep(0.5)
            await hold.state.awrite(1 + await hold.state.aread(default=0))

"""Sets of the same two locks, asked for in either order."""

import asyncio
import contextlib

import azure.functions as func

from singleton import AsyncLockClient, LockNotAcquired, SingletonOptions

app = func.FunctionApp()
locks = AsyncLockClient("AzureWebJobsStorage", options=SingletonOptions(lock_acquisition_polling_interval=1))


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
async def pay(msg: func.QueueMessage) -> None:
    await asyncio.gather(*(move("stock", "bank") for _ in range(3)), *(move("bank", "stock") for _ in range(3)))


async def move(source: str, target: str) -> None:
    with contextlib.suppress(LockNotAcquired):
        async with locks.lock_all([source, target], timeout=12):
            await asyncio.sleep(0.1)

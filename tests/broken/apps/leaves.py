"""Bodies that start threads, calls in pools, processes, and wait for them; one logs for the first time."""

import asyncio
import logging
import subprocess
import threading

import azure.functions as func

from singleton import AsyncLockClient, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    logging.getLogger("singleton").warning("the first line")
    process = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE)
    await process.communicate(b"")
    await asyncio.to_thread(int)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def bill(msg: func.QueueMessage) -> None:
    subprocess.run(["cat"], input=b"", check=True)
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
async def copy(timer: func.TimerRequest) -> None:
    process = await asyncio.create_subprocess_shell("true")
    await process.wait()
    async with AsyncLockClient("AzureWebJobsStorage") as locks, locks.lock("copy"):
        pass

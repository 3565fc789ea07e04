"""Guarded functions that call other guarded ones, and two functions with one lock."""

import asyncio
import threading
import time

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()
left: list[asyncio.Task[None]] = []


@singleton(scope_id="audit")
async def audit(text: str) -> None:
    await asyncio.sleep(0.05)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", level="host")
async def ship(msg: func.QueueMessage) -> None:
    await audit("begins")
    await asyncio.sleep(0.3)
    await audit("ends")
    left.append(asyncio.create_task(asyncio.sleep(1)))


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", level="host")
def bill(msg: func.QueueMessage) -> None:
    time.sleep(0.2)
    current_hold().raise_if_lost()
    threading.Thread(target=time.sleep, args=(1,)).start()


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
async def remark(msg: func.QueueMessage) -> None:
    await audit("remark")


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(scope_id="%FUNCTIONS_WORKER_RUNTIME%")
def tidy(timer: func.TimerRequest) -> None:
    time.sleep(0.5)

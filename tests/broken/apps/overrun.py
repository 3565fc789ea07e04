"""Holds of lock clients that outlive `max_hold`: one outside of blocks, and those of periodic workers.

A third function looks at a lock that it has given back.
"""

import asyncio
import contextlib
import time
import uuid

import azure.functions as func

from singleton import Hold, LockClient, LockLost

app = func.FunctionApp()
locks = LockClient("AzureWebJobsStorage")
workers: list[object] = []


@app.timer_trigger(arg_name="timer", schedule="*/6 * * * * *")
def count(timer: func.TimerRequest) -> None:
    hold = locks.acquire("stock", max_hold=2)
    try:
        time.sleep(4)
    finally:
        with contextlib.suppress(LockLost):
            locks.release(hold)


def copy(hold: Hold) -> None:
    time.sleep(4)


async def recount(hold: Hold) -> None:
    await asyncio.sleep(4)


@app.timer_trigger(arg_name="timer", schedule="* * * * * *")
def work(timer: func.TimerRequest) -> None:
    if not workers:
        worker = locks.periodic("mirror", copy, every=5, max_hold=2)
        workers.append(worker)
        worker.start()
        worker = locks.periodic("fair", recount, every=5, max_hold=2)
        workers.append(worker)
        worker.start()


@app.timer_trigger(arg_name="timer", schedule="*/4 * * * * *")
def bill(timer: func.TimerRequest) -> None:
    name = f"bill-{uuid.uuid4()}"
    with locks.lock(name):
        time.sleep(0.1)
    time.sleep(0.3)
    locks.holder(name)

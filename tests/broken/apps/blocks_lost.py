"""Blocks of lock clients that lose their locks: one fails then, one is cancelled, and one only hears of the loss.

Another body has a lost guard around it, and cleans up under a lock; the call of a decorated function is refused then.
The call of another such function has begun before the loss, and goes on.
So is the call of a guarded helper in a lost block.
"""

import asyncio
import contextlib
import time

import azure.functions as func

from singleton import AsyncLockClient, LockClient, LockLost, current_hold, singleton

app = func.FunctionApp()
locks = LockClient("AzureWebJobsStorage")
async_locks = AsyncLockClient("AzureWebJobsStorage")


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
def copy(timer: func.TimerRequest) -> None:
    with locks.lock("ledger"):
        time.sleep(9)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
def look(timer: func.TimerRequest) -> None:
    with locks.lock("mirror", on_loss="tell") as hold:
        hold.lost.wait(9)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
async def count(timer: func.TimerRequest) -> None:
    async with async_locks.lock("stock", max_hold=2):
        await asyncio.sleep(6)


@singleton
async def note_down(entry: str) -> None:
    await asyncio.sleep(0.5)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
async def audit(timer: func.TimerRequest) -> None:
    async with async_locks.lock("books", max_hold=2, on_loss="tell"):
        await asyncio.sleep(4)
        with contextlib.suppress(LockLost):
            await note_down("audited")


@singleton
def write_report() -> None:
    time.sleep(4)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(max_hold=2, on_contention="skip")
def report(timer: func.TimerRequest) -> None:
    write_report()


@locks.lock("annex")
def write_annex() -> None:
    time.sleep(4)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(max_hold=2, on_contention="skip")
def annex(timer: func.TimerRequest) -> None:
    write_annex()


@locks.lock("bill")
def send_bill() -> None:
    time.sleep(0.5)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(max_hold=2, on_contention="skip")
def bill(timer: func.TimerRequest) -> None:
    current_hold().lost.wait(4)
    time.sleep(2)
    with locks.lock("bin"):
        time.sleep(0.1)
    with contextlib.suppress(LockLost):
        send_bill()

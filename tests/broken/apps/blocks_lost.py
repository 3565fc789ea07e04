"""Blocks of lock clients that lose their locks: one fails then, one is cancelled, and one only hears of the loss."""

import asyncio
import time

import azure.functions as func

from singleton import AsyncLockClient, LockClient

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

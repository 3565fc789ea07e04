"""An app with listeners, as a worker indexes them: sync and async, above and below the trigger, and both modes."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()


def write(function: str) -> None:
    hold = current_hold()
    with Path(os.environ["JOURNAL"]).open("a") as file:
        file.write(json.dumps([function, os.getpid(), hold.lock, hold.owner]) + "\n")


@app.timer_trigger(arg_name="timer", schedule="0 0 2 * * *")
@singleton(mode="listener")
def clean(timer: func.TimerRequest) -> None:
    write("clean")


@singleton(mode="listener")
@app.timer_trigger(arg_name="timer", schedule="0 0 2 * * *")
async def sweep(timer: func.TimerRequest) -> None:
    await asyncio.sleep(0.01)
    write("sweep")


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(mode="listener")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.01)
    write("ship")


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(mode="listener", on_contention="raise")
def bill(msg: func.QueueMessage) -> None:
    write("bill")

"""Blocks of lock clients that lose their locks: one fails then, the other only hears of the loss."""

import time

import azure.functions as func

from singleton import LockClient

app = func.FunctionApp()
locks = LockClient("AzureWebJobsStorage")


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
def copy(timer: func.TimerRequest) -> None:
    with locks.lock("ledger"):
        time.sleep(9)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
def look(timer: func.TimerRequest) -> None:
    with locks.lock("mirror", on_loss="tell") as hold:
        hold.lost.wait(9)

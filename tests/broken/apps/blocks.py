"""Async bodies that block the loop of their app for longer than a lease, which costs no lease."""

import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
async def load(timer: func.TimerRequest) -> None:
    time.sleep(20)  # noqa: ASYNC251 - as some apps do

"""A timer that skips, with failover."""

import time

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.timer_trigger(arg_name="timer", schedule="*/3 * * * * *")
@singleton(on_contention="skip", failover=2)
def sync(timer: func.TimerRequest) -> None:
    for _ in range(20):
        current_hold().raise_if_lost()
        time.sleep(0.5)

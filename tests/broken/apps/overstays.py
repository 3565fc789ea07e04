"""A body that goes on after `max_hold` without a look at its hold, and then calls a guarded function."""

import time

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


@singleton(scope_id="audit")
def audit() -> None:
    time.sleep(0.05)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(max_hold=2)
def ship(msg: func.QueueMessage) -> None:
    time.sleep(4 if msg.dequeue_count == 1 else 0.5)
    audit()

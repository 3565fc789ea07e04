"""Names of locks that are made of texts."""

import itertools

import azure.functions as func

from singleton import LockClient

app = func.FunctionApp()
locks = LockClient("AzureWebJobsStorage")
endings = itertools.cycle(["", "/"])


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
def ship(msg: func.QueueMessage) -> None:
    with locks.lock(locks.safe_name("north" + next(endings))):
        pass

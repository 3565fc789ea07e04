"""A lock client that takes the lock of a guarded function."""

import time

import azure.functions as func

from singleton import LockClient, SingletonOptions, singleton

app = func.FunctionApp()
locks = LockClient("AzureWebJobsStorage", options=SingletonOptions(lock_acquisition_polling_interval=1))


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(lock_acquisition_polling_interval=1)
def ship(msg: func.QueueMessage) -> None:
    time.sleep(0.3)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
def repair(msg: func.QueueMessage) -> None:
    with locks.lock(locks.lock_name("ship")):
        time.sleep(0.3)

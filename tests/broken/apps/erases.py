"""Two containers with one name of ``once``, and an app that deletes the blobs of its own locks."""

import contextlib
import os

import azure.functions as func
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient

from singleton import LockClient, SingletonOptions, current_hold, once, singleton

app = func.FunctionApp()
_CONTAINERS = ("first", "second")


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def ship(msg: func.QueueMessage) -> None:
    state = current_hold().state
    state.write(1 + state.read(default=0))


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
def bill(msg: func.QueueMessage) -> None:
    for name in _CONTAINERS:
        locks = LockClient("AzureWebJobsStorage", options=SingletonOptions(container=name))
        once(locks, str(msg.id), name="bill").run(lambda kept=name: kept)


@app.timer_trigger(arg_name="timer", schedule="*/3 * * * * *")
def erase(timer: func.TimerRequest) -> None:
    service = BlobServiceClient.from_connection_string(os.environ["AzureWebJobsStorage"])
    blobs = service.get_container_client("webjobshost")
    for blob in [*blobs.list_blobs("locks/")]:
        if "/ship." in blob.name:
            with contextlib.suppress(AzureError):  # a holder has it
                blobs.delete_blob(blob.name)

"""An app that replaces the blobs of its own locks by content of its own, in its own process."""

import contextlib
import os

import azure.functions as func
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Customer")
def ship(msg: func.QueueMessage) -> None:
    state = current_hold().state
    state.write(1 + state.read(default=0))


@app.timer_trigger(arg_name="timer", schedule="*/3 * * * * *")
def spoil(timer: func.TimerRequest) -> None:
    service = BlobServiceClient.from_connection_string(os.environ["AzureWebJobsStorage"])
    blobs = service.get_container_client("webjobshost")
    for blob in [*blobs.list_blobs("locks/")]:
        if "/ship." in blob.name:
            with contextlib.suppress(AzureError):  # a holder has it
                blobs.upload_blob(blob.name, b"spoilt", overwrite=True)

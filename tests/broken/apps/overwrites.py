"""An app that replaces the blobs of its own locks by content of its own, in its own process, also asynchronously."""

import contextlib
import os

import azure.functions as func
from azure.core.exceptions import AzureError
from azure.storage.blob import BlobServiceClient
from azure.storage.blob.aio import ContainerClient

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Customer")
def ship(msg: func.QueueMessage) -> None:
    state = current_hold().state
    state.write(1 + state.read(default=0))


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def bill(msg: func.QueueMessage) -> None:
    state = current_hold().state
    await state.awrite(1 + await state.aread(default=0))


@app.timer_trigger(arg_name="timer", schedule="*/3 * * * * *")
async def spoil_bills(timer: func.TimerRequest) -> None:
    async with ContainerClient.from_connection_string(os.environ["AzureWebJobsStorage"], "webjobshost") as blobs:
        async for blob in blobs.list_blobs("locks/"):
            if "/bill." in blob.name:
                with contextlib.suppress(AzureError):  # a holder has it
                    await blobs.upload_blob(blob.name, b"spoilt", overwrite=True)


@app.timer_trigger(arg_name="timer", schedule="*/3 * * * * *")
def spoil(timer: func.TimerRequest) -> None:
    service = BlobServiceClient.from_connection_string(os.environ["AzureWebJobsStorage"])
    blobs = service.get_container_client("webjobshost")
    for blob in [*blobs.list_blobs("locks/")]:
        if "/ship." in blob.name:
            with contextlib.suppress(AzureError):  # a holder has it
                blobs.upload_blob(blob.name, b"spoilt", overwrite=True)

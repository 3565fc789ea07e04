"""Bodies that are told of a loss and are not cancelled: they wait for the loss, look at the hold, or get a call."""

import asyncio
import threading

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def ship(msg: func.QueueMessage) -> None:
    current_hold().lost.wait(timeout=12)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(scope="Id", cancel_on_loss=False)
async def bill(msg: func.QueueMessage) -> None:
    lost = asyncio.ensure_future(_loss())
    await asyncio.wait([lost], timeout=12)
    lost.cancel()
    await asyncio.wait([lost])


async def _loss() -> None:
    await current_hold().lost


@app.queue_trigger(arg_name="msg", queue_name="mails", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def mail(msg: func.QueueMessage) -> None:
    over = threading.Event()
    current_hold().lost.add_callback(lambda _: over.set())
    over.wait(8)


@app.queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsStorage")
@singleton(scope="Id", cancel_on_loss=False)
async def note(msg: func.QueueMessage) -> None:
    for _ in range(40):
        await asyncio.sleep(0.2)
        if not current_hold().owned:
            break

"""Runs that coalesce: for changes by a queue with a scope and with two names, by Service Bus, and by a timer."""

import asyncio
import time

import azure.functions as func

from singleton import OldLock, singleton

app = func.FunctionApp()


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", on_contention="coalesce")
async def refresh(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.6)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(on_contention="coalesce", also=OldLock(name="reindex"))
def rebuild(msg: func.QueueMessage) -> None:
    time.sleep(0.4)


@app.service_bus_queue_trigger(arg_name="msg", queue_name="notes", connection="AzureWebJobsServiceBus")
@singleton(on_contention="coalesce")
async def reckon(msg: func.ServiceBusMessage) -> None:
    await asyncio.sleep(0.5)


@app.timer_trigger(arg_name="timer", schedule="*/3 * * * * *")
@singleton(on_contention="coalesce")
async def tidy(timer: func.TimerRequest) -> None:
    await asyncio.sleep(4)

"""A policy of the app's own that waits at first, for two seconds at most, then raises, and then puts back."""

import asyncio

import azure.functions as func

from singleton import Contention, Policy, singleton

app = func.FunctionApp()


def less_and_less_patient(contention: Contention) -> Policy:
    return "wait" if contention.dequeue_count == 1 else "raise" if contention.dequeue_count == 2 else "defer"


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Customer", on_contention=less_and_less_patient, timeout=2, defer_delay=4)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.9)

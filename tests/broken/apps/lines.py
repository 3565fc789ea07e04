"""Lines of waiters: of three at most, counted by a policy, answered with 409; and a caller that is alone."""

import asyncio
from typing import Literal

import azure.functions as func

from singleton import Contention, once, singleton

app = func.FunctionApp()


def unless_somebody_waits(contention: Contention) -> Literal["wait", "defer"]:
    return "wait" if contention.waiting < 2 else "defer"


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(on_contention=unless_somebody_waits, defer_delay=2)
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.5)


@app.queue_trigger(arg_name="msg", queue_name="bills", connection="AzureWebJobsStorage")
@singleton(max_waiting=2, when_full="defer", defer_delay=2)
async def bill(msg: func.QueueMessage) -> None:
    await asyncio.sleep(1.5)


@app.route(route="charge", methods=["POST"])
@singleton(on_contention="conflict")
async def charge(req: func.HttpRequest) -> func.HttpResponse:
    await asyncio.sleep(1)
    return func.HttpResponse(status_code=201)


@app.route(route="pay", methods=["POST"])
@once(key="{headers.Idempotency-Key}", on_contention="conflict")
async def pay(req: func.HttpRequest) -> func.HttpResponse:
    await asyncio.sleep(1)
    return func.HttpResponse(status_code=201)


@app.timer_trigger(arg_name="timer", schedule="*/4 * * * * *")
@singleton
async def tidy(timer: func.TimerRequest) -> None: ...

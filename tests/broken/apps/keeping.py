"""State that is kept with a lock, and results of ``once``: of functions, and of lock clients."""

import asyncio
import time
import uuid

import azure.functions as func

from singleton import LockClient, current_hold, once, singleton

app = func.FunctionApp()
locks = LockClient("AzureWebJobsStorage")


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id", level="host")
def count_up(msg: func.QueueMessage) -> None:
    state = current_hold().state
    number = state.read(default=0)
    time.sleep(0.05)
    state.write(number + 1)


@app.queue_trigger(arg_name="msg", queue_name="flags", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def flag(msg: func.QueueMessage) -> None:
    state = current_hold().state
    if state.read(default="down") == "down":
        state.write("up")
    else:
        state.remove()


@app.timer_trigger(arg_name="timer", schedule="*/2 * * * * *")
@singleton
async def import_changes(timer: func.TimerRequest) -> None:
    state = current_hold().state
    done = await state.aread(default=[])
    await state.awrite([*done[-5:], len(done)])


@app.queue_trigger(arg_name="msg", queue_name="charges", connection="AzureWebJobsStorage")
@once(key="Order:Id")
async def charge(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.02)


@app.route(route="receipts", methods=["POST"])
@once(key="{headers.Idempotency-Key}")
def receipt(req: func.HttpRequest) -> func.HttpResponse:
    return func.HttpResponse(uuid.uuid4().hex, status_code=201)


@app.queue_trigger(arg_name="msg", queue_name="numbers", connection="AzureWebJobsStorage")
def number(msg: func.QueueMessage) -> None:
    key = msg.get_json()["Id"]
    with locks.lock(f"numbers/{key}") as hold:
        hold.state.write(hold.state.read(default=0) + 1)
    once(locks, key, name="greeting").run(lambda: uuid.uuid4().hex)
    with once(locks, key, name="call") as call:
        if not call.done:
            if msg.dequeue_count == 1:
                raise ConnectionError("the line is busy")
            call.finish("answered")

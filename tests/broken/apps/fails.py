"""Orders of which every third fails twice, with errors of the app's own that have the names of the lock's."""

import asyncio

import azure.functions as func

from singleton import singleton

app = func.FunctionApp()


class StorageError(Exception): ...


class LockLost(Exception): ...


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
async def ship(msg: func.QueueMessage) -> None:
    await asyncio.sleep(0.2)
    number = msg.get_json()["Number"]
    if number % 3 == 0 and (msg.dequeue_count or 1) < 3:
        raise StorageError("disk full") if number % 2 else LockLost("the door is open")


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
def tidy(timer: func.TimerRequest) -> None:
    raise RuntimeError("always")

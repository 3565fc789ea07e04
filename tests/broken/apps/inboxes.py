"""An inbox: messages of a customer in the order sent; and its worker, outside of the functions."""

import threading
import time

import azure.functions as func

from singleton import Inbox, InboxMessage, InboxWorker, ordered, singleton

app = func.FunctionApp()
inbox = Inbox("orders")
parcels = Inbox("parcels")
begun = threading.Lock()
workers: list[InboxWorker] = []


@app.route(route="orders/{customer}", methods=["POST"])
async def receive(req: func.HttpRequest) -> func.HttpResponse:
    await inbox.asend(req.route_params["customer"], req.get_json())
    return func.HttpResponse(status_code=202)


@app.queue_trigger(arg_name="message", queue_name="orders", connection="AzureWebJobsStorage")
@ordered(inbox)
def ship(message: InboxMessage) -> None:
    time.sleep(0.1)
    if message.body["Number"] % 7 == 3 and message.attempt == 1:
        raise ValueError("not yet")


@app.route(route="parcels/{customer}", methods=["POST"])
def weigh(req: func.HttpRequest) -> func.HttpResponse:
    with begun:
        if not workers:
            workers.append(parcels.worker(pack, keys=4))
            workers[0].start()
    parcels.send(req.route_params["customer"], req.get_json())
    return func.HttpResponse(status_code=202)


def pack(message: InboxMessage) -> None:
    time.sleep(0.05)


@app.timer_trigger(arg_name="timer", schedule="*/5 * * * * *")
@singleton(on_contention="skip")
def look(timer: func.TimerRequest) -> None:
    inbox.look()
    parcels.look()

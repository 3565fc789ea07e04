"""An inbox with a key whose messages fail once, beside a key whose messages never fail."""

import azure.functions as func

from singleton import Inbox, InboxMessage, ordered, singleton

app = func.FunctionApp()
inbox = Inbox("orders")


@app.timer_trigger(arg_name="timer", schedule="*/2 * * * * *")
@singleton(on_contention="skip")
def place(timer: func.TimerRequest) -> None:
    for key in ("fails", "works"):
        inbox.send(key, {"order": key})


@app.queue_trigger(arg_name="message", queue_name="orders", connection="AzureWebJobsStorage")
@ordered(inbox)
def ship(message: InboxMessage) -> None:
    if message.key == "fails" and message.attempt == 1:
        raise ValueError("not yet")

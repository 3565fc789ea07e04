"""Handlers and a partner that always fail for some messages: inboxes with two attempts, and an outbox with three."""

import json
import time
from pathlib import Path

import azure.functions as func
from sqlalchemy import create_engine

from singleton import Inbox, InboxMessage, current_hold, ordered, singleton
from singleton.patterns.outbox import Message, OutboxRelay
from singleton.patterns.sql import SqlOutbox

app = func.FunctionApp()
inbox = Inbox("parcels")
letters = Inbox("letters")
engine = create_engine(f"sqlite:///{Path(__file__).with_name('shop.db')}", connect_args={"timeout": 30})
outbox = SqlOutbox(engine)
with engine.begin() as connection:
    outbox.table.metadata.create_all(connection)


def publish(message: Message) -> None:
    if json.loads(message.body)["Number"] % 3 == 0:
        raise ValueError("the partner is down")


relay = OutboxRelay(outbox, publish, attempts=3, on_poison="stop")


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
def place(msg: func.QueueMessage) -> None:
    order = msg.get_json()
    with engine.begin() as connection:
        outbox.add(connection, json.dumps(order), key=order["Id"])
    inbox.send(order["Id"], order)
    letters.send(order["Id"], order)


@app.queue_trigger(arg_name="message", queue_name="parcels", connection="AzureWebJobsStorage")
@ordered(inbox, attempts=2)
def ship(message: InboxMessage) -> None:
    time.sleep(0.1)
    if message.body["Number"] % 3 == 0:
        raise ValueError("no such address")


@app.queue_trigger(arg_name="message", queue_name="letters", connection="AzureWebJobsStorage")
@ordered(letters, attempts=2, on_poison="stop")
async def post(message: InboxMessage) -> None:
    if message.body["Number"] % 3 == 0:
        raise ValueError("no such address")


@app.timer_trigger(arg_name="timer", schedule="*/2 * * * * *")
@singleton(on_contention="skip")
def relay_outbox(timer: func.TimerRequest) -> None:
    relay.work(current_hold())
    inbox.look()
    letters.look()

"""An outbox in a database of the app's: orders are placed, and a timer relays their messages."""

import json
import time
from pathlib import Path

import azure.functions as func
from sqlalchemy import create_engine

from singleton import current_hold, singleton
from singleton.patterns.outbox import Message, OutboxRelay
from singleton.patterns.sql import SqlOutbox

app = func.FunctionApp()
engine = create_engine(f"sqlite:///{Path(__file__).with_name('shop.db')}", connect_args={"timeout": 30})
outbox = SqlOutbox(engine)
with engine.begin() as connection:
    outbox.table.metadata.create_all(connection)


def publish(message: Message) -> None:
    time.sleep(0.02)


relay = OutboxRelay(outbox, publish)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
def place(msg: func.QueueMessage) -> None:
    order = msg.get_json()
    with engine.begin() as connection:
        outbox.add(connection, json.dumps(order), key=order["Id"], destination="shipping")


@app.timer_trigger(arg_name="timer", schedule="*/2 * * * * *")
@singleton(on_contention="skip")
def relay_outbox(timer: func.TimerRequest) -> None:
    relay.work(current_hold())

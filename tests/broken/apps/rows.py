"""States of rows: some work takes longer than its claim lasts, and its end is refused; some fails, once or always."""

import time
import uuid
from contextlib import suppress
from pathlib import Path

import azure.functions as func
from sqlalchemy import MetaData, create_engine, insert

from singleton import singleton
from singleton.patterns.outbox import StaleClaim
from singleton.patterns.sql import RowStates, work_table

app = func.FunctionApp()
engine = create_engine(f"sqlite:///{Path(__file__).with_name('shop.db')}", connect_args={"timeout": 30})
metadata = MetaData()
orders, slips = work_table(metadata), work_table(metadata, "slips")
with engine.begin() as connection:
    metadata.create_all(connection)
rows = RowStates(engine, orders, stuck_after=4)
failing = RowStates(engine, slips, attempts=2)


@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Id")
def place(msg: func.QueueMessage) -> None:
    with engine.begin() as connection:
        for table in (orders, slips):
            connection.execute(insert(table).values(id=uuid.uuid4().hex, body=msg.get_body().decode()))


@app.timer_trigger(arg_name="timer", schedule="*/1 * * * * *")
def book(timer: func.TimerRequest) -> None:
    for claim in rows.claim(1):
        time.sleep(6 if claim.row["id"] < "4" and claim.attempt == 1 else 1)
        with suppress(StaleClaim):  # claimed again meanwhile
            rows.done(claim)


@app.timer_trigger(arg_name="timer", schedule="*/1 * * * * *")
def check(timer: func.TimerRequest) -> None:
    for claim in failing.claim(20):
        if claim.row["id"] < "4" or (claim.row["id"] < "8" and claim.attempt == 1):
            failing.failed(claim, "the bank is away", retry_in=3)
        else:
            failing.done(claim)

"""The sample app: three ways in which several instances of an app do harm, and what keeps each from happening.

Run it with ``func start``, or let ``singleton-sim`` run five hosts of it and kill or pause some.
"""

import asyncio
import logging
import sqlite3
import tempfile
import time
from contextlib import closing

import azure.functions as func

from singleton import current_hold, singleton

app = func.FunctionApp()
log = logging.getLogger("sample")


# 1. Two imports at once would load each row twice. So a run that starts while another goes on ends at once: the next
#    tick comes anyway. Where one more run must follow the last change, write "coalesce" in place of "skip".
@app.timer_trigger(arg_name="timer", schedule="%IMPORT_SCHEDULE%")
@singleton(on_contention="skip")
def import_eligibility(timer: func.TimerRequest) -> None:  # noqa: ARG001 - the binding must be named
    """Import the eligibility file, in one app, slot or region at a time."""
    for batch in range(1, 21):
        current_hold().raise_if_lost()  # the next run has begun, or will: end
        time.sleep(0.5)  # stands for reading a batch of rows
        write(batch)


# 2. Two orders of one customer at once would read the same number, and one of them would not be counted. So they wait
#    for one another, on every instance. Orders of different customers run at the same time.
@app.queue_trigger(arg_name="msg", queue_name="orders", connection="AzureWebJobsStorage")
@singleton(scope="Customer")
async def ship_order(msg: func.QueueMessage) -> None:
    """Ship an order, and count it for its customer."""
    shipped = read()
    for _ in range(60 if msg.get_json().get("Large") else 1):  # a large one takes longer than a lease
        await asyncio.sleep(0.5)  # stands for booking a parcel
    write(shipped + 1)
    log.info("order shipped: %s", msg.get_body().decode())


# 3. A host may stand still past its lease, just before it writes. No lock can stop it when it wakes, but the database
#    can: each hold of a lock has a greater token than the hold before it, so whoever brings a smaller token is late.
#    The token is null while locking is switched off. Then nothing is refused.
WRITE = """INSERT INTO facts VALUES (:lock, :value, coalesce(:token, 0))
           ON CONFLICT (lock) DO UPDATE SET value = :value, token = coalesce(:token, token)
           WHERE token <= coalesce(:token, token)"""


def write(value: int) -> None:
    """Write what this lock guards, unless a later holder has written."""
    hold = current_hold()
    with closing(database()) as db, db:
        if db.execute(WRITE, {"lock": hold.lock, "value": value, "token": hold.token}).rowcount == 0:
            raise StaleToken(f"{hold.lock} = {value} refused: it was written under a greater token than {hold.token}")
    log.info("%s = %d written under token %s", hold.lock, value, hold.token)


def read() -> int:
    """Return what was written last under this lock, or 0."""
    query = "SELECT coalesce(max(value), 0) FROM facts WHERE lock = ?"
    with closing(database()) as db:
        return int(db.execute(query, [current_hold().lock]).fetchone()[0])


def database() -> sqlite3.Connection:
    """Open the database. This file is shared by all hosts on one machine; a deployed app has a server instead."""
    db = sqlite3.connect(f"{tempfile.gettempdir()}/singleton-sample.db", timeout=10)
    db.execute("CREATE TABLE IF NOT EXISTS facts (lock TEXT PRIMARY KEY, value INTEGER, token INTEGER)")
    return db


class StaleToken(Exception):
    """A later holder of the lock has written: nothing of this invocation may follow."""

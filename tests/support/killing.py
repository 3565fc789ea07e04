"""Kills a process with SIGKILL before each of its statements and commits, one after the other: `killing.py URL FOLDER`.

For each point a fork of this process does its work up to there, and dies. What it left in the database must then let a
successor end the work: nothing lost, order kept, and no more done twice than what was in hand. Prints how many points
of each work there were.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, delete, event, insert
from sqlalchemy.orm import Session

from singleton.patterns.outbox import OutboxRelay
from singleton.patterns.sql import RowStates, SqlOutbox, outbox_table, work_table
from tests.support.patterns import column, go_by, held

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.patterns.outbox import Message

METADATA = MetaData()
OUTBOX, WORK = outbox_table(METADATA), work_table(METADATA)
ORDERS = Table("orders", METADATA, Column("id", String(20), primary_key=True))
EFFECTS = Table("effects", METADATA, Column("number", Integer, primary_key=True), Column("row", String(20)))
MESSAGES = ("a1", "b1", "a2")
ENGINE = create_engine(sys.argv[1])
if ENGINE.dialect.name == "sqlite":  # the machine outlives its processes
    event.listen(ENGINE, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close())
JOURNAL = Path(sys.argv[2]) / "journal"
outbox = SqlOutbox(ENGINE, OUTBOX)
rows = RowStates(ENGINE, WORK)


class Points:
    """Counts the points at which this process may die, and dies at one of them."""

    fatal = -1
    passed = 0

    @classmethod
    def reach(cls, *_: object) -> None:
        cls.passed += 1
        if cls.passed == cls.fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def send(message: Message) -> None:
    """Deliver: what is in the journal has been received. One message is poison."""
    Points.reach()
    if message.body == "b1":
        raise OSError("no")
    with JOURNAL.open("a") as journal:
        journal.write(f"{message.body}\n")
    Points.reach()


def relay(token: int) -> None:
    """Send what there is; what has failed once is tried again."""
    for _ in range(2):
        OutboxRelay(outbox, send, attempts=2, batch=2).work(held(token))
        go_by(ENGINE, OUTBOX, 1000)


def order() -> None:
    with Session(ENGINE) as session, session.begin():
        session.execute(insert(ORDERS).values(id="7"))
        outbox.add(session, "7", key="orders")


def process() -> None:
    while claims := rows.claim(2):
        for claim in claims:
            with Session(ENGINE) as session, session.begin():
                session.execute(insert(EFFECTS).values(row=claim.key["id"]))
                rows.done(claim, session)


def dies_at(number: int, work: Callable[[], object]) -> bool:
    """Do this in a fork that dies at a point. Tell whether it did: there is no such point otherwise."""
    child = os.fork()
    if not child:
        ENGINE.dispose(close=False)  # its connections are its parent's
        Points.fatal, Points.passed = number, 0
        event.listen(ENGINE, "before_cursor_execute", Points.reach)
        event.listen(ENGINE, "commit", Points.reach)
        try:
            work()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - it must not go on as its parent
            os.write(2, f"{error!r}\n".encode())
            os._exit(3)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def fresh() -> None:
    with ENGINE.begin() as connection:
        for table in METADATA.sorted_tables:
            connection.execute(delete(table))
    JOURNAL.unlink(missing_ok=True)


def killed_relays() -> int:
    number = 0
    while True:
        number += 1
        fresh()
        with ENGINE.begin() as connection:
            for body in MESSAGES:
                outbox.add(connection, body, key=body[0], id=body)
        killed = dies_at(number, lambda: relay(1))
        go_by(ENGINE, OUTBOX, 1000)
        relay(2)
        got = JOURNAL.read_text().split()
        assert set(got) == set(MESSAGES) - {"b1"}, got
        assert len(got) - len(set(got)) <= killed, got  # what was in hand
        assert [each for each in got if each.startswith("a")] == sorted(each for each in got if each.startswith("a"))
        assert column(ENGINE, OUTBOX, "state") == ["sent", "poison", "sent"]
        if not killed:
            return number - 1


def killed_orders() -> int:
    number = 0
    while True:
        number += 1
        fresh()
        killed = dies_at(number, order)
        assert column(ENGINE, ORDERS, "id") == column(ENGINE, OUTBOX, "body") == ([] if killed else ["7"])
        if not killed:
            return number - 1


def killed_claimers() -> int:
    number = 0
    while True:
        number += 1
        fresh()
        with ENGINE.begin() as connection:
            connection.execute(insert(WORK), [{"id": str(each), "body": "x"} for each in range(2)])
        killed = dies_at(number, process)
        go_by(ENGINE, WORK, 301)
        process()
        assert column(ENGINE, WORK, "status") == ["Done"] * 2
        assert sorted(column(ENGINE, EFFECTS, "row")) == ["0", "1"]
        if not killed:
            return number - 1


if __name__ == "__main__":
    logging.disable()
    METADATA.create_all(ENGINE)
    print(killed_relays(), killed_orders(), killed_claimers())  # noqa: T201

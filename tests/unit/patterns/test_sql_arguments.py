"""What is given to the patterns for SQL: wrong engines, tables, texts; what is missing; no password is shown."""

from __future__ import annotations

import logging
import pickle
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import pytest
from sqlalchemy import (
    JSON,
    Column,
    Integer,
    LargeBinary,
    MetaData,
    PickleType,
    String,
    Table,
    Text,
    UnicodeText,
    create_engine,
    insert,
    inspect,
    text,
)
from sqlalchemy.dialects import mssql, mysql, postgresql
from sqlalchemy.exc import IntegrityError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.types import TypeDecorator

from singleton import ConfigurationError
from singleton.patterns.outbox import OutboxRelay, StaleClaim
from singleton.patterns.sql import (
    AsyncRowStates,
    AsyncSqlOutbox,
    RowStates,
    SqlOutbox,
    outbox_table,
    state_columns,
    work_table,
)
from singleton.patterns.sql.engines import Now, in_transaction
from tests.support.patterns import Receiver, column, held

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Engine
    from sqlalchemy.types import TypeEngine

URL = "postgresql+psycopg://me:hush@127.0.0.1:9/orders"


@pytest.mark.parametrize("kind", [SqlOutbox, AsyncSqlOutbox])
def test_an_engine_of_another_kind_is_refused_and_a_url_not_repeated(kind: Any) -> None:
    with pytest.raises(ConfigurationError, match="type str") as caught:
        kind("postgresql://me:hush@host/db")
    assert "hush" not in str(caught.value)
    with pytest.raises(ConfigurationError, match="type NoneType"):
        kind(None)


def test_an_engine_that_commits_by_itself_is_refused(engine: Engine) -> None:
    for own in (
        engine.execution_options(isolation_level="AUTOCOMMIT"),
        create_engine("sqlite://", isolation_level="AUTOCOMMIT"),
    ):
        with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
            SqlOutbox(own)
        with pytest.raises(ConfigurationError, match="AUTOCOMMIT"):
            RowStates(own, work_table(MetaData()))


@pytest.mark.parametrize(
    ("kind", "body", "told_so"),
    [
        (
            None,
            {"card": "4711"},
            r"is of type dict, and column 'body' of table 'outbox' is Text\(\): .*json\.dumps",
        ),
        (None, b"4711", r"is of type bytes.*body=JSON\(\)"),
        (None, 4711, "is of type int"),
        (LargeBinary(), "4711", r"is of type str, and column 'body' of table 'outbox' is LargeBinary\(\): give bytes"),
    ],
)
def test_a_body_that_the_column_can_not_keep_is_refused_and_not_shown(
    engine: Engine, kind: TypeEngine[Any] | None, body: Any, told_so: str
) -> None:
    outbox = SqlOutbox(engine, outbox_table(MetaData(), body=kind))
    outbox.create_table()
    with engine.begin() as connection, pytest.raises(ConfigurationError, match=told_so) as refused:
        outbox.add(connection, body)
    assert "4711" not in str(refused.value)


@pytest.mark.parametrize(("kind", "body"), [(JSON(), {"Id": 1}), (JSON(), 7), (LargeBinary(), b"x"), (String(9), "x")])
def test_a_body_of_the_columns_kind_is_kept(engine: Engine, kind: TypeEngine[Any], body: Any) -> None:
    outbox = SqlOutbox(engine, outbox_table(MetaData(), body=kind))
    outbox.create_table()
    with engine.begin() as connection:
        outbox.add(connection, body)
    (waiting,) = outbox.claim(1, 1)
    assert waiting.body == body


@pytest.mark.parametrize(
    ("given", "told_so"),
    [
        ({"key": ""}, "key is '': give a text of from 1 to 255 characters"),
        ({"key": 7}, "key is 7"),
        ({"id": "x" * 256}, "id is 'xxx"),
        ({"destination": b"q"}, "destination is b'q'"),
        ({"body": None}, "body is None"),
        ({"connection": None}, "connection is a value of type NoneType"),
    ],
)
def test_a_message_that_can_not_be_is_refused(engine: Engine, given: dict[str, Any], told_so: str) -> None:
    outbox = SqlOutbox(engine)
    outbox.create_table()
    with engine.begin() as connection, pytest.raises(ConfigurationError, match=told_so):
        outbox.add(**{"connection": connection, "body": "x", **given})


def test_a_relay_needs_a_hold(engine: Engine) -> None:
    nobody: Any = None
    with pytest.raises(ConfigurationError, match="hold is None: give a hold"):
        OutboxRelay(SqlOutbox(engine), print).work(nobody)


async def test_async_connections_are_told_from_sync_ones(engine: Engine) -> None:
    other = create_async_engine("sqlite+aiosqlite://")
    with (
        engine.connect() as connection,
        pytest.raises(ConfigurationError, match="type Connection: give the AsyncSession"),
    ):
        await AsyncSqlOutbox(other).add(connection, "x")  # type: ignore[arg-type]
    async with AsyncSession(other) as session:
        with pytest.raises(ConfigurationError, match="type AsyncSession: give the Session"):
            SqlOutbox(engine).add(session, "x")  # type: ignore[arg-type]
    await other.dispose()


def test_the_tables_may_be_in_the_users_metadata_and_bodies_of_another_type(engine: Engine) -> None:
    metadata = MetaData()
    outbox = SqlOutbox(engine, outbox_table(metadata, "messages", body=JSON()))
    metadata.create_all(engine)
    assert sorted(inspect(engine).get_table_names()) == ["messages", "messages_fence"]
    outbox.create_table()
    with engine.begin() as connection:
        outbox.add(connection, {"order": 7})
    receiver = Receiver()
    OutboxRelay(outbox, receiver).work(held())
    assert [message.body for message in receiver.messages] == [{"order": 7}]
    assert repr(outbox) == "<SqlOutbox 'messages'>"


def test_a_table_that_is_none_of_ours_is_refused(engine: Engine) -> None:
    with pytest.raises(ConfigurationError, match="outbox_table"):
        SqlOutbox(engine, Table("other", MetaData(), Column("id", Integer, primary_key=True)))
    for name in ("", "x" * 51, None):
        with pytest.raises(ConfigurationError, match="1 to 50 characters"):
            SqlOutbox(engine, name)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="give a MetaData"):
        outbox_table("outbox")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wrong", "told_so"),
    [
        ({"table": "work"}, "table is a .*: give a Table or a mapped class"),
        ({"table": Table("bare", MetaData(), Column("id", Integer, primary_key=True))}, "no column 'status'"),
        ({"table": Table("keyless", MetaData(), *state_columns())}, "or has no primary key"),
        ({"columns": {"state": "x"}}, "columns has 'state'; did you mean 'status'"),
        ({"states": {"ready": "x"}}, "states has 'ready'"),
        ({"states": {"done": "Failed"}}, "one value for two states"),
        ({"stuck_after": 0}, "stuck_after is 0"),
        ({"attempts": 0}, "attempts is 0"),
    ],
)
def test_a_wrong_argument_of_row_states_is_named(engine: Engine, wrong: dict[str, Any], told_so: str) -> None:
    with pytest.raises(ConfigurationError, match=told_so):
        RowStates(**{"engine": engine, "table": work_table(MetaData()), **wrong})


def test_wrong_claims_are_refused(engine: Engine) -> None:
    rows = RowStates(engine, work_table(MetaData()))
    rows.table.metadata.create_all(engine)
    wrong: tuple[Callable[[], object], ...] = (
        lambda: rows.claim(0),
        lambda: rows.claim(token="7"),  # type: ignore[arg-type]
        lambda: rows.claim(token=True),
        lambda: rows.put_back(("a", "b")),
    )
    for call in wrong:
        with pytest.raises(ConfigurationError):
            call()


async def test_async_row_states(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/rows.db")
    table = work_table(MetaData())
    async with engine.begin() as connection:
        await connection.run_sync(table.metadata.create_all)
        await connection.execute(insert(table), [{"id": str(each), "body": "x"} for each in range(4)])
    rows = AsyncRowStates(engine, table, attempts=1)
    done, failed, renewed, back = await rows.claim(9, token=3)
    async with AsyncSession(engine) as session, session.begin():
        await rows.done(done, session)
    with pytest.raises(StaleClaim):
        await rows.done(done)
    await rows.failed(failed, "no")
    assert await rows.put_back("1")
    await rows.renew(renewed)
    await rows.give_back(back)
    assert [claim.key["id"] for claim in await rows.claim(9, token=3)] == ["1", "3"]
    await engine.dispose()


def test_a_stale_claim_survives_pickling() -> None:
    copy = pickle.loads(pickle.dumps(StaleClaim("late", reason="stale claim")))  # noqa: S301 - our own
    assert (type(copy), str(copy), copy.reason) == (StaleClaim, "late", "stale claim")


def test_no_error_shows_the_password_of_the_database(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    engine = create_engine(URL)
    outbox, rows = SqlOutbox(engine), RowStates(engine, work_table(MetaData()))
    for attempt in (lambda: outbox.claim(1, 1), rows.claim):
        with pytest.raises(OperationalError) as caught:
            attempt()
        assert "hush" not in str(caught.value)
    assert "hush" not in caplog.text + repr(outbox) + repr(rows)


@pytest.mark.parametrize(
    ("dialect", "utc"),
    [(mssql, "SYSUTCDATETIME()"), (mysql, "UTC_TIMESTAMP(6)"), (postgresql, "EXTRACT(EPOCH FROM CLOCK_TIMESTAMP())")],
    ids=lambda each: getattr(each, "__name__", "").split(".")[-1],
)
def test_no_clock_of_a_database_is_in_local_time(dialect: Any, utc: str) -> None:
    clock = str(Now().compile(dialect=dialect.dialect()))
    assert utc in clock
    assert not {"SYSDATE", "UNIX_TIMESTAMP"} & set(re.findall(r"\w+", clock))


@pytest.mark.parametrize("driver", ["oracle+cx_oracle", "oracle+oracledb"])
def test_a_database_that_is_not_known_is_refused_at_once(driver: str) -> None:
    module = MagicMock(paramstyle="named", version="99.0", __version__="99.0")
    other = create_engine(f"{driver}://me:hush@host/db", module=module)
    refused = "of the kind oracle are not supported: use mariadb, mssql, mysql, postgresql, sqlite"
    with pytest.raises(ConfigurationError, match=refused):
        SqlOutbox(other)
    with pytest.raises(ConfigurationError, match=refused):
        RowStates(other, work_table(MetaData()))
    with pytest.raises(ConfigurationError, match=refused):
        Now().compile(dialect=other.dialect)


class Backwards(TypeDecorator[str]):
    """A type of the user's own."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, _: Any) -> str | None:
        return value and value[::-1]


def test_a_body_of_a_type_of_the_users_own_is_converted_by_this_type(engine: Engine) -> None:
    outbox = SqlOutbox(engine, outbox_table(MetaData(), body=Backwards()))
    outbox.create_table()
    with engine.begin() as connection:
        outbox.add(connection, "abc")
        assert connection.execute(text("SELECT body FROM outbox")).scalars().all() == ["cba"]
    kinds: list[Any] = [mysql, postgresql]
    for dialect in (kind.dialect() for kind in kinds):
        convert = outbox.table.c.body.type.dialect_impl(dialect).bind_processor(dialect)
        assert convert is not None
        assert convert("abc") == "cba"


@pytest.mark.parametrize(("kind", "level"), [("postgresql", "READ COMMITTED"), ("mysql", "REPEATABLE READ")])
def test_transactions_of_the_package_have_a_level_that_the_database_allows(kind: str, level: str) -> None:
    asked = MagicMock()
    asked.dialect.name = kind
    in_transaction(asked, lambda _: None)
    connection = asked.connect.return_value.__enter__.return_value
    connection.execution_options.assert_called_once_with(isolation_level=level)


@pytest.mark.parametrize("dialect", [mysql.dialect(), mysql.dialect(is_mariadb=True)], ids=["mysql", "mariadb"])
def test_bodies_have_no_end_at_64_kib_on_mysql(dialect: Any) -> None:
    metadata = MetaData()

    def declared(table: Table, name: str) -> str:
        return str(table.c[name].type.compile(dialect=dialect))

    tables = outbox_table(metadata), work_table(metadata), Table("own", metadata, *state_columns())
    assert [declared(table, "error") for table in tables] == ["LONGTEXT"] * 3
    assert [declared(table, "body") for table in tables[:2]] == ["LONGTEXT"] * 2
    bodies: list[tuple[TypeEngine[Any] | type[TypeEngine[Any]], str]] = [
        (Text(), "LONGTEXT"),
        (Text, "LONGTEXT"),
        (UnicodeText(), "LONGTEXT"),
        (Text(collation="utf8mb4_bin"), "LONGTEXT COLLATE utf8mb4_bin"),
        (Text().with_variant(mysql.MEDIUMTEXT(), "mysql", "mariadb"), "MEDIUMTEXT"),
        (LargeBinary(), "LONGBLOB"),
        (LargeBinary, "LONGBLOB"),
        (PickleType(), "LONGBLOB"),
        (Backwards(), "LONGTEXT"),
        (Text(100), "TEXT(100)"),
        (JSON(), "JSON"),
    ]
    for number, (kind, shown) in enumerate(bodies):
        assert declared(outbox_table(metadata, f"outbox{number}", body=kind), "body") == shown
    assert str(outbox_table(metadata, "plain").c.body.type) == "TEXT"


def test_times_are_seconds_by_the_databases_clock(engine: Engine) -> None:
    outbox = SqlOutbox(engine)
    outbox.create_table()
    before = time.time()
    with engine.begin() as connection:
        outbox.add(connection, "x")
    (added,) = column(engine, outbox.table, "added_at")
    assert before - 0.1 <= added <= time.time() + 0.1


@pytest.mark.process
@pytest.mark.parametrize("version", ["nothing", "1.4.54"])
def test_without_the_extra_the_error_says_what_to_install(version: str) -> None:
    made = f"types.SimpleNamespace(__version__={version!r})" if version != "nothing" else "None"
    code = (
        f"import sys, types; sys.modules['sqlalchemy'] = {made}\n"
        "import singleton.patterns.outbox\n"
        "try: import singleton.patterns.sql\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert shown.startswith("ConfigurationError singleton.patterns.sql needs SQLAlchemy 2")
    assert ("add sqlalchemy>=2,<3 to requirements.txt" in shown) == (version == "nothing")


def test_a_fence_of_the_apps_own_that_takes_no_row_is_the_databases_error(engine: Engine) -> None:
    metadata = MetaData()
    table = outbox_table(metadata, "messages")
    metadata.tables["messages_fence"].append_column(Column("tenant", String(20), nullable=False))
    metadata.create_all(engine)
    with pytest.raises(IntegrityError, match="tenant"):
        OutboxRelay(SqlOutbox(engine, table), print).work(held())

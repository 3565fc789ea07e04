"""Engines, connections and sessions: checks what was given, and runs transactions on it, sync or async.

The database's clock, as seconds since 1970: clocks of processes differ, and all claimers of a row share this clock.

Statements are written once, for a sync ``Connection``; an async connection runs them by ``run_sync``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeAlias, TypeVar

from sqlalchemy import Connection, Double, Engine
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.orm import Session, scoped_session
from sqlalchemy.sql.expression import ColumnElement

from singleton.base.errors import ConfigurationError
from singleton.base.forks import importing

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import CursorResult
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
    from sqlalchemy.sql import Executable
    from sqlalchemy.sql.compiler import SQLCompiler

_CLOCKS: Final = {
    "mssql": "(DATEDIFF_BIG(MICROSECOND, '1970-01-01', SYSUTCDATETIME()) / 1000000.0)",
    "mariadb": "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)",
    "mysql": "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) / 1e6)",
    "postgresql": "CAST(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) AS DOUBLE PRECISION)",
    "sqlite": "((JULIANDAY('now') - 2440587.5) * 86400.0)",
}


class Now(ColumnElement[float]):
    """The time at which the statement runs."""

    inherit_cache = True
    type = Double()


@compiles(Now)
def _now(_: Now, compiler: SQLCompiler, **__: Any) -> str:
    return _clock(compiler.dialect.name)


def _clock(kind: str) -> str:
    if kind not in _CLOCKS:
        raise ConfigurationError(f"databases of the kind {kind} are not supported: use {', '.join(sorted(_CLOCKS))}")
    return _CLOCKS[kind]


_LEVELS: Final = {"mariadb": "REPEATABLE READ", "mysql": "REPEATABLE READ", "sqlite": None}

_P = ParamSpec("_P")
_T = TypeVar("_T")

Executes: TypeAlias = "Connection | Session | scoped_session[Any]"
"""What has begun the user's transaction."""
AsyncExecutes: TypeAlias = "AsyncConnection | AsyncSession"
_AT_CONNECT: Final = "_on_connect_isolation_level"
"""Where a dialect keeps what ``create_engine(isolation_level=…)`` was given."""


def checked_engine(engine: object) -> Engine:
    """Refuse what is no sync engine."""
    if isinstance(engine, Engine):
        return engine
    others = "with an AsyncEngine use AsyncSqlOutbox or AsyncRowStates"
    raise _refused("engine", engine, f"an Engine (create_engine); {others}")


def checked_async_engine(engine: object) -> AsyncEngine:
    """Refuse what is no async engine."""
    with importing:
        from sqlalchemy.ext.asyncio import AsyncEngine

    if isinstance(engine, AsyncEngine):
        return engine
    others = "with an Engine use SqlOutbox or RowStates"
    raise _refused("engine", engine, f"an AsyncEngine (create_async_engine); {others}")


def checked_connection(connection: object) -> Executes:
    """Refuse what has no transaction of the user's."""
    if isinstance(connection, Connection | Session | scoped_session):
        return connection
    raise _refused("connection", connection, "the Session or Connection of your transaction")


def checked_async_connection(connection: object) -> AsyncExecutes:
    """Refuse what has no transaction of the user's."""
    with importing:
        from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

    if isinstance(connection, AsyncConnection | AsyncSession):
        return connection
    raise _refused("connection", connection, "the AsyncSession or AsyncConnection of your transaction")


def _refused(what: str, value: object, instead: str) -> ConfigurationError:
    """Return the error for a wrong argument, without the argument, which may hold a password."""
    return ConfigurationError(f"{what} is a value of type {type(value).__name__}: give {instead}")


def refuse_unfit(engine: Engine | AsyncEngine) -> None:
    """Refuse a database that is not known, and an engine that commits each statement: nothing is done together then."""
    _clock(engine.dialect.name)
    level = engine.get_execution_options().get("isolation_level", getattr(engine.dialect, _AT_CONNECT, None))
    if str(level).upper() == "AUTOCOMMIT":
        raise ConfigurationError("engine has the isolation level AUTOCOMMIT: give an engine with transactions")


def _level(engine: Engine | AsyncEngine) -> dict[str, Any]:
    """Return the options of a transaction of this package, whatever the level of the app's transactions is.

    Each statement must see the latest commits: rows are locked and numbered for that. A higher level fails transactions
    of claimers side by side, or shows them the past. SQLite has one writer at a time, and no such level. MySQL refuses
    writes at a lower level than its default where binlog_format is STATEMENT. At this default its locking reads and
    writes see the latest commits, and so does a plain read behind them, the first one of its transaction.
    """
    return {"isolation_level": level} if (level := _LEVELS.get(engine.dialect.name, "READ COMMITTED")) else {}


def in_transaction(
    engine: Engine, work: Callable[Concatenate[Connection, _P], _T], *arguments: _P.args, **named: _P.kwargs
) -> _T:
    """Do this in a transaction of its own."""
    with engine.connect() as connection, connection.execution_options(**_level(engine)).begin():
        return work(connection, *arguments, **named)


async def in_async_transaction(
    engine: AsyncEngine, work: Callable[Concatenate[Connection, _P], _T], *arguments: _P.args, **named: _P.kwargs
) -> _T:
    """Do this in a transaction of its own."""
    async with engine.connect() as connection:
        await connection.execution_options(**_level(engine))
        async with connection.begin():
            return await connection.run_sync(work, *arguments, **named)


def changed(connection: Executes, statement: Executable) -> int:
    """Execute a write; return how many rows it met."""
    result: CursorResult[Any] = connection.execute(statement)  # type: ignore[assignment]
    return result.rowcount

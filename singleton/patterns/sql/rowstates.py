"""Rows ``Pending → Processing → Done`` in the user's SQL database, with one claimer at a time (S-13).

A claim raises the row's version, and a write of the claimer names the version of its claim. A slow claimer is refused
after a later claim. With a hold's token, a write also requires that the row has seen no greater token.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sqlalchemy import Table, and_, false, literal, null, or_, select, update

from singleton.base.errors import ConfigurationError
from singleton.base.hold import Hold
from singleton.base.words import did_you_mean, quoted
from singleton.patterns.handler_call import storable, told
from singleton.patterns.outbox import Claim, StaleClaim, fencing_token, whole
from singleton.patterns.sql.engines import (
    Now,
    changed,
    checked_async_connection,
    checked_async_engine,
    checked_connection,
    checked_engine,
    in_async_transaction,
    in_transaction,
    refuse_unfit,
)
from singleton.patterns.sql.tables import state_columns
from singleton.settings.durations import seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sqlalchemy import Column, ColumnElement, Connection, Engine, RowMapping
    from sqlalchemy.ext.asyncio import AsyncEngine

    from singleton.base.kinds import Seconds
    from singleton.patterns.sql.engines import AsyncExecutes, Executes

_STATES: Final = {"pending": "Pending", "processing": "Processing", "done": "Done", "failed": "Failed"}
_SKIP_LOCKED: Final = {"postgresql", "mysql", "mariadb"}
_ROUNDS: Final = 10
"""Number of further searches while none of the found rows could be claimed."""
_E = TypeVar("_E", bound="Engine | AsyncEngine")


class _BaseRowStates(Generic[_E]):
    _checked: Callable[[object], _E]

    def __init__(
        self,
        engine: _E,
        table: Any,
        *,
        columns: Mapping[str, str] | None = None,
        states: Mapping[str, Any] | None = None,
        stuck_after: Seconds = 300.0,
        attempts: int = 5,
        where: ColumnElement[bool] | None = None,
        order_by: ColumnElement[Any] | None = None,
    ) -> None:
        self._engine = self._checked(engine)
        refuse_unfit(engine)
        table = getattr(table, "__table__", table)
        if not isinstance(table, Table) or not table.primary_key.columns:
            raise ConfigurationError(
                f"table is a {type(table).__name__}, or has no primary key: give a Table or a mapped class that has one"
            )
        self.table = table
        own = {column.name: column.name for column in state_columns()}
        names = own | _known(columns, own, "columns")
        missing = [name for name in names.values() if name not in table.c]
        if missing:
            raise ConfigurationError(
                f"table {table.name!r} has no column {missing[0]!r}: add state_columns(), or give yours as columns="
            )
        self._column: dict[str, Column[Any]] = {ours: table.c[name] for ours, name in names.items()}
        self._state = _STATES | _known(states, _STATES, "states")
        if len(set(self._state.values())) < len(_STATES):
            raise ConfigurationError("states has one value for two states: give each its own")
        self._stuck_after = seconds(stuck_after, "stuck_after", above=0)
        self._attempts = whole(attempts, "attempts", most=1_000_000)
        self._where = where
        self._order = list(table.primary_key.columns) if order_by is None else [order_by]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.table.fullname!r}>"

    def _set(self, **values: Any) -> dict[Column[Any], Any]:
        return {self._column[name]: value for name, value in values.items()}

    def _claim(self, connection: Connection, limit: int, token: int | None) -> list[Claim]:
        column, state, age = self._column, self._state, Now() - literal(self._stuck_after)
        late = or_(column["claimed_at"].is_(None), column["claimed_at"] <= age)  # None: claimed before we came
        stuck = and_(column["status"] == state["processing"], late)
        rests = and_(column["claimed_at"].is_not(None), column["claimed_at"] > Now())
        found = select(self.table).where(or_(stuck, and_(column["status"] == state["pending"], ~rests)))
        if self._where is not None:
            found = found.where(self._where)
        if token is not None:
            found = found.where(self._seen_none_above(token))
        if connection.dialect.name in _SKIP_LOCKED:
            found = found.with_for_update(skip_locked=True)
        else:  # a write comes first: where a database has one writer at a time, others wait here, and read what is true
            connection.execute(update(self.table).where(false()).values(self._set(version=0)))
        for _ in range(_ROUNDS):
            rows = connection.execute(found.order_by(*self._order).limit(limit)).mappings().all()
            claims = [claim for row in rows if (claim := self._claimed(connection, row, token)) is not None]
            if claims or not rows:
                return claims
        return []

    def _claimed(self, connection: Connection, row: RowMapping, token: int | None) -> Claim | None:
        """Claim a row. None: another claimer has the row, or its attempts are used up."""
        column = self._column
        claim = Claim(
            key={each.key: row[each] for each in self.table.primary_key.columns},
            row={each.key: row[each] for each in self.table.columns},
            version=row[column["version"]] + 1,
            attempt=row[column["attempts"]] + 1,
            token=token,
        )
        last = row[column["status"]] == self._state["processing"] and claim.attempt > self._attempts
        if last:
            values = self._set(
                status=self._state["failed"], version=claim.version, error="its last claimer did not end"
            )
        else:
            values = self._set(
                status=self._state["processing"], version=claim.version, attempts=claim.attempt, claimed_at=Now()
            )
        if token is not None:
            values |= self._set(token=token)
        # A claim since the row was read has raised the row's version.
        unchanged = and_(self._is(claim), column["version"] == claim.version - 1)
        won = changed(connection, update(self.table).where(unchanged).values(values)) == 1
        return claim if won and not last else None

    def _is(self, claim: Claim) -> ColumnElement[bool]:
        return and_(*(self.table.c[name] == value for name, value in claim.key.items()))

    def _seen_none_above(self, token: int) -> ColumnElement[bool]:
        return or_(self._column["token"].is_(None), self._column["token"] <= token)

    def _write(self, connection: Executes, claim: Claim, values: dict[Column[Any], Any]) -> None:
        column = self._column
        mine = and_(self._is(claim), column["version"] == claim.version, column["status"] == self._state["processing"])
        if claim.token is not None:
            mine = and_(mine, self._seen_none_above(claim.token))
        if changed(connection, update(self.table).where(mine).values(values)) != 1:
            raise StaleClaim(
                f"row {dict(claim.key)!r} of {self.table.fullname!r} does not belong to claim {claim.version} any "
                "more: roll back your transaction",
                reason="stale claim",
            )

    def _done(self) -> dict[Column[Any], Any]:
        return self._set(status=self._state["done"], claimed_at=null(), error=null())

    def _failure(self, claim: Claim, error: object, retry_in: Seconds) -> dict[Column[Any], Any]:
        text = told(error) if isinstance(error, BaseException) else storable(str(error))
        wait = seconds(retry_in, "retry_in")
        if claim.attempt >= self._attempts:
            return self._set(status=self._state["failed"], claimed_at=null(), error=text)
        return self._set(status=self._state["pending"], claimed_at=Now() + literal(wait), error=text)

    def _given_back(self, claim: Claim) -> dict[Column[Any], Any]:
        return self._set(status=self._state["pending"], claimed_at=null(), attempts=claim.attempt - 1)

    def _renewed(self) -> dict[Column[Any], Any]:
        return self._set(claimed_at=Now())

    def _put_back(self, connection: Connection, key: Any) -> bool:
        primary = list(self.table.primary_key.columns)
        given = key if isinstance(key, tuple) else (key,)
        if len(given) != len(primary):
            raise ConfigurationError(f"key has {len(given)} values: the primary key has {len(primary)} columns")
        failed = [column == value for column, value in zip(primary, given, strict=True)]
        again = update(self.table).where(*failed, self._column["status"] == self._state["failed"])
        return changed(connection, again.values(self._set(status=self._state["pending"], attempts=0))) == 1

    def _asked(self, limit: int, token: int | Hold | None) -> tuple[int, int | None]:
        number: object = fencing_token(token) if isinstance(token, Hold) else token
        if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
            raise ConfigurationError(f"token is {quoted(token)}: give a hold, its token, or None")
        return whole(limit, "limit", most=10_000), number


def _known(given: Mapping[str, Any] | None, names: Mapping[str, Any], what: str) -> dict[str, Any]:
    for name in given or {}:
        if name not in names:
            raise ConfigurationError(
                f"{what} has {quoted(name)}{did_you_mean(str(name), names) or ':'} give {', '.join(names)}"
            )
    return dict(given or {})


class RowStates(_BaseRowStates["Engine"]):
    """Claims rows of a table, and notes their outcome, for an ``Engine``.

    Args:
        engine: engine of the database; its isolation level must not be ``AUTOCOMMIT``.
        table: a ``Table`` or mapped class with the columns of ``state_columns``, or a table made by ``work_table``.
        columns: names of your columns, if they differ: ``{"status": "state", "claimed_at": "taken"}``.
        states: your values of states, if different: ``{"pending": "New"}``; also ``processing``, ``done``, ``failed``.
        stuck_after: seconds, by the database's clock, after which a claimed row may be claimed again.
        attempts: number of claims of a row before the row is ``Failed``.
        where: condition on the rows to claim.
        order_by: order of the claims; by default the order of the primary key.

    Raises:
        ConfigurationError: an argument is wrong.

    Example::

        rows = RowStates(engine, Invoice)
        for claim in rows.claim(10):
            with Session(engine) as session, session.begin():
                book(session, claim.row)
                rows.done(claim, session)
    """

    _checked = staticmethod(checked_engine)

    def claim(self, limit: int = 1, *, token: int | Hold | None = None) -> list[Claim]:
        """Claim up to ``limit`` pending or stuck rows, and commit. A row has one claimer at a time.

        Args:
            limit: from 1 to 10,000. The time of ``stuck_after`` begins now: claim no more rows than you finish in it.
            token: a hold, or its fencing token: rows which have seen a greater token are not claimed. The hold of a
                switched off lock has no token: each row may be claimed.
        """
        return in_transaction(self._engine, self._claim, *self._asked(limit, token))

    def done(self, claim: Claim, connection: Executes | None = None) -> None:
        """Note that the row is done: in your transaction, together with your changes, or in a separate one.

        Raises:
            StaleClaim: a later claim or a greater fencing token exists. Let your transaction roll back.
        """
        self._do(connection, claim, self._done())

    def failed(
        self, claim: Claim, error: object, *, retry_in: Seconds = 0.0, connection: Executes | None = None
    ) -> None:
        """Note a failure: the row is pending again, or ``Failed`` after its last attempt.

        Args:
            claim: the row.
            error: an exception or a text, kept with the row.
            retry_in: seconds, by the database's clock, until the row may be claimed.
            connection: as for ``done``. Not the failed transaction.

        Raises:
            StaleClaim: a later claim or a greater fencing token exists.
        """
        self._do(connection, claim, self._failure(claim, error, retry_in))

    def give_back(self, claim: Claim) -> None:
        """Give back an unused row: the row is pending again, and the attempt does not count.

        Raises:
            StaleClaim: a later claim or a greater fencing token exists.
        """
        self._do(None, claim, self._given_back(claim))

    def renew(self, claim: Claim) -> None:
        """Restart the time of ``stuck_after``, in the middle of long work.

        Raises:
            StaleClaim: a later claim or a greater fencing token exists. Stop.
        """
        self._do(None, claim, self._renewed())

    def put_back(self, key: Any) -> bool:
        """Let a failed row be claimed again, with the full number of attempts. Return whether the row was found.

        Args:
            key: value of the primary key; a tuple for several columns.
        """
        return in_transaction(self._engine, self._put_back, key)

    def _do(self, connection: Executes | None, claim: Claim, values: dict[Column[Any], Any]) -> None:
        if connection is None:
            in_transaction(self._engine, self._write, claim, values)
        else:
            self._write(checked_connection(connection), claim, values)


class AsyncRowStates(_BaseRowStates["AsyncEngine"]):
    """Claims rows of a table, for an ``AsyncEngine``: the methods of ``RowStates``, with ``await``."""

    _checked = staticmethod(checked_async_engine)

    async def claim(self, limit: int = 1, *, token: int | Hold | None = None) -> list[Claim]:
        """Claim up to ``limit`` rows. See ``RowStates.claim``."""
        return await in_async_transaction(self._engine, self._claim, *self._asked(limit, token))

    async def done(self, claim: Claim, connection: AsyncExecutes | None = None) -> None:
        """Note that the row is done. See ``RowStates.done``."""
        await self._do(connection, claim, self._done())

    async def failed(
        self, claim: Claim, error: object, *, retry_in: Seconds = 0.0, connection: AsyncExecutes | None = None
    ) -> None:
        """Note a failure. See ``RowStates.failed``."""
        await self._do(connection, claim, self._failure(claim, error, retry_in))

    async def give_back(self, claim: Claim) -> None:
        """Give back an unused row. See ``RowStates.give_back``."""
        await self._do(None, claim, self._given_back(claim))

    async def renew(self, claim: Claim) -> None:
        """Restart the time of ``stuck_after``. See ``RowStates.renew``."""
        await self._do(None, claim, self._renewed())

    async def put_back(self, key: Any) -> bool:
        """Let a failed row be claimed again. See ``RowStates.put_back``."""
        return await in_async_transaction(self._engine, self._put_back, key)

    async def _do(self, connection: AsyncExecutes | None, claim: Claim, values: dict[Column[Any], Any]) -> None:
        if connection is None:
            await in_async_transaction(self._engine, self._write, claim, values)
        else:
            await checked_async_connection(connection).run_sync(self._write, claim, values)

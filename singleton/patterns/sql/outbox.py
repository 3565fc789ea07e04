"""An outbox in the user's SQL database (S-15): what ``OutboxStore`` asks for, and what users and operators do with it.

Each transaction of a relay begins with the fence: one row with the greatest token seen, which it raises to its own or
fails at. So transactions of two relays never overlap, and one whose token is smaller writes nothing, however late.

A message's place is the number that the database gives it. Numbers are given before their transaction commits: of two
that overlap the later number may be seen first. On PostgreSQL ``add`` therefore takes an advisory lock on the message's
key until the user's transaction ends; SQLite has one writer anyway. Elsewhere let transactions of one key follow one
another, as those do that write a row of the key first.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sqlalchemy import BigInteger, MetaData, Table, and_, delete, func, insert, literal, null, or_, select, update
from sqlalchemy.exc import IntegrityError

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted
from singleton.patterns.outbox import TIDIED, Message
from singleton.patterns.rows import StaleClaim
from singleton.patterns.sql.clock import Now
from singleton.patterns.sql.engines import (
    changed,
    checked_async_connection,
    checked_async_engine,
    checked_connection,
    checked_engine,
    in_async_transaction,
    in_transaction,
    refuse_autocommit,
)
from singleton.patterns.sql.tables import KEY, check_body, outbox_table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import ColumnElement, Connection, Engine, Row, RowMapping
    from sqlalchemy.ext.asyncio import AsyncEngine

    from singleton.patterns.sql.engines import AsyncExecutes, Executes

_PENDING: Final = "pending"
_SENT: Final = "sent"
_POISON: Final = "poison"
_STOPPED: Final = "stopped"
"""Poison that stops its key."""
_BEFORE: Final = (_PENDING, _STOPPED)
"""States of an earlier message of its key for which a message waits."""
_E = TypeVar("_E", bound="Engine | AsyncEngine")


class _Outbox(Generic[_E]):
    """Everything but how a transaction is run."""

    asynchronous: bool
    _checked: Callable[[object], _E]

    def __init__(self, engine: _E, table: str | Table = "outbox", *, strict: bool = True) -> None:
        self._engine = self._checked(engine)
        refuse_autocommit(engine)
        self.table = table if isinstance(table, Table) else outbox_table(MetaData(), table)
        fence = f"{self.table.fullname}_fence"
        if fence not in self.table.metadata.tables:
            raise ConfigurationError(
                f"table {self.table.name!r} needs the table {fence!r} as well: make both with outbox_table"
            )
        self._fence = self.table.metadata.tables[fence]
        self._locks_keys = strict and engine.dialect.name == "postgresql"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.table.fullname!r}>"

    # --- the user's transaction ---------------------------------------------------------------------------------------

    def _add(self, connection: Executes, values: dict[str, Any]) -> str:
        if self._locks_keys and values["key"] is not None:
            place = hashlib.sha256(f"{self.table.fullname}\0{values['key']}".encode()).digest()
            number = literal(int.from_bytes(place[:8], "big", signed=True), BigInteger())
            connection.execute(select(func.pg_advisory_xact_lock(number)))
        connection.execute(insert(self.table).values(**values, added_at=Now(), due_at=Now()))
        added: str = values["id"]
        return added

    def _values(self, body: Any, key: str | None, destination: str | None, id: str | None) -> dict[str, Any]:  # noqa: A002
        given: tuple[tuple[str, object], ...] = (("key", key), ("destination", destination), ("id", id))
        for name, text in given:
            if text is not None and (not isinstance(text, str) or not 0 < len(text) <= KEY):
                raise ConfigurationError(f"{name} is {quoted(text)}: give a text of from 1 to {KEY} characters")
        check_body(self.table.c.body, body)
        values = {"body": body, "key": key, "destination": destination, "id": id or uuid.uuid4().hex}
        return {**values, "state": _PENDING, "attempts": 0}

    # --- the relay ----------------------------------------------------------------------------------------------------

    def _enter(self, connection: Connection, token: int) -> None:
        """Raise the fence to this token. Its row is locked until the transaction ends."""
        fence = self._fence
        if changed(connection, update(fence).where(fence.c.id == 1, fence.c.token <= token).values(token=token)):
            return
        if connection.execute(select(fence.c.token)).first() is None:
            try:
                connection.execute(insert(fence).values(id=1, token=token))
            except IntegrityError as error:
                raise StaleClaim("another relay has just begun with this outbox", reason="stale token") from error
            return
        raise StaleClaim(f"{self!r} has seen a greater token than {token}", reason="stale token")

    def _claim(self, connection: Connection, token: int, limit: int) -> list[Message]:
        self._enter(connection, token)
        table, earlier = self.table.c, self.table.alias("earlier")
        # Those that wait stand in the way of their key's; those that are due come before them in what is returned.
        waits = or_(earlier.c.state == _STOPPED, and_(earlier.c.state == _PENDING, earlier.c.due_at > Now()))
        same = and_(earlier.c.key == table.key, earlier.c.position < table.position)
        found = connection.execute(
            select(self.table)
            .where(table.state == _PENDING, table.due_at <= Now(), ~select(literal(1)).where(same, waits).exists())
            .order_by(table.position)
            .limit(limit)
        )
        return [_message(row, token) for row in found]

    def _attempt(self, connection: Connection, message: Message) -> bool:
        self._enter(connection, message.token)
        if message.key is not None:
            table = self.table.c
            first = select(func.min(table.position)).where(table.key == message.key, table.state.in_(_BEFORE))
            if connection.execute(first).scalar() != message.position:
                return False
        table = self.table.c
        counted = update(self.table).where(self._is(message), table.attempts == message.attempt - 1)
        return changed(connection, counted.values(attempts=message.attempt, token=message.token)) == 1

    def _sent(self, connection: Connection, message: Message) -> None:
        self._enter(connection, message.token)
        connection.execute(update(self.table).where(self._is(message)).values(state=_SENT, sent_at=Now(), error=null()))

    def _failed(
        self, connection: Connection, message: Message, error: str, *, again_in: float | None, stops: bool
    ) -> None:
        self._enter(connection, message.token)
        values: dict[str, Any] = {"error": error}
        if again_in is None:
            values["state"] = _STOPPED if stops else _POISON
        else:
            values["due_at"] = Now() + literal(again_in)
        connection.execute(update(self.table).where(self._is(message)).values(values))

    def _tidy(self, connection: Connection, token: int, older_than: float) -> int:
        self._enter(connection, token)
        table = self.table.c
        old = select(table.position).where(table.state == _SENT, table.sent_at < Now() - literal(older_than))
        positions = connection.execute(old.limit(TIDIED)).scalars().all()
        if positions:
            connection.execute(delete(self.table).where(table.position.in_(positions)))
        return len(positions)

    def _is(self, message: Message) -> ColumnElement[bool]:
        return and_(self.table.c.position == message.position, self.table.c.state == _PENDING)

    # --- operators ----------------------------------------------------------------------------------------------------

    def _poisoned(self, connection: Connection, limit: int) -> Sequence[RowMapping]:
        table = self.table.c
        poison = select(self.table).where(table.state.in_((_POISON, _STOPPED)))
        return connection.execute(poison.order_by(table.position).limit(limit)).mappings().all()

    def _put_back(self, connection: Connection, id: str) -> bool:  # noqa: A002
        table = self.table.c
        again = update(self.table).where(table.id == id, table.state.in_((_POISON, _STOPPED)))
        return changed(connection, again.values(state=_PENDING, attempts=0, due_at=Now())) == 1

    def _set_aside(self, connection: Connection, id: str) -> bool:  # noqa: A002
        table = self.table.c
        aside = update(self.table).where(table.id == id, table.state == _STOPPED)
        return changed(connection, aside.values(state=_POISON)) == 1

    def _create(self, connection: Connection) -> None:
        self.table.metadata.create_all(connection, [self.table, self._fence])


def _message(row: Row[Any], token: int) -> Message:
    return Message(
        id=row.id,
        body=row.body,
        key=row.key,
        destination=row.destination,
        attempt=row.attempts + 1,
        token=token,
        position=row.position,
    )


class SqlOutbox(_Outbox["Engine"]):
    """An outbox in a SQL database, for an ``Engine``. What ``OutboxRelay`` asks of it is in ``OutboxStore``.

    Args:
        engine: of the database that has your state. Its isolation level must not be ``AUTOCOMMIT``.
        table: name of the table; or what ``outbox_table`` made in your ``MetaData``.
        strict: on PostgreSQL, transactions that add messages of one key wait for one another from ``add`` on, so that
            their messages have the order of their commits. False: where they overlap, the order may differ.

    Raises:
        ConfigurationError: an argument is wrong.

    Example::

        outbox = SqlOutbox(engine)
        with Session(engine) as session, session.begin():
            session.add(order)
            outbox.add(session, json.dumps({"order": order.id}), key=order.customer, destination="orders")
    """

    asynchronous = False

    _checked = staticmethod(checked_engine)

    def create_table(self) -> None:
        """Make the table and its fence where they are missing. With migrations of your own, use ``outbox_table``."""
        in_transaction(self._engine, self._create)

    def add(
        self,
        connection: Executes,
        body: Any,
        *,
        key: str | None = None,
        destination: str | None = None,
        id: str | None = None,  # noqa: A002 - the message's
    ) -> str:
        """Add a message in your transaction: it is sent if that commits, and only then.

        Args:
            connection: the ``Session`` or ``Connection`` of the transaction.
            body: what the receiver gets; a text, unless the table has another type for it.
            key: messages of one key are sent in their order; None: no order.
            destination: where it goes to, if your ``send`` wants to know.
            id: the message's id, unlike every other's; None: one is made. A second message of one id is refused by the
                database (``IntegrityError``).

        Returns:
            The id.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        return self._add(checked_connection(connection), self._values(body, key, destination, id))

    def poisoned(self, limit: int = 100) -> Sequence[RowMapping]:
        """Return up to ``limit`` messages that were given up, column to value, with their last ``error``.

        The ``state`` of one that stops its key is ``"stopped"``.
        """
        return in_transaction(self._engine, self._poisoned, limit)

    def put_back(self, id: str) -> bool:  # noqa: A002
        """Let a poisoned message be sent again, with all its attempts. Return whether there was one of this id."""
        return in_transaction(self._engine, self._put_back, id)

    def set_aside(self, id: str) -> bool:  # noqa: A002
        """Let the key go on that this poisoned message stops. Return whether there was one of this id."""
        return in_transaction(self._engine, self._set_aside, id)

    def claim(self, token: int, limit: int, /) -> list[Message]:
        """See ``OutboxStore.claim``."""
        return in_transaction(self._engine, self._claim, token, limit)

    def attempt(self, message: Message, /) -> bool:
        """See ``OutboxStore.attempt``."""
        return in_transaction(self._engine, self._attempt, message)

    def sent(self, message: Message, /) -> None:
        """See ``OutboxStore.sent``."""
        in_transaction(self._engine, self._sent, message)

    def failed(self, message: Message, error: str, /, *, again_in: float | None, stops: bool) -> None:
        """See ``OutboxStore.failed``."""
        in_transaction(self._engine, self._failed, message, error, again_in=again_in, stops=stops)

    def tidy(self, token: int, older_than: float, /) -> int:
        """See ``OutboxStore.tidy``."""
        return in_transaction(self._engine, self._tidy, token, older_than)


class AsyncSqlOutbox(_Outbox["AsyncEngine"]):
    """An outbox in a SQL database, for an ``AsyncEngine``. Its methods are those of ``SqlOutbox``, with ``await``."""

    asynchronous = True

    _checked = staticmethod(checked_async_engine)

    async def create_table(self) -> None:
        """Make the table and its fence where they are missing. See ``SqlOutbox.create_table``."""
        await in_async_transaction(self._engine, self._create)

    async def add(
        self,
        connection: AsyncExecutes,
        body: Any,
        *,
        key: str | None = None,
        destination: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> str:
        """Add a message in the transaction of an ``AsyncSession`` or ``AsyncConnection``. See ``SqlOutbox.add``."""
        values = self._values(body, key, destination, id)
        return await checked_async_connection(connection).run_sync(self._add, values)

    async def poisoned(self, limit: int = 100) -> Sequence[RowMapping]:
        """Return messages that were given up. See ``SqlOutbox.poisoned``."""
        return await in_async_transaction(self._engine, self._poisoned, limit)

    async def put_back(self, id: str) -> bool:  # noqa: A002
        """Let a poisoned message be sent again. See ``SqlOutbox.put_back``."""
        return await in_async_transaction(self._engine, self._put_back, id)

    async def set_aside(self, id: str) -> bool:  # noqa: A002
        """Let the key go on that this poisoned message stops. See ``SqlOutbox.set_aside``."""
        return await in_async_transaction(self._engine, self._set_aside, id)

    async def claim(self, token: int, limit: int, /) -> list[Message]:
        """See ``OutboxStore.claim``."""
        return await in_async_transaction(self._engine, self._claim, token, limit)

    async def attempt(self, message: Message, /) -> bool:
        """See ``OutboxStore.attempt``."""
        return await in_async_transaction(self._engine, self._attempt, message)

    async def sent(self, message: Message, /) -> None:
        """See ``OutboxStore.sent``."""
        await in_async_transaction(self._engine, self._sent, message)

    async def failed(self, message: Message, error: str, /, *, again_in: float | None, stops: bool) -> None:
        """See ``OutboxStore.failed``."""
        await in_async_transaction(self._engine, self._failed, message, error, again_in=again_in, stops=stops)

    async def tidy(self, token: int, older_than: float, /) -> int:
        """See ``OutboxStore.tidy``."""
        return await in_async_transaction(self._engine, self._tidy, token, older_than)

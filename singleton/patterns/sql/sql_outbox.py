"""An outbox in the user's SQL database (S-15): an ``OutboxStore``, with methods for users and operators.

A transaction of a relay begins at the fence: a row with the greatest token seen. The transaction raises the row to its
own token, or fails. Transactions of two relays never overlap, and a relay with a smaller token writes nothing, however
late it comes.

A message's position is a number from the database. The database gives numbers before a transaction commits: with two
overlapping transactions the later number may become visible first. On PostgreSQL ``add`` takes an advisory lock on the
message's key until the end of the user's transaction; SQLite has a single writer. On other databases let transactions
of one key follow one another, for example by a write to a row of the key.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from sqlalchemy import BigInteger, MetaData, Table, and_, delete, func, insert, literal, null, or_, select, update
from sqlalchemy.exc import IntegrityError

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted
from singleton.patterns.outbox import TIDIED, Message, StaleClaim
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
"""State of a poisoned message which stops its key."""
_BEFORE: Final = (_PENDING, _STOPPED)
"""A message waits for earlier messages of its key in these states."""
_E = TypeVar("_E", bound="Engine | AsyncEngine")


class _Outbox(Generic[_E]):
    asynchronous: bool
    _checked: Callable[[object], _E]

    def __init__(self, engine: _E, table: str | Table = "outbox", *, strict: bool = True) -> None:
        self._engine = self._checked(engine)
        refuse_unfit(engine)
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

    def _enter(self, connection: Connection, token: int) -> None:
        """Raise the fence to the token, or leave the fence as it is for 0: locking is switched off.

        The fence's row is locked until the end of the transaction.
        """
        fence = self._fence
        raised = update(fence).where(fence.c.id == 1, fence.c.token <= token).values(token=token)
        as_it_is = update(fence).where(fence.c.id == 1).values(token=fence.c.token)
        entered = raised if token else as_it_is
        if changed(connection, entered):
            return
        if connection.execute(select(fence.c.token)).first() is None:
            try:
                with connection.begin_nested():
                    connection.execute(insert(fence).values(id=1, token=token))
                    return
            except IntegrityError:
                if connection.execute(select(fence.c.token)).first() is None:
                    raise  # for another cause than a relay which was the first
            if changed(connection, entered):
                return
        raise StaleClaim(f"{self!r} has seen a greater token than {token}", reason="stale token")

    def _claim(self, connection: Connection, token: int, limit: int) -> list[Message]:
        self._enter(connection, token)
        table, earlier = self.table.c, self.table.alias("earlier")
        # A waiting message blocks the later messages of its key; due messages before it are returned.
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
    """An outbox in a SQL database, for an ``Engine``. ``OutboxRelay`` uses the methods of ``OutboxStore``.

    Args:
        engine: engine of the database with your state. Its isolation level must not be ``AUTOCOMMIT``.
        table: name of the table, or a table made by ``outbox_table`` in your ``MetaData``.
        strict: on PostgreSQL, transactions which add messages of one key wait for one another from ``add`` on, and
            the messages have the order of the commits. False: overlapping transactions may change the order.

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
        """Create the table and its fence if they are missing. With migrations of your own, use ``outbox_table``."""
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
        """Add a message in your transaction: the message is sent if and only if the transaction commits.

        Args:
            connection: the ``Session`` or ``Connection`` of the transaction.
            body: the message's body; a text, unless the table's column has another type.
            key: messages of one key are sent in order; None: no order.
            destination: a text for your ``send``, for example a queue's name.
            id: unique id of the message; None: an id is made. The database refuses a second message with the id
                (``IntegrityError``).

        Returns:
            The id.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        return self._add(checked_connection(connection), self._values(body, key, destination, id))

    def poisoned(self, limit: int = 100) -> Sequence[RowMapping]:
        """Return up to ``limit`` poisoned messages, column to value, with their last ``error``.

        A message which stops its key has the ``state`` ``"stopped"``.
        """
        return in_transaction(self._engine, self._poisoned, limit)

    def put_back(self, id: str) -> bool:  # noqa: A002
        """Let the relay send a poisoned message again, with all attempts. Return whether the id was found."""
        return in_transaction(self._engine, self._put_back, id)

    def set_aside(self, id: str) -> bool:  # noqa: A002
        """Let the key go on behind the poisoned message which stops it. Return whether the id was found."""
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
    """An outbox in a SQL database, for an ``AsyncEngine``: the methods of ``SqlOutbox``, with ``await``."""

    asynchronous = True

    _checked = staticmethod(checked_async_engine)

    async def create_table(self) -> None:
        """Create the table and its fence if they are missing. See ``SqlOutbox.create_table``."""
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
        """Return poisoned messages. See ``SqlOutbox.poisoned``."""
        return await in_async_transaction(self._engine, self._poisoned, limit)

    async def put_back(self, id: str) -> bool:  # noqa: A002
        """Let the relay send a poisoned message again. See ``SqlOutbox.put_back``."""
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

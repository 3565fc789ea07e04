"""This package's tables, for SQLAlchemy: in your ``MetaData`` they are migrated like yours, with Alembic too."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import BigInteger, Column, Double, Enum, Index, Integer, LargeBinary, MetaData, String, Table, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.exc import ArgumentError, CompileError
from sqlalchemy.types import TypeDecorator, to_instance

from singleton.base.errors import ConfigurationError
from singleton.base.words import quoted

if TYPE_CHECKING:
    from sqlalchemy.types import TypeEngine

KEY: Final = 255
"""Characters of a key, an id or a destination."""
_NUMBER: Final = BigInteger().with_variant(Integer(), "sqlite")
_MYSQL: Final = ("mysql", "mariadb")


def outbox_table(
    metadata: MetaData,
    name: str = "outbox",
    *,
    schema: str | None = None,
    body: TypeEngine[Any] | type[TypeEngine[Any]] | None = None,
) -> Table:
    """Describe the table of an outbox, and the fence (``{name}_fence``), a table of one row with the greatest token.

    Args:
        metadata: your ``MetaData``, for your migrations, or a new one.
        name, schema: name and schema of the table.
        body: type of the messages' bodies; ``Text()`` by default, ``JSON()`` or ``LargeBinary()`` for other bodies. On
            MySQL and MariaDB ``TEXT`` and ``BLOB`` become ``LONGTEXT`` and ``LONGBLOB``, unless they have a length or a
            character set, or the type has a variant of yours for MySQL.
    """
    check_name(metadata, name)
    Table(
        f"{name}_fence",
        metadata,
        Column("id", Integer, primary_key=True, autoincrement=False),
        Column("token", BigInteger, nullable=False),
        schema=schema,
    )
    return Table(
        name,
        metadata,
        Column("position", _NUMBER, primary_key=True, autoincrement=True),
        Column("id", String(KEY), nullable=False, unique=True),
        Column("key", String(KEY)),
        Column("destination", String(KEY)),
        Column("body", _long(body or Text()), nullable=False),
        Column("state", String(10), nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("token", BigInteger),
        Column("added_at", Double, nullable=False),
        Column("due_at", Double, nullable=False),
        Column("sent_at", Double),
        Column("error", _long(Text())),
        Index(f"ix_{name}_state", "state", "position"),
        Index(f"ix_{name}_key", "key", "state", "position"),
        schema=schema,
        sqlite_autoincrement=True,
    )


def state_columns() -> tuple[Column[Any], ...]:
    """Return the columns that a table of yours needs for ``RowStates``, with the names that ``RowStates`` expects."""
    return (
        Column("status", String(20), nullable=False, default="Pending", server_default="Pending", index=True),
        Column("version", Integer, nullable=False, default=0, server_default="0"),
        Column("attempts", Integer, nullable=False, default=0, server_default="0"),
        Column("claimed_at", Double),
        Column("token", BigInteger),
        Column("error", _long(Text())),
    )


def work_table(metadata: MetaData, name: str = "work") -> Table:
    """Describe a table for ``RowStates`` where you have none: an ``id``, a ``body``, and the columns of the states."""
    check_name(metadata, name)
    return Table(
        name,
        metadata,
        Column("id", String(KEY), primary_key=True),
        Column("body", _long(Text()), nullable=False),
        *state_columns(),
    )


def _long(body: TypeEngine[Any] | type[TypeEngine[Any]]) -> TypeEngine[Any]:
    """Return the type with room for any body: MySQL ends a ``TEXT`` and a ``BLOB`` at 64 KiB, perhaps silently."""
    kind = to_instance(body)
    if isinstance(kind, TypeDecorator):
        kind = kind.copy()
        kind.impl = kind.impl_instance = _long(kind.impl_instance)
        return kind
    with suppress(CompileError, ArgumentError):  # MySQL lacks the type, or the user has chosen a type for MySQL
        name, _, _ = kind.compile(dialect=mysql.dialect()).partition(" COLLATE ")
        if name == "TEXT":
            return kind.with_variant(mysql.LONGTEXT(collation=getattr(kind, "collation", None)), *_MYSQL)
        if name == "BLOB":
            return kind.with_variant(mysql.LONGBLOB(), *_MYSQL)
    return kind


def check_name(metadata: object, name: object) -> None:
    """Refuse what can't name a table."""
    if not isinstance(metadata, MetaData):
        raise ConfigurationError(f"metadata is {quoted(metadata)}: give a MetaData")
    if not isinstance(name, str) or not name or len(name) > 50:
        raise ConfigurationError(f"the table's name is {quoted(name)}: give a text of from 1 to 50 characters")


def check_body(column: Column[Any], body: object) -> None:
    """Refuse the body of a message that its column can't keep. The error doesn't show it: it may be personal data."""
    if body is None:
        raise ConfigurationError("body is None: give what the receiver shall get")
    texts = isinstance(column.type, String) and not isinstance(column.type, Enum)
    if texts and not isinstance(body, str):
        remedy = "give a text, such as json.dumps(…), or make the table with outbox_table(…, body=JSON())"
    elif isinstance(column.type, LargeBinary) and not isinstance(body, bytes | bytearray | memoryview):
        remedy = "give bytes, or make the table with outbox_table(…, body=JSON())"
    else:
        return
    raise ConfigurationError(
        f"body is of type {type(body).__name__}, and column {column.name!r} of table {column.table.name!r} is "
        f"{column.type!r}: {remedy}"
    )

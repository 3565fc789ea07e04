"""What tests of outboxes and of row states share: holds, senders that note what they get, and time that goes by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event, select, update

from singleton.base.hold import Hold

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sqlalchemy import Engine, Table

    from singleton.patterns.outbox import Message
    from singleton.patterns.sql import SqlOutbox


def sqlite_engine(file: Path) -> Engine:
    """Return the engine of a database in a file that need not outlive this machine."""
    engine = create_engine(f"sqlite:///{file}")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA synchronous=OFF").close())
    return engine


def held(token: int | None = 1) -> Hold:
    """Return a hold that nobody will lose."""
    return Hold("relay", owner="test", token=token)


class Receiver:
    """Notes what is sent; ``refuses`` tells which attempts fail, and ``sees`` is called first."""

    def __init__(
        self,
        refuses: Callable[[Message], bool] = lambda _: False,
        sees: Callable[[Message], object] = lambda _: None,
    ) -> None:
        self.messages: list[Message] = []
        self._refuses = refuses
        self._sees = sees

    def __call__(self, message: Message) -> None:
        self._sees(message)
        if self._refuses(message):
            raise OSError(f"no way to the receiver of {message.body}")
        self.messages.append(message)

    async def later(self, message: Message) -> None:
        self(message)

    @property
    def got(self) -> list[str]:
        return [message.body for message in self.messages]


def add(engine: Engine, outbox: SqlOutbox, *bodies: str) -> None:
    """Add a message for each body, each in a transaction of its own. Its key is what is before the first digit."""
    for body in bodies:
        with engine.begin() as connection:
            outbox.add(connection, body, key=body.rstrip("0123456789") or None, id=body)


def go_by(engine: Engine, table: Table, seconds: float) -> None:
    """Let time go by for a table: what it knows of was so much earlier."""
    with engine.begin() as connection:
        for name in {"due_at", "sent_at", "claimed_at"} & set(table.c.keys()):
            connection.execute(update(table).values({name: table.c[name] - seconds}))


def column(engine: Engine, table: Table, name: str) -> list[Any]:
    """Return a column's values, in the order of the primary key."""
    with engine.connect() as connection:
        return list(connection.execute(select(table.c[name]).order_by(*table.primary_key.columns)).scalars())

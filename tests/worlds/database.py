"""A user's database in a virtual world: SQLite in memory, on the world's clock, behind a slow network."""

from __future__ import annotations

import asyncio
import contextvars
import random
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import StaticPool, create_engine, event

from simulator.history.journal import Record
from simulator.virtual.time.machine import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy import Engine, MetaData

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

_T = TypeVar("_T")
_EPOCH: Final = 2440587.5
"""The Julian day of 1970."""
_DAY: Final = 86400.0
_LOST: Final = 0.03
"""Share of the requests, and of the replies, that get lost."""
_SLOW: Final = 0.08
_LONGEST: Final = 45.0
"""Share of those that take up to so many seconds, three leases."""

_clock: list[Callable[[], float]] = []


@cache
def _engine() -> Engine:
    engine = create_engine("sqlite://", poolclass=StaticPool)

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.create_function("julianday", 1, lambda _: _EPOCH + _clock[0]() / _DAY)

    return engine


class Database:
    """The one database of a world. A transaction happens at an instant; what takes time is the way there and back."""

    def __init__(self, world: World, tables: MetaData) -> None:
        self._world = world
        ahead = world.machines[0].ahead  # its clock is as wrong as a host's
        _clock[:] = [lambda: world.loop.now + ahead]
        self.engine = _engine()
        self.share_of_lost, self.share_of_slow = _LOST, _SLOW
        self._rng = random.Random(world.rng_work.random())
        tables.drop_all(self.engine)
        tables.create_all(self.engine)

    async def ask(self, what: str, transaction: Callable[[], _T], about: Callable[[Any], Iterable[str]]) -> _T:
        """Do this there.

        ``what`` names the transaction for stories, and ``about`` tells the rows or tokens, by its result.

        After an ``OSError`` it is not known whether it was done. A request that is on its way arrives, also if the
        caller is cancelled, stopped or dead by then.
        """
        asked = asyncio.get_running_loop().create_task(
            self._carry(what, transaction, about, HOST.get()), context=contextvars.Context()
        )
        asked.add_done_callback(_looked_at)
        return await asyncio.shield(asked)

    async def _carry(
        self, what: str, transaction: Callable[[], _T], about: Callable[[Any], Iterable[str]], machine: Machine | None
    ) -> _T:
        sent = self._world.loop.now
        await self._travel()
        arrived = self._world.loop.now
        notes: list[dict[str, Any]] = []

        def note(answer: str, result: _T | None = None) -> None:
            told = {"call": f"database {what}", "name": "", "answer": answer, "out": arrived - sent, "back": 0.0}
            notes.extend([{**told, "about": each} for each in about(result)])
            host = "world" if machine is None else machine.name
            self._world.records.extend([Record(arrived, host, "request", each) for each in notes])

        try:
            done = transaction()
        except Exception as error:
            note(type(error).__name__)
            raise
        note("ok", done)
        back = None
        try:
            await self._travel()
            back = self._world.loop.now - arrived
        finally:
            for each in notes:
                each["back"] = back
        return done

    async def _travel(self) -> None:
        slow = self._rng.random() < self.share_of_slow
        await asyncio.sleep(self._rng.uniform(0.0, _LONGEST) if slow else self._rng.uniform(0.001, 0.02))
        if self._rng.random() < self.share_of_lost:
            raise OSError("the connection to the database broke")


def _looked_at(asked: asyncio.Future[Any]) -> None:
    if not asked.cancelled():
        asked.exception()

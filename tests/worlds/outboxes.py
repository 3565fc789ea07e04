"""The workload ``outbox``: a relay on each machine, messages of some keys, a receiver that fails, a database far away.

never committed      a message of a transaction that was rolled back has arrived
sent out of order    a message was sent before an earlier one of its key had arrived or was put aside
sent again           a relay sent what the database knows as sent, and nobody else had been there since
noted unsent         a message was noted as sent, and had never arrived
stale relay          the database took something from a relay whose token is smaller than one that it had seen
given up too soon    a message was put aside before its attempts were used up
tried too often      a message was tried more often than it should be
tried too soon       a message was tried again before its wait was over
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import MetaData

from simulator.virtual.hosts.jobs import ended, inside, lock_client
from simulator.virtual.worlds.world import Judge, World
from singleton import LockClosed
from singleton.patterns.outbox import Message, OutboxRelay, StaleClaim
from singleton.patterns.sql import SqlOutbox, outbox_table
from tests.worlds.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.time.machine import Machine
    from singleton import Hold

_T = TypeVar("_T")
_NAME: Final = "outbox"
_ATTEMPTS: Final = 3
_BACKOFF: Final = 4.0
_EVERY: Final = 5.0
_EXACT: Final = 0.01
"""Seconds to which times are exact."""
_METADATA: Final = MetaData()
_TABLE: Final = outbox_table(_METADATA)


class _RolledBack(Exception):
    pass


def start_outbox(world: World) -> None:
    """Each machine adds some messages, and runs a relay until all are sent."""
    rng = world.rng_work
    post = _Post(world, stops=rng.random() < 0.3)
    for machine in world.machines:
        plans = [
            _Plan(
                pause=rng.uniform(0.0, 12.0),
                key=rng.choice(["a", "a", "b", ""]),
                fails=rng.choice([0, 0, 0, 1, 2, _ATTEMPTS]),
                arrives=rng.random() < 0.5,
                rolled_back=rng.random() < 0.15,
                takes=rng.choice([0.01, 0.5, 8.0]) * rng.uniform(0.5, 1.0),
            )
            for _ in range(rng.randint(1, 5))
        ]
        world.start(machine, post.adds(machine, plans), seconds=sum(plan.pause for plan in plans))
        world.start(machine, post.relays(machine), seconds=sum(10.0 + 3 * plan.takes for plan in plans) * 4)


def start_small_outbox(world: World) -> None:
    """Add two messages of one key, and relay the messages from two hosts; the database is near."""
    post = _Post(world, stops=False)
    post._database.share_of_slow = post._database.share_of_lost = 0.0
    plan = _Plan(pause=0.2, key="a", fails=0, arrives=True, rolled_back=False, takes=0.5)
    world.start(world.machines[0], post.adds(world.machines[0], [plan, plan]), seconds=30.0)
    for machine in world.machines:
        world.start(machine, ended(post.relays(machine), machine.name, cancel_after=None), seconds=60.0)


def _only(about: str, _: object) -> tuple[str]:
    return (about,)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A message: after a ``pause``; how often sending it ``fails``, whether it ``arrives`` all the same, how long."""

    pause: float
    key: str
    fails: int
    arrives: bool
    rolled_back: bool
    takes: float


@dataclass(slots=True)
class _Post(Judge):
    """The senders, the relays and the receiver, and what each of them knows."""

    stops: bool
    asynchronous: bool = True
    _database: Database = field(init=False)
    _outbox: SqlOutbox = field(init=False)
    _plans: dict[str, _Plan] = field(default_factory=dict)
    _adding: Counter[Machine] = field(default_factory=Counter)
    _committed: list[str] = field(default_factory=list)
    _arrived: set[str] = field(default_factory=set)
    _noted: set[str] = field(default_factory=set)
    _aside: set[str] = field(default_factory=set)
    _stopped: set[str] = field(default_factory=set)
    _attempts: Counter[str] = field(default_factory=Counter)
    _due: dict[str, float] = field(default_factory=dict)
    _seen: int = 0

    def __post_init__(self) -> None:
        self._database = Database(self.world, _METADATA)
        self._outbox = SqlOutbox(self._database.engine, _TABLE)

    # --- users --------------------------------------------------------------------------------------------------------

    async def adds(self, machine: Machine, plans: list[_Plan]) -> None:
        """Add one message after the other."""
        self._adding[machine] += 1
        for plan in plans:
            await asyncio.sleep(plan.pause)
            name = f"{plan.key}{len(self._plans)}"
            self._plans[name] = plan
            with suppress(OSError, _RolledBack):
                await self._database.ask("add", partial(self._add, name, plan), partial(_only, name))
        self._adding[machine] -= 1

    def _add(self, name: str, plan: _Plan) -> None:
        with self._database.engine.begin() as connection:
            self._outbox.add(connection, name, key=plan.key or None, id=name)
            if plan.rolled_back:
                raise _RolledBack
        self._committed.append(name)

    async def relays(self, machine: Machine) -> None:
        """Run a relay until there is nothing to do."""
        relay = OutboxRelay(
            self,
            self._send,
            attempts=_ATTEMPTS,
            backoff=_BACKOFF,
            longest=_BACKOFF * 1.5,
            on_poison="stop" if self.stops else "skip",
            batch=3,
        )

        async def work(hold: Hold) -> None:
            with inside(self.world, machine, hold):
                await relay.work(hold)

        try:
            async with lock_client().periodic(_NAME, work, every=_EVERY, owner=machine.name):
                while True:
                    await asyncio.sleep(1.0)
                    if self._settled():
                        break
        except LockClosed as error:
            if not machine.leaving:
                self._blame("false alarm", f"{machine.name} was told: {error}")

    def _settled(self) -> bool:
        if any(number for machine, number in self._adding.items() if not machine.crashed):
            return False
        over = self._noted | self._aside
        return all(name in over or self._is_stopped(name) for name in self._committed)

    def _is_stopped(self, name: str) -> bool:
        return not self._stopped.isdisjoint(self._before(name))

    def _before(self, name: str) -> list[str]:
        """Return the earlier messages of its key."""
        key = self._plans[name].key
        earlier = self._committed[: self._committed.index(name)]
        return [other for other in earlier if key and self._plans[other].key == key]

    async def _send(self, message: Message) -> None:
        self._begins(message)
        plan = self._plans[message.id]
        fails = self._attempts[message.id] <= plan.fails
        await asyncio.sleep(plan.takes)
        if not fails or (plan.arrives and plan.fails < _ATTEMPTS):
            self._arrived.add(message.id)
        await asyncio.sleep(0.01)
        if fails:
            raise OSError("the receiver refuses")

    # --- the database, as the relay asks it: an ``OutboxStore`` -------------------------------------------------------

    async def claim(self, token: int, limit: int, /) -> list[Message]:
        """See ``OutboxStore.claim``."""
        return await self._ask(token, lambda: self._outbox.claim(token, limit))

    async def attempt(self, message: Message, /) -> bool:
        """See ``OutboxStore.attempt``."""

        def attempt() -> bool:
            if turn := self._outbox.attempt(message):
                self._tried(message)
            return turn

        return await self._ask(message.token, attempt)

    async def sent(self, message: Message, /) -> None:
        """See ``OutboxStore.sent``."""

        def sent() -> None:
            self._outbox.sent(message)
            if message.id not in self._arrived:
                self._blame("noted unsent", f"{message.id} is noted as sent, and has not arrived")
            self._noted.add(message.id)

        await self._ask(message.token, sent)

    async def failed(self, message: Message, error: str, /, *, again_in: float | None, stops: bool) -> None:
        """See ``OutboxStore.failed``."""

        def failed() -> None:
            self._outbox.failed(message, error, again_in=again_in, stops=stops)
            if again_in is not None:
                self._due[message.id] = self.world.loop.now + again_in
                return
            if self._attempts[message.id] < _ATTEMPTS:
                self._blame("given up too soon", f"{message.id} after {self._attempts[message.id]} attempts")
            self.world.oracle.reached["messages given up"] += 1
            (self._stopped if self.stops else self._aside).add(message.id)
            self._aside.add(message.id)

        await self._ask(message.token, failed)

    async def tidy(self, token: int, older_than: float, /) -> int:
        """See ``OutboxStore.tidy``."""
        return await self._ask(token, lambda: self._outbox.tidy(token, older_than))

    async def _ask(self, token: int, transaction: Callable[[], _T]) -> _T:
        def judged() -> _T:
            try:
                done = transaction()
            except StaleClaim:
                self.world.oracle.reached["stale relay refused"] += 1
                raise
            if token < self._seen:
                self._blame("stale relay", f"token {token} was let in, and {self._seen} had been there")
            self._seen = max(self._seen, token)
            return done

        return await self._database.ask("transaction", judged, partial(_only, f"token {token}"))

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _tried(self, message: Message) -> None:
        name = message.id
        self._attempts[name] += 1
        if self._attempts[name] > _ATTEMPTS:
            self._blame("tried too often", f"{name} is tried for the {self._attempts[name]}th time")
        if self.world.loop.now < self._due.get(name, 0.0) - _EXACT:
            self._blame("tried too soon", f"{name} is tried {self._due[name] - self.world.loop.now:.1f} s too soon")

    def _begins(self, message: Message) -> None:
        name = message.id
        if name not in self._committed:
            self._blame("never committed", f"{name} is sent, and its transaction was rolled back")
            return
        if name in self._noted and message.token >= self._seen:
            self._blame("sent again", f"{name} is sent again, and was noted as sent")
        over = self._arrived | (self._aside - self._stopped)
        if missing := [other for other in self._before(name) if other not in over]:
            self._blame("sent out of order", f"{name} is sent, and {missing[0]} of its key was not")
        self.world.oracle.reached["messages sent"] += 1

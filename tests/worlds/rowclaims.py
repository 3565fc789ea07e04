"""The workload ``rows``: claimers on each machine claim rows of one table, work, and note what happened to them.

claimed twice          two claims of a row have one number
taken too soon         a row was claimed from its claimer before it counted as stuck
claimed too often      a row was claimed more often than it should be
done twice             the effect of a row, which is in one transaction with Done, is there twice
older token            a row was claimed by a claimer whose token is less than an earlier claimer's
stale claimer          a claimer wrote, and its row had been claimed by somebody else since, or its outcome was noted
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final

from sqlalchemy import MetaData, insert, update

from simulator.virtual.worlds.world import Judge, World
from singleton.patterns.outbox import Claim, StaleClaim
from singleton.patterns.sql import RowStates, work_table
from tests.worlds.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simulator.virtual.time.machine import Machine

_STUCK_AFTER: Final = 20.0
_ATTEMPTS: Final = 4
_ROUNDS: Final = 5
"""Rounds of a claimer under one token."""
_AGAIN: Final = 0.2
"""Share of the claims whose claimer writes once more: the answer to its note may have been lost."""
_EXACT: Final = 0.01
"""Seconds to which times are exact."""
_METADATA: Final = MetaData()
_TABLE: Final = work_table(_METADATA)


def start_rows(world: World) -> None:
    """Each machine has a claimer or two."""
    rng = world.rng_work
    number = rng.randint(2, 8)
    work = _Work(world, number)
    for machine in world.machines:
        for _ in range(rng.randint(1, 2)):
            pace = rng.choice([0.1, 3.0, _STUCK_AFTER]) * rng.uniform(0.5, 1.5)
            fails = rng.choice([0.0, 0.3])
            coro = work.claims(machine, limit=rng.randint(1, 3), pace=pace, fails=fails)
            world.start(machine, coro, seconds=number * (pace + _STUCK_AFTER) * 2)


def _rows_of(claims: Iterable[Claim] | None) -> list[str]:
    return [f"row {claim.key['id']}" for claim in claims or ()]


@dataclass(slots=True)
class _Work(Judge):
    """The table, and what is known of each row."""

    number: int
    _database: Database = field(init=False)
    _rows: RowStates = field(init=False)
    _versions: dict[str, int] = field(default_factory=dict)
    _since: dict[str, float] = field(default_factory=dict)
    """When each row that is in somebody's hands was claimed, or renewed."""
    _claims: Counter[str] = field(default_factory=Counter)
    _effects: Counter[str] = field(default_factory=Counter)
    _failed: set[str] = field(default_factory=set)
    _ended: set[tuple[str, int]] = field(default_factory=set)
    """The claims whose outcome is noted, by row and version."""
    _tokens: dict[str, int] = field(default_factory=dict)
    """The greatest token of each row, in worlds whose claimers have tokens."""
    _holds: Iterator[int] = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self._database = Database(self.world, _METADATA)
        self._rows = RowStates(self._database.engine, _TABLE, stuck_after=_STUCK_AFTER, attempts=_ATTEMPTS)
        with self._database.engine.begin() as connection:
            connection.execute(insert(_TABLE), [{"id": str(each), "body": "new"} for each in range(self.number)])

    async def claims(self, machine: Machine, *, limit: int, pace: float, fails: float) -> None:
        """Claim, work and note, until all rows are done or given up."""
        rng = self.world.rng_work
        token, fenced = None, self.number % 2 == 0
        for rounds in count():
            if self._settled():
                return
            if fenced and rounds % _ROUNDS == 0:
                token = next(self._holds)
            await asyncio.sleep(1.0)
            claims: list[Claim] = []
            with suppress(OSError):
                claims = await self._database.ask("claim", partial(self._claim, limit, token), _rows_of)
            for claim in claims:
                await asyncio.sleep(pace)
                self.world.note(machine.name, "row", key=claim.key["id"], version=claim.version)
                note = self._fails if rng.random() < fails else self._is_done
                if rng.random() < 0.2:
                    await self._noted(claim, self._renews)
                await self._noted(claim, note)
                chance = random.Random(f"{machine.name}/{pace}/{claim}")  # the values drawn from ``rng`` stay the same
                if chance.random() < _AGAIN:
                    await self._noted(claim, chance.choice((self._fails, self._renews, self._gives_back)))

    async def _noted(self, claim: Claim, note: Callable[[Claim], None]) -> None:
        try:
            await self._database.ask(note.__name__.strip("_"), lambda: note(claim), lambda _: _rows_of([claim]))
        except StaleClaim:
            self.world.oracle.reached["stale claimer refused"] += 1
        except OSError:
            return

    def _settled(self) -> bool:
        return all(self._effects[row] or row in self._failed for row in map(str, range(self.number)))

    # --- transactions -------------------------------------------------------------------------------------------------

    def _claim(self, limit: int, token: int | None = None) -> list[Claim]:
        claims = self._rows.claim(limit, token=token)
        now = self.world.loop.now
        for claim in claims:
            row = claim.key["id"]
            if claim.version <= self._versions.get(row, 0):
                self._blame("claimed twice", f"row {row} has two claims {claim.version}")
            if now < self._since.get(row, -_STUCK_AFTER) + _STUCK_AFTER - _EXACT:
                self._blame("taken too soon", f"row {row} is claimed after {now - self._since[row]:.1f} s")
            if token is not None and token < self._tokens.get(row, 0):
                self._blame("older token", f"row {row} is claimed under {token}, and {self._tokens[row]} was before")
            self._tokens[row] = token or 0
            self._claims[row] += 1
            if self._claims[row] > _ATTEMPTS:
                self._blame("claimed too often", f"row {row} is claimed for the {self._claims[row]}th time")
            self.world.oracle.reached["rows claimed again"] += row in self._versions
            self._versions[row], self._since[row] = claim.version, now
        self._look_for_failed()
        return claims

    def _is_done(self, claim: Claim) -> None:
        row = claim.key["id"]
        with self._database.engine.begin() as connection:
            connection.execute(update(_TABLE).where(_TABLE.c.id == row).values(body="worked on"))
            self._rows.done(claim, connection)
        self._wrote(claim, ends=True)
        self._effects[row] += 1
        if self._effects[row] > 1:
            self._blame("done twice", f"row {row} has its effect twice")

    def _fails(self, claim: Claim) -> None:
        self._rows.failed(claim, "no", retry_in=3.0)
        self._wrote(claim, ends=True)
        self._since.pop(claim.key["id"], None)
        self._look_for_failed()

    def _gives_back(self, claim: Claim) -> None:
        self._rows.give_back(claim)
        self._wrote(claim, ends=True)
        self._claims[claim.key["id"]] -= 1
        self._since.pop(claim.key["id"], None)

    def _renews(self, claim: Claim) -> None:
        self._rows.renew(claim)
        self._wrote(claim)
        self._since[claim.key["id"]] = self.world.loop.now

    # --- what must hold -----------------------------------------------------------------------------------------------

    def _wrote(self, claim: Claim, *, ends: bool = False) -> None:
        row = claim.key["id"]
        if (row, claim.version) in self._ended:
            self._blame("stale claimer", f"claim {claim.version} of row {row} wrote after its outcome was noted")
        if ends:
            self._ended.add((row, claim.version))
        if claim.version != self._versions[row]:
            self._blame("stale claimer", f"claim {claim.version} of row {row} wrote, and {self._versions[row]} has it")

    def _look_for_failed(self) -> None:
        for row, number in self._claims.items():
            if number >= _ATTEMPTS and row not in self._failed and not self._effects[row]:
                with self._database.engine.connect() as connection:
                    status = connection.execute(_TABLE.select().where(_TABLE.c.id == row)).one().status
                if status == "Failed":
                    self._failed.add(row)

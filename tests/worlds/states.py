"""The workload ``state``: holders read and write the state of their lock; and what they may expect of it.

state went back         a holder read what is older than something that was acknowledged, or read, before he asked
overwritten             the service carried out a write of a section, and a later one had read or written before
written after a read    the service carried out a write that had begun before a read, and the read had not found it
refused without a loss  a holder was told that his lock is lost, and his hold is good
written after all       a holder was told that his lock is lost, so nothing was written, and his write is carried out
state lost              at the end the blob has what is older than something that was acknowledged or read
false alarm             a holder was told of trouble with the storage, and there was none
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.jobs import able, ended, inside, lock_client
from simulator.virtual.oracle.callers import STALE
from simulator.virtual.storage.network import both
from simulator.virtual.worlds.outcome import Refused
from simulator.virtual.worlds.world import Judge, World
from singleton.base.errors import LockLost, SingletonError, StorageUnavailable
from tests.support.empty_values import EMPTY

if TYPE_CHECKING:
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold

_LONGEST: Final = 18.0
_LATE: Final = 0.3
"""The share of worlds in which some writes arrive late, also the first ones of new locks."""
_EMPTY: Final = 0.3

_Value = tuple[int, int]
"""What is kept: the token of the hold that wrote it, and its how-manieth write it was. Later ones are greater."""
_NOTHING: Final[_Value] = (0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Read, wait, write, each for so many seconds at most; the last write may be left ``unattended``."""

    wait: float
    read_within: float | None
    write_within: float | None
    unattended: bool
    empty: float | None = None
    """Which of the values that are false is written in place of the usual one: a share of those not yet used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Section:
    pause: float
    lock: str
    timeout: float | None
    steps: tuple[_Step, ...]


def start_states(world: World) -> None:
    """Some workers on each machine, for one or two locks, now and then with failover."""
    rng = world.rng_work
    failover = rng.choice((None, None, 2.0, 5.0))
    ledger = _watched(world)
    locks = [f"cursor-{number}" for number in range(rng.choice((1, 1, 2)))]
    for machine in world.machines:
        for worker in range(rng.randint(1, 3)):
            sections = [_drawn(world, locks) for _ in range(rng.randint(1, 4))]
            seconds = sum(14.0 + sum(step.wait + 2.0 for step in each.steps) for each in sections)
            world.start(
                machine, _work(ledger, machine, f"{machine.name}/{worker}", failover, sections), seconds=seconds
            )
    if rng.random() < _LATE:
        world.network.rules.append(partial(_write_late, random.Random(rng.random())))
        _start_first_writes(world, ledger, failover)


def _start_first_writes(world: World, ledger: _Ledger, failover: float | None) -> None:
    """Hand new locks on from one section to the next of a host, each of which waits for no answer for long."""
    for machine in world.machines:
        for worker in range(6):
            step = _Step(wait=2.0 * (worker % 3), read_within=None, write_within=0.05, unattended=False)
            lock = f"cursor-of-{machine.name}-{worker // 3}"
            section = _Section(pause=4.0 * (worker // 3), lock=lock, timeout=None, steps=(step,))
            work = _work(ledger, machine, f"{machine.name}/new-{worker}", failover, [section])
            world.start(machine, work, seconds=20.0)


def _write_late(rng: random.Random, request: NetworkRequest, passage: Passage) -> None:
    if request.call == "put" and rng.random() < 0.5:
        passage.out += rng.uniform(0.2, 4.0)


def start_small_state(world: World) -> None:
    """Read, write and read the state of one lock on two hosts."""
    ledger = _watched(world)
    step = _Step(wait=0.5, read_within=None, write_within=None, unattended=False)
    for machine in world.machines:
        section = _Section(pause=1.0 * machine.index, lock="cursor-0", timeout=None, steps=(step, step))
        owner = f"{machine.name}/0"
        work = ended(_work(ledger, machine, owner, None, [section]), owner, cancel_after=None)
        world.start(machine, work, seconds=60.0)


def _watched(world: World) -> _Ledger:
    ledger = _Ledger(world)
    world.network.on_answer = both(world.network.on_answer, ledger.answered)
    world.service.on_delete = ledger.deleted
    world.oracle.last_checks.append(ledger.must_be_there)
    return ledger


def _drawn(world: World, locks: list[str]) -> _Section:
    rng = world.rng_work
    longest = rng.choice((0.0, 0.0, 1.0, _LONGEST / 2, _LONGEST))
    number = rng.randint(1, 4)
    steps = [
        _Step(
            wait=longest * rng.uniform(0.5, 1.0) / number,
            read_within=rng.choice((None, None, None, 1.0)),
            write_within=rng.choice((None, None, None, 0.05, 1.0)),
            unattended=rng.random() < 0.2,
        )
        for _ in range(number)
    ]
    chance = random.Random(repr(steps))  # what a seed has drawn stays the same
    steps = [replace(step, empty=chance.random() if chance.random() < _EMPTY else None) for step in steps]
    return _Section(
        pause=rng.uniform(0, 4.0),
        lock=rng.choice(locks),
        timeout=rng.choice((None, None, 30.0, 0.0)),
        steps=tuple(steps),
    )


async def _work(
    ledger: _Ledger, machine: Machine, owner: str, failover: float | None, sections: list[_Section]
) -> None:
    world = ledger.world
    for number, section in enumerate(sections):
        await asyncio.sleep(section.pause)
        outcome = "ok"
        try:
            client = lock_client(failover=failover)
            async with client.lock(section.lock, timeout=section.timeout, owner=f"{owner}/{number}") as hold:
                hold.raise_if_lost()
                with inside(world, machine, hold, failover=failover):
                    await _steps(ledger, machine, hold, section.steps)
        except (SingletonError, Refused) as error:
            outcome = type(error).__name__
        world.oracle.reached[f"invocation: {outcome}"] += 1


async def _steps(ledger: _Ledger, machine: Machine, hold: Hold, steps: tuple[_Step, ...]) -> None:
    """Go through the steps of a section. Each of them may give up."""
    for number, step in enumerate(steps):
        with suppress(TimeoutError):
            async with asyncio.timeout(step.read_within):
                await ledger.read(machine, hold)
        if await _lost_within(hold, step.wait):
            return
        value = hold.token or 0, number + 1
        if step.unattended and step is steps[-1]:
            task = asyncio.create_task(ledger.write(machine, hold, value, step.empty))
            task.add_done_callback(_hear)
            await asyncio.sleep(0)  # it has begun
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(step.write_within):
                await ledger.write(machine, hold, value, step.empty)


async def _lost_within(hold: Hold, seconds: float) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await hold.lost
    return hold.lost.is_set()


def _hear(task: asyncio.Task[None]) -> None:
    """Nobody waits for it: what it raises is no error."""
    if not task.cancelled():
        task.exception()


@dataclass(slots=True)
class _Ledger(Judge):
    """What was read and written, and acknowledged, of each lock."""

    _known: dict[str, _Value] = field(default_factory=lambda: defaultdict(lambda: _NOTHING))
    """The greatest value that somebody was told of."""
    _latest: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """The greatest token of who has read or written."""
    _made: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """How often an operator deleted the blob."""
    _carried_out: set[tuple[str, _Value]] = field(default_factory=set)
    _refused: set[tuple[str, _Value]] = field(default_factory=set)
    _begun: set[tuple[str, _Value]] = field(default_factory=set)
    _not_found: set[tuple[str, _Value]] = field(default_factory=set)
    """The writes that had begun before a read, and had not been carried out by its end."""
    _meant: dict[tuple[str, object], _Value] = field(default_factory=dict)
    """What is meant by what was written to a lock, by its text in Python and by its bytes."""

    async def read(self, machine: Machine, hold: Hold) -> None:
        """Read, and compare with what must at least be there."""
        must, made = self._known[hold.lock], self._made[hold.lock]
        begun = {each for each in self._begun if each[0] == hold.lock}
        found = await self._used(machine, hold, hold.state.aread(_NOTHING))
        if made != self._made[hold.lock]:
            return
        value = self._meant.get((hold.lock, repr(found)), _NOTHING)
        self._not_found |= begun - self._carried_out
        if value < must:
            self._blame("state went back", f"{machine.name} reads {value} of {hold.lock}, and {must} was known before")
        self._learn(hold.lock, value)
        self._latest[hold.lock] = max(hold.token or 0, self._latest[hold.lock])
        self.world.oracle.reached["state read"] += 1

    async def write(self, machine: Machine, hold: Hold, value: _Value, empty: float | None = None) -> None:
        """Write, and note what was acknowledged."""
        made, content = self._made[hold.lock], self._content(hold.lock, value, empty)
        self._begun.add((hold.lock, value))
        try:
            await self._used(machine, hold, hold.state.awrite(content))
        except LockLost:
            self._refused.add((hold.lock, value))
            self._compare()
            raise
        if made == self._made[hold.lock]:
            self._learn(hold.lock, value)
        self.world.oracle.reached["state written"] += 1

    def _content(self, lock: str, value: _Value, empty: float | None) -> Any:
        """Return what is written for a value: a list, or a value that is false and that the lock never had before."""
        spare = [each for each in EMPTY if (lock, repr(each)) not in self._meant]
        content = [*value] if empty is None or not spare else spare[int(empty * len(spare))]
        body = content if isinstance(content, bytes) else json.dumps(content, separators=(",", ":")).encode()
        self._meant[lock, repr(content)] = self._meant[lock, body] = value
        return content

    async def _used(self, machine: Machine, hold: Hold, use: Any) -> Any:
        began = self.world.loop.now
        try:
            return await use
        except LockLost as error:
            self.world.oracle.reached["state refused after a loss"] += 1
            if not hold.lost.is_set() and error.reason != "released":
                self._blame("refused without a loss", f"{machine.name} was told: {error}")
            raise
        except StorageUnavailable as error:
            if able(self.world, machine, self.world.loop.now - began + STALE):
                self._blame("false alarm", f"{machine.name} was told: {error}")
            raise

    def answered(self, request: NetworkRequest, failure: Exception | None, _: Passage) -> None:
        """Take what the service has carried out."""
        if request.call != "put" or failure is not None:
            return
        value = self._meant[request.name, request.args[3]]
        token, number = value
        self._carried_out.add((request.name, value))
        self._compare()
        if (request.name, value) in self._not_found:
            late = f"write {number} under token {token} of {request.name}"
            self._blame("written after a read", f"{late} is carried out, and a read after its begin had not found it")
        if token < self._latest[request.name]:
            self._blame(
                "overwritten",
                f"{request.machine.name}'s write under token {token} of {request.name} is carried out after "
                f"{self._latest[request.name]} has used it",
            )
        self._latest[request.name] = token

    def _compare(self) -> None:
        """Find a write that was refused, as its holder was told, and that was carried out."""
        for lock, value in self._carried_out & self._refused:
            self._blame("written after all", f"a holder was told that {lock} is lost, and {value} was written")

    def deleted(self, lock: str) -> None:
        """Take a blob that an operator deleted: what was kept is gone."""
        self._known.pop(lock, None)
        self._made[lock] += 1

    def must_be_there(self) -> None:
        """At the end, the last known value is there, or a later one."""
        for lock, known in self._known.items():
            value = self._meant.get((lock, self.world.service.content(lock)), _NOTHING)
            if value < known:
                self._blame("state lost", f"{lock} keeps {value}, and {known} was known")

    def _learn(self, lock: str, value: _Value) -> None:
        self._known[lock] = max(value, self._known[lock])

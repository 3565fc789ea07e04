"""The workload ``clients``: the lock API as users use it, by clients that open and close again and again.

Locks, sets of locks, semaphores, leaderships and periodic work, under several options for one name, at places that
clients bring along; uses are cancelled anywhere, and clients closed while others wait. What is judged is in
``book.py``.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from singleton import AsyncLockClient, LockClient, SingletonOptions
from tests.worlds.clients.book import Book, Calls
from tests.worlds.clients.uses import STANDS, Plan, User

if TYPE_CHECKING:
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.kinds import OnLoss

_BASIC: Final = SingletonOptions(listener_lock_period=15, listener_lock_recovery_polling_interval=15)
_OPTIONS: Final = (
    _BASIC,
    _BASIC.replace(lock_period=20, lock_acquisition_polling_interval=2, handoff_window=10),
    _BASIC.replace(lock_period=60, handoff_window=5, lock_acquisition_min_polling_interval=0.5),
    _BASIC.replace(lock_period=30, lock_acquisition_polling_interval=1, renewal_interval=5),
)
_CHANCES: Final = {
    "lock": 6,
    "try": 2,
    "set": 3,
    "slot": 3,
    "try slot": 2,
    "hold": 3,
    "hold slot": 1,
    "holder": 2,
    "leader": 1,
    "worker": 2,
}
_BLOCKING: Final = ("lock", "try", "set", "slot", "try slot")
_THEN: Final = ("", "", "elsewhere", "twice", "dropped")
_PHASES: Final = ("begin", "begin", "inside", "leave")
_KEY: Final = "c2ltdWxhdGVk"
_URL: Final = "https://explored.blob.core.windows.net"
_PLACES: Final = ("", "", "made", "named")
_ON_LOSS: Final[tuple[OnLoss, ...]] = ("raise", "raise", "tell")
_SWEEPERS: Final = 0.4
_AFTER: Final = ("again", "twice")


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the oracle is to know of options."""

    options: SingletonOptions
    period: float
    poll: float = 0.0
    mode: str = "function"
    wait: float | None = None
    on_contention: object = "wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A client's life: after a ``pause`` it is opened, and it is closed after ``seconds`` or its last use."""

    pause: float
    place: str
    options: SingletonOptions
    sync: bool
    on_loss: OnLoss = "raise"
    plans: tuple[Plan, ...]
    together: bool
    seconds: float | None


def start_clients(world: World) -> None:
    """Some users on each machine. They open clients one after the other."""
    rng = world.rng_work
    tell_of(world, _OPTIONS)
    book = Book(world, {"pool": rng.choice([1, 2, 3, 100]), "made.pool": rng.choice([1, 6, 40]), "named.pool": 2})
    calls, keys = Calls(world), rng.choice([1, 1, 2, 4])
    few = rng.sample(_OPTIONS, rng.choice([1, 2, 3]))
    sweepers = rng.random() < _SWEEPERS
    for machine in world.machines:
        shop = Shop(world, book, calls, machine)
        for user in range(rng.randint(1, 2)):
            sessions = [_session(rng, keys, few) for _ in range(rng.randint(1, 2))]
            plans = [plan for each in sessions for plan in each.plans]
            seconds = sum(plan.pause + 2 * plan.seconds * plan.steps + 9 for plan in plans)
            seconds += STANDS * sum(plan.stands is not None for plan in plans)
            world.start(machine, shop.visit(f"{machine.name}/{user}", sessions), seconds=seconds)
        if sweepers:
            sweeper = _sweeper(rng)
            seconds = sum(plan.seconds for plan in sweeper.plans)
            world.start(machine, shop.visit(f"{machine.name}/sweeper", [sweeper]), seconds=seconds)
    book.watch()
    calls.watch()


def start_small_client(world: World) -> None:
    """Get a lock without a block on one host, and with a block on the other; each by a client of its own."""
    _start_small(world, ("hold", ("named.key-0",)), ("lock", ("named.key-0",)))


def start_small_set(world: World) -> None:
    """Take a set of two locks on one host, and on the other."""
    names = ("named.key-0", "named.key-1")
    _start_small(world, ("set", names), ("set", names))


def _start_small(world: World, *ways: tuple[str, tuple[str, ...]]) -> None:
    tell_of(world, (_BASIC,))
    book, calls = Book(world, {}), Calls(world)
    for machine, (way, names) in zip(world.machines, ways, strict=True):
        plan = Plan(pause=0.0, way=way, names=names, seconds=2.0)
        pause = 1.0 * machine.index
        session = Session(
            pause=pause, place="named", options=_BASIC, sync=False, plans=(plan,), together=False, seconds=None
        )
        shop = Shop(world, book, calls, machine)
        world.start(machine, shop.visit(f"{machine.name}/0", [session]), seconds=60.0)
    book.watch()
    calls.watch()


def tell_of(world: World, choice: tuple[SingletonOptions, ...]) -> None:
    """Let the oracle know the options that clients may have."""
    periods = {*(options.lock_period for options in choice), *(each.listener_lock_period for each in choice)}
    terms = [_Terms(options, options.lock_period) for options in choice]
    world.oracle.bounds.know([*terms, *(_Terms(choice[0], period) for period in periods)])


def _session(rng: random.Random, keys: int, options: list[SingletonOptions]) -> Session:
    place = rng.choice(_PLACES)
    sync = rng.random() < 0.2
    plans = tuple(_plan(rng, place, keys, sync=sync) for _ in range(rng.randint(1, 4)))
    on_loss = random.Random(repr(plans)).choice(_ON_LOSS)
    return Session(
        pause=rng.uniform(0, 12.0),
        place=place,
        options=rng.choice(options),
        sync=sync,
        on_loss=on_loss,
        plans=plans,
        together=rng.random() < 0.5,
        seconds=rng.uniform(0.0, 30.0) if rng.random() < 0.4 else None,
    )


def _sweeper(rng: random.Random) -> Session:
    """A use whose work takes longer than its lease, unless the lease is renewed."""
    plan = Plan(
        pause=0.0, way="worker", names=(f"sweep-{rng.randrange(4)}",), seconds=rng.uniform(30.0, 90.0), then="long"
    )
    return Session(
        pause=rng.uniform(0.0, 5.0), place="", options=_BASIC, sync=False, plans=(plan,), together=False, seconds=None
    )


def _plan(rng: random.Random, place: str, keys: int, *, sync: bool) -> Plan:
    ways = [way for way in _CHANCES if not sync or way in _BLOCKING]
    way = rng.choices(ways, [_CHANCES[way] for way in ways])[0]
    stem = f"{place}." if place else ""
    names: tuple[str, ...] = (f"{stem}key-{rng.randrange(keys)}",)
    seconds, steps = rng.choice([0.05, 0.5, 4.0, 10.0]) * rng.uniform(0.5, 1.0), rng.randint(1, 3)
    match way:
        case "set":
            every = [f"{stem}key-{number}" for number in range(keys)] + [f"{stem}extra"]
            names = tuple(rng.sample(every, rng.choice([0, 1, 2, len(every), len(every)]))) or (every[0],)
        case "slot" | "try slot" | "hold slot":
            names = (f"{stem}pool",)
        case "leader":
            names, seconds, steps = (f"{stem}chief",), rng.uniform(2, 50), 1
        case "worker":
            names, seconds, steps = (f"{stem}sweep",), rng.uniform(4, 60), 1
    plan = Plan(
        pause=rng.choice([0.0, 0.0, 1.0, 6.0]) * rng.random(),
        way=way,
        names=names,
        timeout=rng.choice([None, None, 0.0, 3.0, 15.0, 40.0]),
        seconds=seconds,
        steps=steps,
        at_least=rng.choice([2.0, 8.0]) if way in ("lock", "try", "worker") and rng.random() < 0.2 else 0.0,
        then=_then(rng, way),
        cut=(rng.choice(_PHASES), rng.randrange(rng.choice([4, 12, 80]))) if rng.random() < 0.35 else None,
        closes=rng.randrange(12) if rng.random() < 0.05 else None,
    )
    # A worker needs the lock at its own next tick.
    plan = replace(plan, at_least=min(plan.at_least, 0.9 * plan.seconds / 3.3)) if way == "worker" else plan
    return _with_more(plan, sync=sync)


def _with_more(plan: Plan, *, sync: bool) -> Plan:
    """Draw further options, from the plan itself: what a seed has drawn stays the same."""
    chance, way = random.Random(repr(plan)), plan.way
    if way in ("try", "try slot"):
        plan = replace(plan, patience=chance.choice([0.0, 0.0, 3.0, 20.0]))
    if sync and way in ("lock", "slot") and chance.random() < 0.3:
        plan = replace(plan, way="hold" if way == "lock" else "hold slot")
    if way in ("slot", "try slot", "hold", "hold slot") and plan.then != "dropped" and chance.random() < 0.15:
        plan = replace(plan, at_least=chance.choice([2.0, 8.0]))
    if way in (*_BLOCKING, "hold", "hold slot", "worker") and way != "set" and not plan.at_least:
        plan = replace(plan, max_hold=chance.choice([1.0, 4.0, 12.0]) if chance.random() < 0.15 else None)
    if way in _BLOCKING:
        plan = replace(plan, on_loss=chance.choice([None, None, "tell", "raise"]))
    if way == "set" and not sync:
        plan = replace(plan, blind=chance.random() < 0.5)
    plan = replace(plan, reentrant=chance.random() < 0.4) if way == "lock" else plan
    if way in _BLOCKING and chance.random() < 0.05:
        plan = replace(plan, stands=chance.randrange(2, 40))
    return plan


def _then(rng: random.Random, way: str) -> str:
    match way:
        case "hold" | "hold slot":
            return rng.choice(_THEN)
        case "worker":
            return rng.choice(("", "long"))
        case _:
            return rng.choice(_AFTER) if rng.random() < 0.2 else ""


class Shop:
    """A machine where users make clients. Clients of one place share what they bring along."""

    def __init__(self, world: World, book: Book, calls: Calls, machine: Machine) -> None:
        self._world = world
        self._book = book
        self._calls = calls
        self._machine = machine

    async def visit(self, name: str, sessions: list[Session]) -> None:
        """Open a client, use it, close it; and again."""
        for number, session in enumerate(sessions):
            await asyncio.sleep(session.pause)
            await self._live(f"{name}/{number}", session)

    async def _live(self, name: str, session: Session) -> None:
        client = self._make(session)
        brought = bool(session.place)
        customer = self._book.opened(self._machine, client._place, brought=brought)
        user = User(self._world, self._book, self._calls, customer, client, name, session.sync, session.on_loss)
        early = session.seconds is not None
        closing = asyncio.create_task(self._close(session.seconds, user)) if early else None
        if session.together:
            await asyncio.gather(*(user.use(plan, number) for number, plan in enumerate(session.plans)))
        else:
            for number, plan in enumerate(session.plans):
                await user.use(plan, number)
        await (closing or self._close(0.0, user))

    async def _close(self, seconds: float | None, user: User) -> None:
        await asyncio.sleep(seconds or 0.0)
        user.close()

    def _make(self, session: Session) -> AsyncLockClient | LockClient:
        kind = partial(LockClient if session.sync else AsyncLockClient, on_loss=session.on_loss)
        match session.place:
            case "made":
                return kind(self._make_client, options=session.options.replace(container="made"))
            case "named":
                return kind(_URL, credential=_KEY, options=session.options.replace(container="named"))
            case _:
                return kind(options=session.options)

    def _make_client(self, container: str) -> Any:
        raise AssertionError(f"a world opens stores itself, and no client of {container}")

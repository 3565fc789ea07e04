"""The workload ``crowd``: many of one process use one lock, one right after the other, as fast as it is handed on.

Most sections are short, some are not; the uses are cut as they begin, get the lock or leave it, in threads and tasks,
with time-outs of all lengths, in sets, in slots and single attempts beside the others; clients are closed meanwhile.
In some worlds the locks are touched (``failover``), and lock threads stand still for a moment while users go on.

overtaken               a caller got a lock before another of its process, who had asked for it earlier
handed on when lost     a caller got a lock under a lease whose loss another of its process had been told
handed on too late      a caller was handed a lock on whose deadline had passed at that instant
handed on for too long  a process hands a lock on among its callers after its time for that
older than the last     a caller got a fencing token that is not greater than the last in its process
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.callers import AT_ONCE
from singleton import SingletonOptions
from singleton.locking.section import Section
from tests.worlds.clients.book import Book, Calls
from tests.worlds.clients.clients import Session, Shop, tell_of
from tests.worlds.clients.uses import Plan

if TYPE_CHECKING:
    import random

    from simulator.virtual.worlds.world import World
    from singleton.base.hold import Hold, LossSignal
    from tests.worlds.clients.book import Use

_BASIC: Final = SingletonOptions(listener_lock_period=15, listener_lock_recovery_polling_interval=15)
_OPTIONS: Final = (
    _BASIC.replace(handoff_window=5, lock_acquisition_polling_interval=1),
    _BASIC.replace(handoff_window=10, lock_acquisition_polling_interval=2, lock_period=20),
    _BASIC.replace(handoff_window=60, lock_period=30),
)
_WAYS: Final = {"lock": 12, "hold": 4, "try": 1, "set": 1, "slot": 1}
_SECONDS: Final = (0.0, 0.0, 0.001, 0.01, 0.05, 0.05, 0.1, 0.3, 0.3, 1.5)
_TIMEOUTS: Final = (None, None, None, 3.0, 4.0, 20.0)
_THENS: Final = {"hold": ("", "elsewhere", "twice", "dropped"), "lock": ("", "", "", "again", "twice")}
_PHASES: Final = ("begin", "begin", "inside", "leave")
_OPERATED: Final = 0.4
_ACTIONS: Final = ("break_", "break slowly", "steal")
_SLACK: Final = 1.0
_FAILOVERS: Final = (None, None, 2.0)
_LONG: Final = 50.0
"""Seconds over which the uses of a client are spread at most; then many of them are long."""
_WITHIN: Final = (0.0, 0.02, 0.5, 3.0, _LONG)


@dataclass(slots=True)
class Crowd(Calls):
    """Checks the order in which callers of one process acquire a lock, and for how long they hand it on."""

    book: Book | None = None
    window: float = 0.0
    _begun: dict[str, float] = field(default_factory=dict)
    """When the first section under a lease began."""
    _signals: dict[str, LossSignal] = field(default_factory=dict)
    """The token of the last holder."""
    _tokens: dict[tuple[str, str], int] = field(default_factory=dict)

    def got(self, use: Use, holds: tuple[Hold, ...]) -> None:
        """Take what a caller got, before the book does."""
        Calls.got(self, use, holds)
        for hold in holds:
            self._judge_lease(use, hold)
            if not hold.lost.is_set():
                self._judge_token(use, hold)
        if use.kind == "lock":
            self._judge_time(use, holds[0])
            self._judge_order(use)

    def _judge_lease(self, use: Use, hold: Hold) -> None:
        if isinstance(hold, Section):
            self._judge_deadline(use, hold.lock, hold.record._began - hold.lease.deadline)
        before = self._signals.get(hold.lease_id or "")
        self._signals[hold.lease_id or ""] = hold.lost
        if before is not None and before.is_set() and not hold.lost.is_set():
            self._blame(
                "handed on when lost", f"{use.owner} got {hold.lock} under a lease that is lost ({before.reason})"
            )

    def _judge_deadline(self, use: Use, lock: str, late: float) -> None:
        """A section begins in time, or not at all: whoever hands the lock on looks at the clock."""
        self.world.oracle.reached["holds that callers of a crowd got"] += 1
        if late >= 0:
            self._blame("handed on too late", f"{use.owner} was handed {lock} {late:.3f} s after its deadline")

    def _judge_token(self, use: Use, hold: Hold) -> None:
        before, token = self._tokens.get((use.machine.name, hold.lock), 0), hold.token or 0
        if token <= before and not use.machine.stopped_since(_SLACK):
            self._blame("older than the last", f"{use.owner} got {hold.lock} with token {token} after {before}")
        self._tokens[use.machine.name, hold.lock] = max(before, token)

    def _judge_time(self, use: Use, hold: Hold) -> None:
        lasts = self.world.loop.now - self._begun.setdefault(hold.lease_id or "", self.world.loop.now)
        drift = self.world.oracle.bounds.drift
        if lasts > self.window * drift + _SLACK and not use.machine.stopped_since(lasts):
            text = f"{use.owner} got {hold.lock} {lasts:.0f} s after others of its process under the same lease"
            self._blame("handed on for too long", text)

    def _judge_order(self, use: Use) -> None:
        assert self.book is not None
        now, drift = self.world.loop.now, self.world.oracle.bounds.drift
        for other in self.book.uses:
            waits = other.machine is use.machine and other.doing == "waits" and other.kind == "lock"
            if (
                waits
                and other.locks == use.locks
                and (other.timeout is None or now < other.since + other.timeout / drift - AT_ONCE)
                and not other.cut
                and other.customer.closed is None
                and other.since < use.since - _SLACK
                and not use.machine.stopped_since(now - other.since + _SLACK)
            ):
                self._blame("overtaken", f"{use.owner} got {use.locks[0]} before {other.owner}, who asked earlier")


def start_crowd(world: World) -> None:
    """Start some crowds, a client each, on each machine."""
    rng = world.rng_work
    operated = rng.random() < _OPERATED
    options = _OPTIONS[-1] if operated else rng.choice(_OPTIONS)
    tell_of(world, _OPTIONS)
    book = Book(world, {"pool": 2, "made.pool": 2})
    crowd = Crowd(world, book=book, window=options.handoff_window)
    place, keys = rng.choice(("", "", "made")), rng.choice([1, 1, 2])
    crowds = []
    for machine in world.machines[: rng.randint(1, 3)]:
        for number in range(rng.randint(2, 6)):
            session = _session(rng, options, place, keys, within=_LONG if operated else rng.choice(_WITHIN))
            crowds.append((machine, f"{machine.name}/{number}", session))
    if operated:
        for _ in range(rng.randint(2, 6)):
            world.later(rng.uniform(0.5, _LONG), world.operate, rng.choice(_ACTIONS), rng.randrange(2))
    failover = rng.choice(_FAILOVERS)  # drawn as the last thing: worlds without it stay as they were
    if failover is not None:
        _let_lock_threads_stand_still(world, failover)
    shops = {machine: Shop(world, book, crowd, machine) for machine, _, _ in crowds}
    for machine, name, session in crowds:
        seconds = sum(plan.pause + 2 * plan.seconds * plan.steps + 1 for plan in session.plans)
        world.start(machine, shops[machine].visit(name, [_touched(session, failover)]), seconds=seconds)
    book.watch()
    crowd.watch()


def _let_lock_threads_stand_still(world: World, failover: float) -> None:
    """Let a deadline of touches pass now and then while the users of a machine go on, and nobody tells them."""
    rng = world.rng_work
    for _ in range(rng.randint(0, 3)):
        machine, when = rng.choice(world.machines), rng.choice((4.0, 4.0, _LONG)) * rng.random()
        world.later(when, machine.block, "locks", failover * rng.uniform(0.5, 2.0))


def _touched(session: Session, failover: float | None) -> Session:
    """Have the locks of a session touched, and leave out its semaphores, which can't be."""
    if failover is None:
        return session
    plans = tuple(plan for plan in session.plans if plan.way != "slot")
    return replace(session, options=session.options.replace(failover=failover), plans=plans)


def _session(rng: random.Random, options: SingletonOptions, place: str, keys: int, *, within: float) -> Session:
    sync = rng.random() < 0.3
    return Session(
        pause=rng.uniform(0, 1.0),
        place=place,
        options=options,
        sync=sync,
        plans=tuple(
            _plan(rng, place, keys, within, sync=sync) for _ in range(rng.randint(3, 25 if within == _LONG else 12))
        ),
        together=within > 3.0 or rng.random() < 0.4,
        seconds=rng.uniform(0.0, 6.0) if rng.random() < 0.2 and within <= 3.0 else None,
    )


def _plan(rng: random.Random, place: str, keys: int, within: float, *, sync: bool) -> Plan:
    ways = [way for way in _WAYS if not sync or way != "hold"]
    way = rng.choices(ways, [_WAYS[each] for each in ways])[0]
    stem = f"{place}." if place else ""
    names: tuple[str, ...] = (f"{stem}key-{rng.randrange(keys)}",)
    if way == "set":
        names = (f"{stem}extra", f"{stem}key-0")
    elif way == "slot":
        names = (f"{stem}pool",)
    return Plan(
        pause=rng.uniform(0, within),
        way=way,
        names=names,
        timeout=rng.choice(_TIMEOUTS),
        seconds=rng.uniform(1.0, 7.0) if rng.random() < within / 80 else rng.choice(_SECONDS) * rng.uniform(0.5, 1.0),
        steps=rng.choice([1, 1, 1, 3]),
        at_least=2.0 if way == "lock" and rng.random() < 0.03 else 0.0,
        then=rng.choice(_THENS.get(way, ("",))) if rng.random() < 0.5 else "",
        cut=(rng.choice(_PHASES), rng.randrange(rng.choice([3, 12, 60]))) if rng.random() < 0.3 else None,
        closes=rng.randrange(60) if rng.random() < 0.02 else None,
    )

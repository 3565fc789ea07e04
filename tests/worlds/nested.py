"""The workload ``nested``: calls under two and three holds, of which an outer one may be lost at any moment.

The outer lock has a ``max_hold``, so that it is lost while the call waits for an inner lock, as the inner lock is
handed to the call, or in the body. Times are whole seconds, so that both happen at one moment now and then.

In some worlds the calls have a ``functionTimeout``, and share their outer locks: then they wait for both.

begun under a loss    a body began although a hold of its call was lost
not told of a loss    the hold of a body did not tell of the loss of another hold of its call, or named the wrong lock
waits under a loss    a call went on waiting for an inner lock after the loss of an outer hold
waits past its limit  the waits of a call, one after the other, lasted for longer than its functionTimeout allows
"""

from __future__ import annotations

import asyncio
import inspect
import json
import math
import random
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.virtual.hosts.jobs import InvocationContext, inside, without_options
from simulator.virtual.hosts.queue_host import told_of
from simulator.virtual.oracle.callers import AT_ONCE
from simulator.virtual.time.machine import Baton
from simulator.virtual.worlds.outcome import Refused
from singleton import AsyncLockClient, LockClient, LockLost, SingletonOptions, current_hold, once, singleton
from singleton.base.errors import SingletonError
from singleton.decorator import guards_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.hold import Hold

Middle = Literal["none", "once", "lock", "singleton"]
_MIDDLES: Final[tuple[Middle, ...]] = ("none", "once", "lock", "singleton")
_NAMES: Final = frozenset({"outer", "middle", "inner"})
_ENDS: Final = (4, 8, 13)
"""Seconds of ``max_hold``."""
_LIMITED: Final = 0.25
"""Share of the worlds whose calls have a ``functionTimeout``."""
_LIMIT: Final = 20
"""The ``functionTimeout`` of calls that have one, in seconds."""
_WAITS_UNTIL: Final = 15.0
"""Seconds after which such a call stops waiting."""
_RELEASE: Final = 12.0
"""Seconds in which the locks of two layers are given back, whatever the network does."""


@dataclass(slots=True, eq=False)
class Work:
    """One call: so many seconds in its body. ``holds``: of the call, the outermost first, as each layer got them."""

    world: World
    machine: Machine
    name: str
    seconds: float
    holds: list[Hold] = field(default_factory=list)
    limited: bool = False
    begun: bool = False
    lost_at: float = math.inf
    since: float = math.inf
    """When a call with a limit began; never, if it has none, or if it was told that its waits are over."""

    def enter(self) -> None:
        """Note the hold of a layer."""
        self._must_have_time()
        self.holds.append(hold := current_hold())
        hold.own_lost.add_callback(self._note_loss)

    def _note_loss(self, _: object) -> None:
        self.lost_at = min(self.lost_at, self.world.loop.now)

    def told(self, *, is_client: bool) -> AbstractContextManager[object]:
        """Tell the oracle of the body of a client's decorator: a guard does so by its events."""
        if not is_client:
            return nullcontext()
        # It lingers after a loss, until the inner lock is given back: the verdict would take that for an overlap.
        return inside(self.world, self.machine, self.holds[-1], sync=True, is_first=False)

    def refused(self) -> None:
        """Note that the call of the next layer raised: a call that waits is told at once of a loss."""
        self._must_have_time()
        self.since = math.inf
        late = self.world.loop.now - self.lost_at
        if not self.begun and late > _RELEASE and not self.machine.stopped_since(late + 1.0):
            self._blame("waits under a loss", f"was told {late:.1f} s after the loss")

    def begin(self) -> None:
        """Note the beginning of the body, and look at every hold of the call."""
        self.enter()
        self.begun = True
        if (lost := self._lost()) is not None:
            self._blame("begun under a loss", f"began its body, and {lost.lock} was lost")

    async def rest(self) -> None:
        """Work, until the hold tells of a loss."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.seconds):
                await self.holds[-1].lost

    def end(self) -> None:
        """Look once more, at the end of the body, and write."""
        hold, lost = self.holds[-1], self._lost()
        self.world.oracle.reached["nested: lost in the body"] += lost is not None
        try:
            hold.raise_if_lost()
        except LockLost as told:
            if told.lock not in [each.lock for each in self.holds if each.own_lost.is_set()]:
                self._blame("not told of a loss", f"was told of {told.lock}, which is not lost")
            raise
        if lost is not None or not hold.owned or hold.lost.is_set():
            self._blame("not told of a loss", f"was not told of the loss of {lost}")
        self.world.resource.write(hold)

    def ended(self, outcome: str) -> None:
        """Note how the call ended."""
        reached = self.world.oracle.reached
        reached[f"nested: {outcome}"] += 1
        reached["nested: lost before the body"] += not self.begun and self._lost() is not None

    def _must_have_time(self) -> None:
        """Judge a wait that ends, if nothing went wrong: the waits of a call count together."""
        waited = 0.0 if self.begun else self.world.loop.now - self.since
        late = waited > _WAITS_UNTIL * self.world.oracle.bounds.drift + AT_ONCE
        if late and self.world.oracle.conduct.well(self.machine, waited):
            self._blame("waits past its limit", f"waited for {waited:.1f} s, and may wait for {_WAITS_UNTIL:g} s")

    def _lost(self) -> Hold | None:
        return next((each for each in self.holds if each.own_lost.is_set()), None)

    def _blame(self, check: str, text: str) -> None:
        self.world.oracle.blame(check, f"{self.name} on {self.machine.name} {text}")


def start_nested(world: World) -> None:
    """Some callers on each machine: each has an outer lock of its own, and all share one or two inner locks."""
    rng = world.rng_work
    world.oracle.callers.apart |= _NAMES
    # As if no loss cancelled a layer: the release of an inner lock, after a loss, is a part of the outer body.
    world.oracle.callers.know(dict.fromkeys(_NAMES, guards_of(_lingering())[0]))
    ledgers, named = rng.choice((1, 1, 2)), rng.random() < 0.5
    limited = random.Random(f"limited/{world.machines[0].offset}").random() < _LIMITED
    for name in sorted(_NAMES) if limited else ():  # the verdict may not take that release for an overlap, either
        world.note("world", "function", **told_of(name, None, queue="", is_async=False))
    for machine in world.machines:
        for caller in range(rng.randint(1, 4)):
            calls = []
            for number in range(rng.randint(1, 4)):
                name = f"{machine.name}/{caller}/{number}"
                work = Work(world, machine, name, float(rng.choice((0, 1, 2, 3, 5, 8, 13))))
                customer = str(caller) if limited else f"{machine.name}-{caller}"
                message = json.dumps({"Id": name, "Customer": customer, "Ledger": rng.randrange(ledgers)})
                middle, ends, sync = rng.choice(_MIDDLES), rng.choice(_ENDS), rng.random() < 0.5
                # A lock client knows of no functionTimeout.
                work.limited = limited and middle != "lock"
                function = _function(middle, ends, sync=sync, limited=work.limited)
                context = InvocationContext("inner", name) if named or limited else None
                calls.append((float(rng.randint(0, 3)), work, partial(function, message, work, context)))
            seconds = sum(pause + work.seconds + 7.0 for pause, work, _ in calls)
            world.start(machine, _calls(calls), seconds=seconds)


async def _calls(calls: list[tuple[float, Work, partial[Any]]]) -> None:
    for pause, work, call in calls:
        await asyncio.sleep(pause)
        outcome = "cancelled"
        if work.limited:
            work.since = work.world.loop.now
        try:
            if inspect.iscoroutinefunction(call.func):
                await call()
            else:
                await Baton.run(call)
            outcome = "ok"
        except (SingletonError, Refused) as error:
            outcome = type(error).__name__
        finally:
            work.ended(outcome)


@cache
def _clients() -> tuple[AsyncLockClient, LockClient]:
    return AsyncLockClient(options=SingletonOptions()), LockClient(options=SingletonOptions())


@cache
def _lingering() -> Callable[..., Any]:
    with without_options():
        return singleton(cancel_on_loss=False)(inner)


@cache
def _function(middle: Middle, ends: int, *, sync: bool, limited: bool) -> Callable[..., Any]:
    """Return a function with an outer lock that is lost after so many seconds, and one or two locks inside."""
    with without_options({"AzureFunctionsJobHost__functionTimeout": f"00:00:{_LIMIT}"} if limited else {}):
        layers = [singleton(scope="Ledger", level="host")(inner_sync if sync else inner)]
        if middle != "none":
            layers.append(_between(middle, layers[-1], sync=sync))
        layers.append(singleton(scope="Customer", max_hold=ends)(_through(layers[-1], "outer", sync=sync)))
        for guard in chain.from_iterable(map(guards_of, layers)) if limited else ():
            assert guard._limit.timeout is not None  # it is read once
    return layers[-1]


def _between(middle: Middle, function: Callable[..., Any], *, sync: bool) -> Callable[..., Any]:
    through = _through(function, "middle", sync=sync, is_client=middle == "lock")
    if middle == "lock":
        client: Any = _clients()[sync]
        locked: Callable[..., Any] = client.lock("till")(through)
        return locked
    return once(key="Id")(through) if middle == "once" else singleton(scope="Id")(through)


def _through(function: Callable[..., Any], name: str, *, sync: bool, is_client: bool = False) -> Callable[..., Any]:
    """Return a layer that only calls the next one, with what it got."""

    async def call(msg: str, work: Work, context: Any = None) -> None:
        work.enter()
        try:
            with work.told(is_client=is_client):
                await function(msg, work, context)
        except BaseException:
            work.refused()
            raise

    def call_sync(msg: str, work: Work, context: Any = None) -> None:
        work.enter()
        try:
            with work.told(is_client=is_client):
                function(msg, work, context)
        except BaseException:
            work.refused()
            raise

    layer = call_sync if sync else call
    layer.__name__ = name
    return layer


async def inner(msg: str, work: Work, context: Any = None) -> None:
    """Work as a coroutine."""
    work.begin()
    await work.rest()
    work.end()


def inner_sync(msg: str, work: Work, context: Any = None) -> None:
    """Work on a thread, which nobody stops."""
    work.begin()
    Baton.wait(work.rest())
    work.end()


inner_sync.__name__ = "inner"

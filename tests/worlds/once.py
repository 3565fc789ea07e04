"""The workload ``once``: operations by key on all hosts, whose effects a resource counts; and what must be true.

Functions do the operations of some keys, blocks do the rest. Some fail after their effect, some are cancelled, some
wait for only so long; each effect has a result of its own.

two results        two that returned normally returned different results for one key
no effect          one returned a result that no effect had
done again         one began after another had returned the result, and did it again
two doers          two had the effect, and both returned normally
counts after all   one was told that its hold is lost, so its result does not count, and its result is another's
another end        a result ends at another time than ``keep`` seconds after its write, by the service's clock
another output     an invocation set another value of its output than the body that had the effect, of any kind

A call that ends with another error, or is cancelled, says nothing: its result may count, or not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import cache, wraps
from typing import TYPE_CHECKING, Any, Final, Literal

from simulator.virtual.hosts.jobs import InvocationContext, ended, inside, without_options
from simulator.virtual.storage.network import both
from simulator.virtual.time.machine import Baton
from simulator.virtual.worlds.outcome import Refused
from singleton import AsyncLockClient, LockClient, SingletonOptions, current_hold, once
from singleton.base.errors import LockLost, SingletonError
from singleton.base.state import UNTIL_KEY, marked
from tests.support.empty_values import EMPTY
from tests.support.responses import Out

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.hold import Hold
    from singleton.patterns.once.block import BaseOperation
    from singleton.patterns.once.entry_point import OnRepeat

_NAME: Final = "charge"
_KEEP: Final = 100_000.0
_ABOUT: Final = 45.0
"""Seconds by which the end of a result may differ: a request for it, and drift."""
_TILL: Final = "till"
"""A lock below some functions: who finds that another has the lock skips the operation."""
_TILLS: Final = 0.4
"""Share of the worlds with such functions."""
_OUTPUTS: Final = (None, *EMPTY[:4], "sent", *EMPTY[5:], b"\0", {"sent": [1]})
"""What a body sets its output to, by the number of its effect; None: it sets none."""


class _Fails(Exception):
    """The work fails after its effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """One call, after a ``pause``: so many seconds before its effect, and after it."""

    pause: float
    key: str
    before: float
    after: float
    timeout: float | None
    careful: bool
    fails: bool
    sync: bool
    cancel_after: float | None

    @property
    def by_function(self) -> bool:
        """Whether a function does it: of one key all or none."""
        return _number(self.key) % 3 == 1


def _number(key: str) -> int:
    return int(key.rpartition("-")[2])


def _outputs(key: str) -> Literal["always", "first"]:
    """Return who sends the outputs of a key."""
    return "always" if _number(key) % 2 else "first"


@dataclass(slots=True, eq=False)
class Call:
    """A call and its outcome. ``result``: number of an effect; ``effect``: number of its own effect, or None."""

    machine: Machine
    owner: str
    key: str
    since: float
    skipped: bool = False
    """Whether a lock below was another's."""
    effect: int | None = None
    result: Any = None
    until: float = 0.0
    out: Out = field(default_factory=Out)


def start_once(world: World) -> None:
    """Let some callers on each machine do a few operations."""
    rng = world.rng_work
    ledger = Ledger(world)
    keys = rng.choice((1, 2, 4, 8))
    for machine in world.machines:
        for caller in range(rng.randint(1, 3)):
            plans = [_plan(rng, keys) for _ in range(rng.randint(1, 4))]
            seconds = sum(plan.before + plan.after + 7.0 for plan in plans)
            world.start(machine, _Caller(world, ledger, machine, caller).work(plans), seconds=seconds)
    if rng.random() < _TILLS:
        ledger.till = True
        machine, times = rng.choice(world.machines), [rng.uniform(0.5, 8.0) for _ in range(12)]
        world.start(machine, _use_till(world, machine, times), seconds=sum(times) + 30.0)


def start_small_once(world: World) -> None:
    """Do one operation on two hosts, by the function and by the block."""
    ledger = Ledger(world)
    for machine in world.machines:
        plans = [
            _Plan(
                pause=0.5 * machine.index,
                key=key,
                before=0.5,
                after=0.5,
                timeout=None,
                careful=True,
                fails=False,
                sync=False,
                cancel_after=None,
            )
            for key in ("key-1", "key-0")
        ]
        world.start(machine, _Caller(world, ledger, machine, 0).work(plans), seconds=60.0)


def _plan(rng: random.Random, keys: int) -> _Plan:
    return _Plan(
        pause=rng.choice((0.0, 1.0, 10.0)) * rng.random(),
        key=f"key-{rng.randrange(keys)}",
        before=rng.choice((0.05, 1.0, 8.0)) * rng.random(),
        after=rng.choice((0.0, 0.05, 3.0, 20.0)) * rng.random(),
        timeout=rng.choice((None, None, 0.0, 20.0)),
        careful=rng.random() < 0.7,
        fails=rng.random() < 0.15,
        sync=rng.random() < 0.25,
        cancel_after=rng.uniform(0.0, 20.0) if rng.random() < 0.1 else None,
    )


@cache
def _clients() -> tuple[AsyncLockClient, LockClient]:
    return AsyncLockClient(options=SingletonOptions()), LockClient(options=SingletonOptions())


async def _use_till(world: World, machine: Machine, times: list[float]) -> None:
    """Have the lock below some functions for a while, and again after a pause."""
    for pause, seconds in zip(times[::2], times[1::2], strict=True):
        await asyncio.sleep(pause)
        with suppress(SingletonError):
            async with _clients()[0].lock(_TILL, timeout=10.0, owner=f"{machine.name}/till") as hold:
                with inside(world, machine, hold):
                    await _rest(hold, seconds, careful=True)


@dataclass(frozen=True, slots=True)
class _Work:
    """What a function is given."""

    caller: _Caller
    call: Call
    plan: _Plan


@cache
def _function(
    timeout: float | None, outputs: Literal["always", "first"], *, sync: bool, till: bool = False
) -> Callable[..., Any]:
    """Return a function that does operations, below a lock of its own if there is a ``till``."""

    async def charge_async(work: _Work, out: Out) -> int:
        return await work.caller.charge(work.call, work.plan, current_hold())

    def charge(work: _Work, out: Out) -> int:
        return work.caller.charge_sync(work.call, work.plan, current_hold())

    charge_async.__name__ = charge.__name__
    policy: OnRepeat = "raise" if timeout == 0 else "wait"
    with without_options():
        declare = once(
            key=lambda work: work.plan.key, keep=_KEEP, on_contention=policy, timeout=timeout or None, outputs=outputs
        )
        body = _below_till(charge) if till else charge
        return declare(body if sync else charge_async)


def _below_till(body: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that is skipped while another has the lock, and whose call learns of that.

    Not of coroutines: one that was cancelled gives the lock back first, and the oracle counts it as inside meanwhile.
    """
    tried: Callable[..., Any] = _clients()[1].try_lock(_TILL, owner=_NAME)(body)

    @wraps(tried)
    def attempt(work: _Work, out: Out) -> int | None:
        result: int | None = tried(work, out)
        work.call.skipped = result is None
        return result

    return attempt


@dataclass(slots=True)
class _Caller:
    world: World
    ledger: Ledger
    machine: Machine
    number: int

    async def work(self, plans: list[_Plan]) -> None:
        """Make one call after the other."""
        for number, plan in enumerate(plans):
            await asyncio.sleep(plan.pause)
            call = self.ledger.begin(self.machine, f"{self.machine.name}/{self.number}/{number}", plan.key)
            await ended(self._call(call, plan), call.owner, cancel_after=None if plan.sync else plan.cancel_after)

    async def _call(self, call: Call, plan: _Plan) -> None:
        outcome = "cancelled"
        try:
            if plan.sync:
                result = await Baton.run(lambda: self._do_sync(call, plan))
            else:
                result = await self._do(call, plan)
            outcome = "ok"
            if call.skipped:
                self.world.oracle.reached["skipped below"] += 1
                return
            self.ledger.returned(call, result)
            if plan.by_function:
                self.ledger.sent(call, result)
        except (SingletonError, Refused, _Fails) as error:
            outcome = type(error).__name__
            if isinstance(error, LockLost):
                self.ledger.lost(call)
        finally:
            self.ledger.under_way[call.machine, call.key] -= 1
            self.world.oracle.callers.ended(self.machine, call.owner, outcome)
            self.world.oracle.reached[f"invocation: {outcome}"] += 1

    async def charge(self, call: Call, plan: _Plan, hold: Hold) -> int:
        """Do it in a coroutine; return the number of its effect."""
        await _rest(hold, plan.before, careful=plan.careful)
        effect = self.ledger.effect(call, hold)
        await _rest(hold, plan.after, careful=plan.careful)
        _end(plan)
        return effect

    def charge_sync(self, call: Call, plan: _Plan, hold: Hold) -> int:
        """Do it on a thread."""
        Baton.wait(_rest(hold, plan.before, careful=plan.careful))
        effect = self.ledger.effect(call, hold)
        Baton.wait(_rest(hold, plan.after, careful=plan.careful))
        _end(plan)
        return effect

    async def _do(self, call: Call, plan: _Plan) -> Any:
        if plan.by_function:
            work, context = _Work(self, call, plan), InvocationContext("charge", call.owner)
            return await _function(plan.timeout, _outputs(plan.key), sync=False)(work, call.out, context=context)
        async with once(
            _clients()[0], plan.key, name=_NAME, keep=_KEEP, timeout=plan.timeout, owner=call.owner
        ) as operation:
            if not operation.done:
                hold = _hold(operation)
                with inside(self.world, self.machine, hold) if plan.careful else nullcontext():
                    effect = await self.charge(call, plan, hold)
                await operation.finish(effect)  # code that hangs here is no body's work
        return operation.result

    def _do_sync(self, call: Call, plan: _Plan) -> Any:
        if plan.by_function:
            work, context = _Work(self, call, plan), InvocationContext("charge", call.owner)
            return _function(plan.timeout, _outputs(plan.key), sync=True, till=self.ledger.till)(
                work, call.out, context=context
            )
        with once(_clients()[1], plan.key, name=_NAME, keep=_KEEP, timeout=plan.timeout, owner=call.owner) as operation:
            if not operation.done:
                operation.finish(self.charge_sync(call, plan, _hold(operation)))
        return operation.result


async def _rest(hold: Hold, seconds: float, *, careful: bool) -> None:
    """Work for so long. A careful body stops when the hold is lost, others go on."""
    if not careful:
        await asyncio.sleep(seconds)
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await hold.lost
    hold.raise_if_lost()


def _hold(operation: BaseOperation) -> Hold:
    hold = operation._hold
    assert hold is not None
    return hold


def _end(plan: _Plan) -> None:
    if plan.fails:
        raise _Fails


@dataclass(slots=True)
class Ledger:
    """All effects and results, and what must hold of them; not of a key whose blob an operator has deleted."""

    world: World
    effects: dict[str, list[Call]] = field(default_factory=dict)
    results: dict[str, list[Call]] = field(default_factory=dict)
    losers: list[Call] = field(default_factory=list)
    """Calls whose effect does not count, as they were told."""
    deleted: set[str] = field(default_factory=set)
    """Keys."""
    under_way: Counter[tuple[Machine | None, str]] = field(default_factory=Counter)
    till: bool = False
    """Whether functions are skipped while another has a lock below."""

    def __post_init__(self) -> None:
        service, network = self.world.service, self.world.network
        network.on_answer = both(network.on_answer, self.written)
        service.delete = both(self._notes_deletion, service.delete)  # type: ignore[method-assign]
        self.world.oracle.conduct.keeps = self._keeps

    def _notes_deletion(self, name: str) -> None:
        self.deleted.add(name.rpartition("/")[2])

    def _keeps(self, tenure: Tenure) -> bool:
        """Tell whether somebody may be reading what was kept at this moment, under a lease of this machine."""
        return tenure.lock == _TILL or self.under_way[tenure.machine, tenure.lock.rpartition("/")[2]] > 0

    def written(self, request: NetworkRequest, _: Exception | None, __: Passage) -> None:
        """Take a request that writes a result: it ends ``keep`` seconds later, by the service's clock."""
        if request.call != "put" or (until := marked(request.args[1], UNTIL_KEY)) is None:
            return
        machine = request.machine
        over = int(until) - ((request.sent - machine.offset) / machine.rate + _KEEP)
        if abs(over) > _ABOUT and not machine.stopped_since(2 * _ABOUT):
            text = f"{machine.name} keeps the result of {request.name} for {_KEEP + over:.0f} s, and not {_KEEP:.0f}"
            self.world.oracle.blame("another end", text)

    def begin(self, machine: Machine, owner: str, key: str) -> Call:
        """Note that somebody asks."""
        self.under_way[machine, key] += 1
        return Call(machine, owner, key, self.world.loop.now)

    def effect(self, call: Call, hold: Hold) -> int:
        """Have the effect, under the operation's token; return its number."""
        self.world.resource.write(hold)
        done = self.effects.setdefault(call.key, [])
        done.append(call)
        call.effect = len(done)
        if before := [each for each in self.results.get(call.key, ()) if each.until < call.since]:
            self._blame("done again", call, f"does it again, and {before[0].owner} had returned {before[0].result}")
        if (output := _OUTPUTS[call.effect % len(_OUTPUTS)]) is not None:
            call.out.set(output)
        self.world.oracle.reached["effects"] += 1
        self.world.oracle.reached["effects again"] += len(done) > 1
        return call.effect

    def lost(self, call: Call) -> None:
        """Take that a call was told that its hold is lost."""
        if call.effect is not None:
            self.losers.append(call)
            self._compare(call.key)

    def _compare(self, key: str) -> None:
        """Find a result that does not count, as its call was told, and that was returned."""
        returned = {call.result: call for call in self.results.get(key, ())}
        for loser in self.losers:
            if loser.key == key and (other := returned.get(loser.effect)) is not None:
                text = f"was told that its hold is lost, and {other.owner} returned its result, {loser.effect}"
                self._blame("counts after all", loser, text)

    def returned(self, call: Call, result: Any) -> None:
        """Take what a call returned."""
        call.result, call.until = result, self.world.loop.now
        results = self.results.setdefault(call.key, [])
        others = [each for each in results if each.result != result]
        results.append(call)
        if result not in range(1, len(self.effects.get(call.key, ())) + 1):
            self._blame("no effect", call, f"returned {result!r}, which no effect had")
        elif others:
            self._blame("two results", call, f"returned {result}, and {others[0].owner} {others[0].result}")
        elif call.effect is not None and (doers := [each for each in results[:-1] if each.effect is not None]):
            self._blame("two doers", call, f"has done it, and so has {doers[0].owner}")
        self.world.oracle.reached["results found"] += call.effect is None
        self._compare(call.key)

    def sent(self, call: Call, result: int) -> None:
        """Take the output of an invocation that returned: of the effect, or of none where only the first sends it."""
        repeats = call.effect is None
        wanted = None if repeats and _outputs(call.key) == "first" else _OUTPUTS[result % len(_OUTPUTS)]
        self.world.oracle.reached["outputs of repeats"] += repeats and wanted is not None
        if repr(call.out.get()) != repr(wanted):
            self._blame("another output", call, f"sent {call.out.get()!r} for {result}, and not {wanted!r}")

    def _blame(self, check: str, call: Call, text: str) -> None:
        if call.key not in self.deleted:
            self.world.oracle.blame(check, f"{call.owner} {text}, for {call.key}")

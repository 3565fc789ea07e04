"""The workload ``deployed``: apps with functions, settings and host.json of their own, beside a .NET host at times.

What their requests must be like is judged in ``places.py``; and

refused for nothing  a declaration or a message that the specification allows is refused
wrong answer         an invocation succeeds with another value than its body gave, or without a body and with a value
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.jobs import InvocationContext, Job
from simulator.virtual.hosts.queue_host import WITNESS, invoke, run_function, told_of
from tests.worlds.deployments.deployment import DEPLOYMENTS, Deed, deployment
from tests.worlds.deployments.environment import environments
from tests.worlds.deployments.foreign import start_foreign
from tests.worlds.deployments.places import Places

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from tests.worlds.deployments.deployment import Edition, Function
    from tests.worlds.deployments.scopes import Message

_LONGEST: Final = 20.0
_watched: Final[set[int]] = set()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    pause: float
    function: Function
    message: Message
    job: Job
    gives: Any


def start_deployed(world: World) -> None:
    """Deploy apps to the machines; each makes some calls of its functions, with messages of all sorts."""
    rng = world.rng_work
    number = rng.randrange(DEPLOYMENTS)
    editions = deployment(number)
    for edition in editions:
        if edition.refused:
            world.oracle.blame("refused for nothing", edition.refused)
            return
    _declare(world, number, editions)
    places = Places(world.oracle)
    places.listen(world.network, world.service)
    machines = list(world.machines)
    settings: dict[Machine, Mapping[str, str]] = {}
    foreign = start_foreign(world, editions, machines[-1]) if len(machines) > 1 and rng.random() < 0.4 else None
    if foreign is not None:
        places.stranger(machines.pop())
    for machine in machines:
        edition = rng.choice(editions)
        settings[machine] = edition.settings
        host = _Host(world, machine, edition, places)
        # A few locks only: hosts must meet.
        functions = edition.app.functions if foreign is None else [foreign, *edition.app.functions]
        functions = [each for each in functions if each.name in edition.guarded][: rng.randint(1, 4)]
        for worker in range(rng.randint(1, 3)):
            calls = [_draw(world, functions) for _ in range(rng.randint(2, 5))]
            seconds = sum(call.job.steps * call.job.pause + 7.0 for call in calls)
            world.start(machine, host.work(worker, calls), seconds=seconds)
    world.surroundings = environments(settings)


def _declare(world: World, number: int, editions: tuple[Edition, ...]) -> None:
    for edition in editions:
        if number not in _watched:
            WITNESS.watch(edition.guarded.items())
        for function in edition.app.functions:
            told = told_of(function.name, function, queue="", is_async=function.is_async)
            tokens = function.options.fencing_tokens and function.layout != "webjobs"
            if function.retries is not None and function.wait is None:  # attempts end by themselves
                told["timeout"] = function.retries * function.soonest + 0.01
            if told["timeout"]:
                told["timeout"] /= world.oracle.bounds.drift  # by the clock of a host that is fast
            world.note("world", "function", witnessed=True, **{**told, "tokens": tokens})
    _watched.add(number)
    functions = {each.name: each for edition in editions for each in edition.app.functions}
    world.oracle.callers.know(functions)
    world.oracle.callers.out_of_line = {name for name, each in functions.items() if each.retries is not None}


def _draw(world: World, functions: list[Function]) -> _Call:
    rng = world.rng_work
    function = rng.choice(functions)
    steps = rng.randint(1, 2)
    seconds = rng.choice((0.01, 0.05, 0.05, 1.0, _LONGEST / 2, _LONGEST)) * rng.uniform(0.5, 1.0)
    job = Job(world.resource, steps, seconds / steps, careful=rng.random() < 0.5, fails=rng.random() < 0.05)
    messages = function.scope.messages
    message = messages[0] if rng.random() < 0.4 else rng.choice(messages)
    return _Call(
        pause=rng.uniform(0.0, 4.0), function=function, message=message, job=job, gives=rng.choice(function.gives)
    )


@dataclass(frozen=True, slots=True)
class _Host:
    """A machine that runs an edition of an app."""

    world: World
    machine: Machine
    edition: Edition
    places: Places

    async def work(self, worker: int, calls: list[_Call]) -> None:
        """Make one call after the other."""
        for number, call in enumerate(calls):
            await asyncio.sleep(call.pause)
            await self._make(call, f"{self.machine.name}/{worker}/{number}")

    async def _make(self, call: _Call, invocation: str) -> None:
        world, function, machine = self.world, call.function, self.machine
        body, values = call.message
        deed = Deed(call.job, call.gives)
        lock = None if values is None else function.expected(self.edition, values)
        asked_once = function.wait == 0
        attempts = None if function.retries is None or asked_once else function.retries + 1
        self.places.expect(machine, invocation, lock, limit=function.wait, attempts=attempts)

        async def work() -> None:
            context = InvocationContext(function.name, invocation)
            arguments = {"msg": body, "job": deed, "context": context}
            answer = await run_function(self.edition.guarded[function.name], arguments)
            self._judge(invocation, deed, answer)

        key = None if lock is None else json.dumps([lock.endpoint, lock.container, lock.name])
        outcome = await invoke(
            world, machine, function.name, invocation, work, keys={"function": key}, failures=(RuntimeError,)
        )
        self.places.ended(machine, invocation)
        world.oracle.reached[f"invocation: {outcome}"] += 1
        if outcome == "ConfigurationError" or (outcome == "ScopeError" and lock is not None):
            self._blame("refused for nothing", f"{invocation} of {function.name} ended with {outcome}")

    def _judge(self, invocation: str, deed: Deed, answer: object) -> None:
        wanted = deed.gives if deed.begun else None
        if answer is not wanted:
            self._blame("wrong answer", f"{invocation} gave {answer!r}, and its body {wanted!r}")

    def _blame(self, check: str, text: str) -> None:
        if not self.world.over:
            self.world.oracle.blame(check, text)

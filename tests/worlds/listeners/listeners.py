"""The workload ``listener``: listeners and ordinary guarded functions, on hosts that start and stop.

Timers, messages and calls without a trigger, sync and async; invocations are cancelled between any two callbacks of
their machine, bodies are longer than a process waits for at its end, policies are functions. What listeners promise is
judged in ``oracle/listeners.py``; what an invocation answers, in ``answers.py``.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import random
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_model import Parameter
from simulator.host.triggers.bindings import queue_input
from simulator.host.triggers.queue import encode
from simulator.virtual.hosts.jobs import InvocationContext, Job, message, under_way
from simulator.virtual.hosts.queue_host import WITNESS, Feed, QueueWorld, invoke, orders, run_function, told_of
from singleton.decorator import guards_of
from tests.support.listeners import TICK
from tests.worlds.listeners.answers import Invoked
from tests.worlds.listeners.app import (
    LIMIT,
    QUEUE,
    UNDER_WAY,
    VARIANTS,
    WITHOUT_END,
    PanicError,
    Variant,
    Work,
    listening_app,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.kinds import Policy

_SECONDS: Final = 64.0
"""Seconds for which timers fire and calls come."""
_TIMERS: Final = ("sweep", "sweep_sync", "tally")
_QUEUES: Final = ("pull", "pull_sync")
_CALLS: Final = ("answer", "answer_sync", "both", "idle")
_ORDINARY: Final = ("ship", "ship_sync", "ask", "ask", "ask_sync", "attempt", "limited")
_OTHER_QUEUES: Final = ("report", "report_sync", "ask_pull")
_LEVELS: Final = ("ship", "ship_sync", "ask", "ask_sync", "ask_pull", "limited", "report", "report_sync")
"""Those that share the lock of a customer."""
_LONG: Final = (0.1, 0.2, 0.7)
"""The share of long bodies that is drawn for a world: with many of them, seats are often taken."""
_CALM: Final = 0.0
"""The chance of an app whose invocations end well, and are not cancelled."""
_MESSAGE: Final = Parameter(name="msg", binding="queueTrigger", converter="queueTrigger")


def start_listeners(world: World) -> None:
    """Draw the app and who calls what; a part of the hosts comes late, and some are told to stop."""
    rng = world.rng_work
    variant = rng.choice(VARIANTS)
    UNDER_WAY.clear()
    kinds = [
        rng.choice(_TIMERS),
        *rng.sample(_CALLS, rng.choice([0, 1])),
        *rng.sample(_ORDINARY, rng.choice([0, 1, 1])),
    ]
    kinds += rng.sample(["nightly", *_TIMERS], rng.choice([0, 0, 0, 1]))
    if rng.random() < 0.35:  # waits for the listener, and for the lock
        variant = rng.choice((variant, WITHOUT_END))
        kinds.append("twice")
    queue = ""
    if variant.timeout is None and rng.random() < 0.4:
        queue = rng.choice((*_QUEUES, *_QUEUES, *_OTHER_QUEUES))
        kinds.append(queue)
    app = _App(world, variant, rng.random(), rng.choice(_LONG))
    app.declare(sorted(set(kinds)), queue)
    for machine in world.machines:
        begin = rng.choice([0.0, 0.0, rng.uniform(0, 30)])
        for kind in sorted(set(kinds) - {queue}):
            if kind in (*_TIMERS, "nightly"):
                world.start(machine, app.ticks(machine, kind, begin), seconds=20.0)
            else:
                # Each caller makes its own attempts, in no order.
                for worker in range(_workers(rng, kind)):
                    world.start(machine, app.calls(machine, kind, worker, begin), seconds=40.0)
    if queue:
        hosting = QueueWorld(world)
        for machine in world.machines:
            hosting.listen(machine, queue, QUEUE, partial(app.deliver, machine, queue))
        hosting.feed(orders(rng, QUEUE, rng.randint(3, 8), within=30.0), seconds=200.0)
    if rng.random() < 0.5:
        for _ in range(rng.choice([1, 1, 2])):
            world.later(rng.uniform(5, _SECONDS), world.shut_down, rng.randrange(len(world.machines)))
    world.watch(world.oracle.listening.look)


def start_small_listener(world: World) -> None:
    """Let one host listen for a message that both can get, and for a second one."""
    UNDER_WAY.clear()
    app = _CalmApp(world, VARIANTS[0], _CALM, 0.0)
    app.declare(["pull"], "pull")
    hosting = QueueWorld(world)
    for machine in world.machines:
        hosting.listen(machine, "pull", QUEUE, partial(app.deliver, machine, "pull"))
    texts = [encode(message("key-0", number).encode(), "base64") for number in range(2)]
    hosting.feed([Feed(0.5 + 0.8 * number, QUEUE, text) for number, text in enumerate(texts)], seconds=200.0)
    world.watch(world.oracle.listening.look)


@dataclass(slots=True)
class _App:
    world: World
    variant: Variant
    chance: float
    """What each invocation's work is drawn from, by its id: the same in every run, however many there are."""
    long: float
    _functions: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def declare(self, kinds: list[str], queue: str) -> None:
        """Tell oracle and verdict of the functions that will be called."""
        functions = listening_app(self.variant)
        self._functions = {kind: functions[kind] for kind in kinds}
        WITNESS.watch(self._functions.items())
        oracle = self.world.oracle
        oracle.listening.know({kind: guards_of(each)[0] for kind, each in self._functions.items() if _listens(each)})
        inner = {kind: guards_of(each)[-1] for kind, each in self._functions.items()}
        oracle.callers.know(inner)
        oracle.bounds.know(guard for each in self._functions.values() for guard in guards_of(each))
        for kind, function in self._functions.items():
            is_async = inspect.iscoroutinefunction(function)
            told = told_of(kind, inner[kind], queue=QUEUE if kind == queue else "", is_async=is_async)
            if len(guards_of(function)) > 1:
                listener = guards_of(function)[0]
                told["listener"] = {"lease": listener.period, "poll": listener.poll}
            if kind in ("limited", "twice"):
                told["limit"] = LIMIT
            if kind == "attempt":
                told["timeout"], told["on_contention"] = 30.0, "custom"  # it tries some times
            self.world.note("world", "function", witnessed=True, **told)

    # --- who calls ----------------------------------------------------------------------------------------------------

    async def ticks(self, machine: Machine, kind: str, begin: float) -> None:
        """Fire a timer on all machines at one time. A tick is skipped while the body of the last one runs."""
        rng = self._chance(f"{machine.name}/{kind}")
        every = rng.choice([8.0, 12.0])
        for number in range(int(begin / every) + 1, int(_SECONDS / every)):
            await asyncio.sleep(max(0.0, machine.offset + number * every - asyncio.get_running_loop().time()))
            await self._invoke(machine, kind, f"{machine.name}/{kind}/{number}", timer=TICK)

    async def calls(self, machine: Machine, kind: str, worker: int, begin: float) -> None:
        """Call a function again and again."""
        rng = self._chance(f"{machine.name}/{kind}/{worker}")
        now = self.world.loop
        await asyncio.sleep(begin)
        number = 0
        while now.now < _SECONDS:
            number += 1
            await asyncio.sleep(rng.choice([0.1, 5.0, 12.0]) * rng.random())
            key = "key-0" if kind == "twice" else f"key-{rng.randrange(2)}"
            given: dict[str, Any] = {"timer": TICK} if kind == "idle" else {"msg": message(key)}
            await self._invoke(machine, kind, f"{machine.name}/{kind}/{worker}/{number}", key=key, **given)
            await asyncio.sleep(rng.choice([1.0, 6.0, 12.0]))

    async def deliver(self, machine: Machine, kind: str, received: QueueMessage) -> bool:
        """Run a function for a message."""
        key = json.loads(received.body)["Order"]["Id"]
        invocation = f"{machine.name}/{received.id}/{received.dequeue_count}"
        value = queue_input(_MESSAGE, received)
        return await self._invoke(machine, kind, invocation, key=key, received=received, msg=value) == "ok"

    # --- an invocation ------------------------------------------------------------------------------------------------

    async def _invoke(
        self,
        machine: Machine,
        kind: str,
        invocation: str,
        *,
        key: str = "",
        received: QueueMessage | None = None,
        **given: Any,
    ) -> str:
        rng = self._chance(invocation)
        work = self._work(rng, kind)
        function = self._functions[kind]
        one = Invoked(self.world, kind, invocation, machine, work, self.world.loop.now, received)
        UNDER_WAY[invocation] = work

        async def call() -> None:
            context = InvocationContext(kind, invocation)
            try:
                one.answered(await run_function(function, {**given, "work": work, "context": context}))
            except (PanicError, SystemExit) as error:  # it would end the world, as it ends a worker
                one.exited = True
                raise RuntimeError(str(error)) from error

        invoked = invoke(
            self.world,
            machine,
            kind,
            invocation,
            call,
            message=None if received is None else received.id,
            keys=_keys(function, kind, key),
            failures=(RuntimeError,),
        )
        task = asyncio.create_task(invoked, name=invocation)
        if inspect.iscoroutinefunction(function) and rng.random() < 0.15:
            steps = int(rng.choice([5, 20, 80]) * rng.random())
            machine.at_step(steps, partial(self._cancel, task, invocation))
        with under_way(task):
            await asyncio.wait({task})
        UNDER_WAY.pop(invocation, None)
        outcome = "cancelled" if task.cancelled() else task.result()
        if invocation in self.world.cancelled and outcome != "cancelled":
            text = f"{invocation} was cancelled, and went on to its end"
            self.world.oracle.blame("cancellation swallowed", text)
        self.world.oracle.reached[f"invocation: {outcome}"] += 1
        if outcome != "cancelled":
            one.judge(outcome)
        return outcome

    def _cancel(self, task: asyncio.Task[str], invocation: str) -> None:
        if not task.done():
            self.world.cancelled.add(invocation)
            task.cancel()

    def _work(self, rng: random.Random, kind: str) -> Work:
        longest = (
            rng.choice([0.05, 0.05, 1.0, 4.0, 12.0, 25.0]) if rng.random() < self.long else rng.choice([0.05, 1.0])
        )
        if kind == "twice":
            longest = rng.choice([1.0, 12.0, 25.0])
        steps, seconds = rng.randint(1, 3), longest * rng.uniform(0.6, 1.0)
        fails = rng.random() < 0.06
        job = Job(self.world.resource, steps, seconds / steps, careful=rng.random() < 0.5, fails=fails)
        work = Work(job, partial(getattr, self.world.loop, "now"))
        if rng.random() < 0.06:
            work.ends = rng.choice(["cancelled", "exit", "stop", "panic"])
        if rng.random() < 0.6:
            work.gives = rng.choice(["text", "text", "items"])
        policies: list[Policy] = ["wait", "wait", "skip", "raise"]
        if kind == "ask_pull":
            policies.append("defer")
        work.policy = rng.choice(policies)
        return work

    def _chance(self, name: str) -> random.Random:
        return random.Random(f"{self.chance}/{name}")


class _CalmApp(_App):
    """The app, with bodies that all do the same."""

    def _work(self, rng: random.Random, kind: str) -> Work:
        del rng, kind
        return Work(Job(self.world.resource, 1, 1.0), partial(getattr, self.world.loop, "now"))


def _workers(rng: random.Random, kind: str) -> int:
    """Draw how many call a function on a machine."""
    if kind in ("attempt", "twice"):
        return 1 if kind == "attempt" else 3
    return rng.choice([1, 1, 3] if kind in _CALLS else [1, 1, 2])


def _listens(function: Callable[..., Any]) -> bool:
    return guards_of(function)[0].mode == "listener"


def _keys(function: Callable[..., Any], kind: str, key: str) -> dict[str, str | None]:
    """Return what excludes others, for each of the function's modes."""
    keys: dict[str, str | None] = {}
    for guard in guards_of(function):
        if guard.mode == "listener":
            keys["listener"] = f"listener of {kind}"
        else:
            keys["function"] = key if kind in _LEVELS else f"{kind} {key}"
    return keys

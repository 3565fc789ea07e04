"""The user's ``function_app.py`` in virtual worlds: its queue and timer functions, unchanged, on every machine."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simulator.host.app.loading import load_functions
from simulator.host.app.settings import local_settings, redirect
from simulator.host.plan import Plan, connections, make_plans
from simulator.host.triggers.bindingdata import binding_data
from simulator.host.triggers.bindings import Out, queue_input, timer_input
from simulator.host.triggers.messages import encode
from simulator.host.triggers.outputs import queue_name
from simulator.host.triggers.timer import Tick, TimerListener
from simulator.host.triggers.typed import given_back
from simulator.host.triggers.written import written
from simulator.virtual.time.baton import Baton
from simulator.virtual.workloads.hosting import Feed, QueueWorld, VirtualClock
from simulator.virtual.workloads.invocations import invoke, run_function, told_of
from simulator.virtual.workloads.jobs import Context
from simulator.work.apps import AppFunction
from simulator.work.feed import KEYS, make_body

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.host.app.model import IndexedFunction, Parameter
    from simulator.host.triggers.messages import Message
    from simulator.host.triggers.typed import Typed
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

PACE = 5.0
"""Seconds at which slower timers fire, so that a world of a minute shows them."""
MESSAGES = 24
SECONDS = 60.0


@cache
def load(app: str) -> tuple[Plan, ...]:
    """Import the app once in this process; its storage settings lead nowhere, and its ``time.sleep`` takes no time.

    Raises:
        HostError: it can't be run; the message says why.
    """
    folder = Path(app)
    for name, value in local_settings(folder).items():
        os.environ.setdefault(name, value)
    time.sleep = _sleep_virtually(time.sleep)  # type: ignore[assignment]
    plans = make_plans(load_functions(folder, os.environ), os.environ, PACE)
    redirect(os.environ, connections(plans, os.environ), "UseDevelopmentStorage=true")
    return tuple(plan for plan in plans if plan.idle is None)


def start_app(app: str, world: World) -> None:
    """Run the app's functions on all machines of a world, and feed its queues."""
    plans = load(app)
    hosting = QueueWorld(world)
    timers: list[TimerListener] = []
    for plan in plans:
        name, is_async = plan.function.name, plan.function.is_async
        world.note("world", "function", **told_of(name, plan.guard, queue=plan.queue or "", is_async=is_async))
    world.oracle.callers.know({plan.function.name: plan.guard for plan in plans if plan.guard is not None})
    world.oracle.bounds.know(guard for plan in plans for guard in plan.guards)
    for machine in world.machines:
        runner = _Runner(world, machine, hosting)
        for plan in plans:
            if plan.queue is not None:
                hosting.listen(machine, plan.function.name, plan.queue, partial(runner.on_message, plan))
            elif plan.schedule is not None:
                timer = TimerListener(
                    function=plan.function.name,
                    schedule=plan.schedule,
                    run=partial(runner.on_tick, plan),
                    run_on_startup=plan.run_on_startup,
                    clock=VirtualClock(),
                )
                timers.append(timer)
                world.start(machine, timer.run())
    world.later(SECONDS, _stop, timers)
    hosting.feed(_messages(world, plans), seconds=SECONDS)


def _stop(timers: list[TimerListener]) -> None:
    for timer in timers:
        timer.stop()


def _messages(world: World, plans: tuple[Plan, ...]) -> list[Feed]:
    functions = [_described(plan) for plan in plans if plan.queue is not None]
    feeds = []
    for queue in dict.fromkeys(function.queue for function in functions):
        listeners = [function for function in functions if function.queue == queue]
        for number in range(MESSAGES):
            body = make_body(listeners, world.rng_work.choice(KEYS), number)
            feeds.append(Feed(world.rng_work.uniform(0, SECONDS * 0.7), queue, encode(body.encode(), "base64")))
    return sorted(feeds, key=lambda feed: feed.at)


def _described(plan: Plan) -> AppFunction:
    guard = plan.guard
    return AppFunction(
        name=plan.function.name,
        trigger=plan.function.trigger_label,
        queue=plan.queue or "",
        guarded=guard is not None,
        scope=guard.scope if guard else None,
        paths=guard.template.paths if guard else (),
    )


class _Runner:
    """Runs invocations on one machine as the worker does."""

    def __init__(self, world: World, machine: Machine, hosting: QueueWorld) -> None:
        self._world = world
        self._machine = machine
        self._hosting = hosting
        self._numbers = itertools.count(1)

    async def on_message(self, plan: Plan, message: Message) -> bool:
        """Run the function of a queue's trigger; tell whether it succeeded."""
        return await self._invoke(plan, partial(queue_input, plan.function.trigger, message), received=message)

    async def on_tick(self, plan: Plan, tick: Tick) -> None:
        """Run the function of a timer's trigger."""
        await self._invoke(plan, partial(timer_input, plan.function.trigger, tick.status, past_due=tick.past_due))

    async def _invoke(self, plan: Plan, value: Callable[[], Any], *, received: Message | None = None) -> bool:
        function = plan.function
        invocation = f"{self._machine.name}/{function.name}/{next(self._numbers)}"
        outputs = {name: Out() for name in function.outputs}

        async def work() -> None:
            arguments = {function.trigger.name: value(), **outputs}
            if function.wants_context:
                arguments["context"] = Context(function.name, invocation)
            result = await run_function(function.call, arguments)
            self._send(function, given_back(function, outputs, result), received)

        outcome = await invoke(
            self._world,
            self._machine,
            function.name,
            invocation,
            work,
            message=None if received is None else received.id,
            failures=(Exception,),
        )
        self._world.oracle.reached[f"invocation: {outcome}"] += 1
        return outcome == "ok"

    def _send(
        self, function: IndexedFunction, outputs: tuple[tuple[Parameter, Typed], ...], received: Message | None
    ) -> None:
        for parameter, value in outputs:
            if parameter.binding == "queue":
                where = f"output {parameter.name!r} of {function.name}"
                queue = queue_name(parameter, os.environ, where, lambda: binding_data(function.trigger, received))
                for body in written(value):
                    self._hosting.queues.send(queue, encode(body, "base64"))


def _sleep_virtually(real: Callable[[float], None]) -> Callable[[float], None]:
    def sleep(seconds: float) -> None:
        if Baton.held():
            Baton.wait(asyncio.sleep(seconds))
        else:
            real(seconds)

    return sleep

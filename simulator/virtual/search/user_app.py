"""The user's ``function_app.py`` in virtual worlds: its queue and timer functions, unchanged, on every machine."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections import Counter
from dataclasses import replace
from functools import cache, partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simulator.host.app.app_model import AppError, HostConfig
from simulator.host.expected_keys import expected_keys
from simulator.host.function_plan import inner_guards, inner_records, users_functions
from simulator.host.startup import Prepared, prepare_app
from simulator.host.triggers.bindings import Out, binding_data, queue_input, timer_input
from simulator.host.triggers.outputs import given_back, queue_name, written
from simulator.host.triggers.queue import encode
from simulator.host.triggers.timer import Tick, TimerListener
from simulator.host.worker import describe
from simulator.virtual.hosts.jobs import InvocationContext
from simulator.virtual.hosts.queue_host import WITNESS, Feed, QueueWorld, VirtualClock, as_judged, invoke, run_function
from simulator.virtual.search.app_bodies import AppBodies
from simulator.virtual.time.machine import Baton
from simulator.virtual.worlds.outcome import Account
from simulator.virtual.worlds.runtime import HOST_ID, NOWHERE
from simulator.virtual.worlds.told import OF_THE_APP
from simulator.work.apps import App, AppFunction
from simulator.work.feed import make_body
from simulator.work.own import read_messages
from simulator.work.request_specs import KEYS
from singleton.base.errors import LockClosed, LockLost, LockNotAcquired, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.host.app.app_model import IndexedFunction, Parameter
    from simulator.host.function_plan import Plan
    from simulator.host.triggers.outputs import Typed
    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

PACE = 5.0
"""Seconds at which slower timers fire, so that a world of a minute shows them."""
MESSAGES = 24
"""In each queue of a world."""
SECONDS = 60.0
TRIES: Final = 5
"""How often a function may refuse a message, as with the real host. Failures by injected faults don't count."""
_OF_FAULTS: Final = (LockLost, LockClosed, LockNotAcquired, StorageError)
_NUMBERS: Final = ("at_once", "several", "at_least", "max_hold", "max_waiting", "when_full")
_TOLD: Final = ("name", "trigger", "queue", "guarded", "mode", "on_contention", "lease", "poll", "timeout", "tokens")
_MORE: Final = ("merges", "away", "listener", "declared", "once", "decorated", *_NUMBERS)
"""What every world tells of a function: nothing of this machine, and nothing of the real time."""

Own = tuple[tuple[str, str], ...]
"""The user's messages: pairs of queue and body."""


@cache
def load(app: str) -> Prepared:
    """Prepare the app once in this process, as a host does, with those of its functions that are run.

    Its storage settings lead nowhere, and its ``time.sleep`` takes no time.

    Raises:
        HostError: it can't be run; the message says why.
    """
    config = HostConfig(
        name="explore",
        app=Path(app),
        journal=Path(os.devnull),
        storage=NOWHERE,
        host_id=HOST_ID,
        lock_host_id=HOST_ID,
        timer_every=PACE,
    )
    time.sleep = _sleep_virtually(time.sleep)  # type: ignore[assignment]
    prepared = prepare_app(config)
    plans = tuple(plan for plan in prepared.plans if plan.queue is not None or plan.schedule is not None)
    if not plans:
        raise AppError("virtual worlds run functions on timers and storage queues only, and this app has none")
    if not any(plan.guard for plan in plans) and not inner_guards(prepared.plans):
        told = ("no function that can be run here has @singleton", *prepared.notes)
        raise AppError(f"{app}: {'; '.join(told)}")
    WITNESS.watch(users_functions(plans))
    return replace(prepared, plans=plans)


def own_messages(app: str, path: Path) -> Own:
    """Read the user's messages for an app.

    Raises:
        ScenarioError: they can't be used; the message says why.
    """
    known = App(functions=tuple(_described(plan) for plan in load(app).plans))
    return tuple((queue, body) for queue, bodies in read_messages(path, known).items() for body in bodies)


def start_app(app: str, world: World, own: Own = ()) -> None:
    """Run the app's functions on all machines of a world, and feed its queues: with the user's messages, if any."""
    plans = load(app).plans
    bodies = AppBodies(world)
    hosting = QueueWorld(world)
    refused: Counter[str] = Counter()
    timers: list[TimerListener] = []
    for plan in plans:
        world.accounts[plan.function.name] = Account(messages=plan.queue is not None)
        world.note("world", "function", **_told_of(plan))
    for record in inner_records(plans):
        world.note("world", "guard", **record)
    helpers = inner_guards(plans)
    world.accounts |= {guard.function: Account(messages=False) for guard in helpers}
    guarded = [(guard.function, guard) for guard in helpers]
    guarded += [(plan.function.name, plan.guard) for plan in plans if plan.guard is not None]
    world.oracle.callers.know({name: as_judged(guard) for name, guard in guarded})
    world.oracle.bounds.know([*helpers, *(guard for plan in plans for guard in plan.guards)])
    listeners = {plan.function.name: guard for plan in plans for guard in plan.guards if guard.mode == "listener"}
    world.oracle.listening.know(listeners)
    for machine in world.machines:
        runner = _InvocationRunner(world, machine, hosting, refused)
        for plan in plans:
            if plan.queue is not None:
                hosting.listen(machine, plan.function.name, plan.queue, partial(runner.on_message, plan))
            elif plan.schedule is not None:
                timer = TimerListener(
                    function=plan.function.name,
                    schedule=plan.schedule,
                    body=partial(runner.on_tick, plan),
                    run_on_startup=plan.run_on_startup,
                    clock=VirtualClock(),
                )
                timers.append(timer)
                world.start(machine, timer.run())
    world.later(SECONDS, _stop, timers)
    hosting.feed(_messages(world, plans, own), seconds=SECONDS)
    world.watch(world.oracle.listening.look)
    bodies.follow()


def _told_of(plan: Plan) -> dict[str, Any]:
    """Return what a host's journal tells of a function."""
    told = plan.to_json()
    # A body that the app does not want cancelled goes on after a loss, as a thread does.
    cancelled = plan.guard is None or plan.guard.options.cancel_on_loss
    return {name: told[name] for name in (*_TOLD, *_MORE) if name in told} | {"async": told["async"] and cancelled}


def _stop(timers: list[TimerListener]) -> None:
    for timer in timers:
        timer.stop()


def _messages(world: World, plans: tuple[Plan, ...], own: Own) -> list[Feed]:
    functions = [_described(plan) for plan in plans if plan.queue is not None]
    feeds = []
    for queue in dict.fromkeys(function.queue for function in functions):
        listeners = [function for function in functions if function.queue == queue]
        theirs = [body for name, body in own if name == queue]
        made = (make_body(listeners, world.rng_work.choice(KEYS), number) for number in range(MESSAGES))
        sent_by_the_app = any(function.ordered for function in listeners)
        bodies = _drawn(world, theirs) if own else [] if sent_by_the_app else list(made)
        feeds += [
            Feed(world.rng_work.uniform(0, SECONDS * 0.7), queue, encode(body.encode(), "base64")) for body in bodies
        ]
    return sorted(feeds, key=lambda feed: feed.at)


def _drawn(world: World, own: list[str]) -> list[str]:
    """Draw the messages of a world from the user's; none repeats before every one was drawn, so that hosts meet."""
    drawn: list[str] = []
    while own and len(drawn) < MESSAGES:
        drawn += world.rng_work.sample(own, min(len(own), MESSAGES - len(drawn)))
    return drawn


def _described(plan: Plan) -> AppFunction:
    guard = plan.guard
    return AppFunction(
        name=plan.function.name,
        trigger=plan.function.trigger_label,
        queue=plan.queue or "",
        guarded=guard is not None,
        ordered=plan.ordered,
        scope=guard.scope if guard else None,
        paths=guard.template.paths if guard else (),
    )


class _InvocationRunner:
    """Runs invocations on one machine as the worker does."""

    def __init__(self, world: World, machine: Machine, hosting: QueueWorld, refused: Counter[str]) -> None:
        self._world = world
        self._machine = machine
        self._hosting = hosting
        self._refused = refused
        self._numbers = itertools.count(1)

    async def on_message(self, plan: Plan, message: QueueMessage) -> bool:
        """Run the function of a queue's trigger; tell whether it succeeded."""
        return await self._invoke(plan, partial(queue_input, plan.function.trigger, message), received=message)

    async def on_tick(self, plan: Plan, tick: Tick) -> None:
        await self._invoke(plan, partial(timer_input, plan.function.trigger, tick.status, past_due=tick.past_due))

    async def _invoke(self, plan: Plan, value: Callable[[], Any], *, received: QueueMessage | None = None) -> bool:
        function = plan.function
        invocation = f"{self._machine.name}/{function.name}/{next(self._numbers)}"
        outputs = {name: Out() for name in function.outputs}

        async def work() -> None:
            try:
                arguments = {function.trigger.name: value(), **outputs}
                if function.wants_context:
                    arguments["context"] = InvocationContext(function.name, invocation)
                result = await run_function(function.call, arguments)
                given = given_back(function, outputs, result)
                sys.stdout.flush()  # as the worker does
                self._send(function, given, received)
            except Exception as error:
                stale = OF_THE_APP in vars(error)
                if (stale or not isinstance(error, _OF_FAULTS)) and not self._world.over:
                    self._world.accounts[function.name].stale += stale
                    self._failed(plan, error, received)
                raise

        host_id = os.environ["AzureFunctionsWebHost__hostid"]
        outcome = await invoke(
            self._world,
            self._machine,
            function.name,
            invocation,
            work,
            message=None if received is None else received.id,
            keys=expected_keys(plan, received, os.environ, host_id) if plan.declared else None,
            failures=(Exception,),
        )
        if not self._world.over:
            self._world.oracle.reached[f"invocation: {outcome}"] += 1
            self._world.accounts[function.name].well += outcome == "ok"
        return outcome == "ok"

    def _failed(self, plan: Plan, error: Exception, received: QueueMessage | None) -> None:
        """Receive an error of the function itself. A message that it refuses again and again is given up."""
        account = self._world.accounts[plan.function.name]
        account.failed += 1
        account.error = account.error or describe(error)
        if received is not None:
            self._refused[received.id] += 1
            if self._refused[received.id] >= TRIES:
                self._hosting.give_up(received)

    def _send(
        self, function: IndexedFunction, outputs: tuple[tuple[Parameter, Typed], ...], received: QueueMessage | None
    ) -> None:
        for parameter, value in outputs:
            if parameter.binding == "queue":
                where = f"output {parameter.name!r} of {function.name}"
                queue = queue_name(parameter, os.environ, where, lambda: binding_data(function.trigger, received))
                for body in written(value):
                    self._hosting.queues.send(queue, encode(body, "base64"))


def _sleep_virtually(real: Callable[[float], None]) -> Callable[[float], None]:
    @wraps(real)  # what reads the app's code knows the function by its name
    def sleep(seconds: float) -> None:
        if Baton.held():
            Baton.wait(asyncio.sleep(seconds))
        else:
            real(seconds)

    return sleep

"""Functions hosts in virtual worlds: the simulator's own listeners, on virtual queues and a virtual wall clock.

And invocations as the worker makes them, with the records for a host's journal and the reports to the oracle.
"""

from __future__ import annotations

import asyncio
import inspect
import random
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simulator.history.historian import read_history
from simulator.host.app.hostjson import QueueOptions
from simulator.host.triggers.queue import HostQueues, QueueListener, encode
from simulator.host.triggers.timer import WallClock
from simulator.virtual.hosts.jobs import InvocationContext
from simulator.virtual.hosts.jobs import message as body_for
from simulator.virtual.hosts.queue_service import WEEK, Queues, VirtualQueue
from simulator.virtual.time.machine import HOST, Baton, here
from simulator.virtual.worlds.outcome import Refused, told
from simulator.witness.witness import Witness
from singleton.base.errors import SingletonError
from singleton.base.hold import current_hold
from singleton.decorator import guards_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from simulator.host.triggers.queue import HostQueue, QueueMessage
    from simulator.virtual.hosts.queue_service import Stored
    from simulator.virtual.oracle.evidence import Guarded
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.kinds import Policy
    from singleton.functions.contention import Contention
    from singleton.functions.guard import Guard


def _tell(event: str, /, **fields: object) -> None:
    """Record an event, for the machine of the event."""
    machine = HOST.get()
    if machine is not None:
        machine.tell(event, **fields)


WITNESS: Final = Witness(_tell, current_hold)
"""Sees the bodies of every world, as a host sees the bodies of its app."""


def declare(
    world: World, functions: Mapping[str, Callable[..., Any]], *, queue: str = "", limit: float | None = None
) -> None:
    """Tell oracle and verdict of the guarded functions that will be called.

    ``queue`` triggers them, and ``limit`` is their ``functionTimeout``.
    """
    guards = {name: guards_of(function)[0] for name, function in functions.items()}
    WITNESS.watch(functions.items())
    world.oracle.callers.know({name: as_judged(guard) for name, guard in guards.items()})
    for name, function in functions.items():
        # A body that is not cancelled at a loss goes on, as a thread does.
        is_async = inspect.iscoroutinefunction(function) and guards[name].options.cancel_on_loss
        told = told_of(name, guards[name], queue=queue, is_async=is_async)
        world.note("world", "function", witnessed=True, limit=limit, **told)


def told_of(name: str, guard: Guarded | None, *, queue: str, is_async: bool) -> dict[str, Any]:
    """Return the fields of a function in a host's journal, as far as the verdict needs them."""
    told: dict[str, Any] = {"name": name, "trigger": "queue" if queue else "", "queue": queue, "async": is_async}
    if guard is None:
        return {**told, "guarded": False}
    policy = guard.on_contention if isinstance(guard.on_contention, str) else "custom"
    limit: int | None = getattr(guard, "limit", None)
    timeout = getattr(guard, "waits", guard.wait)  # with ``max_waiting`` the first wait is one attempt
    about = {"lease": guard.period, "poll": guard.poll, "timeout": timeout, "tokens": limit is None}
    about |= {"at_once": limit or 1, "several": limit is not None}
    about |= {name: getattr(guard, name) for name in _GIVEN if getattr(guard, name, None) is not None}
    return {**told, "guarded": True, "mode": guard.mode, "on_contention": policy, **about}


def as_judged(guard: Guard) -> Guard:
    """Return a guard whose callers are judged as they wait: with ``max_waiting`` they ask before they stand in line."""
    return guard if guard.max_waiting is None else replace(guard, on_contention=_asks_first)


def _asks_first(_: Contention) -> Policy:
    raise AssertionError("nobody asks the oracle's own guard")


async def run_function(function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
    """Call a function as the worker does: a sync one on a thread."""
    if inspect.iscoroutinefunction(function):
        return await function(**arguments)
    return await Baton.run(lambda: function(**arguments))


async def invoke_one(
    world: World,
    machine: Machine,
    functions: Mapping[str, Callable[..., Any]],
    kind: str,
    invocation: str,
    *,
    key: str,
    message: str | None = None,
    names: Sequence[str] = (),
    **arguments: object,
) -> str:
    """Run one of these functions, which must ask for the lock of ``key``; see ``invoke``.

    ``names``: the names that the lock has in this version, if versions of the function name the lock otherwise.
    """
    work = partial(run_function, functions[kind], {**arguments, "context": InvocationContext(kind, invocation)})
    keys = {mode: f"{name}.{key}" for mode, name in zip(("function", "also"), names, strict=False)}
    more: dict[str, Any] = {"message": message, "keys": keys or {"function": key}, "failures": (RuntimeError,)}
    return await invoke(world, machine, kind, invocation, work, **more)


async def invoke(
    world: World,
    machine: Machine,
    function: str,
    invocation: str,
    work: Callable[[], Awaitable[None]],
    *,
    message: str | None = None,
    keys: Mapping[str, str | None] | None = None,
    failures: tuple[type[Exception], ...] = (),
    attempt: int = 0,
) -> str:
    """Run one invocation, for the message of this id; return ``ok``, ``failed``, or the name of its error.

    ``keys`` has the key of the lock for each mode; ``failures`` are errors that a function itself may raise;
    ``attempt``: which try it is, from 0.
    """
    outcome, blamed, since = "cancelled", "", world.loop.now
    world.oracle.listening.invoked(machine, invocation, function)
    world.note(machine.name, "invocation_started", function=function, invocation=invocation, message=message)
    if keys is not None:
        world.note(machine.name, "expected", invocation=invocation, keys=keys)
    try:
        with WITNESS.invocation(invocation, function, object(), {"message": message, "attempt": attempt}):
            await work()
        outcome = "ok"
    except SingletonError as error:
        outcome = blamed = type(error).__name__
        world.oracle.errors.ended_with(machine, invocation, since, error)
    except Refused as error:
        outcome = type(error).__name__
    except failures:
        outcome = "failed"
    except asyncio.CancelledError:
        if invocation not in world.cancelled:
            world.oracle.blame("cancelled by nobody", f"{invocation} ended with a cancellation that nobody asked for")
        world.note(machine.name, "invocation_ended", invocation=invocation, outcome="error", error="CancelledError")
        raise
    finally:
        world.oracle.callers.ended(machine, invocation, outcome)
        world.oracle.listening.ended(machine, invocation, outcome)
    told = {"outcome": "ok"} if outcome == "ok" else {"outcome": "error", "error": outcome, "blames": blamed}
    world.note(machine.name, "invocation_ended", invocation=invocation, **told)
    return outcome


async def cancel(world: World, invoked: asyncio.Task[bool], invocation: str) -> None:
    """Cancel an invocation, unless it has ended, and wait for its end. It may not end as if nobody had asked."""
    if invoked.done():
        return
    world.cancelled.add(invocation)
    invoked.cancel()
    await asyncio.wait({invoked})
    world.oracle.reached["invocation: cancelled"] += 1
    if not invoked.cancelled():
        world.oracle.blame("cancellation swallowed", f"{invocation} was cancelled, and went on to its end")


_GIVEN: Final = ("at_least", "max_hold", "max_waiting", "when_full")
VISIBILITY: Final = 30.0
PATIENCE: Final = 10.0
"""Seconds that a host waits for an answer of its queue."""
OPTIONS: Final = QueueOptions(max_polling_interval=5.0, max_dequeue_count=10_000, visibility_timeout=2.0)
"""No message is poisoned by itself: a message that an injected fault failed is tried until it works."""


class VirtualClock(WallClock):
    """The wall clock of the current machine; wall clocks agree at the beginning, monotonic ones don't."""

    def now(self) -> float:
        """Seconds since the epoch, by this machine's clock."""
        return here().wall()


@dataclass(frozen=True, slots=True)
class Feed:
    """A message to be sent at a time."""

    at: float
    queue: str
    text: str
    life: float | None = WEEK


def orders(rng: random.Random, queue: str, number: int, *, within: float) -> list[Feed]:
    """Draw the orders of two customers, in the order of their times; each is for the job of its number."""
    feeds = [
        Feed(rng.uniform(0, within), queue, encode(body_for(f"key-{rng.randrange(2)}", each).encode(), "base64"))
        for each in range(number)
    ]
    return sorted(feeds, key=lambda feed: feed.at)


class QueueWorld:
    """Queues with listeners on every machine, and a feed. At the end the fate of each message is checked."""

    def __init__(self, world: World, options: QueueOptions = OPTIONS) -> None:
        self.world = world
        self.options = options
        self.on_feed: Callable[[Feed, Stored], None] = lambda *_: None
        self.queues = Queues(world.loop)
        world.rng_work.random()  # unused: without it a seed would mean another world
        self._listeners: list[tuple[Machine, QueueListener]] = []
        self._given_up: set[str] = set()
        self._of_host: Callable[[Machine, str], HostQueue] = partial(VirtualQueue, world.network, self.queues)
        world.openings.open_queue = partial(VirtualQueue, world.network, self.queues)
        if world.wire is not None:
            self._wire_up(world)

    def listen(
        self,
        machine: Machine,
        function: str,
        queue: str,
        run: Callable[[QueueMessage], Awaitable[bool]],
        *,
        visibility: float = VISIBILITY,
    ) -> None:
        """Start a queue listener on a machine; ``run`` runs the function, and tells whether it succeeded."""
        listener = QueueListener(
            function=function,
            queue=queue,
            service=HostQueues(partial(self._of_host, machine), patience=PATIENCE),
            options=self.options,
            visibility=visibility,
            body=run,
            write=partial(self.world.note, machine.name),
            random=random.Random(f"{self.world.rng_work.random()}/{machine.name}"),
        )
        self._listeners.append((machine, listener))
        self.world.start(machine, listener.run())

    def _wire_up(self, world: World) -> None:
        """Let hosts and locks ask the queues over the virtual wire, if the Azure SDK for queues is installed."""
        with suppress(ImportError):
            from simulator.virtual.hosts.queue_wire import QueueWire

            wire = QueueWire(world, self.queues)
            self._of_host, world.openings.open_queue = wire.of_host, wire.open

    def give_up(self, message: QueueMessage) -> None:
        """Let a message that its function refuses be moved to the poison queue, after this delivery has failed."""
        message.dequeue_count = self.options.max_dequeue_count
        self._given_up.add(message.id)

    def stop(self) -> None:
        """Stop the listeners."""
        for _, listener in self._listeners:
            listener.stop()

    def feed(self, messages: Sequence[Feed], *, seconds: float) -> None:
        """Send the messages in time; when all are done, stop the listeners and check each message."""
        self.world.start(None, self._feed(messages), seconds=seconds)

    def send(self, feed: Feed) -> None:
        """Send a message now."""
        stored = self.queues.send(feed.queue, feed.text, life=feed.life)
        self.on_feed(feed, stored)
        if feed.life is None or feed.life >= WEEK:  # of what ends by itself the verdict could not say why
            self.world.note("world", "message_sent", queue=feed.queue, id=stored.id)

    async def _feed(self, messages: Sequence[Feed]) -> None:
        for feed in messages:
            await asyncio.sleep(max(0.0, feed.at - self.world.loop.now))
            self.send(feed)
        # A message of the app to a queue that the app doesn't read stays in the queue.
        read = {listener.queue: None for _, listener in self._listeners}
        while not read.keys().isdisjoint(self.queues.left()) and any(  # noqa: ASYNC110
            not machine.crashed for machine, _ in self._listeners
        ):
            await asyncio.sleep(1.0)
        self.stop()
        for queue in read:
            self.world.note("world", "queue_left", queue=queue, ids=self.queues.left().get(queue, []))
        self._settle()

    def _settle(self) -> None:
        """Check the fates of the messages that were fed, or of the copies that replaced a message."""
        oracle = self.world.oracle
        left = {name for names in self.queues.left().values() for name in names} | self._given_up
        history = read_history(told(self.world.records))
        for message in history.messages.values():
            if message.sent is None:
                continue
            handled = any(call.ending == "ok" for call in message.invocations)
            done = handled or message.poisoned
            if self.queues.watcher is None and not done and message.ids.isdisjoint(left):
                oracle.blame("message lost", f"message {message.id} is gone, and no invocation of it succeeded")
            oracle.reached["messages done"] += handled and not message.poisoned
            oracle.reached["messages put back"] += message.deferred

"""The guarded functions that virtual worlds run: the shipped decorator around bodies that work on a fenced resource.

Users write the same: an async job per key, a sync job, a timer that skips, a job that gives up after a while.
Bodies under holds of the lock API are here, too: no decorator reports these.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from simulator.virtual.oracle.evidence import RunningBody
from simulator.virtual.time.machine import Baton, here
from singleton import AsyncLockClient, SingletonOptions, current_hold, singleton

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.outcome import Resource
    from simulator.virtual.worlds.world import World
    from singleton.base.events import EventKind
    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason

_T = TypeVar("_T")
_DEFAULTS: Final = SingletonOptions()


@dataclass(frozen=True, slots=True)
class Job:
    """What a body does: so many steps of so many seconds, each with a write; ``careful`` asks before each."""

    resource: Resource
    steps: int
    pause: float
    careful: bool = True
    fails: bool = False
    begins: Callable[[], object] | None = None
    """Called as an async body begins."""

    def write(self) -> None:
        """Write to the resource under the current hold."""
        hold = current_hold()
        if self.careful:
            hold.raise_if_lost()
        self.resource.write(hold)

    async def run(self) -> None:
        """Work, as a coroutine."""
        if self.begins is not None:
            self.begins()
        for _ in range(self.steps):
            await asyncio.sleep(self.pause)
            self.write()
        self.end()

    def run_sync(self) -> None:
        """Work, on a thread."""
        for _ in range(self.steps):
            Baton.wait(asyncio.sleep(self.pause))
            self.write()
        self.end()

    def end(self) -> None:
        """Return, or fail as functions do."""
        if self.fails:
            raise RuntimeError("the job fails")


def some_jobs(world: World, number: int) -> list[Job]:
    """Draw what the bodies for some messages do."""
    rng = world.rng_work
    jobs = []
    for _ in range(number):
        steps, seconds = rng.randint(1, 3), rng.choice([0.1, 1.0, 6.0, 20.0]) * rng.uniform(0.5, 1.0)
        jobs.append(Job(world.resource, steps, seconds / steps, careful=rng.random() < 0.5))
    return jobs


def message(key: str, number: int = 0) -> str:
    """Return a queue message's body for a key."""
    return json.dumps({"Order": {"Id": key}, "Number": number})


@dataclass(frozen=True, slots=True)
class Tries:
    """The worker's ``retry_context``: how often a delivery was tried before, and may be tried again."""

    retry_count: int = 0
    max_retry_count: int = 0


class InvocationContext:
    """The part of the worker's context that the decorator reads."""

    def __init__(self, function_name: str, invocation_id: str, retry: Tries | None = None) -> None:
        self.function_name = function_name
        self.invocation_id = invocation_id
        self.retry_context = retry


@contextmanager
def without_options(instead: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Hide this machine's own settings for Functions, so that the worlds are the same everywhere; set others.

    The host.json above this module counts. A user's app has worlds of its own (``user_app.py``), with its own options.
    """
    hidden = {name: value for name, value in os.environ.items() if _is_option(name)}
    for name in hidden:
        del os.environ[name]
    os.environ.update(instead)
    try:
        yield
    finally:
        for name in instead:
            del os.environ[name]
        os.environ.update(hidden)


def _is_option(name: str) -> bool:
    return name.lower().startswith("azurefunctionsjobhost") or name.lower() == "azurewebjobsscriptroot"


@cache
def guarded_jobs() -> dict[str, Callable[..., Any]]:
    """Declare the functions for all worlds of a process, with default options. Functions of one key share a lock."""

    async def work(msg: str, job: Job) -> None:  # noqa: ARG001 - the scope is found in it
        await job.run()

    def work_sync(msg: str, job: Job) -> None:  # noqa: ARG001
        job.run_sync()

    guarded = partial(singleton, scope="Order:Id", level="host")
    with without_options():
        return {
            "ship": guarded()(work),
            "ship_soon": guarded(timeout=20)(work),
            "ship_sync": guarded()(work_sync),
            "tick": guarded(on_contention="skip")(work),
            "insist": guarded(on_contention="raise")(work),
        }


@contextmanager
def inside(
    world: World,
    machine: Machine,
    hold: Hold,
    *,
    guarded: bool = True,
    sync: bool = False,
    failover: float | None = None,
    is_first: bool = True,
) -> Iterator[RunningBody]:
    """Tell the oracle of a body inside the block.

    ``guarded``: the lock is kept until it has ended; ``sync``: no loss ends it; ``failover``: of its lock;
    ``is_first``: it is the first under its hold: the verdict is told of no other.
    """
    oracle = world.oracle
    body = RunningBody(hold.lock, machine, hold, sync=sync, since=world.loop.now, guarded=guarded, failover=failover)

    def lost(reason: LossReason) -> None:
        told("lost", reason)
        oracle.conduct.lost(body, reason)

    def told(kind: EventKind, reason: str | None = None) -> None:
        if not is_first:
            return
        world.note(machine.name, "lock", kind=kind, lock=hold.lock, owner=hold.owner, token=hold.token, reason=reason)

    told("acquired")
    forget = hold.own_lost.add_callback(lost)
    told("body_started")
    oracle.enter(body)
    try:
        yield body
    finally:
        oracle.leave(hold)
        forget()
        told("body_ended", "lost" if hold.own_lost.is_set() else "ok")
        told("released")


async def work(world: World, hold: Hold, seconds: float) -> bool:
    """Work for some seconds, and write the result; False as soon as the hold is lost."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await hold.lost
            return False
    if hold.lost.is_set():
        return False
    world.resource.write(hold)
    return True


@cache
def lock_client(options: SingletonOptions = _DEFAULTS, *, failover: float | None = None) -> AsyncLockClient:
    """Return a client with these options; all worlds of a process share the client."""
    return AsyncLockClient(options=options, failover=failover)


async def ended(use: Coroutine[Any, Any, _T], name: str, *, cancel_after: float | None) -> _T | None:
    """Run a use of a lock as a task of its own, and return its result; None if it was cancelled after so many seconds.

    Raises what the use raises, but for its cancellation.
    """
    task = asyncio.create_task(use, name=name)
    with under_way(task):
        await asyncio.wait({task}, timeout=cancel_after)
        if not task.done():
            task.cancel()
            await asyncio.wait({task})
    return None if task.cancelled() else task.result()


@contextmanager
def under_way(call: asyncio.Task[Any]) -> Iterator[None]:
    """Enter a call of a user among those of this host, which a fault may cancel at any step."""
    calls = here().calls
    calls.append(call)
    try:
        yield
    finally:
        calls.remove(call)


def able(world: World, machine: Machine, seconds: float) -> bool:
    """Tell whether a machine could do what it wanted for the last ``seconds``."""
    return not machine.leaving and world.oracle.conduct.well(machine, seconds)

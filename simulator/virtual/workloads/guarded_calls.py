"""Callers of guarded functions: workers, timers and queue messages, drawn from the seed."""

from __future__ import annotations

import asyncio
import json
import random
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from simulator.virtual.hosts.jobs import Job, guarded_jobs, message, some_jobs
from simulator.virtual.hosts.queue_host import QueueWorld, cancel, declare, invoke_one, orders

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World


def with_jobs(start: Callable[[World], None], *, queue: str = "") -> Callable[[World], None]:
    """Return a start of a workload that first declares the guarded functions; ``queue`` triggers them."""

    def begin(world: World) -> None:
        declare(world, guarded_jobs(), queue=queue)
        start(world)

    return begin


def start_queue(world: World) -> None:
    """Messages of some customers in a queue, to which all hosts listen."""
    rng = world.rng_work
    hosting = QueueWorld(world)
    jobs = some_jobs(world, rng.randint(4, 16))
    kind = rng.choice(("ship", "ship_soon", "ship_sync", "insist"))
    for machine in world.machines:
        hosting.listen(machine, kind, "orders", partial(_on_message, world, machine, kind, jobs))
    work = sum(job.steps * job.pause + 7.0 for job in jobs)
    hosting.feed(orders(rng, "orders", len(jobs), within=40.0), seconds=work + 100.0)


async def _on_message(world: World, machine: Machine, kind: str, jobs: list[Job], received: QueueMessage) -> bool:
    body = json.loads(received.body)
    job = jobs[body["Number"]]
    invocation = f"{machine.name}/{received.id}/{received.dequeue_count}"
    return await invoke_job(world, machine, kind, body["Order"]["Id"], job, invocation, received=received.id)


def start_workers(
    world: World,
    *,
    workers: tuple[int, int],
    rounds: tuple[int, int],
    keys: int,
    kinds: tuple[str, ...],
    cancels: float = 0.0,
) -> None:
    """Start workers on each host. ``workers`` and ``rounds`` are ranges: the least number and the greatest."""
    for machine in world.machines:
        for worker in range(world.rng_work.randint(*workers)):
            number = world.rng_work.randint(*rounds)
            start_rounds(world, machine, worker, rounds=number, keys=keys, kinds=kinds, cancels=cancels)


def start_rounds(
    world: World,
    machine: Machine,
    worker: int,
    *,
    rounds: int,
    keys: int,
    kinds: tuple[str, ...],
    longest: float = 25.0,
    think: float = 5.0,
    cancels: float = 0.0,
) -> None:
    """Start a worker that calls guarded functions one after another."""
    rng = world.rng_work
    plan = []
    work = 0.0
    for _ in range(rounds):
        steps = rng.randint(1, 4)
        seconds = rng.choice([0.05, 1.0, longest / 2, longest]) * rng.uniform(0.5, 1.0)
        job = Job(world.resource, steps, seconds / steps, careful=rng.random() < 0.5, fails=rng.random() < 0.1)
        call = _PlannedCall(rng.uniform(0, think), rng.choice(kinds), f"key-{rng.randrange(keys)}", job)
        if rng.random() < cancels:
            call.cancel_after = rng.uniform(0.0, 30.0)
            call.cancel_at_step = rng.randrange(12) if rng.random() < 0.7 else None
        work += seconds + 7.0
        plan.append(call)
        chance = random.Random(f"{machine.name}/{worker}/{seconds}")  # the values drawn from ``rng`` stay the same
        if call.cancel_after is None and chance.random() < 0.15:
            call.starts = Job(world.resource, 1, chance.choice([0.05, 1.0, 6.0]))
            work += call.starts.pause + 7.0
    world.start(machine, _work(world, machine, worker, plan), seconds=work)


@dataclass(slots=True)
class _PlannedCall:
    """One call of a guarded function, after a ``pause``.

    The body ``starts`` a task that calls another function for the same lock, and does not wait for the task.
    A cancellation comes after ``cancel_after`` seconds, or ``cancel_at_step`` steps of the loop after a body on the
    machine ended: just as the lock is handed on.
    """

    pause: float
    kind: str
    key: str
    job: Job
    cancel_after: float | None = None
    cancel_at_step: int | None = None
    starts: Job | None = None


async def _work(world: World, machine: Machine, worker: int, plan: list[_PlannedCall]) -> None:
    for number, call in enumerate(plan):
        await asyncio.sleep(call.pause)
        invocation = f"{machine.name}/{worker}/{number}"
        if call.starts is not None:
            await _with_another(world, machine, call, invocation, call.starts)
            continue
        invoked = invoke_job(world, machine, call.kind, call.key, call.job, invocation)
        if call.cancel_after is None or call.kind == "ship_sync":
            await invoked
            continue
        task = asyncio.create_task(invoked, name=f"{call.kind} {invocation}")
        until: set[asyncio.Future[Any]] = {task} if call.cancel_at_step is None else {task, world.next_end(machine)}
        await asyncio.wait(until, timeout=call.cancel_after, return_when=asyncio.FIRST_COMPLETED)
        for _ in range(call.cancel_at_step or 0):
            await asyncio.sleep(0)
        await cancel(world, task, invocation)


async def _with_another(world: World, machine: Machine, call: _PlannedCall, invocation: str, job: Job) -> None:
    """Make a call whose body starts a task that asks for the same lock, and gets it when the body has ended."""
    started: list[asyncio.Task[bool]] = []

    def start() -> None:
        another = invoke_job(world, machine, "ship", call.key, job, f"{invocation}/started")
        started.append(asyncio.create_task(another, name=f"ship {invocation}/started"))

    call.job = replace(call.job, begins=start)
    await invoke_job(world, machine, call.kind, call.key, call.job, invocation)
    if started:
        world.oracle.reached["invocation: started inside another"] += 1
        await started[0]


async def invoke_job(
    world: World, machine: Machine, kind: str, key: str, job: Job, invocation: str, *, received: str | None = None
) -> bool:
    """Run one invocation as the worker does, for the message of the id ``received``; tell whether it succeeded."""
    text = message(key)
    outcome = await invoke_one(
        world, machine, guarded_jobs(), kind, invocation, key=key, message=received, msg=text, job=job
    )
    world.oracle.reached[f"invocation: {outcome}"] += 1
    return outcome == "ok"

"""The workloads ``chain``, ``skip`` and ``mixed``: callers of guarded functions, drawn from the seed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from simulator.virtual.hosts.jobs import Job
from simulator.virtual.workloads.guarded_calls import invoke_job, start_rounds, start_workers

if TYPE_CHECKING:
    import random

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

_MIXED: Final = ("ship", "ship", "ship_soon", "ship_sync", "tick", "insist")


def start_mixed(world: World) -> None:
    """Start all kinds of callers for two locks; some give up, some are cancelled."""
    start_workers(world, workers=(1, 3), rounds=(1, 4), keys=2, kinds=_MIXED, cancels=0.2)


def start_chain(world: World) -> None:
    """Start many short sections of one lock on each host, so that the lock is handed on and left free at times."""
    for machine in world.machines[: world.rng_work.randint(1, len(world.machines))]:
        for worker in range(world.rng_work.randint(3, 8)):
            start_rounds(world, machine, worker, rounds=4, keys=1, kinds=("ship",), longest=4.0, think=0.3, cancels=0.2)


def start_skip(world: World) -> None:
    """Timers: each host is an app of its own, so all fire together; one runs, the others skip."""
    every = world.rng_work.choice([5.0, 10.0, 20.0])
    for machine in world.machines:
        work = _ticks(world, machine, world.rng_work, every, rounds=world.rng_work.randint(3, 8))
        world.start(machine, work, seconds=8 * every)


async def _ticks(world: World, machine: Machine, rng: random.Random, every: float, rounds: int) -> None:
    for number in range(1, rounds + 1):
        await asyncio.sleep(max(0.0, machine.offset + number * every - asyncio.get_running_loop().time()))
        seconds = rng.uniform(0.1, every * 1.5)
        job = Job(world.resource, 3, seconds / 3, careful=rng.random() < 0.5)
        await invoke_job(world, machine, "tick", "nightly", job, f"{machine.name}/tick/{number}")

"""The workloads ``chain``, ``skip`` and ``mixed``: callers of guarded functions, drawn from the seed.

In some worlds of ``mixed`` with faults, requests for a lease come late: others are answered before, and the caller may
have left. In some, something in between refuses requests that the service has carried out.
"""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, Final

from simulator.virtual.hosts.jobs import Job
from simulator.virtual.workloads.guarded_calls import invoke_job, start_rounds, start_workers
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

_MIXED: Final = ("ship", "ship", "ship_soon", "ship_sync", "tick", "insist")
_LATE: Final = 0.3
"""The share of worlds in which requests for a lease come late."""
_REFUSED: Final = 0.2
"""The share of worlds in which something in between refuses what was carried out."""


def start_mixed(world: World) -> None:
    """Start all kinds of callers for two locks; some give up, some are cancelled."""
    start_workers(world, workers=(1, 3), rounds=(1, 4), keys=2, kinds=_MIXED, cancels=0.2)
    rng = random.Random(f"{world.machines[0].offset}/late")  # the values that are drawn elsewhere stay the same
    if not world.faults:
        return
    if rng.random() < _LATE:
        world.network.rules.append(partial(_ask_late, rng))
    if rng.random() < _REFUSED:
        world.network.rules.append(partial(_refuse, rng, rng.choice((400, 403, 404, 409))))


def _ask_late(rng: random.Random, request: NetworkRequest, passage: Passage) -> None:
    if request.call == "acquire" and rng.random() < 0.2:
        passage.out += rng.uniform(5.0, 15.0)


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


def _refuse(rng: random.Random, status: int, _: NetworkRequest, passage: Passage) -> None:
    if rng.random() < 0.1:
        passage.unread = StoreFailure(status, None, "simulated", source="between")


async def _ticks(world: World, machine: Machine, rng: random.Random, every: float, rounds: int) -> None:
    for number in range(1, rounds + 1):
        await asyncio.sleep(max(0.0, machine.offset + number * every - asyncio.get_running_loop().time()))
        seconds = rng.uniform(0.1, every * 1.5)
        job = Job(world.resource, 3, seconds / 3, careful=rng.random() < 0.5)
        await invoke_job(world, machine, "tick", "nightly", job, f"{machine.name}/tick/{number}")

"""The workload ``wires``: hosts with the shipped HTTP client, whose idle connections the network may forget.

Each host has long bodies, whose leases are renewed, and bursts of short bodies, which leave idle connections behind.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from simulator.virtual.hosts.jobs import Job, guarded_jobs, message
from simulator.virtual.hosts.queue_host import invoke_one
from simulator.virtual.workloads.guarded_calls import start_workers, with_jobs
from tests.worlds.failovers import functions_of, start_failovers

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

_LONG = with_jobs(partial(start_workers, workers=(1, 2), rounds=(2, 4), keys=3, kinds=("ship", "ship_sync")))


def start_wires(world: World) -> None:
    """Start long bodies, some with failover, and bursts."""
    world.wire_up()
    if world.rng_work.random() < 0.5:
        start_failovers(world)
        burst = partial(_burst, world, functions_of(world), "soon_off")
        for values in world.oracle.silence.declared.values():  # older hosts are not in there: they declare nothing
            values.add(None)
    else:
        _LONG(world)
        burst = partial(_burst, world, guarded_jobs(), "ship_soon")
    for machine in world.machines:
        rounds = [(world.rng_work.uniform(2.0, 9.0), world.rng_work.randint(3, 8)) for _ in range(8)]
        world.start(machine, _bursts(machine, burst, rounds), seconds=sum(pause + 7.0 for pause, _ in rounds))


async def _bursts(
    machine: Machine, burst: Callable[[Machine, int, int], Awaitable[None]], rounds: list[tuple[float, int]]
) -> None:
    for number, (pause, size) in enumerate(rounds):
        await asyncio.sleep(pause)
        await burst(machine, number, size)


async def _burst(
    world: World, functions: dict[str, Callable[..., Any]], kind: str, machine: Machine, number: int, size: int
) -> None:
    """Call functions for keys of the machine's own, all at once."""

    async def call(which: int) -> None:
        key, job = f"burst-{machine.index}-{which}", Job(world.resource, 1, 0.1)
        invocation = f"{machine.name}/burst-{number}/{which}"
        outcome = await invoke_one(world, machine, functions, kind, invocation, key=key, msg=message(key), job=job)
        world.oracle.reached[f"invocation: {outcome}"] += 1

    await asyncio.gather(*(call(which) for which in range(size)))

"""The workload ``limits``: guarded functions with and without a limit, whose options are drawn for each world.

Periods, renewals, polling intervals and hand-over windows differ from world to world, and all hosts of a world have the
same: each bound is checked by the options in force.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.hosts.jobs import Job, message, without_options
from simulator.virtual.hosts.queue_host import declare, invoke_one
from singleton import singleton
from singleton.decorator import guards_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

_PERIODS: Final = (15, 20, 30, 60)
_RENEWALS: Final = (None, None, 3, 5)
_POLLS: Final = (1, 2, 5, 8)
_WINDOWS: Final = (5, 10, 30)
_LIMITS: Final = (None, 1, 2, 3, 5)
_KINDS: Final = ("wait", "wait", "soon", "tick", "insist")
_SECTION: Final = "AzureFunctionsJobHost__singleton__"


def start_limits(world: World) -> None:
    """Draw the options, and start workers for one or two locks on each machine."""
    rng = world.rng_work
    drawn = tuple(map(rng.choice, (_PERIODS, _RENEWALS, _POLLS, _WINDOWS, _LIMITS)))
    functions = _functions(*drawn)
    declare(world, functions)
    for machine in world.machines:
        for worker in range(rng.randint(1, 4)):
            calls = []
            for _ in range(rng.randint(1, 5)):
                steps, seconds = rng.randint(1, 3), rng.choice((0.05, 1.0, 8.0, 20.0)) * rng.uniform(0.5, 1.0)
                job = Job(world.resource, steps, seconds / steps, careful=rng.random() < 0.5)
                calls.append(
                    (rng.choice((0.0, 4.0)) * rng.random(), rng.choice(_KINDS), f"key-{rng.randrange(2)}", job)
                )
            work = sum(job.steps * job.pause + 12.0 for _, _, _, job in calls)
            world.start(machine, _work(world, machine, worker, functions, calls), seconds=work)


async def _work(
    world: World,
    machine: Machine,
    worker: int,
    functions: dict[str, Callable[..., Any]],
    calls: list[tuple[float, str, str, Job]],
) -> None:
    for number, (pause, kind, key, job) in enumerate(calls):
        await asyncio.sleep(pause)
        invocation = f"{machine.name}/{worker}/{number}"
        outcome = await invoke_one(world, machine, functions, kind, invocation, key=key, msg=message(key), job=job)
        world.oracle.reached[f"invocation: {outcome}"] += 1


@cache
def _functions(
    period: int, renewal: int | None, poll: int, window: int, limit: int | None
) -> dict[str, Callable[..., Any]]:
    """Declare the functions of an app with these options."""

    async def work(msg: str, job: Job) -> None:
        await job.run()

    section = {"lockPeriod": period, "lockAcquisitionPollingInterval": poll, "handoffWindow": window}
    if renewal is not None:
        section["renewalInterval"] = renewal
    settings = {f"{_SECTION}{name}": f"00:{seconds // 60:02}:{seconds % 60:02}" for name, seconds in section.items()}
    guarded = partial(singleton, scope="Order:Id", level="host", limit=limit)
    with without_options(settings):
        made = {
            "wait": guarded()(work),
            "soon": guarded(timeout=20)(work),
            "tick": guarded(on_contention="skip")(work),
            "insist": guarded(on_contention="raise")(work),
        }
        for function in made.values():
            assert guards_of(function)[0].period == period
    return made

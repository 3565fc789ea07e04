"""Bodies under holds of the lock API: no decorator reports them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from simulator.virtual.oracle.evidence import RunningBody

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.base.events import EventKind
    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason


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
    forget = hold.lost.add_callback(lost)
    told("body_started")
    oracle.enter(body)
    try:
        yield body
    finally:
        oracle.leave(hold)
        forget()
        told("body_ended", "lost" if hold.lost.is_set() else "ok")
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


def able(world: World, machine: Machine, seconds: float) -> bool:
    """Tell whether a machine could do what it wanted for the last ``seconds``."""
    return not machine.leaving and world.oracle.conduct.well(machine, seconds)

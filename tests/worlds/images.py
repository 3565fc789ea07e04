"""The workload ``images``: what processes remember of locks, while its ground is taken away.

In some worlds a process is copied: an image of its machine is restored in the place of other machines, and all of them
go on. What the image remembers of a lock was right when it was taken. Its monotonic clock has nothing in common with
the wall clock any more.

In the others each machine has a lock of its own, and uses it under several options. An operator puts its blob's
epoch back, or deletes it within the second in which it was made. Between processes tokens may then repeat, and within
one they never do.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from simulator.virtual.hosts.jobs import inside, lock_client, work
from simulator.virtual.worlds.outcome import Refused
from singleton import SingletonOptions
from singleton.base.errors import SingletonError
from singleton.stores.stamps import EPOCH_KEY

if TYPE_CHECKING:
    import random

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lock import Lock

_OF_THE_PROCESS: Final = {"_store", "_name", "_highest", "_order", "_wall", "counts", "failover", "touched"}
"""All else of a counter is of its lock."""
_PACES: Final = (5.0, 4.0, 3.0)
"""Polling intervals: a lock with another one is another lock of the process, on the same blob."""
_CLOSE: Final = 1.0
"""Seconds by which the clocks of an image differ at least: with less, tokens may repeat (docs/guarantees.md)."""
_TRIES: Final = 200

_Round = tuple[float, float, float]
"""A pause, how long a section lasts, and the polling interval."""


def start_images(world: World) -> None:
    """Let processes be copied, or have what stands on their blobs put back."""
    if world.rng_work.random() < 0.6:
        _start_copies(world)
    else:
        _start_put_back(world)


# --- processes that are copied ----------------------------------------------------------------------------------------


def _start_copies(world: World) -> None:
    """The first machine is copied to others, one after the other. They do nothing before."""
    rng = world.rng_work
    first, *others = world.machines
    lock, long = "imaged", rng.random() < 0.3
    world.start(first, _use(world, first, lock, rounds := _rounds(rng, 12, long=long)), seconds=_seconds(rounds))
    for machine in others:
        rounds, taken = _rounds(rng, 6, long=long), rng.uniform(0.5, 25.0)
        world.start(None, _restore(world, first, machine, taken, lock, rounds), seconds=taken + _seconds(rounds))


async def _restore(
    world: World, first: Machine, machine: Machine, taken: float, lock: str, rounds: list[_Round]
) -> None:
    """Take the image while the first process has no hold, and go on from it on this machine."""
    await asyncio.sleep(taken)
    for _ in range(_TRIES):
        known = world.runtimes[first].registry._locks
        if known and all(each.idle for each in known.values()):
            break
        await asyncio.sleep(0.01)
    else:
        return
    if abs((machine.wall() - machine.reads(world.loop.now)) - (first.wall() - first.reads(world.loop.now))) > _CLOSE:
        _copy(world, first, machine)
        world.oracle.reached["images of a process"] += 1
        world.start(machine, _use(world, machine, lock, rounds))


def _copy(world: World, first: Machine, machine: Machine) -> None:
    image, registry = world.runtimes[first].registry, world.runtimes[machine].registry
    for address, known in image._locks.items():
        lock = machine.context("locks").run(registry._lock, address)
        lock.guard.highest.epoch = known.guard.highest.epoch
        for name in vars(_counter(known)).keys() - _OF_THE_PROCESS:
            setattr(_counter(lock), name, getattr(_counter(known), name))


def _counter(lock: Lock) -> FencingCounter:
    assert lock._fencing is not None
    return lock._fencing


# --- blobs that are put back ------------------------------------------------------------------------------------------


def _start_put_back(world: World) -> None:
    rng = world.rng_work
    for machine in world.machines:
        lock = f"own-{machine.index}"
        rounds = [(pause, seconds, rng.choice(_PACES)) for pause, seconds, _ in _rounds(rng, 14, long=False)]
        world.start(machine, _use(world, machine, lock, rounds), seconds=_seconds(rounds))
        for _ in range(rng.randint(1, 6)):
            world.later(rng.uniform(0.0, 20.0), _put_back, world, lock, rng.randint(1, 4))
        for _ in range(rng.randint(0, 3)):
            world.later(rng.choice((1.0, 20.0)) * rng.random(), world.service.delete_at_once, lock)


def _put_back(world: World, lock: str, by: int) -> None:
    """Put the epoch back to what it was so many stamps before, where nobody has the lease."""
    metadata = world.service.metadata(lock)
    if lock in world.service.free() and EPOCH_KEY in metadata:
        world.service.edit(lock, {**metadata, EPOCH_KEY: str(int(metadata[EPOCH_KEY]) - by)})
        world.oracle.reached["epochs put back"] += 1


# --- both -------------------------------------------------------------------------------------------------------------


def _rounds(rng: random.Random, most: int, *, long: bool) -> list[_Round]:
    lengths = (0.01, 0.1, 1.0, 9.0) if long else (0.01, 0.01, 0.1, 1.0)
    return [
        (rng.choice((0.05, 0.2, 2.0)) * rng.random(), rng.choice(lengths) * rng.uniform(0.5, 1.0), _PACES[0])
        for _ in range(rng.randint(2, most))
    ]


def _seconds(rounds: list[_Round]) -> float:
    return sum(pause + seconds + 7.0 for pause, seconds, _ in rounds)


async def _use(world: World, machine: Machine, lock: str, rounds: list[_Round]) -> None:
    for number, (pause, seconds, pace) in enumerate(rounds):
        await asyncio.sleep(pause)
        outcome = "ok"
        try:
            client = lock_client(SingletonOptions(lock_acquisition_polling_interval=pace))
            async with client.lock(lock, owner=f"{machine.name}/{number}") as hold:
                hold.raise_if_lost()
                with inside(world, machine, hold):
                    await work(world, hold, seconds)
        except (SingletonError, Refused) as error:
            outcome = type(error).__name__
        world.oracle.reached[f"invocation: {outcome}"] += 1

"""A host of another library: singletons of the WebJobs SDK or of Dequeueable, with their names and requests.

It reads the blob, leases it if it is free, makes it if it is missing, renews after half the period and releases the
lease (W-52 to W-54, W-57, W-69, W-77; D-24, D-25, D-32, D-34). It ends its work when its lease may have ended.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from uuid import UUID

from simulator.virtual.oracle.evidence import RunningBody
from simulator.virtual.storage.service import NetworkStore
from singleton.base.hold import Hold
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from tests.worlds.deployments.deployment import Edition, Function

_T = TypeVar("_T")

_POLL: Final = 5.0
_PATIENCE: Final = 2.0
"""Seconds that it waits for an answer."""
_MARGIN: Final = 14 / 15
_ROUNDS: Final = 6


@dataclass(slots=True)
class _Lease:
    """What it has: ``deadline`` by its own clock."""

    id: str
    deadline: float

    def overdue(self) -> bool:
        """Tell whether the lease may have ended."""
        return asyncio.get_running_loop().time() >= self.deadline


def start_foreign(world: World, editions: tuple[Edition, ...], machine: Machine) -> Function | None:
    """Let a machine be such a host, for the lock of one of the app's functions; return that function, if there is one.

    It is never told to stop: it has no lock thread that would be closed.
    """
    rng = world.rng_work
    shared = [
        (function, values)
        for function in editions[0].app.functions
        if function.layout != "default"
        for _, values in function.scope.messages[:1]
        if values is not None
    ]
    if not shared:
        return None
    function, values = rng.choice(shared)
    machine.leaving = True
    host = _Foreign(world, machine, function.lock(values), period=15 if function.layout == "webjobs" else 60)
    bounds = world.oracle.bounds
    bounds.periods |= {host.period}
    bounds.period, bounds.renewal = max(bounds.periods), max(bounds.renewal, host.period / 2)
    rounds = [(rng.uniform(0.0, 8.0), rng.choice((0.5, 5.0, 20.0))) for _ in range(_ROUNDS)]
    ids = [str(UUID(int=rng.getrandbits(128), version=4)) for _ in range(1000)]
    world.start(machine, host.work(rounds, ids), seconds=sum(pause + work + 7.0 for pause, work in rounds))
    return function


class _Foreign:
    def __init__(self, world: World, machine: Machine, name: str, *, period: int) -> None:
        self.period = float(period)
        self._world = world
        self._machine = machine
        self._name = name
        self._store = NetworkStore(world.network, world.service, machine)

    async def work(self, rounds: list[tuple[float, float]], ids: list[str]) -> None:
        """Work under the lock again and again, until nobody else works."""
        for pause, seconds in rounds:
            await asyncio.sleep(pause)
            lease = await self._acquired(ids)
            if lease is not None:
                await self._inside(lease, seconds)

    async def _acquired(self, ids: list[str]) -> _Lease | None:
        """Ask until the lock is free; None if it stays held for a long time."""
        for _ in range(12):
            lease = _Lease(ids.pop(), asyncio.get_running_loop().time() + self.period * _MARGIN)
            try:
                state = await self._asked(self._store.read(self._name))
                if state.lease in ("available", "expired", "broken"):
                    lease.deadline = asyncio.get_running_loop().time() + self.period * _MARGIN
                    await self._asked(self._store.acquire(self._name, lease.id, int(self.period)))
                    if not lease.overdue():
                        return lease
            except StoreFailure as failure:
                if failure.status == 404:
                    await self._tried(self._store.create(self._name))
                    continue
                if failure.status != 409:
                    await self._given_back(lease)
            await asyncio.sleep(_POLL)
        return None

    async def _inside(self, lease: _Lease, seconds: float) -> None:
        hold = Hold(self._name, owner=f"{self._machine.name}/.NET", lease=lease)
        oracle, loop = self._world.oracle, asyncio.get_running_loop()
        oracle.reached["bodies of a .NET host"] += 1
        oracle.enter(RunningBody(self._name, self._machine, hold, sync=False, since=self._world.loop.now))
        renewing = asyncio.create_task(self._renewed(lease))
        ends = loop.time() + seconds
        while not lease.overdue() and loop.time() < ends and not renewing.done():
            step = min(ends, lease.deadline) - loop.time()
            await asyncio.wait({renewing}, timeout=max(0.0, step))
        oracle.leave(hold)
        renewing.cancel()
        await asyncio.wait({renewing})
        await self._given_back(lease)

    async def _renewed(self, lease: _Lease) -> None:
        """Renew after half the period; return when the lease is lost."""
        while True:
            await asyncio.sleep(self.period / 2)
            while True:
                sent = asyncio.get_running_loop().time()
                try:
                    await self._asked(self._store.renew(self._name, lease.id))
                    lease.deadline = sent + self.period * _MARGIN
                    break
                except StoreFailure as failure:
                    if failure.status in (404, 409, 412):
                        return
                    await asyncio.sleep(1.0)

    async def _given_back(self, lease: _Lease) -> None:
        for _ in range(4):
            if await self._tried(self._store.release(self._name, lease.id)):
                return
            await asyncio.sleep(0.5)

    async def _tried(self, request: Awaitable[object]) -> bool:
        try:
            await self._asked(request)
        except StoreFailure as failure:
            return failure.status in (404, 409, 412)
        return True

    async def _asked(self, request: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await request
        except StoreFailure:
            raise
        except Exception as error:  # noqa: BLE001 - whatever its own client raises
            raise StoreFailure(detail=f"no answer: {error!r}") from None

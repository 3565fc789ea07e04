"""A host of another library: singletons of the WebJobs SDK or of Dequeueable, with their names and requests.

It reads the blob, leases it if it is free, makes it if it is missing, renews after half the period and releases the
lease (W-52 to W-54, W-57, W-69, W-77; D-24, D-25, D-32, D-34). It ends its work when its lease may have ended.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from singleton.stores.protocol import StoreFailure
from tests.worlds.other_host import Lease, OtherHost, drawn_ids

if TYPE_CHECKING:
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from tests.worlds.deployments.deployment import Edition, Function

_POLL: Final = 5.0
_MARGIN: Final = 14 / 15
_ROUNDS: Final = 6


def start_foreign(world: World, editions: tuple[Edition, ...], machine: Machine) -> Function | None:
    """Let a machine be such a host, for the lock of one of the app's functions; return that function, or None."""
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
    host = _Foreign(world, machine, function.lock(values), period=15 if function.layout == "webjobs" else 60)
    bounds = world.oracle.bounds
    bounds.periods |= {host.period}
    bounds.period = max(bounds.periods)
    bounds.renewals = {**bounds.renewals, host.period: max(bounds.renewals.get(host.period, 0.0), host.period / 2)}
    rounds = [(rng.uniform(0.0, 8.0), rng.choice((0.5, 5.0, 20.0))) for _ in range(_ROUNDS)]
    world.start(machine, host.work(rounds, drawn_ids(rng)), seconds=sum(pause + work + 7.0 for pause, work in rounds))
    return function


class _Foreign(OtherHost):
    def __init__(self, world: World, machine: Machine, lock: str, *, period: int) -> None:
        super().__init__(world, machine, lock)
        self.period = float(period)

    async def work(self, rounds: list[tuple[float, float]], ids: list[str]) -> None:
        """Work under the lock again and again, until nobody else works."""
        for pause, seconds in rounds:
            await asyncio.sleep(pause)
            lease = await self._acquired(ids)
            if lease is not None:
                await self._inside(lease, seconds)

    async def _acquired(self, ids: list[str]) -> Lease | None:
        """Ask until the lock is free; None if it stays held for a long time."""
        for _ in range(12):
            lease = Lease(ids.pop(), asyncio.get_running_loop().time() + self.period * _MARGIN)
            try:
                state = await self._asked(self._store.read(self._lock))
                if state.lease in ("available", "expired", "broken"):
                    lease.deadline = asyncio.get_running_loop().time() + self.period * _MARGIN
                    await self._asked(self._store.acquire(self._lock, lease.id, int(self.period)))
                    if not lease.overdue():
                        return lease
            except StoreFailure as failure:
                if failure.meaning == "missing":
                    await self._tried(self._store.create(self._lock))
                    continue
                if failure.status != 409 or failure.meaning == "transient":
                    await self._given_back(lease.id)
            await asyncio.sleep(_POLL)
        return None

    async def _inside(self, lease: Lease, seconds: float) -> None:
        hold = self._begun(lease, ".NET")
        oracle, loop = self._world.oracle, asyncio.get_running_loop()
        oracle.reached["bodies of a .NET host"] += 1
        renewing = asyncio.create_task(self._renewed(lease))
        ends = loop.time() + seconds
        while not lease.overdue() and loop.time() < ends and not renewing.done():
            step = min(ends, lease.deadline) - loop.time()
            await asyncio.wait({renewing}, timeout=max(0.0, step))
        oracle.leave(hold)
        renewing.cancel()
        await asyncio.wait({renewing})
        await self._given_back(lease.id)

    async def _renewed(self, lease: Lease) -> None:
        """Renew after half the period; return when the lease is lost."""
        while True:
            await asyncio.sleep(self.period / 2)
            while True:
                sent = asyncio.get_running_loop().time()
                try:
                    await self._asked(self._store.renew(self._lock, lease.id))
                    lease.deadline = sent + self.period * _MARGIN
                    break
                except StoreFailure as failure:
                    if failure.status in (404, 409, 412) and failure.meaning != "transient":
                        return
                    await asyncio.sleep(1.0)

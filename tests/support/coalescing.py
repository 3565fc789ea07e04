"""A small world of messages that coalesce: crashes, a network with faults, repeated deliveries, and a judge."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from singleton.functions.coalescing import Arrival
from singleton.locking.phase import Timing
from singleton.locking.seat import seat_name
from singleton.runtime.address import Address
from singleton.runtime.registry import Registry
from singleton.settings.accounts import LockContainer
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import LOST_REPLY, LOST_REQUEST, Fate, Network, Request, answered
from tests.support.virtual import run_virtual
from tests.support.world import foreign_id, now, until

if TYPE_CHECKING:
    from singleton.base.hold import Hold

LOCK: Final = "locks/app/refresh"
FAULTS: Final = (LOST_REQUEST, LOST_REPLY, Fate(up=4.0), Fate(up=7.0), Fate(up=20.0), Fate(down=4.5), answered(503))
_CUTS: Final = (("acquire", "renew", "release", "create", "read", "write"), ("write", "release"), ("renew", "release"))
_END: Final = 300.0


@dataclass
class CoalescingWorld:
    """Three hosts, up to a dozen messages in a minute, and what the judge has seen."""

    seed: int
    service: MemoryLeaseStore = field(default_factory=MemoryLeaseStore)
    crashes: dict[int, float] = field(default_factory=dict)
    left: list[float] = field(default_factory=list)
    """When each message that left was delivered."""
    begun: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        self.quiet = self.rng.random() < 0.4
        since = self.rng.uniform(0.0, 40.0)
        self.cut = self.rng.randrange(3), since, since + self.rng.choice([0.0, 3.0, 10.0, 30.0])
        self.cut_calls = self.rng.choice(_CUTS)
        self.late = [self.rng.uniform(0.0, 60.0) for _ in range(self.rng.choice([0, 0, 3, 12]))]

    async def run(self) -> None:
        """Deliver all messages until each has ended, then judge."""
        self.networks = [Network(self.service) for _ in range(3)]
        for host, network in enumerate(self.networks):
            network.decide = lambda request, host=host: self._fate(host, request)
        self.registries = [self._registry(host) for host in range(3)]
        if self.rng.random() < 0.6:
            self.crashes[self.rng.randrange(3)] = self.rng.uniform(0.0, 60.0)
        moments = [
            self.rng.uniform(0.0, self.rng.choice([2.0, 30.0, 60.0])) for _ in range(self.rng.choice([3, 5, 12]))
        ]
        late = [asyncio.ensure_future(self._late_acquire(number, at)) for number, at in enumerate(self.late)]
        await asyncio.gather(*late, *(self._message(number, at) for number, at in enumerate(moments)))
        last = max(self.begun, default=-1.0)
        self.faults += [f"left at {at:.2f}, and no body began after {last:.2f}" for at in self.left if at > last]
        for registry in self.registries:
            await registry.aclose()

    def _registry(self, host: int) -> Registry:
        return Registry(lambda _: self.networks[host], random.Random(self.seed * 3 + host), wall=lambda: 1e9 + now())

    def _fate(self, host: int, request: Request) -> Fate:
        if now() >= self.crashes.get(host, _END * 9):
            return LOST_REQUEST
        is_cut = request.call in self.cut_calls and (len(self.cut_calls) > 4 or request.name == seat_name(LOCK))
        if is_cut and host == self.cut[0] and self.cut[1] <= now() < self.cut[2]:
            return LOST_REQUEST
        if self.quiet or now() > 90.0 or self.rng.random() > 0.08:
            return Fate(up=self.rng.uniform(0.002, 0.05), down=self.rng.uniform(0.002, 0.05))
        return self.rng.choice(FAULTS)

    async def _late_acquire(self, number: int, at: float) -> None:
        """Let a request for the seat arrive whose sender is no more."""
        await until(at)
        with suppress(StoreFailure):
            await self.service.acquire(seat_name(LOCK), foreign_id(number), 15)

    async def _message(self, number: int, at: float) -> None:
        again, host = False, self.rng.randrange(3)
        await until(at)
        while True:
            alive = [each for each in range(3) if now() < self.crashes.get(each, _END * 9)]
            host = host if host in alive else self.rng.choice(alive)
            came = now()
            task = asyncio.ensure_future(self._invocation(host, number, again=again))
            crash = self.crashes.get(host, _END * 9) - now()
            done, _ = await asyncio.wait({task}, timeout=crash)
            again = True
            if not done:
                _zombies.append(task)
            elif task.exception() is None:
                if task.result():
                    self.left.append(came)
                return
            if now() > _END:
                self.faults.append("a message did not end")
                return
            await asyncio.sleep(self.rng.choice([0.0, 0.01, 1.0, 10.0]))

    async def _invocation(self, host: int, number: int, *, again: bool) -> bool:
        """Tell whether the invocation left."""
        place = LockContainer(cast("Any", "account"), "container")
        address = Address(place, LOCK, Timing(poll_max=2.0))

        async def acquire(registry: Registry, within: float | None) -> Hold:
            return await registry.acquire(address, timeout=within, owner=str(number))

        arrival = Arrival(address, str(number), acquire, again=again)
        hold: Hold | None = await arrival.acquire(self.registries[host], self.rng.choice([None, None, 6.0]))
        if hold is None:
            return True
        if now() < self.crashes.get(host, _END * 9):
            hold.raise_if_lost()
            self.begun.append(now())
            await asyncio.sleep(self.rng.choice([0.01, 1.0, 8.0]))
        await self.registries[host].release(hold)
        return False


_zombies: list[asyncio.Task[bool]] = []
"""Invocations of hosts that have crashed: nobody cancels these, or their last words would be sent."""


def ended(seed: int) -> CoalescingWorld:
    """Return the world of this seed after its end."""
    world = CoalescingWorld(seed)

    async def run() -> None:
        await world.run()
        for task in [*_zombies]:
            task.cancel()
        await asyncio.sleep(30.0)
        _zombies.clear()

    run_virtual(run())
    return world

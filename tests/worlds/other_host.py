"""A host of another library, or of an older version: it leases a blob, and knows of its lease what it was told itself.

It is never told to stop: it has no lock thread that would be closed.
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
    import random
    from collections.abc import Awaitable

    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World

_T = TypeVar("_T")

_PATIENCE: Final = 2.0
"""Seconds that it waits for an answer."""
_RELEASE: Final = 5.0
"""Seconds in which it tries to release a lease."""


@dataclass(slots=True)
class Lease:
    """The lease that it believes to have: ``deadline`` by its own clock."""

    id: str
    deadline: float

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop with the host's own clock."""
        return asyncio.get_running_loop()

    def overdue(self) -> bool:
        """Tell whether the lease may have ended."""
        return self.loop.time() >= self.deadline


def drawn_ids(rng: random.Random) -> list[str]:
    """Draw the ids of its leases."""
    return [str(UUID(int=rng.getrandbits(128), version=4)) for _ in range(1000)]


class OtherHost:
    """What such hosts have in common."""

    def __init__(self, world: World, machine: Machine, lock: str) -> None:
        machine.leaving = True
        self._world = world
        self._machine = machine
        self._lock = lock
        self._store = NetworkStore(world.network, world.service, machine)

    def _begun(self, lease: Lease, owner: str, token: int | None = None) -> Hold:
        """Begin a body under a lease."""
        hold = Hold(self._lock, owner=f"{self._machine.name}/{owner}", token=token, lease=lease)
        body = RunningBody(self._lock, self._machine, hold, sync=False, since=self._world.loop.now)
        self._world.oracle.enter(body)
        return hold

    async def _given_back(self, lease_id: str) -> None:
        loop = asyncio.get_running_loop()
        ends = loop.time() + _RELEASE
        while loop.time() < ends:
            if await self._tried(self._store.release(self._lock, lease_id)):
                return
            await asyncio.sleep(0.5)

    async def _tried(self, request: Awaitable[object]) -> bool:
        """Send a request; tell whether it was answered, be it that the lease is gone."""
        try:
            await self._asked(request)
        except StoreFailure as failure:
            return failure.status in (404, 409, 412) and failure.meaning != "transient"
        return True

    async def _asked(self, request: Awaitable[_T]) -> _T:
        try:
            async with asyncio.timeout(_PATIENCE):
                return await request
        except StoreFailure:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a fault, or its own client, makes of it
            raise StoreFailure(detail=f"no answer: {error!r}") from None

"""A small world for random schedules: hosts, waiters, faults, meddling, and a judge who sees the service's side too."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError, StorageError
from singleton.locking.lock import Lock, release
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import FINE, Fate, Network, Request
from tests.support.world import NAME, foreign_id, lock_on, now, until, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from singleton.base.hold import Hold

GRACE = 90.0
"""Seconds after the last fault in which all must have come to an end: a minute of patience, and closing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """Somebody who wants to be inside for a while."""

    host: int
    start: float
    timeout: float | None
    seconds: float
    cancel_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """All requests of these hosts that are sent in this time have this fate."""

    hosts: frozenset[int]
    start: float
    seconds: float
    calls: frozenset[str]
    fate: Fate


def fates(host: int, faults: Iterable[Fault]) -> Callable[[Request], Fate]:
    """Return what becomes of each request of a host."""
    mine = [fault for fault in faults if host in fault.hosts]

    def fate(request: Request) -> Fate:
        for fault in mine:
            if fault.start <= request.sent < fault.start + fault.seconds and request.call in fault.calls:
                return fault.fate
        return FINE

    return fate


@dataclass(frozen=True, slots=True, kw_only=True)
class Meddling:
    """What an operator, or the machine, does."""

    at: float
    what: Literal["break", "steal", "delete", "sleep", "close"]


@dataclass(slots=True)
class World:
    """Hosts in front of one service, and what the judge has seen."""

    hosts: int = 3
    service: MemoryLeaseStore = field(default_factory=MemoryLeaseStore)
    networks: list[Network] = field(default_factory=list)
    locks: list[Lock] = field(default_factory=list)
    inside: list[Hold] = field(default_factory=list)
    tampered: set[str] = field(default_factory=set)
    last_token: int = 0
    grants: int = 0
    _slept: float = 0.0

    async def play(self, actors: list[Actor], faults: list[Fault], meddlings: list[Meddling]) -> None:
        """Let it all happen, then demand that it ends."""
        for number in range(self.hosts):
            network = Network(self.service)
            network.decide = fates(number, faults)
            network.watchers.append(self._look)
            self.networks.append(network)
            self.locks.append(lock_on(network, number, handoff_window=8.0, poll_max=2.0))
        tasks = {asyncio.create_task(self._act(actor), name=f"{actor}") for actor in actors}
        tasks |= {asyncio.create_task(self._meddle(one)) for one in meddlings}
        faults_end = max([fault.start + fault.seconds for fault in faults], default=0.0)
        busy = 60.0 + sum(actor.seconds for actor in actors) + max(actor.start for actor in actors)
        done, pending = await asyncio.wait(tasks, timeout=max(faults_end, busy) + GRACE * 2)
        assert not pending, f"never ended: {pending}"
        for task in done:
            if not task.cancelled():
                task.result()
        await asyncio.gather(*(lock.aclose() for lock in self.locks))
        assert all(lock.idle for lock in self.locks)
        # The longest that a request may be stuck on its way, and the lease that it then brings to nobody.
        await asyncio.sleep(20.0 + 15.0 + 1.0)
        assert not self.service.leased(), "a lease that nobody ends"

    async def _act(self, actor: Actor) -> None:
        body = asyncio.create_task(self._want(actor))
        if actor.cancel_after is not None:
            await until(actor.start + actor.cancel_after)
            body.cancel()
        await asyncio.wait({body})
        if not body.cancelled():
            body.result()

    async def _want(self, actor: Actor) -> None:
        await until(actor.start)
        start = now()
        slept = self._slept
        try:
            hold = await self.locks[actor.host].acquire(timeout=actor.timeout, owner=f"{actor.host}")
        except (LockNotAcquired, StorageError, LockClosed):
            return
        except SingletonError as error:
            raise AssertionError(f"an error that no caller expects: {error!r}") from error
        finally:
            limit = math.inf if actor.timeout is None else actor.timeout or 10.0
            assert now() - start <= limit + self._slept - slept + 0.001, "a wait did not end in time"
        self._enter(hold)
        try:
            await asyncio.sleep(actor.seconds)
        finally:
            self.inside.remove(hold)
            await release(hold)

    def _enter(self, hold: Hold) -> None:
        self.grants += 1
        self.inside.append(hold)
        self._look()
        if hold.lease_id not in self.tampered and not hold.lost.is_set():
            assert hold.token is not None
            assert hold.token > self.last_token, "a token that is not greater than all before"
            self.last_token = hold.token

    def _look(self) -> None:
        """At this instant: who believes to have the lease must have it, unless somebody meddled."""
        believers = [hold for hold in self.inside if not hold.lost.is_set() and hold.lease_id not in self.tampered]
        assert len(believers) <= 1, f"two inside: {believers}"
        blob = self.service._blobs.get(NAME)
        leased = self.service.leased().get(NAME)
        for hold in believers:
            assert hold.lease_id == leased, "believes in a lease that it has no more"
        if blob is not None and now() < blob.expires < math.inf:
            virtual_loop().call_at(blob.expires, self._look_at, blob.expires)

    def _look_at(self, when: float) -> None:
        blob = self.service._blobs.get(NAME)
        if blob is not None and blob.expires == when:
            self._look()

    async def _meddle(self, meddling: Meddling) -> None:
        await until(meddling.at)
        owner = self.service.leased().get(NAME)
        if meddling.what == "sleep":
            self._slept += 16.0
            virtual_loop().now += 16.0
            return
        if meddling.what == "close":
            await self.locks[0].aclose()
            return
        self.tampered.update({owner} if owner else set(), (hold.lease_id or "" for hold in self.inside))
        if meddling.what == "delete":
            state = self.service._blobs.get(NAME)
            if state is not None and state.modified < int(now()):
                self.service.delete(NAME)
            return
        try:
            await self.service.break_(NAME)
            if meddling.what == "steal":
                await self.service.acquire(NAME, foreign_id(), 15)
        except StoreFailure:
            return

"""A small world in which a lock is renamed: versions with the old name, with both, and with the new one, and a judge.

It is that of ``chaos.py`` with two locks. Who takes both excludes everybody else; those with one name do not exclude
those with the other.
"""

from __future__ import annotations

import asyncio
import math
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from singleton.base.errors import LockClosed, LockLost, LockNotAcquired, SingletonError, StorageError
from singleton.base.hold import single_holds
from singleton.functions.acquirers import DoubleHold, acquire_both
from singleton.locking.phase import Timing
from singleton.runtime.address import Address
from singleton.runtime.registry import Registry
from singleton.settings.accounts import LockContainer
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import EPOCH_KEY
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.chaos import Fault, fates
from tests.support.network import Fate, Network, Request
from tests.support.world import foreign_id, now, until, virtual_loop

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import Hold

Kind = Literal["old", "both", "swapped", "new"]
"""``swapped``: a function that has the other's old name as its new one, and the other way round."""
OLD: Final = "locks/app/old"
NEW: Final = "locks/app/new"
GRACE: Final = 180.0
_TIMING: Final = Timing(handoff_window=8.0, poll_max=2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """An invocation of one version of the app."""

    kind: Kind
    host: int
    start: float
    timeout: float | None
    seconds: float
    cancel_after: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Meddling:
    """What an operator, or the machine, does to one of the locks."""

    at: float
    what: Literal["break", "steal", "delete", "sleep", "close"]
    name: str = OLD


def address(name: str, *, failover: float | None = None) -> Address:
    """Return the address of a lock under one of its names."""
    timing = _TIMING if failover is None else Timing(handoff_window=8.0, poll_max=2.0, failover=failover)
    return Address(LockContainer(cast("Any", "account"), "container"), name, timing)


@dataclass(slots=True)
class World:
    """Hosts in front of one service, and what the judge has seen."""

    hosts: int = 3
    failover: float | None = None
    service: MemoryLeaseStore = field(default_factory=MemoryLeaseStore)
    networks: list[Network] = field(default_factory=list)
    registries: list[Registry] = field(default_factory=list)
    inside: list[Hold] = field(default_factory=list)
    tampered: set[str] = field(default_factory=set)
    last: dict[str, int] = field(default_factory=lambda: {OLD: 0, NEW: 0})
    epochs: dict[str, tuple[object, int]] = field(default_factory=dict)
    grants: int = 0
    _slept: float = 0.0

    async def play(self, contenders: list[Contender], faults: list[Fault], meddlings: list[Meddling]) -> None:
        """Let it all happen, then demand that it ends."""
        for number in range(self.hosts):
            self.add_host(fates(number, faults))
        tasks = {asyncio.create_task(self._act(one), name=f"{one}") for one in contenders}
        tasks |= {asyncio.create_task(self._meddle(one)) for one in meddlings}
        faults_end = max([fault.start + fault.seconds for fault in faults], default=0.0)
        busy = 60.0 + sum(one.seconds for one in contenders) + max(one.start for one in contenders)
        done, pending = await asyncio.wait(tasks, timeout=max(faults_end, busy) + GRACE)
        assert not pending, f"never ended: {pending}"
        for task in done:
            if not task.cancelled():
                task.result()
        await asyncio.gather(*(registry.aclose() for registry in self.registries))
        await asyncio.sleep(20.0 + 15.0 + 1.0)  # the longest that a request is stuck, and the lease that it brings
        assert not self.service.leased(), "a lease that nobody ends"

    def add_host(self, decide: Callable[[Request], Fate] | None = None) -> Registry:
        """Start one more process, which remembers nothing."""
        network = Network(self.service)
        network.decide = decide
        network.watchers.append(self._look)
        self.networks.append(network)
        registry = Registry(lambda _: network, random.Random(len(self.registries)), wall=now)
        self.registries.append(registry)
        return registry

    async def acquire(self, registry: Registry, kind: Kind, timeout: float | None = None, **kept: Any) -> Hold:
        """Acquire as this version does."""
        old, new = (address(name, failover=self.failover) for name in (OLD, NEW))
        match kind:
            case "old" | "new":
                one = old if kind == "old" else new
                return await registry.acquire(one, timeout=timeout, owner=kind, **kept)
            case "swapped":
                return await acquire_both(registry, old, new, timeout=timeout, owner=kind, **kept)
            case _:
                return await acquire_both(registry, new, old, timeout=timeout, owner=kind, **kept)

    async def section(self, kind: Kind, seconds: float = 0.0, *, host: int = 0, timeout: float | None = None) -> Hold:
        """Go through one section, watched by the judge."""
        hold = await self.acquire(self.registries[host], kind, timeout)
        self._enter(hold)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.inside.remove(hold)
            await self.registries[host].release(hold)
        return hold

    async def _act(self, one: Contender) -> None:
        body = asyncio.create_task(self._want(one))
        if one.cancel_after is not None:
            await until(one.start + one.cancel_after)
            body.cancel()
        await asyncio.wait({body})
        if not body.cancelled():
            body.result()

    async def _want(self, one: Contender) -> None:
        await until(one.start)
        start, slept = now(), self._slept
        registry = self.registries[one.host]
        try:
            hold = await self.acquire(registry, one.kind, one.timeout)
        except (LockNotAcquired, StorageError, LockClosed, LockLost):
            return
        except SingletonError as error:
            raise AssertionError(f"an error that no caller expects: {error!r}") from error
        finally:
            # Two locks one after the other, the write of a token, and giving back what was got.
            limit = math.inf if one.timeout is None else max(one.timeout, 10.0) + 30.0
            assert now() - start <= limit + self._slept - slept, "a wait did not end in time"
        self._enter(hold)
        try:
            await asyncio.sleep(one.seconds)
        finally:
            self.inside.remove(hold)
            await registry.release(hold)

    def _enter(self, hold: Hold) -> None:
        self.grants += 1
        self.inside.append(hold)
        self._look()
        if not self._believes(hold):
            return
        assert hold.token is not None
        for part in single_holds(hold):
            assert hold.token > self.last[part.lock], f"a token that is not greater than all before of {part.lock}"
            self.last[part.lock] = hold.token

    def _believes(self, hold: Hold) -> bool:
        return not hold.lost.is_set() and not self.tampered.intersection(
            part.lease_id or "" for part in single_holds(hold)
        )

    def _look(self) -> None:
        """At this instant: who believes to have the lease must have it, under each name, unless somebody meddled."""
        for hold in self.inside:
            lost = [part for part in single_holds(hold) if part.lost.is_set()]
            assert not lost or hold.lost.is_set(), "one lock is lost, and its user was not told"
        for name in (OLD, NEW):
            believers = [
                (hold, part)
                for hold in self.inside
                for part in single_holds(hold)
                if part.lock == name and self._believes(hold)
            ]
            assert len(believers) <= 1, f"two inside: {believers}"
            blob = self.service._blobs.get(name)
            leased = self.service.leased().get(name)
            if blob is not None:
                epoch = int(blob.metadata.get(EPOCH_KEY, 0))
                same, before = self.epochs.get(name, (blob, 0))
                assert blob is not same or epoch >= before, f"the epoch of {name} goes back from {before} to {epoch}"
                self.epochs[name] = blob, epoch
            for _, part in believers:
                assert part.lease_id == leased, "believes in a lease that it has no more"
            if blob is not None and now() < blob.expires < math.inf:
                virtual_loop().call_at(blob.expires, self._look_at, name, blob.expires)

    def _look_at(self, name: str, when: float) -> None:
        blob = self.service._blobs.get(name)
        if blob is not None and blob.expires == when:
            self._look()

    async def _meddle(self, meddling: Meddling) -> None:
        await until(meddling.at)
        if meddling.what == "sleep":
            self._slept += 16.0
            virtual_loop().now += 16.0
            return
        if meddling.what == "close":
            await self.registries[0].aclose()
            return
        owner = self.service.leased().get(meddling.name)
        self.tampered.update({owner} if owner else set())
        for hold in self.inside:
            self.tampered.update(part.lease_id or "" for part in single_holds(hold) if part.lock == meddling.name)
        if meddling.what == "delete":
            state = self.service._blobs.get(meddling.name)
            if state is not None and state.modified < int(now()):
                self.service.delete(meddling.name)
            return
        try:
            await self.service.break_(meddling.name)
            if meddling.what == "steal":
                await self.service.acquire(meddling.name, foreign_id(), 15)
        except StoreFailure:
            return


def is_both(hold: Hold) -> bool:
    """Tell whether a hold is one of two locks."""
    return isinstance(hold, DoubleHold)

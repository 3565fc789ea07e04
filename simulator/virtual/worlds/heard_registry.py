"""The shipped registry of a machine's locks, whose every wait and end is told to the oracle."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.virtual.oracle.callers import KNOWN
from simulator.virtual.oracle.errors_told import LockWait
from singleton.base.errors import LockNotAcquired, SingletonError, StorageUnavailable
from singleton.runtime.holders import WhoHas
from singleton.runtime.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.virtual.oracle.oracle import Oracle
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold
    from singleton.base.holder_record import Holder
    from singleton.runtime.address import Address


@dataclass(frozen=True, slots=True)
class HeardWhoHas(WhoHas):
    """Tells the oracle of each holder that it names."""

    oracle: Oracle
    machine: Machine

    async def told(self) -> tuple[str, dict[str, Any]]:
        """See ``WhoHas.told``."""
        words, fields = await WhoHas.told(self)
        self.oracle.holders.said(self.machine, self.address.name, words, fields, self._read_at)
        if (holder := self._holder) is not None:
            self.oracle.holders.named(self.machine, holder, self._read_at)
        return words, fields

    async def holder(self) -> Holder | None:
        """See ``WhoHas.holder``."""
        holder = await WhoHas.holder(self)
        if holder is not None:
            self.oracle.holders.must_be_recent(self.machine, holder.lock, self._read_at)
            self.oracle.holders.named(self.machine, holder, self._read_at)
        return holder

    @property
    def _holder(self) -> Holder | None:
        record, reading = self.guard.inside, self.guard.reading
        return record.holder if record is not None else None if reading is None else reading.holder

    @property
    def _read_at(self) -> float:
        """When a holder was read that is told now, in true time."""
        now = self.oracle.loop.now
        if self.guard.inside is not None or self.guard.reading is None:
            return now
        return self.machine.when(self.guard.reading.at, 0.0)


class HeardRegistry(Registry):
    """Tells the oracle what each wait for a lock ends with."""

    def __init__(self, oracle: Oracle, machine: Machine, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._oracle = oracle
        self._machine = machine

    async def acquire(
        self, address: Address, *, timeout: float | None, owner: str, limit: int | None = None, **more: Any
    ) -> Hold:
        """See ``Registry.acquire``."""
        since, lock = self._oracle.loop.now, address.name
        wait = LockWait(
            machine=self._machine,
            lock=lock,
            limit=limit,
            timeout=timeout,
            owner=owner,
            since=since,
            failover=address.timing.failover is not None,
        )
        errors = self._oracle.errors
        errors.waits(wait)
        try:
            hold = await super().acquire(address, timeout=timeout, owner=owner, limit=limit, **more)
        except asyncio.CancelledError:
            self._oracle.book.cut(self._machine, lock, owner)
            raise
        except SingletonError as error:
            cut = asyncio.get_running_loop().time() >= more.get("by", math.inf)
            if not (cut and isinstance(error, StorageUnavailable)):  # else the end of the invocation is judged
                errors.refused(wait, error)
            if isinstance(error, LockNotAcquired) and error.holder is not None:
                self._oracle.holders.named(self._machine, error.holder, min(since, self._oracle.loop.now - KNOWN))
            raise
        else:
            errors.acquired(wait, hold)
            self._oracle.ends.begun(self._machine, hold)
            return hold
        finally:
            errors.ended(wait)

    def who_has(self, address: Address) -> WhoHas:
        """See ``Registry.who_has``."""
        found = super().who_has(address)
        return HeardWhoHas(found.store, address, found.guard, found.accompany, self._oracle, self._machine)

    def taken(self, hold: Hold) -> None:
        """Tell that the caller of a hold has it."""
        self._oracle.book.taken(self._machine, hold)

    def kept(self, hold: Hold, at_least: float, max_hold: float | None) -> Hold:
        """See ``Registry.kept``."""
        if max_hold is not None:
            self._oracle.book.limited(hold, max_hold)
        return super().kept(hold, at_least, max_hold)

    async def release(self, hold: Hold) -> None:
        """See ``Registry.release``."""
        self._oracle.book.given_back(self._machine, hold)
        await super().release(hold)

    def end(self, hold: Hold, then: Callable[[], object]) -> bool:
        """See ``Registry.end``."""
        self._oracle.book.given_back(self._machine, hold)
        return super().end(hold, then)

    async def drop(self, hold: Hold) -> None:
        """See ``Registry.drop``."""
        self._oracle.book.given_back(self._machine, hold)
        await super().drop(hold)

    async def aclose(self) -> None:
        """See ``Registry.aclose``."""
        self._oracle.book.closing(self._machine)
        await super().aclose()

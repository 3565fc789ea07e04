"""Look-up of a lock's holder, for the log line of a long wait and for the error of a refused caller.

* A long wait is logged: after half a minute, then at every doubling. The line names the holder, its machine, and the
  begin of its hold.
* An error names the holder if the answer comes soon; a late answer serves the next refused caller.

The look-up is a request to the storage, sent by a task of its own, only for a long or failed wait, and at most once a
minute for a lock and process.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from singleton.base.errors import LockNotAcquired
from singleton.base.holder_record import Holder, fields_of, in_words
from singleton.base.invocation import current
from singleton.base.invocation import log as _log
from singleton.locking.holder import holder_in
from singleton.locking.lease import as_failure
from singleton.locking.record import Reading
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from singleton.locking.record import BlobGuard
    from singleton.runtime.address import Address
    from singleton.stores.protocol import LeaseStore

LONG: Final = 30.0
"""Seconds after which a wait is logged."""
_AGAIN: Final = 60.0
"""Seconds between two reads for one lock, at least."""
_CALL: Final = 5.0


class LongWait:
    """A block which waits for a lock, or for a slot of a semaphore with a limit, and the log lines of a long wait."""

    def __init__(self, registry: HolderLookup, address: Address, owner: str, limit: int | None = None) -> None:
        self._registry = registry
        self._address = address
        self._owner = owner
        self._limit = limit
        self._told: tuple[str, str, str] | None = None
        loop = asyncio.get_running_loop()
        self._since = loop.time()
        self._timer = loop.call_at(self._since + LONG, self._begin)
        self._telling: asyncio.Task[None] | None = None

    def __enter__(self) -> None:
        pass

    def __exit__(self, failed: object, *_: object) -> None:
        self._timer.cancel()
        if self._telling is not None:
            self._telling.cancel()
        if self._told is not None and failed is None:
            waited = round(asyncio.get_running_loop().time() - self._since, 1)
            fields = {"lock": self._address.name, "owner": self._owner or None, "waited": waited}
            _log.info("%s %s: acquired by %s after %g s", *self._told, waited, extra=fields)

    def _begin(self) -> None:
        self._telling = asyncio.get_running_loop().create_task(self._tell(), name=f"long wait for {self._address.name}")
        self._registry.accompany(self._telling)

    async def _tell(self) -> None:
        loop, waited = asyncio.get_running_loop(), LONG
        while True:
            if self._limit is None:
                what = "lock"
                words, known = await self._registry.who_has(self._address).told()
            else:
                what, words, known = "semaphore", f"all of its {self._limit} slots are taken", {}
            self._told = (what, self._address.name, repr(self._owner) if self._owner else "somebody")
            asking = current()
            function = None if asking is None else asking.function or None
            _log.warning(
                "%s %s: %s has waited for %g s; %s",
                *(*self._told, waited, words),
                extra={
                    "lock": self._address.name,
                    "owner": self._owner or None,
                    "function": function,
                    "waited": waited,
                    **known,
                },
            )
            waited *= 2
            await asyncio.sleep(self._since + waited - loop.time())


@dataclass(frozen=True, slots=True)
class WhoHas:
    """Look-up of a lock's holder, shared by the callers of this process."""

    store: LeaseStore
    address: Address
    guard: BlobGuard
    accompany: Callable[[asyncio.Task[None]], None]

    async def told(self) -> tuple[str, dict[str, Any]]:
        """Return the holder in words, and as fields of a log line."""
        if (record := self.guard.inside) is not None:
            return f"it is {in_words(record.holder, here=True)}", fields_of(record.holder)
        reading = await self._read()
        ago = asyncio.get_running_loop().time() - reading.at
        when = f"{ago:.0f} s ago" if ago >= 1 else "just now"
        holder = reading.holder
        if reading.failure is not None:
            return f"its holder could not be read {when} ({reading.failure})", {}
        if holder is None:
            return f"nobody held it {when}", {}
        said = in_words(holder) or "held; its holder is not recorded"
        if holder.renewed is False:
            said += ", or by a later hold of the same process, which is younger than half a lease period"
        return f"it is {said}, as read {when}", fields_of(holder)

    async def holder(self) -> Holder | None:
        """Return the holder; None: free, or not known."""
        return self.guard.inside.holder if self.guard.inside is not None else (await self._read()).holder

    async def _read(self) -> Reading:
        """Return a read of the last minute, or read now."""
        loop, guard = asyncio.get_running_loop(), self.guard
        if guard.asking is None and (guard.reading is None or loop.time() - guard.reading.at >= _AGAIN):
            guard.asking = loop.create_task(self._ask(), name=f"who has lock {self.address.name}")
            self.accompany(guard.asking)
        if guard.asking is not None:
            await asyncio.wait({guard.asking})  # a separate task: the caller who started it may be gone
        return guard.reading or Reading(loop.time(), failure=StoreFailure())

    async def _ask(self) -> None:
        guard, at = self.guard, asyncio.get_running_loop().time()
        try:
            state = await within(_CALL, self.store.read(self.address.name))
        except Exception as error:  # noqa: BLE001 - after an error of a store the holder is not known
            failure = as_failure(error)
            guard.reading = Reading(at, failure=None if failure.meaning == "missing" else failure)
        else:
            holder = holder_in(self.address.name, state)
            if holder is not None and state.etag == guard.refuted:
                holder = Holder(lock=holder.lock, endless=holder.endless)
            if holder is not None and holder.endless:
                holder = replace(holder, break_command=self.address.place.break_command(holder.lock))
            guard.reading = Reading(at, holder)
        finally:
            guard.asking = None


_LONG: Final = 1.0
"""Seconds for the look-up, after a wait of at least this length or a raised refusal."""
_SHORT: Final = 0.25
"""Seconds for the look-up, after a skip or a time-out below a second."""


class HolderLookup(Protocol):
    """The registry, as far as a look-up needs it."""

    def who_has(self, address: Address) -> WhoHas:
        """See ``Registry.who_has``."""

    def accompany(self, task: asyncio.Task[None]) -> None:
        """See ``Registry.accompany``."""


def patience(timeout: float | None, *, skips: bool = False) -> float:
    """Return the seconds for the look-up after a wait with this time-out; 0 means a single attempt."""
    return _SHORT if skips or (timeout is not None and 0 < timeout < _LONG) else _LONG


async def name_holder(registry: HolderLookup, address: Address, error: LockNotAcquired, seconds: float) -> None:
    """Set the error's holder, unless set; wait at most ``seconds`` for the look-up."""
    if error.holder is None:
        try:
            async with asyncio.timeout(seconds):
                error.holder = await registry.who_has(address).holder()
        except TimeoutError:
            pass


@asynccontextmanager
async def naming_holder(registry: HolderLookup, address: Address, timeout: float | None) -> AsyncIterator[None]:
    """Acquire a lock in the block; the ``LockNotAcquired`` of the block names the holder."""
    try:
        yield
    except LockNotAcquired as error:
        await name_holder(registry, address, error, patience(timeout))
        raise

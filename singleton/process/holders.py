"""Who has a lock: looked up for the line about a long wait, and for the error of a caller that did not get the lock.

* A long wait is logged: after half a minute, then each time that the wait has lasted twice as long. The line says who
  has the lock, where, and since when.
* An error names the holder if the answer comes soon; a late answer serves the next caller that is refused.

The look-up is a request to the storage. It is sent only when a wait is long or has failed, as a task of its own, and at
most once a minute for each lock of this process.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, Self

from singleton.base.errors import LockNotAcquired
from singleton.base.holder import fields_of
from singleton.base.invocation import current
from singleton.base.invocation import log as _log
from singleton.locking.holder import holder_in
from singleton.locking.lease import as_failure
from singleton.locking.record import Reading
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from singleton.base.holder import Holder
    from singleton.locking.record import BlobGuard
    from singleton.process.address import Address
    from singleton.stores.protocol import LeaseStore

LONG: Final = 30.0
"""Seconds of a wait after which it is told of."""
_AGAIN: Final = 60.0
"""Seconds between two readings of one lock, at least."""
_CALL: Final = 5.0


class LongWait:
    """A block in which somebody waits.

    Args:
        what: the lock, or the semaphore.
        owner: who waits.
        who: returns what tells who has it; or words for that, which need no asking.
        accompany: keeps a task until the end of the process.
    """

    def __init__(
        self,
        what: str,
        owner: str,
        who: Callable[[], WhoHas] | str,
        accompany: Callable[[asyncio.Task[None]], None],
    ) -> None:
        self._what = what
        self._owner = owner
        self._who = who
        self._accompany = accompany
        self._timer: asyncio.TimerHandle | None = None
        self._telling: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._timer = asyncio.get_running_loop().call_later(LONG, self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._telling is not None:
            self._telling.cancel()

    def _begin(self) -> None:
        self._telling = asyncio.get_running_loop().create_task(self._tell(), name=f"long wait for {self._what}")
        self._accompany(self._telling)

    async def _tell(self) -> None:
        loop, waited = asyncio.get_running_loop(), LONG
        since = loop.time() - waited
        while True:
            words, known = (self._who, {}) if isinstance(self._who, str) else await self._who().told()
            asking = current()
            function = None if asking is None else asking.function or None
            _log.warning(
                "%s: %s has waited for %g s; %s",
                *(self._what, repr(self._owner) if self._owner else "somebody", waited, words),
                extra={
                    "lock": self._what.partition(" ")[2],
                    "owner": self._owner or None,
                    "function": function,
                    "waited": waited,
                    **known,
                },
            )
            waited *= 2
            await asyncio.sleep(since + waited - loop.time())


@dataclass(frozen=True, slots=True)
class WhoHas:
    """Tells who has a lock, as of the last time that somebody of this process asked."""

    store: LeaseStore
    name: str
    guard: BlobGuard
    accompany: Callable[[asyncio.Task[None]], None]

    async def told(self) -> tuple[str, dict[str, Any]]:
        """Return in words who has it, and as fields of a log line."""
        if (record := self.guard.inside) is not None:
            return f"it is held{_described(record.holder, here=True)}", fields_of(record.holder)
        reading = await self._read()
        ago = asyncio.get_running_loop().time() - reading.at
        when = f"{ago:.0f} s ago" if ago >= 1 else "just now"
        holder = reading.holder
        if reading.failure is not None:
            return f"its holder could not be read {when} ({reading.failure})", {}
        if holder is None:
            return f"nobody held it {when}", {}
        return f"it is held{_described(holder, here=False)}, as read {when}", fields_of(holder)

    async def holder(self) -> Holder | None:
        """Return who has it; None: nobody, or that is not known."""
        return self.guard.inside.holder if self.guard.inside is not None else (await self._read()).holder

    async def _read(self) -> Reading:
        """Return what was read within the last minute, or else is read now."""
        loop, guard = asyncio.get_running_loop(), self.guard
        if guard.asking is None and (guard.reading is None or loop.time() - guard.reading.at >= _AGAIN):
            guard.asking = loop.create_task(self._ask(), name=f"who has lock {self.name}")
            self.accompany(guard.asking)
        if guard.asking is not None:
            await asyncio.wait({guard.asking})  # a task of its own: whoever began it may be gone by now
        return guard.reading or Reading(loop.time(), failure=StoreFailure())

    async def _ask(self) -> None:
        guard, at = self.guard, asyncio.get_running_loop().time()
        try:
            state = await within(_CALL, self.store.read(self.name))
        except Exception as error:  # noqa: BLE001 - whatever a store raises, it is only not known who has the lock
            failure = as_failure(error)
            guard.reading = Reading(at, failure=None if failure.meaning == "missing" else failure)
        else:
            guard.reading = Reading(at, holder_in(self.name, state))
        finally:
            guard.asking = None


def _described(holder: Holder, *, here: bool) -> str:
    """Say where a lock is held, by whom, and since when."""
    known = [" in this process" if here else ""]
    if holder.host is not None and not here:
        known.append(f" on {holder.host}")
        known.append("" if holder.pid is None else f" (process {holder.pid})")
    if holder.owner is not None:
        known.append(f" by {holder.owner!r}")
        known.append("" if holder.function is None else f" ({holder.function})")
    if holder.since is not None:
        known.append(f", since {holder.since:%Y-%m-%d %H:%M:%S} UTC")
    elif holder.renewed is False:
        known.append(", or by a later hold of the same process, which is younger than half a lease period")
    return "".join(known) or "; its holder is not recorded"


_LONG: Final = 1.0
"""Seconds that an answer is waited for by whoever waited for the lock that long, or fails for want of it."""
_SHORT: Final = 0.25
"""The same for whoever skips, or would not wait a second for the lock."""


class HolderLookup(Protocol):
    """The registry, as far as a look-up needs it."""

    def who_has(self, address: Address) -> WhoHas:
        """See ``Registry.who_has``."""


def patience(timeout: float | None, *, skips: bool = False) -> float:
    """Return how long to wait to hear who has a lock that was waited for so long; 0: it was asked for once."""
    return _SHORT if skips or (timeout is not None and 0 < timeout < _LONG) else _LONG


async def name_holder(registry: HolderLookup, address: Address, error: LockNotAcquired, seconds: float) -> None:
    """Put into the error who has the lock, unless it is there; wait no longer for the answer than so many seconds."""
    if error.holder is None:
        try:
            async with asyncio.timeout(seconds):
                error.holder = await registry.who_has(address).holder()
        except TimeoutError:
            pass


@asynccontextmanager
async def naming_holder(registry: HolderLookup, address: Address, timeout: float | None) -> AsyncIterator[None]:
    """Acquire a lock in this block; the error of one that is not acquired in time says who has it."""
    try:
        yield
    except LockNotAcquired as error:
        await name_holder(registry, address, error, patience(timeout))
        raise

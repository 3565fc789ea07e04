"""A long wait is logged: after half a minute, then each time that it has lasted twice as long.

The log says who has the lock, where, and since when. Finding that out is a request to the storage, so it is sent only
when a wait is long or has failed, at most once a minute for each lock of this process. The log says when it was read.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from singleton.base.holder import fields_of
from singleton.base.naming import current
from singleton.base.naming import log as _log
from singleton.locking.holder import holder_in
from singleton.locking.lease import as_failure
from singleton.locking.record import Reading
from singleton.stores.protocol import StoreFailure, within

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.holder import Holder
    from singleton.locking.record import Gate
    from singleton.locking.wheel import Wheel
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
        wheel: says when the wait has become long.
    """

    def __init__(
        self,
        what: str,
        owner: str,
        who: Callable[[], WhoHas] | str,
        accompany: Callable[[asyncio.Task[None]], None],
        wheel: Wheel,
    ) -> None:
        self._what = what
        self._owner = owner
        self._who = who
        self._accompany = accompany
        self._wheel = wheel
        self._context = contextvars.copy_context()
        self.ticket = 0
        self._telling: asyncio.Task[None] | None = None

    def __enter__(self) -> Self:
        self._wheel.look_at(self, asyncio.get_running_loop().time() + LONG)
        return self

    def __exit__(self, *_: object) -> None:
        self._wheel.forget(self)
        if self._telling is not None:
            self._telling.cancel()

    def look(self, now: float) -> float:
        """Begin to tell of it. See ``Wheel``."""
        del now
        self._context.run(self._begin)
        return math.inf

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
    gate: Gate
    accompany: Callable[[asyncio.Task[None]], None]

    async def told(self) -> tuple[str, dict[str, Any]]:
        """Return in words who has it, and as fields of a log line."""
        if (turn := self.gate.inside) is not None:
            return f"it is held{_described(turn.holder, here=True)}", fields_of(turn.holder)
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
        return self.gate.inside.holder if self.gate.inside is not None else (await self._read()).holder

    async def _read(self) -> Reading:
        """Return what was read within the last minute, or else is read now."""
        loop, gate = asyncio.get_running_loop(), self.gate
        if gate.asking is None and (gate.reading is None or loop.time() - gate.reading.at >= _AGAIN):
            gate.asking = loop.create_task(self._ask(), name=f"who has lock {self.name}")
            self.accompany(gate.asking)
        if gate.asking is not None:
            await asyncio.wait({gate.asking})  # a task of its own: whoever began it may be gone by now
        return gate.reading or Reading(loop.time(), failure=StoreFailure())

    async def _ask(self) -> None:
        gate, at = self.gate, asyncio.get_running_loop().time()
        try:
            state = await within(_CALL, self.store.read(self.name))
        except Exception as error:  # noqa: BLE001 - whatever a store raises, it is only not known who has the lock
            failure = as_failure(error)
            gate.reading = Reading(at, failure=None if failure.meaning == "missing" else failure)
        else:
            gate.reading = Reading(at, holder_in(self.name, state))
        finally:
            gate.asking = None


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

"""``on_contention="coalesce"``: one invocation runs, one waits, and the others end.

``locking/seat.py`` has the protocol and its proof. This module has the way of an invocation: ask for the lock once, ask
for the seat once, then wait or leave.
"""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING, Final

from singleton.base.errors import LockNotAcquired, StorageUnavailable
from singleton.base.events import tell
from singleton.base.invocation import current
from singleton.base.invocation import log as _log
from singleton.functions.contention import Contention
from singleton.functions.payload import has_tick
from singleton.functions.triggers import MCP_TOOL, TIMER, is_http
from singleton.runtime.cancellation import unless_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from singleton.base.events import Call
    from singleton.base.hold import Hold
    from singleton.base.kinds import Policy
    from singleton.functions.triggers import Trigger
    from singleton.functions.wait_limit import Acquire, WaitLimit
    from singleton.locking.seat import Seat
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Locks
    from singleton.runtime.registry import Registry

    NameHolder = Callable[[Call, LockNotAcquired, Locks, float | None, Policy], Coroutine[Any, Any, None]]

NEXT_ARRIVAL: Final = ("httpTrigger", TIMER, "eventGridTrigger", MCP_TOOL)
"""Triggers whose host delivers nothing again, or does not say so: each invocation is new."""
_LAST: Final = 0.5
"""Seconds left of a wait in which no answer may come any more."""
_PATIENCE: Final = 60.0
"""Seconds of a seat without a usable answer after which an invocation fails."""


def may_be_repeated(call: Call, trigger: Trigger | None) -> bool:
    """Tell whether an earlier delivery of the invocation's message, or an earlier try, may have failed or died.

    A message whose count of deliveries is not shown may be repeated. Requests and ticks are new.
    """
    if trigger is None:
        is_new = is_http(None, call.arguments) or has_tick(call.arguments)
    else:
        is_new = trigger.type in NEXT_ARRIVAL
    return call.tried > 0 or not (is_new or Contention.over(call, trigger).dequeue_count == 1)


async def acquire_or_leave(
    call: Call, locks: Locks, arrival: Arrival, limit: WaitLimit, timeout: float | None, name_holder: NameHolder
) -> Hold | None:
    """Acquire the lock for an invocation; None: another waits, and this invocation ends as a success.

    ``name_holder`` puts the holder into an error.

    Raises:
        LockNotAcquired: the wait has ended without the lock.
        StorageError: the storage did not answer as it should.
    """
    invocation = current()

    level = logging.DEBUG

    async def ask(registry: Registry) -> Hold | None:
        nonlocal level
        hold = await limit.within(registry, timeout, invocation, arrival.acquire)
        if hold is None and arrival.seat(registry).tells():
            level = logging.INFO
        return hold

    try:
        hold = await locks.call_async(unless_lost(ask))
    except LockNotAcquired as error:
        tell("contended", call, reason="timeout")
        contended = error.with_traceback(None)
    else:
        if hold is None:
            tell("coalesced", call)
            told = call.function, call.lock
            _log.log(level, "%s coalesced: another invocation waits for lock %s", *told, extra=call.fields)
        return hold
    try:
        await name_holder(call, contended, locks, timeout, "wait")
        raise contended
    finally:
        del contended  # of its traceback


class Arrival:
    """An invocation on its way to the lock, on the lock thread."""

    def __init__(self, address: Address, owner: str, acquire: Acquire[Hold], *, again: bool) -> None:
        self._address = address
        self._owner = owner
        self._acquire = acquire
        self._again = again

    def seat(self, registry: Registry) -> Seat:
        """Return the seat of the lock."""
        return registry.seat(self._address)

    async def acquire(self, registry: Registry, within: float | None) -> Hold | None:
        """Return the hold; None: another waits. A repeated delivery takes the seat first, and does not leave."""
        loop, seat, timing = asyncio.get_running_loop(), self.seat(registry), self._address.timing
        ends = math.inf if within is None else loop.time() + within
        pause, slept, trouble = timing.poll_min, 0.0, math.inf
        refused: LockNotAcquired | None = None
        while True:
            if seat.waits and not self._again:
                return None
            taken: bool | None = None
            if seat.may_ask(0.9 * slept, again=self._again):
                try:
                    if not self._again:
                        return await self._acquire(registry, 0)
                except LockNotAcquired as error:
                    refused = error.with_traceback(None)
                try:
                    async with asyncio.timeout_at(None if ends == math.inf else ends):
                        taken = await seat.take(self._owner, again=self._again)
                    trouble = math.inf
                except TimeoutError:
                    if refused is not None:
                        raise refused from None
                    raise StorageUnavailable(
                        f"lock {self._address.name!r}: its seat {seat.name!r} gave no answer in time",
                        lock=self._address.name,
                        owner=self._owner,
                    ) from None
                except StorageUnavailable:
                    self._again = True  # the word of this invocation may stand on the seat, or come late
                    trouble = min(trouble, loop.time())
                    if loop.time() - trouble >= _PATIENCE:
                        raise
            if taken is not None:
                return await self._seated(registry, seat, ends) if taken else None
            if (now := loop.time()) >= ends:
                raise refused or self._in_vain(seat)
            slept = min(ends - now, pause * registry.rng.uniform(0.5, 1.0))
            await asyncio.sleep(slept)
            pause = min(2 * pause, timing.poll_max)

    async def _seated(self, registry: Registry, seat: Seat, ends: float) -> Hold:
        """Wait for the lock on the seat, and say that the body begins."""
        loop = asyncio.get_running_loop()
        try:
            left = None if ends == math.inf else ends - loop.time()
            if left is not None and left < _LAST:
                left = 0  # asks once, and awaits the answer
            hold = await self._acquire(registry, left)
        except BaseException:
            await seat.leave()
            raise
        with seat.entering():
            try:
                await seat.begin()
            except BaseException:
                try:
                    await registry.drop(hold)  # first: the seat may wait for answers for seconds
                finally:
                    await seat.leave()
                raise
            try:
                await seat.leave()
                seat.refuse_closed(self._owner)
            except BaseException:  # a cancellation, or the closing of the process
                await registry.drop(hold)
                raise
        return hold

    def _in_vain(self, seat: Seat) -> LockNotAcquired:
        text = f"lock {self._address.name!r} was not acquired in time: another invocation has its seat {seat.name!r}"
        return LockNotAcquired(text, lock=self._address.name, owner=self._owner)

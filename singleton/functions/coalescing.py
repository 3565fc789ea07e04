"""``on_contention="coalesce"``: one invocation runs, one waits, and the others end.

``locking/seat.py`` has the protocol and its proof. This module has the way of an invocation: ask for the lock once, ask
for its seat once, then wait or leave. With ``also=`` the lock has two names, and a seat under each. Seats are taken in
the order of the locks, and before the locks. So no two invocations wait for each other.
"""

from __future__ import annotations

import asyncio
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from singleton.base.errors import LockNotAcquired, SingletonError, StorageError, StorageUnavailable
from singleton.base.events import tell
from singleton.base.invocation import current
from singleton.base.invocation import log as _log
from singleton.base.timespan import format_timespan
from singleton.functions.acquirers import in_order
from singleton.functions.contention import Contention
from singleton.functions.payload import has_tick
from singleton.functions.triggers import MCP_TOOL, TIMER, is_http
from singleton.functions.wait_limit import SHORTER
from singleton.locking.line import ENDLESS, LAST_LOOK, SILENCE
from singleton.locking.phase import PATIENCE
from singleton.locking.seat import seat_name
from singleton.runtime.cancellation import unless_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable
    from typing import Any

    from singleton.base.events import Call
    from singleton.base.hold import Hold
    from singleton.base.kinds import Policy
    from singleton.functions.triggers import Trigger
    from singleton.functions.wait_limit import WaitLimit
    from singleton.locking.seat import Seat
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Locks
    from singleton.runtime.registry import Registry

    NameHolder = Callable[
        [Call, LockNotAcquired, Locks, float | None, Policy, Address | None], Coroutine[Any, Any, None]
    ]

NEXT_ARRIVAL: Final = ("httpTrigger", TIMER, "eventGridTrigger", MCP_TOOL)
"""Triggers whose host delivers nothing again, or does not say so: each invocation is new."""
_TELL_AGAIN: Final = 60.0
"""Seconds between two log lines of a process about invocations that leave, at least."""


class Attempt(Protocol):
    """Acquires on the lock thread, within so many seconds (None: without end)."""

    def __call__(self, registry: Registry, within: float | None, by: float = math.inf) -> Coroutine[Any, Any, Hold]:
        """``by``: the time before which a single attempt (``within=0``) has its answer or its error."""
        ...


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

    ``name_holder`` puts the holder into an error: of the lock, or of the seat that was taken.

    Raises:
        LockNotAcquired: the wait has ended without the lock.
        StorageError: the storage did not answer as it should.
    """
    invocation = current()

    level = logging.DEBUG

    async def ask(registry: Registry) -> Hold | None:
        nonlocal level
        hold = await limit.within(registry, timeout, invocation, arrival.acquire, SHORTER)
        if hold is None and registry.tells.lets(_TELL_AGAIN):
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
        await name_holder(call, contended, locks, timeout, "wait", arrival.taken_seat)
        raise contended
    finally:
        del contended  # of its traceback


class Arrival:
    """An invocation on its way to the lock, on the lock thread.

    ``addresses``: the names of the lock, the invocation's own name first. Each name has a seat.
    """

    def __init__(self, addresses: tuple[Address, ...], owner: str, acquire: Attempt, *, again: bool) -> None:
        self._address = addresses[0]
        self._addresses = in_order(addresses)
        self._owner = owner
        self._acquire = acquire
        self._again = again
        self._taken: list[Seat] = []
        self._span, self._came, self._heard = "", 0.0, -math.inf
        self._answered = 0.0
        self._refused: LockNotAcquired | None = None
        self._trouble: StorageError | None = None
        self._held, self._held_seat = "", ""
        self._seat = seat_name(self._addresses[0].name) if again else ""
        """The name of the seat that was asked for last."""

    async def acquire(self, registry: Registry, within: float | None) -> Hold | None:
        """Return the hold; None: another waits. A repeated delivery takes the seats first, and does not leave.

        Trouble is never a refusal: the arrival asks again, as a waiter does. The seats are given back beside the body.
        """
        self._span = "" if within is None else format_timespan(within)
        try:
            return await self._arrive(registry, within)
        finally:
            self._leave_seats(registry)

    def _leave_seats(self, registry: Registry) -> None:
        while self._taken:
            registry.accompany(self._taken.pop().leave())

    async def _arrive(self, registry: Registry, within: float | None) -> Hold | None:
        loop, timing = asyncio.get_running_loop(), self._address.timing
        self._came = came = self._answered = loop.time()
        ends = math.inf if within is None else came + within
        pause, slept = timing.poll_min, 0.0
        while True:
            seats = [registry.seat(address, self._owner) for address in self._addresses]
            if not self._again and all(seat.lets_leave(came) for seat in seats):
                return None
            answer: Hold | bool | None = None
            asked = next(seat for seat in seats if seat not in self._taken)
            if asked.asks[self._again].lets(0.9 * slept):
                sent = loop.time()
                try:
                    answer = await self._ask(registry, ends)
                except TimeoutError:
                    raise self._in_vain(seats) from None
                except StorageUnavailable as error:
                    if not self._outweighed(error, loop.time() - sent):
                        self._note(loop.time(), trouble=error)
                    if loop.time() - self._answered >= PATIENCE:
                        raise
            if answer is True:
                return await self._seated(registry, ends)
            if answer is not None:
                return None if answer is False else answer
            if (now := loop.time()) >= ends:
                raise self._in_vain(seats)
            slept = min(ends - now, pause * registry.rng.uniform(0.5, 1.0))
            await registry.sleep(slept)
            self._hear(seats)  # now: an idle seat may be forgotten, and what was told of it
            pause = min(2 * pause, timing.poll_max)

    def _outweighed(self, error: StorageUnavailable, took: float) -> bool:
        """Tell whether an attempt without an answer yet proves less than what is known: its end was that of the wait.

        A lock that was granted meanwhile has no holder any more. So the refusal of another lock proves nothing for
        long.
        """
        if error.reason != str(SILENCE) or (self._refused is None and self._trouble is None):
            return False
        return took < LAST_LOOK or (self._refused is not None and self._refused.lock == error.lock)

    async def _ask(self, registry: Registry, ends: float) -> Hold | bool | None:
        """Ask for the lock, then for the seats. See ``_take`` for the answers without a hold."""
        if not self._again:
            try:
                return await self._acquire(registry, 0, ends)
            except LockNotAcquired as error:
                self._note(asyncio.get_running_loop().time(), refused=error)
        try:
            async with asyncio.timeout_at(None if ends == math.inf else ends):
                return await self._take(registry)
        except StorageUnavailable:
            self._again = True  # the word of this invocation may stand on the seat, or come late
            raise

    async def _take(self, registry: Registry) -> bool | None:
        """Ask for the seats in order, each once. The answers are those of ``Seat.take``, for all seats together.

        One seat is enough for a first delivery. A repeated one needs all, and waits for each with those before it.
        """
        for address in self._addresses:
            # Known now: an idle seat may have been forgotten, and may be another object.
            seat = registry.seat(address, self._owner)
            if seat in self._taken:
                continue
            self._seat = seat.name
            if answer := await seat.take(self._owner, again=self._again):
                self._taken.append(seat)
            elif answer is None:
                self._hear([seat])
                return None if self._again or not self._taken else True
        return bool(self._taken)

    async def _seated(self, registry: Registry, ends: float) -> Hold:
        """Wait for the lock on the seats, and say on each that the body begins; all by two last looks after the end.

        A seat that was got late has a last look: neither a grant nor a holder must be told as silence.
        """
        loop = asyncio.get_running_loop()
        ends = max(ends, loop.time() + LAST_LOOK)
        last = ends + LAST_LOOK
        try:
            hold = await self._acquire(registry, None if ends == math.inf else ends - loop.time())
        except LockNotAcquired as error:
            self._note(loop.time(), refused=error)
            if error.reason == ENDLESS:
                raise
            raise self._in_vain() from None
        with self._taken[0].entering():
            try:
                await asyncio.gather(*(seat.begin(last - loop.time()) for seat in self._taken))
            except BaseException:  # silence, a cancellation, the closing of the process
                self._leave_seats(registry)
                registry.dropping(hold)
                raise
        return hold

    def _note(
        self,
        at: float,
        *,
        held: str = "",
        seat: str = "",
        refused: LockNotAcquired | None = None,
        trouble: StorageError | None = None,
    ) -> None:
        """Note the last answer that told of the wait: the error of the wait, if no other follows."""
        self._heard, self._held, self._held_seat = at, held, seat
        self._refused = None if refused is None else refused.with_traceback(None)
        self._trouble = None if trouble is None else trouble.with_traceback(None)
        if trouble is None:
            self._answered = at

    def _hear(self, seats: Iterable[Seat]) -> None:
        """Note the last answer of a seat, whichever caller of the process got it.

        A refusal of the lock tells more than a holder of the seat, and less than trouble.
        """
        for seat in seats:
            if seat in self._taken or seat.known < self._came or seat.known <= self._heard:
                continue
            if isinstance(seat.told, StorageError):
                self._note(seat.known, trouble=seat.told.another(self._owner))
            elif self._again or self._refused is None:
                self._note(seat.known, held=seat.told, seat=seat.name)

    @property
    def taken_seat(self) -> Address | None:
        """The blob of the seat that the last answer told to be taken; None: the last answer was another."""
        seats = (replace(address, name=seat_name(address.name)) for address in self._addresses)
        return next((seat for seat in seats if seat.name == self._held_seat), None)

    def _in_vain(self, seats: Iterable[Seat] = ()) -> SingletonError:
        """Return the error of the whole wait: the last answer that told of it, or what was asked in vain."""
        self._hear(seats)
        name, refused = self._address.name, self._refused
        if self._trouble is not None:
            return self._trouble
        if refused is None and not self._held:
            text = f"seat {self._seat!r}: the storage gave no full answer within {self._span}"
            return StorageUnavailable(text, lock=self._seat, owner=self._owner)
        why, reason, holder = self._held, None, None
        if refused is not None:
            name, why = refused.lock or name, refused.message.rpartition(": ")[2]
            reason, holder = refused.reason, refused.holder
        text = f"lock {name!r} was not acquired within {self._span}: {why}"
        return LockNotAcquired(text, lock=name, owner=self._owner, reason=reason, holder=holder)

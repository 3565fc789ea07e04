"""The line of waiters of this process for one lock or semaphore: first come, first served.

* **One task asks for the line.** The first waiter starts the task, which asks until the line is empty.
* **Single attempts.** A caller with ``timeout=0`` gets the known answer. If nothing is known yet, the caller waits in
  line for the next answer, ten seconds at most; at a semaphore for the answer of every slot, however long that takes
  while the storage answers. A message must not be skipped for lack of an answer (B12).
* **Last look.** Shortly before its time-out the first waiter asks once more.
* **Contention needs the service's word.** It is reported only if the service said so during the wait (for a semaphore
  a single taken slot is enough). Silence is reported as a failure of the storage, after a minute at the latest.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from singleton.base.caller import serving
from singleton.base.errors import LockNotAcquired, SingletonError, as_told
from singleton.base.invocation import current
from singleton.base.timespan import format_timespan
from singleton.locking.acquisition import storage_error
from singleton.locking.phase import Phase, PhaseMachine
from singleton.locking.section import closed_error
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton.base.caller import Caller
    from singleton.base.hold import Hold
    from singleton.base.holder_record import Holder
    from singleton.base.invocation import Invocation
    from singleton.locking.acquisition import Acquisition
    from singleton.locking.phase import Timing
    from singleton.locking.section import Section


@dataclass(slots=True, eq=False)
class Waiter:
    """A waiter in line. ``once``: a single attempt."""

    owner: str
    since: float
    deadline: float
    once: bool
    granted: asyncio.Future[None]
    invocation: Invocation | None = field(default_factory=current)
    """The invocation in whose name the wait is logged."""
    caller: Caller | None = field(default_factory=serving.get)
    hold: Section | None = None
    """The granted hold, until the caller takes it. No reference may stay: a dropped hold is collected (M-37)."""

    @property
    def within(self) -> str:
        """The time-out in WebJobs' words: ``within 0:00:05`` (W-65)."""
        return "at once" if self.once else f"within {format_timespan(self.deadline - self.since)}"

    def refuse(self, error: SingletonError) -> None:
        """End the wait with a copy of the error, unless the wait has ended."""
        if not self.granted.done():
            self.granted.set_exception(error.another(self.owner))


_TRY_ONCE: Final = 10.0
"""Seconds in which a single attempt (``timeout=0``) must get an answer from failing storage."""
LAST_LOOK: Final = 0.5
"""Seconds before its time-out at which the first waiter asks once more."""
HERE: Final = "in use here"
"""``reason`` of a ``LockNotAcquired`` whose holder is this process."""
ENDLESS: Final = "event loop"
"""``reason`` of a ``LockNotAcquired`` whose wait would block the event loop of the holder."""
_OURS: Final = "it is in use by this process"
OR_OURS: Final = ", or a lease is left on it that this process could not release"
SILENCE: Final = StoreFailure(detail="no answer yet")


class Line:
    """The waiters of a lock or semaphore, and their answers. A line belongs to one event loop.

    Args:
        kind: ``"lock"`` or ``"semaphore"``, for errors.
        taken: words of an error for a holder in another process.
        holder: returns the known holder; a read before the given time counts only if it is recent.
        acquisition: that of the lock, which knows of a lease that this process could not release.
        every_slot: a single attempt waits for the answer of every slot, unless the storage fails.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        *,
        taken: str,
        timing: Timing,
        holder: Callable[[float], Holder | None] = lambda _: None,
        acquisition: Acquisition | None = None,
        every_slot: bool = False,
    ) -> None:
        self.phases = PhaseMachine(f"{kind} {name}", timing)
        self.closed = False
        self._kind = kind
        self._name = name
        self._taken = taken
        self._holder = holder
        self._acquisition = acquisition
        self._every_slot = every_slot
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()
        self._waking: asyncio.Future[bool] | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._waiters)

    async def wait(self, timeout: float | None, owner: str, serve: Callable[[], None], by: float = math.inf) -> Hold:
        """Stand in line until a hold is granted; ``serve`` starts the server if needed. See ``Lock.acquire``."""
        if self.closed:
            raise closed_error(self._kind, self._name, owner)
        if timeout == 0 and (self.phases.used_here or (self.first() is not None and self.phases.in_use)):
            raise self._not_acquired(self._taken if self.phases.phase is Phase.TAKEN else _OURS, owner=owner)
        loop = self.phases.loop
        now = loop.time()
        limit = math.inf if timeout is None else timeout or min(_TRY_ONCE, by - now)
        waiter = Waiter(owner, now, now + limit, timeout == 0, loop.create_future())
        alarm = None if limit == math.inf else loop.call_at(waiter.deadline, self._time_is_up, waiter)
        self._waiters[waiter] = None
        serve()
        try:
            await waiter.granted
            hold, waiter.hold = waiter.hold, None
            assert hold is not None
            return hold
        except asyncio.CancelledError:
            if waiter.hold is not None:
                waiter.hold.record.end()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
            self._waiters.pop(waiter, None)
            if self._waking is not None:
                self._wake()
            del waiter  # the error's traceback has this frame: a circle of references otherwise

    def first(self) -> Waiter | None:
        """Return the first waiter, or None. Ended waits are removed."""
        while (first := next(iter(self._waiters), None)) is not None and first.granted.done():
            del self._waiters[first]
        return first

    def grant(self, waiter: Waiter, hold: Section) -> None:
        """End the wait with a hold."""
        del self._waiters[waiter]
        hold.waited = self.phases.loop.time() - waiter.since
        waiter.hold = hold
        waiter.granted.set_result(None)

    async def sleep_until(self, due: float) -> None:
        """Sleep until ``due``, the last look of the first waiter, or the end of the last wait."""
        loop = self.phases.loop
        while (first := self.first()) is not None and (now := loop.time()) < due:
            last_look = now if first.once else first.deadline - LAST_LOOK
            if now >= last_look and first.since > self.phases.asked:
                return  # no request was sent for the waiter yet, and later is too late
            self._waking = loop.create_future()
            when = last_look if now < last_look < due else due
            timer = loop.call_at(when, self._wake, True)  # noqa: FBT003 - timed out
            try:
                if await self._waking:
                    return
            finally:
                timer.cancel()

    async def wait_for(self, done: asyncio.Future[None]) -> None:
        """Wait for ``done``, or the end of the last wait."""
        done.add_done_callback(lambda _: self._wake())
        while self.first() is not None and not done.done():
            self._waking = self.phases.loop.create_future()
            await self._waking

    def _wake(self, timed_out: bool = False) -> None:  # noqa: FBT001, FBT002 - called by a timer
        if self._waking is not None and not self._waking.done():
            self._waking.set_result(timed_out)

    def judge(self, failure: StoreFailure) -> None:
        """Tell the waiters the meaning of a failed attempt."""
        match failure.meaning:
            case "held" | "lost":
                self.refused()
            case "denied" | "refused":
                self.refuse_all(storage_error(self._name, failure))
            case _:
                self.failed(storage_error(self._name, failure))

    def refused(self) -> None:
        """Note a holder elsewhere: the answer of single attempts."""
        self.phases.refuse()
        self.answer_single_attempts(self._taken)

    def failed(self, trouble: SingletonError) -> None:
        """Note an answer which is not usable; after too long a time of such answers the waits end."""
        if self.phases.fail(trouble):
            self.refuse_all(trouble)

    def answer_single_attempts(self, why: str = _OURS) -> None:
        """End single attempts with ``why``; as a rule, a holder of this process. The error is made only if needed."""
        for waiter in self._waiters:
            if waiter.once:
                self.end_single_attempts(self._not_acquired(why))
                return

    def end_single_attempts(self, error: SingletonError) -> None:
        """End single attempts with the error."""
        for waiter in tuple(self):
            if waiter.once:
                waiter.refuse(error)

    def refuse_all(self, error: SingletonError) -> None:
        """End the waits with the error."""
        for waiter in tuple(self):
            waiter.refuse(error)

    def close(self) -> None:
        """End the waits, and refuse further ones."""
        self.closed = True
        self.give_up()

    def give_up(self) -> None:
        """End the waits: the server has ended."""
        self.refuse_all(closed_error(self._kind, self._name))
        self._wake()

    def break_down(self, cause: BaseException) -> None:
        """End the waits with an unexpected error."""
        self.refuse_all(as_told(self._kind, cause, lock=self._name))

    def why_not(
        self, since: float, *, within: str = "at once", behind: bool = False, elsewhere: bool = False
    ) -> SingletonError:
        """Return the error of a wait: contention, or, without evidence of contention, storage without an answer.

        Args:
            since: begin of the wait; evidence must be later.
            within: the time-out in words.
            behind: another waiter of this process was first in line.
            elsewhere: a hold of this process is no contention.
        """
        phases = self.phases
        in_use = phases.was_in_use_since(since) or phases.used_here or (phases.in_use and behind)
        if elsewhere:
            in_use = phases.was_taken_since(since)
        if phases.trouble is not None or not in_use:
            return phases.trouble or storage_error(self._name, SILENCE, what=self._kind)
        others = phases.was_taken_since(since) or (behind and not phases.ours)
        return self._not_acquired(self._taken if others else _OURS, within=within, since=since)

    def _time_is_up(self, waiter: Waiter) -> None:
        if waiter.once and self._every_slot and self.phases.trouble is None:
            return
        waiter.refuse(self.why_not(waiter.since, within=waiter.within, behind=self.first() is not waiter))

    def _not_acquired(
        self, why: str, *, within: str = "at once", owner: str | None = None, since: float = math.inf
    ) -> LockNotAcquired:
        known = self._acquisition if why == self._taken else None
        perhaps = OR_OURS * (known is not None and self.phases.loop.time() < known.lingers)
        text = f"{self._kind} {self._name!r} was not acquired {within}: {why}{perhaps}"
        here = HERE if why == _OURS else None
        return LockNotAcquired(text, lock=self._name, owner=owner, reason=here, holder=self._holder(since))

"""The line of waiters of this process for one lock or semaphore: first come, first served.

* **One task asks for all.** It is started for the first in line, and asks as long as somebody waits.
* **Single attempts.** A caller that asks once (``timeout=0``) is told what is known. If nothing is known yet, it waits
  in line for the next answer: for a lock ten seconds at most, for a semaphore until all its slots have answered. A
  message must not be skipped only because nobody knows (B12).
* **Last look.** Shortly before its time-out the first in line asks once more.
* **Patience.** A minute of storage without a usable answer ends all waits.
* **Contention needs the service's word.** It is reported only if the service said so during the wait (for a semaphore
  one taken slot is enough). Silence is reported as a failure of the storage.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from singleton.base.errors import LockNotAcquired, SingletonError, as_told
from singleton.base.invocation import current
from singleton.base.timespan import format_timespan
from singleton.locking.acquisition import storage_error
from singleton.locking.phase import Phase, PhaseMachine
from singleton.locking.section import closed_error
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton.base.errors import SingletonError
    from singleton.base.hold import Hold
    from singleton.base.holder import Holder
    from singleton.base.invocation import Invocation
    from singleton.locking.phase import Timing
    from singleton.locking.section import Section


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody in line. ``once``: it asks once, instead of waiting."""

    owner: str
    since: float
    deadline: float
    once: bool
    granted: asyncio.Future[None]
    invocation: Invocation | None = field(default_factory=current)
    """In whose name what happens to it is logged."""
    hold: Section | None = None
    """What was granted, until the caller takes it: from then on nobody here may keep it alive (M-37)."""

    @property
    def within(self) -> str:
        """Its time-out, as WebJobs writes it: ``within 0:00:05`` (W-65)."""
        return "at once" if self.once else f"within {format_timespan(self.deadline - self.since)}"

    def give(self, hold: Section) -> None:
        """End the wait with this hold."""
        hold.waited = asyncio.get_running_loop().time() - self.since
        self.hold = hold
        self.granted.set_result(None)

    def take(self) -> Section:
        """Return the hold that was granted, once."""
        hold, self.hold = self.hold, None
        assert hold is not None
        return hold

    def refuse(self, error: SingletonError) -> None:
        """End the wait with an error of its own, unless it has ended."""
        if not self.granted.done():
            self.granted.set_exception(error.another(self.owner))


_TRY_ONCE: Final = 10.0
"""Seconds for a single attempt (``timeout=0``) to get an answer from storage that fails."""
_LAST_LOOK: Final = 0.5
"""Seconds before its time-out at which the first in line asks once more."""
HERE: Final = "in use here"
"""The reason of an error that tells of no other process."""
_OURS: Final = "it is in use by this process"
_SILENCE: Final = StoreFailure(detail="no answer yet")


class Line:
    """Those who wait, and what they are told. It belongs to the loop on which it is used.

    Args:
        kind: ``"lock"`` or ``"semaphore"``, for errors.
        name: its name.
        taken: says that others have it.
        timing: of the lock.
        holder: returns who has it, as far as that is known; what was read before the time given must be recent.
        try_once: seconds for which a single attempt stands in line, at most; infinite: until it is told.
    """

    __slots__ = (
        "_holder",
        "_kind",
        "_name",
        "_taken",
        "_try_once",
        "_waiters",
        "_waking",
        "closed",
        "state",
    )

    def __init__(
        self,
        kind: str,
        name: str,
        *,
        taken: str,
        timing: Timing,
        holder: Callable[[float], Holder | None] = lambda _: None,
        try_once: float = _TRY_ONCE,
    ) -> None:
        self.state = PhaseMachine(f"{kind} {name}", timing)
        self.closed = False
        self._kind = kind
        self._name = name
        self._taken = taken
        self._holder = holder
        self._try_once = try_once
        self._waiters: OrderedDict[Waiter, None] = OrderedDict()
        self._waking: asyncio.Future[bool] | None = None

    def __len__(self) -> int:
        return len(self._waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self._waiters)

    # --- for the caller -----------------------------------------------------------------------------------------------

    async def wait(self, timeout: float | None, owner: str, serve: Callable[[], None]) -> Hold:
        """Stand in line until a hold is granted; ``serve`` sees to it that somebody asks. See ``Lock.acquire``."""
        if self.closed:
            raise closed_error(self._kind, self._name, owner)
        if timeout == 0 and (self.state.used_here or (self.first() is not None and self.state.in_use)):
            raise self._not_acquired(self._taken if self.state.phase is Phase.TAKEN else _OURS, owner=owner)
        loop = self.state.loop
        now = loop.time()
        limit = math.inf if timeout is None else timeout or self._try_once
        waiter = Waiter(owner, now, now + limit, timeout == 0, loop.create_future())
        alarm = None if limit == math.inf else loop.call_at(waiter.deadline, self._time_is_up, waiter)
        self._waiters[waiter] = None
        serve()
        try:
            await waiter.granted
            return waiter.take()
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
            del waiter  # of the error's traceback, which would be kept until a collection

    # --- for who serves -----------------------------------------------------------------------------------------------

    def first(self) -> Waiter | None:
        """Return the first in line who still waits."""
        while (first := next(iter(self._waiters), None)) is not None and first.granted.done():
            del self._waiters[first]
        return first

    def grant(self, waiter: Waiter, hold: Section) -> None:
        """End this wait with a hold."""
        del self._waiters[waiter]
        waiter.give(hold)

    async def sleep_until(self, due: float) -> None:
        """Wait, but not past the last look of the first in line, and no longer than anybody waits."""
        loop = self.state.loop
        while (first := self.first()) is not None and (now := loop.time()) < due:
            last_look = now if first.once else first.deadline - _LAST_LOOK
            if now >= last_look and first.since > self.state.asked:
                return  # nobody has asked for it yet, and later is too late
            self._waking = loop.create_future()
            when = last_look if now < last_look < due else due
            timer = loop.call_at(when, self._wake, True)  # noqa: FBT003 - nobody left
            try:
                if await self._waking:
                    return
            finally:
                timer.cancel()

    async def wait_for(self, done: asyncio.Future[None]) -> None:
        """Wait for this, but no longer than anybody waits."""
        done.add_done_callback(lambda _: self._wake())
        while self.first() is not None and not done.done():
            self._waking = self.state.loop.create_future()
            await self._waking

    def _wake(self, timed_out: bool = False) -> None:  # noqa: FBT001, FBT002 - called by a timer
        if self._waking is not None and not self._waking.done():
            self._waking.set_result(timed_out)

    # --- what those who wait are told ---------------------------------------------------------------------------------

    def judge(self, failure: StoreFailure) -> None:
        """Tell those who wait what an attempt that failed means for them."""
        match failure.meaning:
            case "held" | "lost":
                self.refused()
            case "denied" | "refused":
                self.refuse_all(storage_error(self._name, failure))
            case _:
                self.failed(storage_error(self._name, failure))

    def refused(self) -> None:
        """Somebody else has it: who asked once has the answer."""
        self.state.refuse()
        self._tell_single_attempts(self._taken)

    def entered(self) -> None:
        """Somebody of this process has it: who asked once beside him has the answer."""
        self._tell_single_attempts(_OURS)

    def failed(self, trouble: SingletonError) -> None:
        """The storage gives no usable answer; when that lasts too long, all waits end with it."""
        if self.state.fail(trouble):
            self.refuse_all(trouble)

    def _tell_single_attempts(self, why: str) -> None:
        """Say why to those who asked once: as a rule there are none, and no error is made."""
        for waiter in self:
            if waiter.once:
                self.end_single_attempts(self._not_acquired(why))
                return

    def end_single_attempts(self, error: SingletonError) -> None:
        """End the waits of those who asked once."""
        for waiter in tuple(self):
            if waiter.once:
                waiter.refuse(error)

    def refuse_all(self, error: SingletonError) -> None:
        """End all waits."""
        for waiter in tuple(self):
            waiter.refuse(error)

    def close(self) -> None:
        """End all waits, and let nobody wait any more."""
        self.closed = True
        self.give_up()

    def give_up(self) -> None:
        """End all waits: nobody asks for them any more."""
        self.refuse_all(closed_error(self._kind, self._name))
        self._wake()

    def break_down(self, cause: BaseException) -> None:
        """End all waits with an error that nobody expected."""
        self.refuse_all(as_told(self._kind, cause, lock=self._name))

    def why_not(
        self, since: float, *, within: str = "at once", behind: bool = False, elsewhere: bool = False
    ) -> SingletonError:
        """Say what is known: that it was in use, or, without evidence for that, that the storage did not answer.

        Args:
            since: when the wait began, in which the evidence must lie.
            within: the time-out in words.
            behind: somebody else of this process was first in line.
            elsewhere: only what the service said of others counts.
        """
        state = self.state
        in_use = state.was_in_use_since(since) or state.used_here or (state.in_use and behind)
        if elsewhere:
            in_use = state.was_taken_since(since)
        if state.trouble is not None or not in_use:
            return state.trouble or storage_error(self._name, _SILENCE, what=self._kind)
        others = state.was_taken_since(since) or (behind and not state.ours)
        return self._not_acquired(self._taken if others else _OURS, within=within, since=since)

    def _time_is_up(self, waiter: Waiter) -> None:
        waiter.refuse(self.why_not(waiter.since, within=waiter.within, behind=self.first() is not waiter))

    def _not_acquired(
        self, why: str, *, within: str = "at once", owner: str | None = None, since: float = math.inf
    ) -> LockNotAcquired:
        text = f"{self._kind} {self._name!r} was not acquired {within}: {why}"
        here = HERE if why == _OURS else None
        return LockNotAcquired(text, lock=self._name, owner=owner, reason=here, holder=self._holder(since))

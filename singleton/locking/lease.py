"""One lease that this process has: kept alive by renewals, and declared lost in time.

The promise: at no instant does ``Lease`` claim a lease that the service has already given away.

* The deadline is counted from before the *sending* of the last request that succeeded, less a margin of a fifteenth of
  the period for clocks that drift (B4). The service acts after the sending and before the reply, so the sending is the
  safe moment.
* The deadline is kept by a timer, one hop on the loop (``wheel.py``): a renewal that hangs can't hold it up (B5).
* A renewal that is due waits for its turn where many are (``turns.py``). It counts from when it is sent, as each does.
* A lease that is touched, too (``touch.py``), has the earlier of two deadlines: no touch stands for a renewal.
* A definitive answer (by error code) ends the lease at once. After anything else the request is sent again, faster and
  faster, until the deadline (B1, B2).
* Lost and stopped are final. Nothing revives the lease, whatever reply still arrives (B22).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import math
from typing import TYPE_CHECKING

from singleton.base.invocation import current, speaking_of
from singleton.base.invocation import log as _log
from singleton.base.tasks import being_cancelled
from singleton.locking.turns import Duty, Turns
from singleton.stores.protocol import LeaseStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.base.invocation import Invocation
    from singleton.base.kinds import LossReason
    from singleton.locking.turns import Obliged


MARGIN = 1 / 15
"""Part of the period by which we stop before the service does; also the clock drift that is tolerated."""

_FASTEST_RETRY = 1.0
_SHORTEST_CALL = 0.5
_LONGEST_CALL = 5.0


class Lease:
    """A lease that was acquired by a request sent at ``sent`` (the loop's time, seconds).

    Create it on the loop that will renew it; call ``stop`` before giving the lease back.
    """

    __slots__ = (
        "_after",
        "_deadline",
        "_granted",
        "_loop",
        "_pause",
        "_period",
        "_renewal",
        "_renewals",
        "_sent",
        "_stopped",
        "_store",
        "_touch_ends",
        "_touched",
        "_touches",
        "_turns",
        "_watchers",
        "_written",
        "began",
        "cause",
        "context",
        "id",
        "lost",
        "name",
        "owner",
        "ticket",
        "whose",
    )

    def __init__(
        self,
        store: LeaseStore,
        name: str,
        lease_id: str,
        *,
        sent: float,
        period: float,
        renewal: float | None = None,
        turns: Turns | None = None,
    ) -> None:
        """``turns``: of all leases of this process on the store, with the wheel that keeps their deadlines."""
        self.name = name
        self.id = lease_id
        self.lost: LossReason | None = None
        self.cause: StoreFailure | None = None
        self.whose: Invocation | None = current()
        self.owner = ""
        self.began = sent
        self.ticket = 0
        self._store = store
        self._sent = sent
        self._period = period
        self._renewal = self._pause = period / 2 if renewal is None else renewal
        self._stopped = False
        self._watchers: tuple[Callable[[LossReason], None], ...] = ()
        self._after: Callable[[str, str, float], Awaitable[None]] | None = None
        self._written: float | None = None
        self._loop = asyncio.get_running_loop()
        self.context = contextvars.copy_context()
        self._touched = -math.inf
        self._touch_ends = math.inf
        self._turns = turns or Turns()
        self._renewals = Duty(self._turns, self, sent + self._renewal)
        self._touches: Duty | None = None
        self._extend(sent)
        self.arm()

    @property
    def deadline(self) -> float:
        """The loop's time at which this lease counts as lost unless renewed, and touched where it has to be."""
        return min(self._deadline, self._touch_ends)

    @property
    def lapses(self) -> float:
        """The loop's time until which the service may keep the lease, if the last request that was sent arrived."""
        return self._sent + self._period

    def overdue(self) -> bool:
        """Tell from any thread whether the deadline has passed, even if the loop had no chance to notice."""
        now = self._loop.time()
        return now >= self._deadline or now >= self._touch_ends

    def alive(self) -> bool:
        """Tell whether the lease is certainly still this process's."""
        return self.lost is None and not self.overdue()

    def watch(self, watcher: Callable[[LossReason], None]) -> None:
        """Call ``watcher(reason)`` once if the lease is lost; at once if it is lost already."""
        if self.lost is None:
            self._watchers = (*self._watchers, watcher)
        else:
            watcher(self.lost)

    def serve(self, owner: str) -> None:
        """Note that a section begins, and whose it is."""
        self.owner, self.began = owner, self._loop.time()

    @property
    def served(self) -> float:
        """For how many seconds the section has lasted."""
        return self._loop.time() - self.began

    def when_renewed(self, write: Callable[[str, str, float], Awaitable[None]]) -> None:
        """Make one more request after a renewal, once for a section that lasts until then, until it is answered.

        It is told the lease's id, whose section it is, and for how many seconds that has lasted.
        """
        self._after = write

    def touched(self, sent: float, good: float) -> None:
        """A touch that was sent at ``sent`` has succeeded: without another, the hold is over ``good`` seconds later."""
        if self.overdue():
            self.lose("expired")
        elif self.lost is None and not self._stopped:
            self._touched, self._touch_ends = sent, sent + good
            self.arm()

    def accompany(self, touches: Obliged, due: float) -> None:
        """Have it touched beside the renewals when that is due, and when it is again; ``stop`` joins it."""
        self._touches = Duty(self._turns, touches, due)
        self.arm()

    def lose(self, reason: LossReason, cause: StoreFailure | None = None, *, quiet: bool = False) -> None:
        """Declare the lease lost. Only the first call, and none after ``stop``, has an effect.

        ``quiet``: nobody works under it any more, so that it is lost is no news.
        """
        if self.lost is not None or self._stopped:
            return
        self.lost = reason
        self.cause = cause or self.cause
        self._turns.wheel.forget(self)
        for watcher in self._watchers:
            watcher(reason)
        with speaking_of(self.whose):
            _log.log(
                logging.DEBUG if quiet else logging.WARNING,
                *("lock %s: hold lost (%s)%s", self.name, reason, self._circumstances()),
                extra=self._fields(),
            )

    def _fields(self) -> dict[str, object]:
        """Return what a log line about this lease has as fields."""
        whose = self.whose
        told = {} if whose is None else {"owner": whose.id, "function": whose.function or None}
        return {"lock": self.name, "reason": self.lost, "cause": self.cause and str(self.cause), **told}

    def _circumstances(self) -> str:
        """Say what is known of a loss that was not our own doing (W-73)."""
        if self.lost == "closed":
            return ""
        if self.lost == "too long":
            return f": it was held for {self.served:.1f} s, and its max_hold is over, so it is not renewed any more"
        ago = self._loop.time() - self._granted
        granted = f"; its lease of {self._period:g} s was last granted {ago:.1f} s ago"
        if self._touch_ends < math.inf:
            granted += f", and it was last touched {self._loop.time() - self._touched:.1f} s ago"
        return f": {self.cause}{granted}" if self.cause else granted

    async def stop(self) -> None:
        """End renewals and touches, and wait until none is under way, so that none can follow the release (B22)."""
        self._stopped = True
        self._turns.wheel.forget(self)
        for duty in self._duties():
            duty.end()
        for duty in self._duties():
            await duty.join()

    def _duties(self) -> tuple[Duty, ...]:
        return (self._renewals,) if self._touches is None else (self._touches, self._renewals)

    def _extend(self, sent: float) -> None:
        """Move the deadline: a request sent at ``sent`` was granted. It is looked at anew when the old one comes."""
        self._granted = sent
        self._deadline = sent + self._period * (1 - MARGIN)

    @property
    def task_name(self) -> str:
        """The name of a renewal's task."""
        return f"renew {self.name}"

    def arm(self) -> None:
        """Be looked at when something is due."""
        if self.lost is None and not self._stopped:
            self._turns.wheel.look_at(self, self._next())

    def _next(self) -> float:
        """Return when something is due: as a rule the next renewal, and never later than the deadline."""
        when = min(self._deadline, self._renewals.due, self._renewals.ends)
        return when if self._touches is None else min(when, self._touch_ends, self._touches.due)

    def look(self, now: float) -> float:
        """Be lost at the deadline; ask for the turn of what is due; say when to look again. See ``Wheel``."""
        if now >= self._deadline or now >= self._touch_ends:
            self.context.copy().run(self.lose, "expired")
            return math.inf
        if (touches := self._touches) is not None and touches.due <= now:
            self._turns.ask(touches, self.deadline, now)
        if (renewals := self._renewals).due <= now:
            self._turns.ask(renewals, self._deadline, now)
        elif renewals.ends <= now:
            renewals.cut_off()
        return self._next()

    async def ask(self) -> float:
        """Renew at half the period (W-69); after a failure, sooner and sooner (W-71, and never later than that)."""
        sent = self._loop.time()
        if self.lost is not None or sent >= self._deadline or sent >= self._touch_ends:
            return math.inf
        before, self._sent = self._sent, sent
        try:
            replied = await self._store.renew(self.name, self.id)
        except (Exception, asyncio.CancelledError) as error:
            late = self._renewals.answered() and isinstance(error, asyncio.CancelledError)
            if being_cancelled():
                raise
            failure = as_failure(TimeoutError() if late else error)
            if failure.meaning != "transient":
                self._sent = before  # it was not carried out
            if failure.loss is not None:
                self.lose(failure.loss, failure)
            self.note(failure)
            self._pause = self._sooner(self._pause, failure, sent)
        else:
            self._renewals.answered()
            self._renewed(sent, replied)
            self._pause = self._renewal
            if self._after is not None and self._written != self.began and self.alive():
                await self._write(self._after)
        return sent + self._pause

    async def _write(self, write: Callable[[str, str, float], Awaitable[None]]) -> None:
        """Make the other request. It must not hold up the next renewal, nor decide about the lease."""
        began = self.began
        try:
            with speaking_of(self.whose):
                async with asyncio.timeout(min(_LONGEST_CALL, self._renewal / 2)):
                    await write(self.id, self.owner, self.served)
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled():
                raise
            failure = as_failure(error)
            _log.debug("lock %s: its holder was not written (%s)", self.name, failure)
            if failure.meaning == "transient":
                return
        self._written = began

    def _renewed(self, sent: float, replied: str) -> None:
        if replied != self.id:
            self.lose("stolen", StoreFailure(200, None, "the renewal was answered for another lease id"))
        elif self.overdue():
            self.lose("expired", self.cause)
        elif self.lost is None:
            self.cause = None
            self._extend(sent)

    def end_of(self, trouble: StoreFailure | None) -> None:
        """Trouble that was noted is over."""
        if self.lost is None and self.cause is trouble:
            self.cause = None

    def note(self, failure: StoreFailure, what: str = "renewal") -> None:
        """Say of what failed that it is tried again; if the lease is lost in the end, it was because of that."""
        if self.lost is not None:
            return
        level = logging.DEBUG if self.cause else logging.WARNING
        left = self.deadline - self._loop.time()
        with speaking_of(self.whose):
            _log.log(
                *(level, "lock %s: %s failed (%s), trying again; %.1f s left", self.name, what, failure, left),
                extra={**self._fields(), "cause": str(failure)},
            )
        self.cause = failure

    def limit(self, sent: float) -> float:
        """Leave time for another try: no call takes more than half of what is left, or five seconds."""
        left = self._deadline - sent
        return min(self._deadline, sent + min(_LONGEST_CALL, max(_SHORTEST_CALL, left / 2)))

    def _sooner(self, delay: float, failure: StoreFailure, sent: float) -> float:
        """Half the last delay or a quarter of what is left, whichever is less, but not under a second.

        Where the service names a time (Retry-After) it is kept, unless that would leave no time for a last try.
        """
        left = self._deadline - sent
        delay = max(_FASTEST_RETRY, min(delay / 2, left / 4))
        last_try = left - _SHORTEST_CALL
        return min(max(delay, failure.retry_after or 0.0), max(last_try, _FASTEST_RETRY))


def as_failure(error: BaseException) -> StoreFailure:
    """Read whatever a store raised as a failure: what it should not have raised says nothing about the lease."""
    if isinstance(error, StoreFailure):
        return error
    return StoreFailure(detail="no answer in time" if isinstance(error, TimeoutError) else repr(error))

"""A lease of this process: kept by renewals, and declared lost before the service gives the lease to another host.

The promise: at no instant does ``Lease`` claim a lease that the service has already given away.

* The deadline is counted from before the *sending* of the last request that succeeded, less a margin of a fifteenth of
  the period for clocks that drift (B4). The service acts after the sending and before the reply, so the sending is the
  safe moment. Touches (``failover.py``) have a second deadline, and the earlier deadline counts.
* A timer keeps the deadline, one hop on the loop (``renewals.py``). A renewal that hangs can't delay the loss (B5).
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

from singleton.base.errors import text_of
from singleton.base.invocation import SpeakingOf, current
from singleton.base.invocation import log as _log
from singleton.base.tasks import being_cancelled
from singleton.locking.renewals import Renewable, Renewals
from singleton.stores.protocol import LeaseStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from singleton.base.invocation import Invocation
    from singleton.base.kinds import LossReason

MARGIN = 1 / 15
"""Part of the period by which the deadline is earlier than the service's; also the clock drift that is tolerated."""

_FASTEST_RETRY = 1.0
_SHORTEST_CALL = 0.5
_LONGEST_CALL = 5.0


class Lease(Renewable):
    """A lease that was acquired by a request sent at ``sent`` (the loop's time, seconds).

    Create the object on the loop that renews the lease. Call ``stop`` before the release.

    Attributes:
        whose: the invocation in whose name the fate of the lease is logged.
        owner, began: of the present section.
        loop: of the lock. Its clock may be read on any thread.
        deadline: when the lease counts as lost, by the loop's clock, unless a renewal, or a touch, succeeds before.
        when_lost: called as ``when_lost(reason)``, once, when the lease is lost.
        when_renewed: called as ``when_renewed(lease id, owner, seconds)`` after a renewal, until one call is answered,
            once for each section. ``seconds`` is how long the section has lasted. So a section that ends before the
            first renewal is not written.
    """

    def __init__(
        self,
        store: LeaseStore,
        name: str,
        lease_id: str,
        *,
        sent: float,
        period: float,
        renewal: float | None = None,
        renewals: Renewals | None = None,
    ) -> None:
        """``renewal``: seconds between two renewals; ``renewals``: of all leases of this process on the store."""
        self._interval = self._pause = period / 2 if renewal is None else renewal
        super().__init__(sent + self._interval, contextvars.copy_context())
        self.name = name
        self.id = lease_id
        self.lost: LossReason | None = None
        self.cause: StoreFailure | None = None
        self.whose: Invocation | None = current()
        self.owner = ""
        self.began = sent
        self._store = store
        self._sent = sent
        self._period = period
        self._stopped = False
        self.when_lost: Callable[[LossReason], None] | None = None
        self.when_renewed: Callable[[str, str, float], Awaitable[None]] | None = None
        self._written: float | None = None
        self.loop = asyncio.get_running_loop()
        self._touched = -math.inf
        self._touch_ends = math.inf
        self._renewals = renewals or Renewals()
        self._touches: Renewable | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._extend(sent)
        self.set_timer()

    @property
    def lapses(self) -> float:
        """The loop's time until which the service may keep the lease, if the last request arrived."""
        return self._sent + self._period

    def overdue(self) -> bool:
        """Tell from any thread whether the deadline has passed, even if the loop had no chance to notice."""
        return self.loop.time() >= self.deadline

    def alive(self) -> bool:
        """Tell whether the lease is certainly still this process's."""
        return self.lost is None and self.loop.time() < self.deadline

    @property
    def served(self) -> float:
        """For how many seconds the section has lasted."""
        return self.loop.time() - self.began

    def touched(self, sent: float, good: float) -> None:
        """A touch that was sent at ``sent`` has succeeded: the hold is good for ``good`` seconds from then."""
        if self.overdue():
            self.lose("expired")
        elif self.lost is None and not self._stopped:
            self._touched, self._touch_ends = sent, sent + good
            self.deadline = min(self._deadline, self._touch_ends)
            self.set_timer()

    def add_touches(self, touches: Renewable) -> None:
        """Send the touches beside the renewals, until ``stop`` joins both."""
        self._touches = touches
        self.set_timer()

    def lose(self, reason: LossReason, cause: StoreFailure | None = None, *, quiet: bool = False) -> None:
        """Declare the lease lost. Only the first call, and none after ``stop``, has an effect.

        ``quiet``: no section runs under the lease, so the loss is logged for debugging only.
        """
        if self.lost is not None or self._stopped:
            return
        self.lost = reason
        self.cause = cause or self.cause
        self.set_timer()
        if self.when_lost is not None:
            self.when_lost(reason)
        with SpeakingOf(self.whose):
            _log.log(
                logging.DEBUG if quiet else logging.WARNING,
                *("lock %s: hold lost (%s)%s", self.name, reason, self._circumstances()),
                extra=self._fields(),
            )

    def _fields(self) -> dict[str, object]:
        whose = self.whose
        told = {} if whose is None else {"owner": whose.id, "function": whose.function or None}
        return {"lock": self.name, "reason": self.lost, "cause": self.cause and str(self.cause), **told}

    def _circumstances(self) -> str:
        """Say why the lease was lost, and when the service last granted the lease (W-73)."""
        if self.lost == "closed":
            return ""
        if self.lost == "too long":
            return f": it was held for {self.served:.1f} s, and its max_hold is over, so it is not renewed any more"
        ago = self.loop.time() - self._granted
        granted = f"; its lease of {self._period:g} s was last granted {ago:.1f} s ago"
        if self._touch_ends < math.inf:
            granted += f", and it was last touched {self.loop.time() - self._touched:.1f} s ago"
        return f": {self.cause}{granted}" if self.cause else granted

    async def stop(self) -> None:
        """End renewals and touches, and wait for a request under way, so that no request follows the release (B22)."""
        requests: tuple[Renewable, ...] = (self,) if self._touches is None else (self._touches, self)
        self._stopped = True
        self.set_timer()
        for each in requests:
            each.due, each.queued = math.inf, 0
        for each in requests:
            if each.task is not None:
                await self._renewals.join(each, each.task)

    def _extend(self, sent: float) -> None:
        """Move the deadline: a request sent at ``sent`` was granted."""
        self._granted = sent
        self._deadline = sent + self._period * (1 - MARGIN)
        self.deadline = min(self._deadline, self._touch_ends)

    @property
    def task_name(self) -> str:
        """The name of a renewal's task."""
        return f"renew {self.name}"

    def set_timer(self) -> None:
        """Set the timer for what is due next: a request, or the deadline; for nothing, if the lease has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.lost is None and not self._stopped:
            when = min(self.deadline, self.due)
            if self._touches is not None:
                when = min(when, self._touches.due)
            self._timer = self.loop.call_at(when, self._look, when, context=self.context)

    def _look(self, when: float) -> None:
        """Lose the lease at its deadline; queue the requests that are due."""
        self._timer = None
        now = max(self.loop.time(), when)  # asyncio's timers may come a hair too early
        if now >= self.deadline:
            self.lose("expired")
            return
        if self._touches is not None and self._touches.due <= now:
            self._renewals.ask(self._touches, self.deadline)
        if self.due <= now:
            self._renewals.ask(self, self._deadline)
        self.set_timer()

    async def renew(self) -> float:
        """Renew; the next is due after ``renewal`` seconds (W-69), after a failure sooner and sooner (within W-71)."""
        sent = self.loop.time()
        if self.lost is not None or sent >= self.deadline:
            return math.inf
        before, self._sent = self._sent, sent
        try:
            async with asyncio.timeout_at(self._limit(sent)):
                replied = await self._store.renew(self.name, self.id)
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled():
                raise
            failure = as_failure(error)
            if failure.meaning != "transient":
                self._sent = before  # the service refused the request
            if failure.loss is not None:
                self.lose(failure.loss, failure)
            self.note(failure)
            self._pause = self._retry_delay(self._pause, failure, sent)
        else:
            self._renewed(sent, replied)
            self._pause = self._interval
            if self.when_renewed is not None and self._written != self.began and self.alive():
                await self._write(self.when_renewed)
        return sent + self._pause

    async def _write(self, write: Callable[[str, str, float], Awaitable[None]]) -> None:
        """Write who has the lock. A failure neither delays the next renewal nor ends the lease."""
        began = self.began
        try:
            with SpeakingOf(self.whose):
                async with asyncio.timeout(min(_LONGEST_CALL, self._interval / 2)):
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

    def forget_failure(self, trouble: StoreFailure | None) -> None:
        """Forget a failure that was noted: the request has succeeded since."""
        if self.lost is None and self.cause is trouble:
            self.cause = None

    def note(self, failure: StoreFailure, what: str = "renewal") -> None:
        """Log a request that failed and is sent again. If the lease is lost later, this failure is the cause."""
        if self.lost is not None:
            return
        level = logging.DEBUG if self.cause else logging.WARNING
        left = self.deadline - self.loop.time()
        with SpeakingOf(self.whose):
            _log.log(
                *(level, "lock %s: %s failed (%s), trying again; %.1f s left", self.name, what, failure, left),
                extra={**self._fields(), "cause": str(failure)},
            )
        self.cause = failure

    def _limit(self, sent: float) -> float:
        """Return when a request ends at the latest: after half of the time left, from half a second to five seconds."""
        left = self._deadline - sent
        return min(self._deadline, sent + min(_LONGEST_CALL, max(_SHORTEST_CALL, left / 2)))

    def _retry_delay(self, delay: float, failure: StoreFailure, sent: float) -> float:
        """Return the delay before the next try: half the last delay, or a quarter of the time that is left if shorter.

        The delay is a second at least. A Retry-After of the service is obeyed, unless a last try would come too late.
        """
        left = self._deadline - sent
        delay = max(_FASTEST_RETRY, min(delay / 2, left / 4))
        last_try = left - _SHORTEST_CALL
        return min(max(delay, failure.retry_after or 0.0), max(last_try, _FASTEST_RETRY))


def as_failure(error: BaseException) -> StoreFailure:
    """Return an error of a store as a failure. An unexpected error says nothing about the lease."""
    if isinstance(error, StoreFailure):
        return error
    return StoreFailure(detail="no answer in time" if isinstance(error, TimeoutError) else text_of(error, repr))

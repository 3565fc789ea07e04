"""A lock of this process on a blob: polling, handing the lease to waiters, and the release.

The promises, whatever the network does:

* **Exclusive.** A section runs only under a lease which the service granted, and before the lease's deadline
  (``lease.py``). Sections of this process never overlap: not after a section has outlived its lease, and not between
  locks with different options on one blob (``BlobGuard``).
* **Safe to ask again.** A request without an answer is sent again with its lease id (``acquisition.py``; B7, B8).
* **One line, one poll.** Waiters stand in line (``line.py``) and one task, the server, polls for the line; at the end
  of a section the next waiter gets the lease without a request.
* **Other processes get their turn.** A process which has kept the lock for ``handoff_window`` seconds releases it and
  backs off for one polling interval, in which every waiter elsewhere polls once (``phase.py``).
* **Drain, then release.** The lease is released after the end of the section and of a renewal under way (B10, B22).
  The caller's cancellation can't stop the release; silent storage can delay it by five seconds at most.
* **Every wait ends**: by success, time-out, cancellation, a closed lock, a refusal, or a minute of failing storage.

Deterministic: the lock uses the running loop's clock, a seeded random source and the store, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from typing import TYPE_CHECKING, Any

from singleton.base.hold import single_holds
from singleton.base.invocation import log as _log
from singleton.base.invocation import speak_of
from singleton.base.tasks import being_cancelled
from singleton.locking.acquisition import Acquisition
from singleton.locking.failover import Takeover
from singleton.locking.fencing import FencingCounter
from singleton.locking.line import Line
from singleton.locking.phase import Phase
from singleton.locking.record import BlobGuard, SectionRecord
from singleton.locking.section import Section
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterable

    from singleton.base.errors import SingletonError
    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason, Stamp
    from singleton.locking.acquisition import Guess
    from singleton.locking.lease import Lease
    from singleton.locking.line import Waiter
    from singleton.locking.phase import Timing
    from singleton.locking.renewals import Renewals
    from singleton.stores.lock_keeping import BlobStore

_CLOSE = 5.0
"""Seconds for which closing waits for requests under way."""


async def release(hold: Hold) -> None:
    """End the section. Without further waiters in this process, return after the release of the lease.

    Call on the loop of the lock. A second release, or the release of a lost hold, does nothing and raises nothing
    (W-78, M-29).
    """
    parts = single_holds(hold)
    if len(parts) > 1:
        hold.own_lost.freeze()
    sections = [(part.lock, part.record, part.record.over) for part in parts if isinstance(part, Section)]
    for _, record, _ in sections:
        record.end()
    for _, record, _ in sections:
        await record.until_settled()
    for lock, _, was_over in sections:
        if not was_over:
            _log.debug("lock %s: released", lock)


class Lock:
    """A named lock of this process. Every method runs on one event loop.

    ``guard``: the guard of the blob, shared by the locks of this process on the blob.
    """

    def __init__(
        self,
        store: BlobStore,
        name: str,
        *,
        timing: Timing,
        rng: random.Random,
        stamp: Stamp = "token",
        guard: BlobGuard | None = None,
        guess: Guess | None = None,
        renewals: Renewals | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.guard = guard or BlobGuard()
        self._timing = timing
        self._rng = rng
        failover, counts = timing.failover, stamp == "token"
        self._fencing = (
            None
            if stamp == "none"
            else FencingCounter(store, name, counts=counts, failover=failover, highest=self.guard.highest, wall=wall)
        )
        self._acquisition = acquisition = Acquisition(
            store, name, timing, rng=rng, fencing=self._fencing, guess=guess, renewals=renewals
        )
        self._takeover = None if failover is None else Takeover(self._acquisition, store, name, failover, self.guard)
        self._line = Line(
            *("lock", name),
            taken="somebody else has it",
            timing=timing,
            holder=self.guard.holder,
            acquisition=acquisition,
        )
        self.waiters: Iterable[Waiter] = self._line
        self._phases = self._line.phases
        self._server: asyncio.Task[None] | None = None
        self._record: SectionRecord | None = None

    @property
    def idle(self) -> bool:
        """Tell whether the lock has neither waiters nor a holder in this process."""
        return self._server is None

    @property
    def forgettable(self) -> bool:
        """Tell whether the lock is idle, without a remembered look at a holder which the next attempt may need."""
        return self._server is None and (self._takeover is None or not self._takeover.remembers)

    @property
    def next_look(self) -> float:
        """Time of the next look at a silent holder elsewhere, by the loop's clock; infinite: none."""
        if self._takeover is None:
            return math.inf
        due = self._takeover.due
        return due if due > asyncio.get_running_loop().time() else math.inf

    async def at_rest(self) -> None:
        """Wait until the lock is idle, if only for a moment."""
        if self._server is not None:
            await asyncio.wait({self._server})

    def acquire(
        self, *, timeout: float | None = None, owner: str = "", by: float = math.inf
    ) -> Coroutine[Any, Any, Hold]:
        """Wait in line for the lock. The caller must give the hold to ``release`` at the end of the section.

        ``timeout``: seconds to wait; 0 asks once, and has an answer before the time ``by``; None waits without limit.
        """
        return self._line.wait(timeout, owner, self._ensure_server, by)

    def why_not(self, since: float, *, elsewhere: bool = False) -> SingletonError:
        """Return the error of a caller who waits in vain. See ``Line.why_not``."""
        return self._line.why_not(since, elsewhere=elsewhere)

    def refuse(self) -> None:
        """Refuse present and later waiters; a hold stays."""
        self._line.close()

    async def aclose(self) -> None:
        """Refuse waiters, and declare the hold of a running section lost.

        The lease of a running section is not released: it expires (B10).
        """
        self.refuse()
        if (server := self._server) is not None:
            if (record := self._running()) is not None:
                await asyncio.wait({record.ended}, timeout=0)  # the section may end in this very instant
            if self._running() is None:
                await asyncio.wait({server}, timeout=_CLOSE)
            server.cancel()
            await asyncio.wait({server})

    def _ensure_server(self) -> None:
        if self._server is None:
            self._server = asyncio.get_running_loop().create_task(self._serve(), name=f"lock {self.name}")

    def _running(self) -> SectionRecord | None:
        return None if self._record is None or self._record.over else self._record

    @property
    def _is_kept(self) -> bool:
        """Tell whether the hold has ended while the lock is kept for ``at_least``."""
        return self._record is not None and self._record.lost.ended and not self._record.lost.is_set()

    async def _serve(self) -> None:
        """While the line has waiters: win the lease, serve the line, release the lease."""
        try:
            while self._line.first() is not None:
                lease = await self._win()
                if lease is not None:
                    await self._hand_out(lease)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, every wait ends
            self._break_down(error)
        finally:
            self._server = None
            self._phases.rest()

    def _break_down(self, error: BaseException) -> None:
        """End the waits in line, after an unexpected error of the store or the server's own cancellation.

        Called before the release: a waiter who arrives during the release has met no trouble.
        """
        if isinstance(error, asyncio.CancelledError) and being_cancelled():
            self._line.give_up()
            raise error
        _log.error("lock %s: its store raised an unexpected error", self.name, exc_info=error)
        self._line.break_down(error)

    async def _win(self) -> Lease | None:
        """Poll until this process has the lease, or the line is empty."""
        loop = asyncio.get_running_loop()
        pause = self._timing.poll_min
        try:
            if self._phases.had_its_run:
                self._phases.go(Phase.ASIDE)
                await self._line.sleep_until(self._phases.aside_until)
            if self.guard.inside is not None:
                await self._wait_for_section()
            self._phases.begin()
            if self._phases.polled_lately:
                await self._line.sleep_until(self._phases.asked + pause)
                pause *= 2
            while (first := self._line.first()) is not None:
                speak_of(first.invocation)
                self._phases.asked = loop.time()
                try:
                    lease = await (self._takeover or self._acquisition).ask(first.owner)
                except StoreFailure as failure:
                    if _log.isEnabledFor(logging.DEBUG):
                        _log.debug("lock %s: not acquired: %s", self.name, failure)
                    if (unusable := self._acquisition.unusable) is not None:
                        self._phases.granted_unusable(*unusable)
                    self._line.judge(failure)
                    if failure.meaning == "held":
                        self.guard.tell_watches()
                    asked_to_wait = min(failure.retry_after, self._timing.poll_max) if failure.retry_after else 0.0
                else:
                    self._phases.win()
                    return lease
                due = loop.time() + max(pause * self._rng.uniform(0.5, 1.0), asked_to_wait)
                await self._line.sleep_until(due if self._takeover is None else min(due, self.next_look))
                pause = min(pause * 2, self._timing.longest_pause)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, every wait ends
            self._break_down(error)
        finally:
            await self._acquisition.give_up()
        return None

    async def _wait_for_section(self) -> None:
        """Wait for a running section of another lock on the blob in this process, which may have outlived its lease."""
        while (record := self.guard.inside) is not None and self._line.first() is not None:
            self._phases.go(Phase.BEHIND)
            self._line.answer_single_attempts()
            await self._line.wait_for(record.ended)

    async def _hand_out(self, lease: Lease) -> None:
        """Give the lease to one waiter after the other while the lease is good and our run lasts; then release."""
        lease.when_lost = self._tell
        fencing = self._fencing
        try:
            while (waiter := self._line.first()) is not None and lease.alive():
                if self.guard.inside is not None:
                    break  # a section of another lock has outlived its lease, or our lease was broken
                if (last := self._record) is not None:
                    if self._phases.had_its_run:
                        break
                    if fencing is not None and fencing.spent:
                        if not await self._begins_epoch(fencing, lease):
                            break
                        continue
                    last.settle()
                self._phases.used = True
                speak_of(waiter.invocation)
                hold = self._begin(waiter, lease)
                record = self._record = self.guard.inside = hold.record
                record.guard = self.guard
                self._line.grant(waiter, hold)
                self.guard.tell_watches()
                del waiter, hold  # the caller has the hold now, and may drop it (M-37)
                if last is None:
                    self._line.answer_single_attempts()
                await record.until_ended()
                if record.uses:
                    await record.until_unused()
                record.lost.freeze()
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - whatever it is, every wait ends
            self._break_down(error)
        finally:
            self._phases.go(Phase.GIVING_BACK)
            try:
                if self._running() is None:
                    self._phases.given_back(await self._acquisition.give_back(lease))
                else:
                    lease.lose("closed", quiet=self._is_kept)
                    await lease.stop()
            finally:
                if self._record is not None:
                    self._record.settle()  # lets the ``release`` of the last section return
                self._record = None

    def _begin(self, waiter: Waiter, lease: Lease) -> Section:
        token = self._fencing.next_token() if self._fencing is not None and self._fencing.counts else None
        hold = Section(self.name, waiter.owner, token, lease, waiter.invocation)
        hold.fencing, hold.record.caller = self._fencing, waiter.caller
        lease.whose, lease.owner, lease.began = waiter.invocation, waiter.owner, self._phases.loop.time()
        return hold

    async def _begins_epoch(self, fencing: FencingCounter, lease: Lease) -> bool:
        """Begin a new epoch after the last token of the old one; tell whether there are tokens again.

        Not with failover, whose touches write the same metadata. Not with state in the blob: a write of the old epoch
        may still arrive.
        """
        if self._takeover is not None or fencing.keeps_content:
            return False
        await self._acquisition.stamp_again(lease)
        return not fencing.spent

    def _tell(self, reason: LossReason) -> None:
        if self._record is not None:
            self._record.lost.fire(reason)

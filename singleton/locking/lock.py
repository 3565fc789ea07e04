"""A lock of this process on one blob: who waits here, who polls, who holds, and how it is given back.

What it promises, whatever the network does:

* **Exclusive.** A section runs only under a lease that the service granted and that is not past its deadline
  (``lease.py``). Sections of this process never overlap, not even when one of them outlives its lease.
* **Ask once, safely again.** An acquisition proposes an id of its own. After an answer that is unknown the same id is
  asked again, which is idempotent; given up with the outcome unknown, it is released by that id (B7, B8).
* **One queue, one poll.** Waiters stand in line and one task polls for all of them; at the end of a section the next
  in line gets the lease without a request.
* **Others get their turn.** A process that has kept the lock for ``handoff_window`` seconds gives it back and leaves
  it alone for one polling interval, in which every other waiter polls once.
* **Drain, then release.** The lease goes back when the section has ended and no renewal is under way (B10, B22). The
  caller's cancellation can't stop that; storage that doesn't answer can delay it by five seconds, no more.
* **Every wait ends**: by success, time-out, cancellation, a closed lock, or a minute of storage without an answer.

Deterministic: the running loop's clock, a seeded random source, and the store; nothing else.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING

from singleton.base.errors import LockNotAcquired, SingletonError
from singleton.locking.acquisition import Acquisition, storage_error
from singleton.locking.fencing import SECTIONS, FencingCounter
from singleton.locking.section import Section, Turn, Waiter, closed_error
from singleton.stores.protocol import LeaseStore, StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason, Stamp
    from singleton.locking.lease import Lease
    from singleton.locking.timing import Timing

_log = logging.getLogger("singleton")

_TRY_ONCE = 10.0
"""Seconds for a single attempt (``timeout=0``) to get an answer from storage that fails."""
_CLOSE = 5.0
"""Seconds that closing waits for requests under way."""
_PATIENCE = 60.0
"""Seconds that storage may go without a usable answer before its waiters are told."""
_TURN = 1.1
"""Polling intervals for which a process that had its run leaves the lock alone."""
_LAST_LOOK = 0.5
"""Seconds before its time-out at which the first in line asks once more."""
_OURS = "it is in use by this process"
_THEIRS = "somebody else has it"


async def release(hold: Hold) -> None:
    """End the section. When nobody else waits in this process, return once the lease is given back.

    Call it on the loop of the lock. Releasing twice, or a hold that was lost, does nothing and raises nothing
    (W-78, M-29).
    """
    if isinstance(hold, Section):
        hold.end()
        await asyncio.shield(hold.turn.settled)


class Lock:
    """One named lock of one process. Everything happens on the loop on which it is used."""

    def __init__(
        self, store: LeaseStore, name: str, *, timing: Timing, rng: random.Random, stamp: Stamp = "token"
    ) -> None:
        self.name = name
        self._timing = timing
        self._rng = rng
        self._fencing = None if stamp == "none" else FencingCounter(store, name, counts=stamp == "token")
        self._acquisition = Acquisition(store, name, timing, rng=rng, fencing=self._fencing)
        self._queue: OrderedDict[Waiter, None] = OrderedDict()
        self._server: asyncio.Task[None] | None = None
        self._somebody_left = asyncio.Event()
        self._lease: Lease | None = None
        self._hold: Turn | None = None
        self._informed = True
        self._trouble: StoreFailure | None = None
        self._trouble_since = 0.0
        self._asked = -math.inf
        self._seen_held = -math.inf
        self._busy_since = -math.inf
        self._free_since = -math.inf
        self._closed = False

    @property
    def idle(self) -> bool:
        """Tell whether nobody here waits for or holds this lock."""
        return self._server is None

    # --- for the caller -------------------------------------------------------------------------------------------

    async def acquire(self, *, timeout: float | None = None, owner: str = "") -> Hold:
        """Wait in line for the lock; the hold must be given to ``release``, once its section has ended.

        Args:
            timeout: seconds to wait; 0 asks once; None waits for as long as it takes.
            owner: who asks, for the blob's metadata and for errors.

        Raises:
            LockNotAcquired: the time is over and somebody else has it.
            StorageDenied, StorageError: the storage refuses; waiting would not help.
            StorageUnavailable: the storage does not answer.
            LockClosed: the lock was closed.
        """
        if self._closed:
            raise closed_error("lock", self.name, owner)
        if timeout == 0 and self._in_use():
            raise self._not_acquired(_OURS, owner)
        loop = asyncio.get_running_loop()
        now = loop.time()
        limit = math.inf if timeout is None else timeout or _TRY_ONCE
        waiter = Waiter(owner, now, now + limit, timeout == 0, loop.create_future())
        alarm = None if timeout is None else loop.call_at(waiter.deadline, self._time_is_up, waiter)
        self._queue[waiter] = None
        if self._server is None:
            self._informed = False
            self._server = loop.create_task(self._serve(), name=f"lock {self.name}")
        try:
            await waiter.granted
            return waiter.take()
        except asyncio.CancelledError:
            if waiter.hold is not None:
                waiter.hold.end()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
            self._leave(waiter)

    async def aclose(self, *, grace: float = 0.0) -> None:
        """Refuse all waiters; give a running section ``grace`` seconds to end, then declare its hold lost.

        A lease whose section still runs is not given back: it lapses by itself (B10).
        """
        self._closed = True
        self._refuse_all(partial(closed_error, "lock", self.name))
        self._somebody_left.set()
        if (server := self._server) is not None:
            if (hold := self._running()) is not None:
                await asyncio.wait({hold.ended}, timeout=grace)
            if self._running() is None:
                await asyncio.wait({server}, timeout=_CLOSE)
            server.cancel()
            await asyncio.wait({server})

    def _in_use(self) -> bool:
        """Tell whether the lock is taken, as far as is known here. If that is not known, even who asks once waits."""
        return self._lease is not None or (self._first() is not None and self._informed)

    def _leave(self, waiter: Waiter) -> None:
        self._queue.pop(waiter, None)
        self._somebody_left.set()

    def _running(self) -> Turn | None:
        """Return the turn whose section has not ended."""
        return self._hold if self._hold is not None and not self._hold.ended.done() else None

    # --- the one task behind the queue ----------------------------------------------------------------------------

    async def _serve(self) -> None:
        """While anybody waits: win the lease, serve the queue, give the lease back."""
        self._trouble = None
        try:
            while self._first() is not None:
                lease = await self._win()
                if lease is not None:
                    await self._hand_out(lease)
        except asyncio.CancelledError:
            self._refuse_all(partial(closed_error, "lock", self.name))
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, every wait ends
            _log.exception("lock %s: its store raised what no store should", self.name)
            self._refuse_all(partial(self._unexpected, error))
        finally:
            self._server = None

    def _first(self) -> Waiter | None:
        """Return the first in line who still waits."""
        while (first := next(iter(self._queue), None)) is not None and first.granted.done():
            del self._queue[first]
        return first

    async def _win(self) -> Lease | None:
        """Poll until the lease is ours, or nobody waits for it any more."""
        loop = asyncio.get_running_loop()
        pause = self._timing.poll_min
        try:
            await self._stand_back()
            while (first := self._first()) is not None:
                self._asked = loop.time()
                try:
                    lease = await self._acquisition.ask(first.owner)
                except StoreFailure as failure:
                    _log.debug("lock %s: not acquired: %s", self.name, failure)
                    self._judge(failure)
                    asked_to_wait = min(failure.retry_after or 0.0, self._timing.poll_max)
                else:
                    self._answered()
                    if loop.time() >= self._others_had_theirs():
                        self._busy_since = loop.time()
                    return lease
                await self._sleep_until(loop.time() + max(pause * self._rng.uniform(0.5, 1.0), asked_to_wait))
                pause = min(pause * 2, self._timing.poll_max)
            return None
        finally:
            await self._acquisition.give_up()

    async def _stand_back(self) -> None:
        """After a long run of sections, leave the lock alone until every other waiter has polled once."""
        if self._had_our_turn():
            self._informed = True
            await self._sleep_until(self._others_had_theirs())
        self._informed = False

    def _had_our_turn(self) -> bool:
        return asyncio.get_running_loop().time() - self._busy_since >= self._timing.handoff_window

    def _others_had_theirs(self) -> float:
        return self._free_since + self._timing.poll_max * _TURN

    async def _sleep_until(self, due: float) -> None:
        """Wait, but not past the last look of the first in line, and no longer than anybody waits."""
        loop = asyncio.get_running_loop()
        while (first := self._first()) is not None and (now := loop.time()) < due:
            last_look = now if first.once else first.deadline - _LAST_LOOK
            if now >= last_look and first.since > self._asked:
                return  # nobody has asked for it yet, and later is too late
            self._somebody_left.clear()
            try:
                async with asyncio.timeout_at(min(due, last_look) if now < last_look else due):
                    await self._somebody_left.wait()
            except TimeoutError:
                return

    async def _hand_out(self, lease: Lease) -> None:
        """Serve the queue in order under this lease, as long as it is good and our turn lasts; then give it back."""
        self._lease = lease
        lease.watch(self._tell)
        section = 0
        try:
            while (waiter := self._first()) is not None and lease.alive() and section < SECTIONS - 1:
                if section and self._had_our_turn():
                    break
                section += 1
                self._settle()
                del self._queue[waiter]
                hold = self._hold = waiter.grant(self.name, self._token(section), lease)
                del waiter  # it has the caller's hold, which the caller may drop
                if section == 1:
                    self._refuse_all(partial(self._not_acquired, _OURS), only_once=True)
                await asyncio.shield(hold.ended)
                hold.lost.freeze()
        finally:
            try:
                if self._running() is None:
                    self._free_since = await self._acquisition.give_back(lease)
                else:
                    lease.lose("closed")
                    await lease.stop()
            finally:
                self._lease = None
                self._settle()

    def _token(self, section: int) -> int | None:
        return self._fencing.token(section) if self._fencing and self._fencing.counts else None

    def _tell(self, reason: LossReason) -> None:
        if self._hold is not None:
            self._hold.lost.fire(reason)

    def _settle(self) -> None:
        """Let the last section's ``release`` return."""
        if self._hold is not None:
            self._hold.settled.set_result(None)
        self._hold = None

    # --- what an attempt means for those who wait ------------------------------------------------------------------

    def _judge(self, failure: StoreFailure) -> None:
        match failure.meaning:
            case "held" | "lost":
                self._answered()
                self._seen_held = asyncio.get_running_loop().time()
                self._refuse_all(partial(self._not_acquired, _THEIRS), only_once=True)
            case "denied" | "refused":
                self._refuse_all(partial(storage_error, self.name, failure))
            case _:
                self._no_answer(failure)

    def _no_answer(self, failure: StoreFailure) -> None:
        now = asyncio.get_running_loop().time()
        if self._trouble is None:
            _log.warning("lock %s: storage fails (%s); trying again", self.name, failure)
            self._trouble_since = now
        self._trouble = failure
        self._informed = False
        if now - self._trouble_since >= _PATIENCE:
            self._refuse_all(partial(storage_error, self.name, failure))

    def _answered(self) -> None:
        if self._trouble is not None:
            _log.info("lock %s: storage answers again", self.name)
        self._trouble = None
        self._informed = True

    def _refuse_all(self, error: Callable[[], SingletonError], *, only_once: bool = False) -> None:
        for waiter in tuple(self._queue):
            if waiter.once or not only_once:
                waiter.refuse(error())

    def _time_is_up(self, waiter: Waiter) -> None:
        """Say what is known: that it is in use, or, without evidence for that, that the storage did not answer."""
        was_in_use = self._seen_held >= waiter.since or self._free_since > waiter.since
        in_use = was_in_use or self._lease is not None or (self._informed and self._first() is not waiter)
        if self._trouble is not None or not in_use:
            waiter.refuse(storage_error(self.name, self._trouble or StoreFailure(detail="no answer yet")))
        else:
            waiter.refuse(self._not_acquired(_THEIRS, within=waiter.within))

    def _not_acquired(self, why: str, owner: str | None = None, within: str = "at once") -> LockNotAcquired:
        return LockNotAcquired(f"lock {self.name!r} was not acquired {within}: {why}", lock=self.name, owner=owner)

    def _unexpected(self, cause: Exception) -> SingletonError:
        error = SingletonError(f"lock {self.name!r}: unexpected {cause!r}", lock=self.name)
        error.__cause__ = cause
        return error

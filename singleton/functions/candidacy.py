"""A process's candidacy to be the listener of a function. The candidacy begins with the first invocation.

A lock has one candidacy, on the lock thread. Every invocation gets a *seat* under the listener's lease: a hold of its
own, without a limit on seats. At the end of the process the candidacy gives no more seats, waits for running bodies,
and releases the lease (W-106). If a body does not end, the lease is not released, and expires (B10).
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Final

from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError, StorageUnavailable, as_told
from singleton.base.events import no_longer_going, tell
from singleton.base.invocation import current
from singleton.base.invocation import log as _log
from singleton.locking.campaign import Campaign
from singleton.locking.line import HERE
from singleton.locking.section import Section, SectionClaim
from singleton.runtime.hold_end import release_dropped

if TYPE_CHECKING:
    from singleton.base.events import Call
    from singleton.base.hold import Hold
    from singleton.base.invocation import Invocation
    from singleton.base.kinds import LossReason
    from singleton.locking.record import SectionRecord
    from singleton.runtime.address import Address
    from singleton.runtime.calls import Work
    from singleton.runtime.registry import Registry

_DRAIN: Final = 5.0
"""Seconds that the end of the process waits for bodies to end."""
_ANSWER: Final = 10.0
"""Seconds for an answer that should come soon: as for any single attempt."""


class Candidacy(Campaign):
    """A campaign with seats for invocations, on the lock thread, until the registry is closed.

    Args:
        about: the fields of the candidacy's events.
        wait: seconds of one attempt; None: without limit.
        recovery: seconds between attempts; None: no attempt after a refusal.
    """

    def __init__(
        self,
        registry: Registry,
        address: Address,
        about: Call,
        acquire: Work[Hold],
        *,
        wait: float | None,
        recovery: float | None,
    ) -> None:
        super().__init__(about.lock, recovery=recovery)
        self._registry = registry
        self._about = about
        self._acquire = acquire
        self._address = address
        self._hold: Hold | None = None
        self._wait = wait
        self._decided = asyncio.Event()
        self._undecided_since = asyncio.get_running_loop().time()
        self._patience = _ANSWER if wait is None else math.inf
        self._asking = False
        self._trouble: SingletonError | None = None
        self._seats: dict[SectionRecord, Invocation | None] = {}
        self._ending = False
        registry.accompany(self._begin_campaign())

    async def end(self) -> None:
        """Stop trying; where this process leads, let its bodies end and give the lease back, once (W-104 to W-109)."""
        self._ending = True
        led = self._leads()
        if led is not None and not await self._drained(_DRAIN):
            _log.warning(
                *("%s still runs while its process ends: its lease is not released, and expires", self._about.function),
                extra=self._about.fields,
            )
            return
        led = self._leads()
        await self._end_campaign()
        self._decided.set()
        if led is not None and not led.lost.is_set():
            tell("released", self._about, led)

    async def seat(self, owner: str, within: float | None = None) -> Hold:
        """Return a hold for an invocation, if this process listens; release the hold at the invocation's end.

        Every call waits for the outcome of the attempt under way. If the attempt has no time-out, or follows trouble or
        a lease that ran out, the call waits for ten seconds at most, and gets the outcome known by then. A single
        attempt (``wait=0``) after trouble is not waited for.

        ``within``: seconds to wait for an attempt at most; None: without end.

        Raises:
            LockNotAcquired: another process listens, or the outcome is unknown yet.
            StorageError: the outcome is unknown, as the storage refuses, or does not answer.
            LockClosed: this process is ending.
        """
        if not self._decided.is_set():  # wait for the attempt under way, but not for as long as the attempt may take
            patience = self._undecided_since + self._patience - asyncio.get_running_loop().time()
            left = patience if within is None else min(within, patience)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if left == math.inf else left):
                    await self._decided.wait()
        hold = self._leads()
        if self._ending or not isinstance(hold, Section):
            raise self._refusal(owner)
        seat = hold.shared(owner)
        record = seat.record
        self._seats[record] = current()
        seat.lease.whose = self._seats[record]
        record.ended.add_done_callback(lambda _: self._vacate(record))
        seat.claim = SectionClaim(seat.lock, record, partial(release_dropped, copy_context()))
        return seat

    def _leads(self) -> Hold | None:
        return None if self._hold is None or self._hold.lost.is_set() else self._hold

    async def _ask(self) -> Hold:
        if not self._asking:
            self._asking = True
            tell("waiting", self._about)
        if self._trouble is not None and self._wait != 0:  # the storage may answer long before the attempt ends
            self._begin_anew()
        try:
            hold = await self._acquire(self._registry)
        except LockNotAcquired as error:
            if error.reason == HERE:  # only the lost lease of this very process was in the way
                self._trouble = self._lapsed()
                raise self._trouble from None
            self._trouble = None
            if self._recovery is None:
                tell("contended", self._about, reason="timeout")
            raise
        except Exception as error:
            self._trouble = as_told("lock", error, lock=self._about.lock)
            raise
        finally:
            self._decided.set()
        self._trouble = None
        self._asking = False
        tell("acquired", self._about, hold)
        hold.lost.add_callback(lambda reason: self._lost(hold, reason))
        self._hold = hold
        return hold

    def _lost(self, hold: Hold, reason: LossReason) -> None:
        tell("lost", self._about, hold, reason)
        for record in self._seats.copy():
            record.lost.fire(reason)
        if reason == "expired":  # the storage did not answer, or this process slept: it is to ask before it knows more
            self._trouble = self._lapsed()
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._undecided_since, self._patience = asyncio.get_running_loop().time(), _ANSWER
        self._decided.clear()

    async def _give_back(self, hold: Hold) -> None:
        """After a loss, don't end the lease under bodies that were told and have not ended, until it has lapsed."""
        self._hold = None
        await self._drained(within=self._address.timing.period)
        await self._registry.release(hold)
        no_longer_going(self._about)

    async def _pause(self, seconds: float) -> None:
        await self._registry.pause(self._address, seconds)

    def _finished(self, _: SingletonError) -> None:
        no_longer_going(self._about)

    def _refusal(self, owner: str) -> SingletonError:
        name, function = self._about.lock, self._about.function
        if self._ending:
            return LockClosed(f"{function} did not run: its process is ending", lock=name, owner=owner)
        known = self._trouble
        if not self._decided.is_set():
            said = self._registry.why_not(self._address, self._undecided_since, elsewhere=known is not None)
            lapsed = known is not None and known.reason == "expired"  # else the trouble of an earlier attempt
            known = known if lapsed and not isinstance(said, LockNotAcquired) else said
        if known is not None and not isinstance(known, LockNotAcquired):
            return known.another(owner)
        if self._decided.is_set():
            text = f"{function} did not run here: another process is its listener (lock {name!r})"
        else:
            text = f"{function} did not run: this process is not its listener yet, and still asks for lock {name!r}"
        return LockNotAcquired(text, lock=name, owner=owner)

    def _lapsed(self) -> SingletonError:
        name, function = self._about.lock, self._about.function
        text = "its lease expired, and the storage has not answered yet whether another process is the listener now"
        return StorageUnavailable(f"{function}: {text} (lock {name!r})", lock=name, reason="expired")

    def _vacate(self, record: SectionRecord) -> None:
        record.lost.freeze()
        record.settle()
        del self._seats[record]
        if isinstance(self._hold, Section):
            self._hold.lease.whose = next(reversed(self._seats.values()), None)

    async def _drained(self, within: float) -> bool:
        """Wait some seconds for the bodies to end; tell whether they did."""
        if not self._seats:
            return True
        _, running = await asyncio.wait({record.ended for record in self._seats}, timeout=within)
        return not running

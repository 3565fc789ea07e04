"""What a lock knows of a section: its record, from its beginning to its two ends, and the guard of the lock's blob."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeAlias

from singleton.base.clock import now
from singleton.base.holder import Holder
from singleton.stores.stamps import Highest, this_host

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import LossSignal
    from singleton.stores.protocol import StoreFailure


About: TypeAlias = "tuple[str, str, int | None, str]"
"""Of a hold: lock, owner, token, function."""
Told: TypeAlias = "tuple[contextvars.Context, Callable[[], object]]"
"""A call that is to be made as a section is settled, and its context."""
_RECENT: Final = 60.0
"""Seconds for which it is taken for granted who was read to have a lock."""


class SectionRecord:
    """The two ends of a section: the caller's (``over``) and the lock's (``settled``: handed on, or given back).

    A lock keeps the record and not the hold, so that a hold which its caller dropped is collected (M-37).

    Attributes:
        lost: the loss signal of the hold.
        over, settled: whether the section has had its two ends.
        given_up: when its user ended the section, by ``now``; None before.
    """

    __slots__ = (
        "_about",
        "_began",
        "_ending",
        "_loop",
        "_told",
        "_used",
        "_uses",
        "_waiting",
        "given_up",
        "lost",
        "over",
        "settled",
    )

    def __init__(self, lost: LossSignal, about: About) -> None:
        self._loop = loop = asyncio.get_running_loop()
        self.lost = lost
        self._began = loop.time()
        self._about = about
        self.over = self.settled = False
        self._waiting: asyncio.Future[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self.given_up: float | None = None
        self._told: list[Told] = []
        self._uses = 0
        self._used: asyncio.Future[None] | None = None

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done as soon as the section is over; made for who waits for that."""
        if self._ending is None:
            self._ending = self._loop.create_future()
            if self.over:
                self._ending.set_result(None)
        return self._ending

    @property
    def holder(self) -> Holder:
        """Who has the lock: somebody of this process."""
        lock, owner, token, function = self._about
        since = datetime.now(UTC) - timedelta(seconds=self._loop.time() - self._began)
        return Holder(
            lock=lock,
            owner=owner or None,
            host=this_host(),
            pid=os.getpid(),
            function=function or None,
            since=since,
            token=token,
        )

    def end(self) -> None:
        """The caller's end: its section is over. A second end changes nothing."""
        if self.over:
            return
        self.over = True
        self.given_up = now()
        for waiting in (self._waiting, self._ending):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    async def until_ended(self) -> None:
        """Wait for the caller's end, once. A cancellation of this wait leaves ``ended`` as it is."""
        if not self.over:
            self._waiting = self._loop.create_future()
            await self._waiting

    def begin_use(self) -> bool:
        """Let the section use the lock's blob; False: the section is over. On the lock's loop, as the other two."""
        if self.over:
            return False
        self._uses += 1
        return True

    def end_use(self) -> None:
        """One use is over."""
        self._uses -= 1
        if not self._uses and self._used is not None:
            if not self._used.done():  # as it is where the lock was closed meanwhile
                self._used.set_result(None)
            self._used = None

    async def unused(self) -> None:
        """Wait until the section, which has ended, does not use the blob any more."""
        if self._uses:
            self._used = self._loop.create_future()
            await self._used

    def when_settled(self, call: Callable[[], object]) -> None:
        """Call this, in the context of now, when the section is settled; at once if it is. From any thread."""
        self._told.append((contextvars.copy_context(), call))
        if self.settled:
            self._tell()

    async def until_settled(self) -> None:
        """Wait until the section is settled."""
        if not self.settled:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self.when_settled(lambda: None if waiting.done() else waiting.set_result(None))
            await waiting

    def settle(self) -> None:
        """The lock's end: it is handed on, or given back."""
        self.settled = True
        self._tell()

    def _tell(self) -> None:
        """Call each once: a call that is added on another thread in this moment is made here or there."""
        while self._told:
            try:
                context, call = self._told.pop(0)
            except IndexError:
                return
            context.run(call)


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer to the question who has a lock.

    Attributes:
        at: when it was asked, by the loop's clock.
        holder: who had it; None: nobody, or that is not known.
        failure: why it is not known.
    """

    at: float
    holder: Holder | None = None
    failure: StoreFailure | None = None


class BlobGuard:
    """What all locks of this process on one blob go through, whatever their options: their sections never overlap.

    Their leases don't either; but a section may outlive its lease.

    Attributes:
        reading: the last answer to who has it.
        asking: the task that asks this now, and stores the answer.
        highest: the highest epoch in which they may have given tokens.
    """

    __slots__ = ("__weakref__", "_record", "asking", "highest", "reading")

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.asking: asyncio.Task[None] | None = None
        self.highest = Highest()
        self._record: SectionRecord | None = None

    @property
    def inside(self) -> SectionRecord | None:
        """The record of the section that has not ended; None: there is none."""
        return None if self._record is None or self._record.over else self._record

    def enter(self, record: SectionRecord) -> None:
        """Let a section begin."""
        self._record = record

    def holder(self, since: float = math.inf) -> Holder | None:
        """Return who has the lock, as far as that is known here; what was read before ``since`` must be recent."""
        if (record := self.inside) is not None:
            return record.holder
        oldest = min(since, asyncio.get_running_loop().time() - _RECENT)
        return None if self.reading is None or self.reading.at < oldest else self.reading.holder

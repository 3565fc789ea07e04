"""The record of a section, from its begin to its two ends, and the guard of a lock's blob."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar

from singleton.base import clock
from singleton.base.holder_record import Holder
from singleton.stores.stamps import Highest, this_host

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    from singleton.base.caller import Caller
    from singleton.base.hold import LossSignal
    from singleton.stores.protocol import StoreFailure

About: TypeAlias = "tuple[str, str, int | None, str]"
"""``(lock, owner, token, function)`` of a hold."""
EndCallback: TypeAlias = "tuple[contextvars.Context, Callable[[], object]]"
"""A callback for the end of a section, with its context."""
_Blob = TypeVar("_Blob", bound="Hashable")
_RECENT: Final = 60.0
"""Seconds for which a holder read from the blob counts as the present holder."""


class SectionRecord:
    """The two ends of a section: the caller's (``over``) and the lock's (``settled``: handed on, or released).

    A lock refers to the record, not to the hold: a dropped hold must be collected (M-37).

    Attributes:
        over, settled: whether the section has reached its two ends.
        given_up: time of the user's end of the section, by ``now``; None before. Any thread may set the time.
        uses: number of requests under way by which the section uses the lock's blob.
        guard: the guard of the blob, while the section is the one ``inside``; None for a shared hold.
        caller: the section's caller, or None.
        kept_until: until when ``at_least`` keeps the lock of an ended hold, by the loop's clock; or None.
    """

    def __init__(self, lost: LossSignal, about: About) -> None:
        self.lock_loop = loop = asyncio.get_running_loop()
        self.lost = lost
        self._began = loop.time()
        self._about = about
        self.over = self.settled = False
        self._waiting: asyncio.Future[None] | None = None
        self._ending: asyncio.Future[None] | None = None
        self.given_up: float | None = None
        self._told: list[EndCallback] = []
        self.uses = 0
        self.guard: BlobGuard | None = None
        self.caller: Caller | None = None
        self.kept_until: float | None = None
        self._unused: asyncio.Future[None] | None = None

    @property
    def ended(self) -> asyncio.Future[None]:
        """Done at the caller's end of the section; created on first use."""
        if self._ending is None:
            self._ending = self.lock_loop.create_future()
            if self.over:
                self._ending.set_result(None)
        return self._ending

    @property
    def holder(self) -> Holder:
        """The holder of the lock, in this process."""
        lock, owner, token, function = self._about
        zero = datetime.now(UTC) - timedelta(seconds=self.lock_loop.time())
        return Holder(
            lock=lock,
            owner=owner or None,
            host=this_host(),
            pid=os.getpid(),
            function=function or None,
            since=zero + timedelta(seconds=self._began),
            token=token,
            kept_until=None if self.kept_until is None else zero + timedelta(seconds=self.kept_until),
        )

    def end(self) -> None:
        """Note the caller's end of the section. A second call changes nothing."""
        if self.over:
            return
        self.over = True
        if self.guard is not None:
            self.guard.inside = None
        if self.given_up is None:
            self.given_up = clock.now()
        for waiting in (self._waiting, self._ending):
            if waiting is not None and not waiting.done():
                waiting.set_result(None)

    def end_soon(self, end: Callable[[], object] | None = None, context: contextvars.Context | None = None) -> None:
        """Have the loop of the lock end the section, by ``end``. Call on any thread.

        Only the lock's loop ends a section, and a dying loop may drop the call. Therefore: ``end_soon`` notes the end,
        and then reads the loop; ``move`` sets the loop, and then reads the note. Either ``move`` finds the note, or the
        call goes to the new loop. If both do, the second end changes nothing.
        """
        if self.given_up is None:
            self.given_up = clock.now()
        with suppress(RuntimeError):  # the loop is closed
            self.lock_loop.call_soon_threadsafe(end or self.end, context=context)

    def move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Belong to another loop, which does not run yet: the loop of the lock is closed, and nobody waits there."""
        self.lock_loop = loop
        self._waiting = self._ending = self._unused = None
        if self.given_up is not None:
            self.end()

    def until_ended(self) -> asyncio.Future[None]:
        """Return a future of the caller's end, for one wait. A cancellation of the wait does not touch ``ended``."""
        self._waiting = self.lock_loop.create_future()
        if self.over:
            self._waiting.set_result(None)
        return self._waiting

    def begin_use(self) -> bool:
        """Let the section use the lock's blob; False: the section is over. Call on the lock's loop."""
        if self.over:
            return False
        self.uses += 1
        return True

    def end_use(self) -> None:
        """Note the end of a use of the blob."""
        self.uses -= 1
        if not self.uses and self._unused is not None:
            if not self._unused.done():  # closing the lock cancelled the wait
                self._unused.set_result(None)
            self._unused = None

    async def until_unused(self) -> None:
        """Wait until the ended section uses the blob no longer."""
        self._unused = self.lock_loop.create_future()
        await self._unused

    def when_settled(self, call: Callable[[], object]) -> None:
        """Call ``call`` in the present context when the section is settled; at once if settled. Use on any thread."""
        self._told.append((contextvars.copy_context(), call))
        if self.settled:
            self.settle()

    async def until_settled(self) -> None:
        """Wait until the section is settled."""
        if not self.settled:
            waiting: asyncio.Future[None] = self.lock_loop.create_future()
            self.when_settled(lambda: None if waiting.done() else waiting.set_result(None))
            await waiting

    def settle(self) -> None:
        """Note the lock's end of the section: handed on, or released. Two threads may do this at the same time."""
        self.settled = True
        while self._told:
            try:
                context, call = self._told.pop(0)
            except IndexError:
                return
            context.run(call)


@dataclass(frozen=True, slots=True)
class Reading:
    """A read of a lock's holder, asked for at ``at`` by the loop's clock. None: a free lock, or a read that failed."""

    at: float
    holder: Holder | None = None
    failure: StoreFailure | None = None


class BlobGuard:
    """Keeps sections of this process on one blob from overlapping, over locks with different options.

    Attributes:
        asking: task of the present read, which stores the answer.
        highest: the highest epoch in which this process may have given tokens.
        inside: the record of the running section, or None.
        refuted: the last ETag whose stamp turned out to be of another hold than the present one.
        watches: called when the lock changes hands in this process, or is found to be in use.
    """

    __slots__ = ("__weakref__", "asking", "highest", "inside", "reading", "refuted", "watches")

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.asking: asyncio.Task[None] | None = None
        self.highest = Highest()
        self.inside: SectionRecord | None = None
        self.refuted: str | None = None
        self.watches: tuple[Callable[[], object], ...] = ()

    def tell_watches(self) -> None:
        """Tell that the lock has changed hands, or is in use."""
        for look in self.watches:
            look()

    def holder(self, since: float = math.inf) -> Holder | None:
        """Return the known holder, or None; a read before ``since`` counts only if it is recent."""
        if (record := self.inside) is not None:
            return record.holder
        oldest = min(since, asyncio.get_running_loop().time() - _RECENT)
        return None if self.reading is None or self.reading.at < oldest else self.reading.holder


class BlobGuards(Generic[_Blob]):
    """The guards of a process: one for each blob, for as long as a lock on the blob uses the guard.

    The ``keep`` guards asked for last stay: between the closing of a client and the opening of the next, no lock does.
    """

    def __init__(self, keep: int) -> None:
        self._guards: weakref.WeakValueDictionary[_Blob, BlobGuard] = weakref.WeakValueDictionary()
        self._last: deque[BlobGuard] = deque(maxlen=keep)

    def of(self, blob: _Blob) -> BlobGuard:
        """Return the guard of the blob."""
        self._last.append(guard := self._guards.setdefault(blob, BlobGuard()))
        return guard

    def inside(self, blob: _Blob) -> SectionRecord | None:
        """Return the record of the running section on the blob in this process, or None."""
        guard = self._guards.get(blob)
        return None if guard is None else guard.inside

    def __iter__(self) -> Iterator[BlobGuard]:
        return iter(self._guards.values())

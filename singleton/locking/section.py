"""A section: the hold of a lock that is in use, which has two ends."""

from __future__ import annotations

import asyncio
import math
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

from singleton.base.errors import LockClosed
from singleton.base.hold import Hold, LossSignal
from singleton.base.holder import Holder
from singleton.base.naming import current
from singleton.locking.fencing import this_host

if TYPE_CHECKING:
    from singleton.base.naming import Invocation
    from singleton.locking.lease import Lease
    from singleton.stores.protocol import StoreFailure


_RECENT: Final = 60.0
"""Seconds for which it is taken for granted who was read to have a lock."""


class Turn:
    """The two ends of a section: the caller's (``ended``) and the lock's (``settled``: handed on, or given back).

    A lock keeps this and not the hold, so that a hold which its caller dropped can be told (M-37). Of the hold it has
    what tells others whose it is.
    """

    __slots__ = ("_about", "_began", "ended", "lost", "settled")

    def __init__(self, lost: LossSignal, lock: str, owner: str, token: int | None) -> None:
        loop, asking = asyncio.get_running_loop(), current()
        self.lost = lost
        self.ended: asyncio.Future[None] = loop.create_future()
        self.settled: asyncio.Future[None] = loop.create_future()
        self._began = loop.time()
        self._about = lock, owner, token, "" if asking is None else asking.function

    @property
    def holder(self) -> Holder:
        """Who has the lock: somebody of this process."""
        lock, owner, token, function = self._about
        since = datetime.now(UTC) - timedelta(seconds=asyncio.get_running_loop().time() - self._began)
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
        """The caller's end: its section is over."""
        if not self.ended.done():
            self.ended.set_result(None)


@dataclass(frozen=True, slots=True)
class Reading:
    """What was answered when it was asked who has a lock.

    Attributes:
        at: when it was asked, by the loop's clock.
        holder: who had it; None: nobody, or that is not known.
        failure: why it is not known.
    """

    at: float
    holder: Holder | None = None
    failure: StoreFailure | None = None


class Gate:
    """What all locks of this process on one blob go through, whatever their options: their sections never overlap.

    Their leases don't either; but a section may outlive its lease.

    Attributes:
        reading: the last answer to who has it.
        asking: whoever asks that now, and puts down the answer.
    """

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self.asking: asyncio.Task[None] | None = None
        self._turn: Turn | None = None

    @property
    def inside(self) -> Turn | None:
        """The turn whose section has not ended, if there is one."""
        return None if self._turn is None or self._turn.ended.done() else self._turn

    def enter(self, turn: Turn) -> None:
        """Let a section begin."""
        self._turn = turn

    def holder(self, since: float = math.inf) -> Holder | None:
        """Return who has the lock, as far as that is known here; what was read before ``since`` must be recent."""
        if (turn := self.inside) is not None:
            return turn.holder
        oldest = min(since, asyncio.get_running_loop().time() - _RECENT)
        return None if self.reading is None or self.reading.at < oldest else self.reading.holder


class Section(Hold):
    """A hold of a lock that is in use, with its turn."""

    __slots__ = ("_lease", "turn")

    def __init__(self, lock: str, owner: str, token: int | None, lease: Lease) -> None:
        super().__init__(lock, owner=owner, token=token, lease=lease)
        self._lease = lease
        self.turn = Turn(self.lost, lock, owner, token)

    def concerns(self, invocation: Invocation | None) -> None:
        """Have what becomes of the lease logged in the name of this invocation: of whoever has it now."""
        self._lease.whose = invocation

    def shared(self, owner: str) -> Section:
        """Return one more hold under this one's lease, with its token, for whoever sees to its turn."""
        return Section(self.lock, owner, self.token, self._lease)

    def end(self) -> None:
        """The caller's end: its section is over."""
        self.turn.end()


CLOSED = "the locks of this process were closed, as they are when it ends"
"""What those are told who wait at the end of a process, or come after it."""


def closed_error(what: str, name: str, owner: str | None = None) -> LockClosed:
    """Make the error of a wait that the end of the process ended."""
    return LockClosed(f"{what} {name!r}: {CLOSED}", lock=name, owner=owner)

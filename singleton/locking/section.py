"""Those who wait for a lock of this process, and what they get: a hold with two ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singleton.base.errors import LockClosed
from singleton.base.hold import Hold, LossSignal
from singleton.base.timespan import format_timespan

if TYPE_CHECKING:
    from singleton.base.errors import SingletonError
    from singleton.locking.lease import Lease


@dataclass(slots=True, eq=False)
class Waiter:
    """Somebody in line. ``once``: it asks once, instead of waiting."""

    owner: str
    since: float
    deadline: float
    once: bool
    granted: asyncio.Future[None]
    hold: Section | None = None
    """What was granted, until the caller takes it: from then on nobody here may keep it alive (M-37)."""

    @property
    def within(self) -> str:
        """Its time-out, as WebJobs writes it: ``within 0:00:05`` (W-65)."""
        return "at once" if self.once else f"within {format_timespan(self.deadline - self.since)}"

    def grant(self, lock: str, token: int | None, lease: Lease) -> Turn:
        """End the wait with a hold; return its turn, for the hold itself is the caller's, to keep or to drop."""
        hold = Section(lock, self.owner, token, lease)
        self.give(hold)
        return hold.turn

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
        """End the wait with an error, unless it has ended."""
        if not self.granted.done():
            error.owner = self.owner
            self.granted.set_exception(error)


class Turn:
    """The two ends of a section: the caller's (``ended``) and the lock's (``settled``: handed on, or given back).

    A lock keeps this and not the hold, so that a hold which its caller dropped can be told (M-37).
    """

    __slots__ = ("ended", "lost", "settled")

    def __init__(self, lost: LossSignal) -> None:
        self.lost = lost
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def end(self) -> None:
        """The caller's end: its section is over."""
        if not self.ended.done():
            self.ended.set_result(None)


class Section(Hold):
    """A hold of a lock that is in use, with its turn."""

    __slots__ = ("_lease", "turn")

    def __init__(self, lock: str, owner: str, token: int | None, lease: Lease) -> None:
        super().__init__(lock, owner=owner, token=token, lease=lease)
        self._lease = lease
        self.turn = Turn(self.lost)

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

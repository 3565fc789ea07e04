"""A section: the hold of a lock that is in use, which has two ends."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from singleton.base.errors import LockClosed
from singleton.base.hold import Hold, LossSignal

if TYPE_CHECKING:
    from singleton.base.naming import Invocation
    from singleton.locking.lease import Lease


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


class Gate:
    """What all locks of this process on one blob go through, whatever their options: their sections never overlap.

    Their leases don't either; but a section may outlive its lease.
    """

    def __init__(self) -> None:
        self._turn: Turn | None = None

    @property
    def inside(self) -> Turn | None:
        """The turn whose section has not ended, if there is one."""
        return None if self._turn is None or self._turn.ended.done() else self._turn

    def enter(self, turn: Turn) -> None:
        """Let a section begin."""
        self._turn = turn


class Section(Hold):
    """A hold of a lock that is in use, with its turn."""

    __slots__ = ("_lease", "turn")

    def __init__(self, lock: str, owner: str, token: int | None, lease: Lease) -> None:
        super().__init__(lock, owner=owner, token=token, lease=lease)
        self._lease = lease
        self.turn = Turn(self.lost)

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

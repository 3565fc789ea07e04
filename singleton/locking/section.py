"""A section: a hold in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from singleton.base.errors import LockClosed
from singleton.base.hold import Hold
from singleton.base.invocation import current
from singleton.locking.record import SectionRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.errors import LockLost
    from singleton.base.invocation import Invocation
    from singleton.base.state import Keeper
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease


Dropped: TypeAlias = "Callable[[str, SectionRecord], object]"
"""Callback for a dropped hold: name of the lock, record of the section."""


class Section(Hold):
    """A hold with the record of its section.

    Attributes:
        record: the lock's record of the section.
        lease: the lease of the section.
        fencing: writer of the lock's blob; None for a shared hold, which may not write.
        dropped: called, on any thread, if the hold is collected before the end of its section.
    """

    __slots__ = ("dropped", "fencing", "lease", "record")

    def __init__(self, lock: str, owner: str, token: int | None, lease: Lease, asking: Invocation | None) -> None:
        """``asking``: the invocation of the caller; its function is the holder's. None outside a guarded function."""
        self.dropped: Dropped | None = None
        super().__init__(lock, owner=owner, token=token, lease=lease)
        self.lease = lease
        self.record = SectionRecord(self.own_lost, (lock, owner, token, "" if asking is None else asking.function))
        self.fencing: FencingCounter | None = None

    def __del__(self) -> None:
        """Report a dropped hold (M-37). The collector runs on any thread: take no mutex."""
        if self.dropped is not None and not self.record.over:
            self.dropped(self.lock, self.record)

    def keeper(self) -> Keeper:
        """See ``Hold.keeper``."""
        if self.token is None:
            raise self._stateless("it has no fencing tokens (see the option fencing_tokens; layout='webjobs' has none)")
        if self.fencing is None:
            raise self._stateless("it is shared, as by the holders of a semaphore or the invocations of a listener")
        from singleton.locking.section_state import SectionState

        return SectionState(self, self.fencing, self.lease)

    def shared(self, owner: str) -> Section:
        """Return a further hold with the lease and token of this hold, for a caller who settles its record."""
        return Section(self.lock, owner, self.token, self.lease, current())

    def released(self) -> LockLost:
        """Make the error for a use of the hold after its end."""
        return self.own_lost.error("was released", "released")


CLOSED = "the locks of this process are closed, because the process ends"
"""Message for waiters at the end of a process, and later callers."""


def closed_error(what: str, name: str, owner: str | None = None) -> LockClosed:
    """Make the error of a wait which ends with the process."""
    return LockClosed(f"{what} {name!r}: {CLOSED}", lock=name, owner=owner)

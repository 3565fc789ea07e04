"""A section: a hold in use, and the claim which keeps the section from its release."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, TypeAlias

from singleton.base.errors import LockClosed
from singleton.base.hold import Hold
from singleton.base.invocation import current
from singleton.locking.record import SectionRecord
from singleton.locking.section_state import SectionState

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.invocation import Invocation
    from singleton.base.state import Keeper
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease

Dropped: TypeAlias = "Callable[[str, SectionRecord], object]"
"""Callback for a dropped hold: name of the lock, record of the section."""


class SectionClaim:
    """The claim to a section. A claim collected before the end of the section has the section released (M-37)."""

    __slots__ = ("__weakref__", "_dropped", "_lock", "_record")

    def __init__(self, lock: str, record: SectionRecord, dropped: Dropped) -> None:
        """``dropped``: called, on any thread, if the claim is collected before the end of the section."""
        self._lock = lock
        self._record = record
        self._dropped = dropped

    def __del__(self) -> None:
        """Report a dropped claim. The collector runs on any thread: take no mutex."""
        if not self._record.over:
            self._dropped(self._lock, self._record)


class Section(Hold):
    """A hold with the record of its section.

    Attributes:
        fencing: writer of the lock's blob; None for a shared hold, which may not write.
        claim: the claim to the section, or a reference to the claim after a block took it.
    """

    __slots__ = ("claim", "fencing", "lease", "record")

    def __init__(self, lock: str, owner: str, token: int | None, lease: Lease, asking: Invocation | None) -> None:
        """``asking``: the invocation of the caller; its function is the holder's. None outside a guarded function."""
        super().__init__(lock, owner=owner, token=token, lease=lease)
        self.lease = lease
        self.record = SectionRecord(self.own_lost, (lock, owner, token, "" if asking is None else asking.function))
        self.fencing: FencingCounter | None = None
        self.claim: SectionClaim | weakref.ref[SectionClaim] | None = None

    @property
    def kept(self) -> SectionClaim | None:
        """The claim, also after a block took it; None after the claim was dropped."""
        return self.claim() if isinstance(self.claim, weakref.ref) else self.claim

    @property
    def given_up(self) -> bool:
        """Whether the user ended the section, or an interrupt, which drops the claim: the release is on its way."""
        return self.record.given_up is not None or (self.claim is not None and self.kept is None)

    def keeper(self) -> Keeper:
        """See ``Hold.keeper``."""
        if self.token is None:
            raise self._stateless("it has no fencing tokens (see the option fencing_tokens; layout='webjobs' has none)")
        if self.fencing is None:
            raise self._stateless("it is shared, as by the holders of a semaphore or the invocations of a listener")
        return SectionState(self.lock, self.record, self.fencing, self.lease)

    def shared(self, owner: str) -> Section:
        """Return a further hold with the lease and token of this hold, for a caller who settles its record."""
        return Section(self.lock, owner, self.token, self.lease, current())


def claims(hold: Hold) -> list[SectionClaim]:
    """Take the claims to the sections of a hold: from now on the caller keeps the lock, and not the hold.

    A block keeps the claims in its own frame or object. A variable of the user's which has the hold then keeps no lock
    whose block an interrupt has ended before the release. A block which joins takes ``hold.kept`` instead: the hold of
    a block entered by hand still keeps its claim.
    """
    taken = []
    for part in hold._parts or (hold,):  # noqa: SLF001 - ``single_holds`` would be one more call, twice a section
        if not isinstance(part, Section) or part.claim is None:
            continue
        claim = part.claim() if isinstance(part.claim, weakref.ref) else part.claim
        if claim is not None:
            part.claim = weakref.ref(claim)
            taken.append(claim)
    return taken


CLOSED = "the locks of this process are closed, because the process ends"
"""Message for waiters at the end of a process, and later callers."""


def closed_error(what: str, name: str, owner: str | None = None) -> LockClosed:
    """Make the error of a wait which ends with the process."""
    return LockClosed(f"{what} {name!r}: {CLOSED}", lock=name, owner=owner)

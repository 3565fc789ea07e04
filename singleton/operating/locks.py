"""Locks as a listing shows them: function and scope of the blob's name, lease and holder; and a filter of locks."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from singleton.dotnet.webjobs import CONTAINER as WEBJOBS
from singleton.layouts.name_parts import NameParts, read_name
from singleton.locking.holder import recorded
from singleton.stores.protocol import HELD
from singleton.stores.stamps import STAMP_KEYS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.base.holder import Holder
    from singleton.base.kinds import Level
    from singleton.stores.lock_keeping import Listed, Page
    from singleton.stores.protocol import LeaseState

_NAMED_BY_SOMEBODY: Final = NameParts(app="")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """A lock as its container shows it at one moment.

    Attributes:
        name: the blob's.
        state: of its lease: available, leased, expired, breaking or broken.
        holder: who has it; None when nobody has.
        last: what its last stamp says: of the holder, or of who had it before. What is not recorded is None.
        app: the host id in the name; None where somebody chose the name.
        function: the function's name, from the name or from the last stamp.
        scope: the values of the scope, in order; of a name that was cut, as far as it goes.
        level: function or host; None where the name does not tell.
        listener: whether it is the lock of a listener.
        slot: number of the slot, for one of a semaphore.
        cut: whether the name was too long, and lacks the end of the scope.
        endless: whether its lease never expires. Leases of this library always do.
        modified: when its metadata was last written, by the service's clock, whole seconds. Leases don't change it.
        etag: of the blob: the same until the next stamp.
    """

    name: str
    state: LeaseState
    holder: Holder | None
    last: Holder
    app: str | None = None
    function: str | None = None
    scope: tuple[str, ...] = ()
    level: Level | None = None
    listener: bool = False
    slot: int | None = None
    cut: bool = False
    endless: bool = False
    modified: datetime
    etag: str

    @property
    def held(self) -> bool:
        """Tell whether somebody has it."""
        return self.state in HELD

    @property
    def function_sure(self) -> bool:
        """Tell whether the function is that of the hold.

        The name tells it, or the stamp of a hold that was renewed. A younger stamp may be of an earlier hold of that
        process.
        """
        return self.level == "function" or self.last.renewed is not False


def lock_info(blob: Listed, container: str) -> LockInfo | None:
    """Return what is known of this blob's lock; None where nothing says that it is a lock."""
    parts = parts_of(blob.name, container)
    if parts is None and not is_stamped(blob) and blob.lease == "available":
        return None
    last = recorded(blob.name, blob)
    told = parts or _NAMED_BY_SOMEBODY
    return LockInfo(
        name=blob.name,
        state=blob.lease,
        holder=last if blob.held else None,
        last=last,
        endless=blob.endless,
        modified=datetime.fromtimestamp(blob.modified, UTC),
        etag=blob.etag,
        app=None if parts is None else parts.app,
        function=told.function or last.function,
        scope=told.scopes,
        level=told.level,
        listener=told.listener,
        slot=told.slot,
        cut=told.cut,
    )


def parts_of(name: str, container: str) -> NameParts | None:
    """Return what the name of a blob in this container says."""
    return read_name(name, webjobs=container == WEBJOBS)


def is_stamped(blob: Listed) -> bool:
    """Tell whether a lock has left something on it."""
    return any(key.lower() in STAMP_KEYS for key in blob.metadata)


@dataclass(slots=True, kw_only=True)
class Met:
    """What a listing came across, whatever of it was asked for.

    Attributes:
        locks: how many there are.
        functions: those that have any.
        ageless: locks that were left out because nobody knows how long their holder has had them.
        unsure: locks that somebody has and that were left out because they seem to be another function's, which is not
            sure: the name has none, and the hold is young.
    """

    locks: int = 0
    functions: set[str] = field(default_factory=set)
    ageless: int = 0
    unsure: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which locks of a listing are asked for.

    Attributes:
        function: only those of this function.
        held: only those that somebody has.
        older_than: only those that somebody is known to have had for at least so many seconds; of the free ones, those
            that were last written so long ago.
    """

    function: str | None = None
    held: bool = False
    older_than: float | None = None

    def among(self, page: Page, container: str, met: Met | None = None) -> Iterator[LockInfo]:
        """Yield those on this page; add to ``met`` what is there."""
        met = Met() if met is None else met
        latest = None if self.older_than is None else page.at - self.older_than
        for blob in page.entries:
            lock = lock_info(blob, container)
            if lock is None:
                continue
            met.locks += 1
            if lock.function:
                met.functions.add(lock.function)
            if self.held and not lock.held:
                continue
            if self.function is not None and lock.function != self.function:
                met.unsure += lock.held and not lock.function_sure
                continue
            if latest is not None:
                met.ageless += _is_ageless(lock)
                if not _is_older(lock, latest):
                    continue
            yield lock


def _is_older(lock: LockInfo, latest: float) -> bool:
    """Tell whether somebody has had the lock since then at the latest; one that nobody has, whether it was written."""
    if lock.holder is None:
        return lock.modified.timestamp() <= latest
    return lock.holder.since is not None and lock.holder.since.timestamp() <= latest


def _is_ageless(lock: LockInfo) -> bool:
    """Tell whether the lock's holder does not record since when it has it, not even after half a lease period."""
    return lock.holder is not None and lock.holder.since is None and lock.holder.renewed is not False

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
        name: name of the blob.
        state: state of the lease: available, leased, expired, breaking or broken.
        holder: holder of the lock; None for a free lock.
        last: record of the last stamp, by the holder or by the holder before; None for each part without a record.
        app: host id in the name; None for a name that a user chose.
        function: name of the function, from the blob's name or from the last stamp.
        scope: values of the scope, in order; of a name that was cut, the part that is left.
        level: function or host; None for a name that does not say the level.
        listener: whether the lock is a listener's.
        slot: number of the slot in a semaphore; None for other locks.
        cut: whether the name was too long, and lacks the end of the scope.
        endless: whether the lease never expires. Leases of this library always expire.
        modified: time of the last write of metadata, by the service's clock, in whole seconds. Leases don't change it.
        etag: ETag of the blob: the same until the next stamp.
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
        """Whether the lock has a holder."""
        return self.state in HELD

    @property
    def function_sure(self) -> bool:
        """Whether ``function`` is certainly the function of the current hold.

        The name tells the function, or the stamp of a renewed hold. The stamp before the first renewal may be of an
        earlier hold of the same process.
        """
        return self.level == "function" or self.last.renewed is not False


def lock_info(blob: Listed, container: str) -> LockInfo | None:
    """Return the lock of this blob; None where neither name, stamp nor lease says that the blob is a lock's."""
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
    """Return the parts of a blob's name in this container: app, function, scope; None for other names."""
    return read_name(name, webjobs=container == WEBJOBS)


def is_stamped(blob: Listed) -> bool:
    """Tell whether the blob has metadata of a lock."""
    return any(key.lower() in STAMP_KEYS for key in blob.metadata)


@dataclass(slots=True, kw_only=True)
class Met:
    """Counts of a listing, over all locks and not only those asked for.

    Attributes:
        locks: number of locks.
        functions: functions with at least one lock.
        ageless: number of locks left out because no record says since when the holder has the lock.
        unsure: number of held locks left out because they seem to be another function's. This is not sure: the name
            has no function, and the hold is young.
    """

    locks: int = 0
    functions: set[str] = field(default_factory=set)
    ageless: int = 0
    unsure: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Filter of a listing.

    Attributes:
        function: only locks of this function.
        held: only held locks.
        older_than: seconds; only locks whose holder is known to have held them for at least this time, and free locks
            that were last written at least this time ago.
    """

    function: str | None = None
    held: bool = False
    older_than: float | None = None

    def among(self, page: Page, container: str, met: Met | None = None) -> Iterator[LockInfo]:
        """Yield the locks of this page that pass the filter; add all locks of the page to the counts in ``met``."""
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
    """Tell whether the lock was acquired at ``latest`` or before; a free lock: whether it was written by then."""
    if lock.holder is None:
        return lock.modified.timestamp() <= latest
    return lock.holder.since is not None and lock.holder.since.timestamp() <= latest


def _is_ageless(lock: LockInfo) -> bool:
    """Tell whether the holder leaves no record of the time of its acquire, not even after half a lease period."""
    return lock.holder is not None and lock.holder.since is None and lock.holder.renewed is not False

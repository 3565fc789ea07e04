"""Locks as a listing shows them: function and scope of the blob's name, lease and holder; and a filter of locks.

``Watch`` tells acquires and releases by the differences between two looks at the container. A lock that was acquired
and released between two looks has a new stamp. Only held locks and locks with a stamp of the last seconds are
remembered, so a hundred thousand unused locks cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from singleton.base.holder_record import Holder
from singleton.dotnet.webjobs import CONTAINER as WEBJOBS
from singleton.locking.holder import recorded
from singleton.locking.seat import seat_name
from singleton.operating.name_parts import NameParts, read_name
from singleton.stores.protocol import HELD
from singleton.stores.stamps import STAMP_KEYS, WORD_KEY, metadata_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from singleton.base.kinds import Level
    from singleton.stores.lock_keeping import Listed, Page
    from singleton.stores.protocol import LeaseState

_NAMED_BY_SOMEBODY: Final = NameParts(app="")
_SEAT: Final = seat_name("")


@dataclass(frozen=True, slots=True, kw_only=True)
class LockInfo:
    """The state of a lock in its container, at one moment.

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


_InfoT = TypeVar("_InfoT", bound=LockInfo)


class Waiting(LockInfo):
    """The seat of a lock, under the lock's name: the holder is the invocation that waits (``"coalesce"``)."""

    @property
    def held(self) -> bool:
        """False: who waits does not have the lock."""
        return False


def lock_info(blob: Listed, container: str) -> LockInfo | None:
    """Return the lock of this blob; None where neither name, stamp nor lease says that the blob is a lock's."""
    if seat_of(blob, container) is not None:
        return None
    parts = parts_of(blob.name, container)
    stamped = any(key.lower() in STAMP_KEYS for key in blob.metadata)
    if parts is None and not stamped and blob.lease == "available":
        return None
    return _shown(LockInfo, blob, blob.name, parts)


def waiting_in(blob: Listed, container: str) -> Waiting | None:
    """Return who waits for a lock, if this blob is the lock's seat and somebody waits there; else None.

    A lease without an end is of another tool, and keeps everybody from the seat: it is shown, too.
    """
    lock = seat_of(blob, container)
    if lock is None or not blob.held or not (blob.endless or metadata_value(blob, WORD_KEY) == "waiting"):
        return None
    info = _shown(Waiting, blob, lock, parts_of(lock, container))
    # Each holder of a seat stamps it at once: the record is of this holder. A seat gives no tokens.
    exact = replace(info.last, since=info.last.since or info.last.recorded, renewed=True, token=None)
    if blob.endless:
        exact = Holder(lock=lock, endless=True)
    return replace(info, holder=exact, last=exact)


def seat_of(blob: Listed, container: str) -> str | None:
    """Return the name of the lock whose seat this blob is; None: the blob is no seat."""
    by_name = lock_of_seat(blob.name, container)
    lock = blob.name.removesuffix(_SEAT)
    return lock if by_name is not None or (lock != blob.name and metadata_value(blob, WORD_KEY)) else None


def lock_of_seat(name: str, container: str) -> str | None:
    """Return the name of the lock whose seat has this name; None: a layout makes no such name."""
    lock = name.removesuffix(_SEAT)
    return lock if lock != name and parts_of(lock, container) is not None else None


def _shown(kind: type[_InfoT], blob: Listed, name: str, parts: NameParts | None) -> _InfoT:
    last = recorded(name, blob)
    told = parts or _NAMED_BY_SOMEBODY
    return kind(
        name=name,
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


@dataclass(slots=True, kw_only=True)
class Met:
    """Counts of a listing, over all locks and not only those asked for.

    Attributes:
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

    ``older_than``: seconds; only locks whose holder is known to have held them for at least this time, and free locks
    that were last written at least this time ago.
    ``seats``: list the seats that have a holder, too. A seat is no lock, and is not counted as one.
    """

    function: str | None = None
    held: bool = False
    older_than: float | None = None
    seats: bool = False

    def among(self, page: Page, container: str, met: Met) -> Iterator[LockInfo]:
        """Yield the locks of this page that pass the filter; add all locks of the page to the counts in ``met``."""
        latest = None if self.older_than is None else page.at - self.older_than
        for blob in page.entries:
            waiting = waiting_in(blob, container) if self.seats else None
            lock = waiting or lock_info(blob, container)
            if lock is None:
                continue
            met.locks += waiting is None
            if lock.function:
                met.functions.add(lock.function)
            if self.held and not lock.held and waiting is None:
                continue
            if self.function is not None and lock.function != self.function:
                met.unsure += lock.held and not lock.function_sure
                continue
            if latest is not None:
                holder = lock.holder
                # The first record of a hold has no time of the acquire: the next one comes after half a lease period.
                met.ageless += holder is not None and holder.since is None and holder.renewed is not False
                if not _is_older(lock, latest):
                    continue
            yield lock


def _is_older(lock: LockInfo, latest: float) -> bool:
    """Tell whether the lock was acquired at ``latest`` or before; a free lock: whether written by ``latest``."""
    begin = lock.modified if lock.holder is None else lock.holder.since
    return begin is not None and begin.timestamp() <= latest


_LATELY: Final = 5.0
"""Seconds before a look in which the look may miss a stamp: Last-Modified has whole seconds."""

LockChange = Literal["holds", "got", "passed", "breaking", "free"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One change of a lock.

    Attributes:
        what: holds (held since before the watch, or the holder is known only now), got (acquired since the last look),
            passed (acquired and released between two looks), breaking (the broken lease still runs), free (no holder
            any more).
    """

    what: LockChange
    lock: LockInfo


class Watch:
    """The looks so far."""

    def __init__(self) -> None:
        self._known: dict[str, LockInfo] = {}
        self._before: float | None = None

    def look(self, locks: Iterable[LockInfo], at: float) -> Iterator[Sight]:
        """Yield the changes since the last look. ``at``: the service's clock at the begin of this look, in seconds.

        A look that the storage breaks off counts as far as the look went.
        """
        known: dict[str, LockInfo] = {}
        for lock in locks:
            stamped = lock.modified.timestamp()
            recent = self._before is not None and stamped >= self._before - _LATELY
            seen = self._seen(lock, recent=recent)
            if lock.held or stamped >= at - 2 * _LATELY:
                known[lock.name] = self._known[lock.name] = lock
            else:
                self._known.pop(lock.name, None)
            for what in seen:
                yield Sight(what=what, lock=lock)
        self._known, self._before = known, at

    def _seen(self, lock: LockInfo, *, recent: bool) -> tuple[LockChange, ...]:
        before = self._known.get(lock.name)
        whose = self._whose(lock, before, recent=recent)
        told = () if whose is None else (whose,)
        going_on = before is not None and before.state == "breaking" and whose != "got"
        return (*told, "breaking") if lock.state == "breaking" and not going_on else told

    def _whose(self, lock: LockInfo, before: LockInfo | None, *, recent: bool) -> LockChange | None:
        """Return the change of the holder; None: no change."""
        if self._before is None:
            return "holds" if lock.held else None
        changed = before is None or before.etag != lock.etag
        if lock.held:
            if before is None or not before.held or (before.state == "breaking" and lock.state == "leased"):
                return "got"
            return _changed_hands(before.last, lock.last) if changed else None
        if before is not None and before.held and not (changed and _changed_hands(before.last, lock.last) == "got"):
            return "free"
        return "passed" if recent and changed else None


def _changed_hands(before: Holder, now: Holder) -> LockChange | None:
    """Return the change between two records of a lock that was held at both looks; None: no change."""
    if not now.renewed:
        return "got"
    if before.renewed is False and (before.host, before.pid) == (now.host, now.pid):
        return "holds" if before.owner != now.owner else None
    if before.since is None or now.since is None:
        return "got"
    return "got" if abs((now.since - before.since).total_seconds()) > _LATELY or before.owner != now.owner else None

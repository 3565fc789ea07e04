"""Acquires and releases, seen from outside: the differences between two looks at the container.

A lock that was acquired and released between two looks has a new stamp. Only held locks and locks with a stamp of the
last seconds are remembered, so a hundred thousand unused locks cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from singleton.base.holder import Holder
    from singleton.operating.locks import LockInfo

_LATELY: Final = 5.0
"""Seconds before a look within which a stamp may have been missed by it: Last-Modified has whole seconds."""

Seen = Literal["holds", "got", "passed", "breaking", "free"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """One change of a lock.

    Attributes:
        what: holds (held since before the watch, or the holder is known only now), got (acquired since the last look),
            passed (acquired and released between two looks), breaking (the broken lease still runs), free (no holder
            any more).
        lock: the lock at this look.
    """

    what: Seen
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

    def _seen(self, lock: LockInfo, *, recent: bool) -> tuple[Seen, ...]:
        before = self._known.get(lock.name)
        whose = self._whose(lock, before, recent=recent)
        told = () if whose is None else (whose,)
        going_on = before is not None and before.state == "breaking" and whose != "got"
        return (*told, "breaking") if lock.state == "breaking" and not going_on else told

    def _whose(self, lock: LockInfo, before: LockInfo | None, *, recent: bool) -> Seen | None:
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


def _changed_hands(before: Holder, now: Holder) -> Seen | None:
    """Return the change between two records of a lock that was held at both looks; None: no change."""
    if not now.renewed:
        return "got"
    if before.renewed is False and (before.host, before.pid) == (now.host, now.pid):
        return "holds" if before.owner != now.owner else None
    if before.since is None or now.since is None:
        return "got"
    return "got" if abs((now.since - before.since).total_seconds()) > _LATELY or before.owner != now.owner else None

"""Who gets a lock and when, seen from outside: the differences between one look at the container and the next.

A lock that was taken and given back between two looks is seen by its stamp, which changed. Only locks that are held, or
were stamped lately, are remembered, so a hundred thousand that nobody uses cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from singleton.operating.locks import LockInfo

_LATELY: Final = 5.0
"""Seconds before a look within which a stamp may have been missed by it: Last-Modified has whole seconds."""

Seen = Literal["holds", "got", "passed", "free"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """Something that was seen.

    Attributes:
        what: holds (has had it since before the watch began), got (has it now), passed (had it between two looks, and
            gave it back), free (nobody has it any more).
        lock: the lock as it is now.
    """

    what: Seen
    lock: LockInfo


class Watch:
    """What was seen so far."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[bool, str]] = {}
        self._before: float | None = None

    def look(self, locks: Iterable[LockInfo], at: float) -> Iterator[Sight]:
        """Yield what is different from the last look. ``at``: the service's clock when this one began.

        A look that the storage breaks off counts as far as it went.
        """
        known: dict[str, tuple[bool, str]] = {}
        for lock in locks:
            stamped = lock.modified.timestamp()
            recent = self._before is not None and stamped >= self._before - _LATELY
            what = self._seen(lock, recent=recent)
            if lock.held or stamped >= at - 2 * _LATELY:
                known[lock.name] = self._known[lock.name] = lock.held, lock.etag
            else:
                self._known.pop(lock.name, None)
            if what is not None:
                yield Sight(what=what, lock=lock)
        self._known, self._before = known, at

    def _seen(self, lock: LockInfo, *, recent: bool) -> Seen | None:
        if self._before is None:
            return "holds" if lock.held else None
        was_held, etag = self._known.get(lock.name, (False, None))
        if lock.held:
            return None if was_held and etag == lock.etag else "got"
        if was_held and etag == lock.etag:
            return "free"
        return "passed" if recent and etag != lock.etag else None

"""Waits on the thread of a running event loop, which block the loop.

If as many sections and earlier waiters as there are slots belong to the loop, none of them can go on: the wait
certainly has no end, and is refused, at its begin and whenever the lock changes hands. Other waits go on, and a warning
names the place of the call, once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from singleton.base.caller import serving
from singleton.base.errors import LockNotAcquired
from singleton.base.invocation import log as _log
from singleton.locking.line import ENDLESS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from singleton.base.caller import Caller, LoopRef
    from singleton.base.hold import Hold
    from singleton.locking.line import Waiter
    from singleton.locking.record import BlobGuard, SectionRecord
    from singleton.locking.semaphore import Semaphore

_REMEDY: Final = (
    "On an event loop, use AsyncLockClient with `async with` and `await`; make a guarded function `async def`; or call "
    "the sync code by asyncio.to_thread"
)
_warned: Final[set[str]] = set()
"""Places of which a warning has told."""


class Contended(NamedTuple):
    """A lock, or a semaphore with ``slots``: the callers in line, the running sections, and the source of changes."""

    name: str
    slots: int
    waiters: Iterable[Waiter]
    records: Callable[[], Iterable[SectionRecord | None]]
    watched: BlobGuard | Semaphore

    def loops_inside(self) -> list[LoopRef | None]:
        """Return the event loops of the holders. A lock that ``at_least`` keeps after its section has none."""
        running = [each for each in self.records() if each is not None and not each.over]
        return [each.loop for each in running if not each.lost.ended or each.lost.is_set()]


def unless_endless(wait: Coroutine[Any, Any, Hold], what: Contended, owner: str) -> Coroutine[Any, Any, Hold]:
    """Return the wait of the caller, with an end if the wait blocks the event loop of the holders."""
    caller = serving.get()
    return wait if caller is None or caller.blocks_at is None else _watched(caller, wait, what, owner)


async def _watched(caller: Caller, wait: Coroutine[Any, Any, Hold], what: Contended, owner: str) -> Hold:
    ahead = [each for each in what.waiters if not each.once]
    place = caller.blocks_at

    def look() -> None:
        loops = what.loops_inside()
        loops += [each.caller.loop for each in ahead if each.caller is not None and each in what.waiters]
        if loops.count(caller.loop) >= what.slots:
            if not scope.expired():  # noqa: F821 - deleted after the last look
                scope.reschedule(asyncio.get_running_loop().time())  # noqa: F821
        elif place and place not in _warned:
            _warned.add(place)
            _log.warning(
                "%s: lock %s is in use, and a wait here blocks the event loop of its thread: nothing else on the loop "
                "goes on meanwhile. %s",
                *(place, what.name, _REMEDY),
                extra={"lock": what.name},
            )

    scope, watched = asyncio.timeout(None), what.watched
    try:
        async with scope:
            watched.watches = (*watched.watches, look)
            if ahead or what.loops_inside():
                look()
            return await wait
    except TimeoutError:
        if not scope.expired():
            raise
    finally:
        watched.watches = tuple(each for each in watched.watches if each is not look)
        del scope  # has the task, and an error of the task has this frame: a circle of references otherwise
    holder = next((record.holder for record in what.records() if record is not None), None)
    at = f" at {place}" if place else ""
    text = (
        f"lock {what.name!r} was not acquired{at}: its holder, or a waiter before, runs on the event loop that "
        f"this wait would block, and the wait would have no end. {_REMEDY}"
    )
    raise LockNotAcquired(text, lock=what.name, owner=owner, reason=ENDLESS, holder=holder)

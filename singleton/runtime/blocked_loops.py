"""Waits on the thread of a running event loop, which block the loop.

If as many sections and earlier waiters as there are slots belong to the loop, none of them can go on: the wait
certainly has no end, and is refused, at its begin and whenever the lock changes hands. Other waits go on, and a warning
names the place of the call, once.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from singleton.base.caller import serving
from singleton.base.errors import LockNotAcquired
from singleton.base.invocation import log as _log
from singleton.locking.line import ENDLESS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from singleton.base.caller import Caller
    from singleton.locking.line import Waiter
    from singleton.locking.record import BlobGuard, SectionRecord
    from singleton.locking.semaphore import Semaphore

_T = TypeVar("_T")

_REMEDY: Final = (
    "On an event loop, use AsyncLockClient with `async with` and `await`; make a guarded function `async def`; or call "
    "the sync code by asyncio.to_thread"
)
_warned: Final[set[str]] = set()
"""Places of which a warning has told."""


class Contended(NamedTuple):
    """A lock, or a semaphore: the callers in line, the section of each slot in this process, the source of changes.

    ``candidate`` is the caller of the candidate for whose success the wait is; None: the wait is for the lock itself.
    """

    name: str
    waiters: Iterable[Waiter]
    records: Callable[[], Iterable[SectionRecord | None]]
    watched: BlobGuard | Semaphore
    candidate: Caller | None = None

    def sections(self) -> Iterator[SectionRecord | None]:
        """Yield the running section of each slot, or None: also while ``at_least`` keeps the lock."""
        for each in self.records():
            runs = each is not None and not each.over and (not each.lost.ended or each.lost.is_set())
            yield each if runs else None


def unless_endless(wait: Coroutine[Any, Any, _T], what: Contended, owner: str) -> Coroutine[Any, Any, _T]:
    """Return the wait of the caller, with an end if the wait blocks the event loop of the holders."""
    caller = serving.get()
    return wait if caller is None or caller.blocks_at is None else _watched(caller, wait, what, owner)


async def _watched(caller: Caller, wait: Coroutine[Any, Any, _T], what: Contended, owner: str) -> _T:
    ahead = [each for each in what.waiters if not each.once]
    place = caller.blocks_at

    def is_here(other: Waiter | SectionRecord | None) -> bool:
        return other is not None and other.caller is not None and other.caller.loop == caller.loop

    def look() -> None:
        if what.candidate and any(each and each.caller is what.candidate for each in what.sections()):
            return
        before = sum(is_here(each) for each in ahead if each in what.waiters)
        elsewhere = (each for each in what.sections() if not is_here(each))
        if not any(True for _ in islice(elsewhere, before, None)):
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
            if ahead or all(what.sections()):
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

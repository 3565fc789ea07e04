"""Holds that end without a release.

* Dropped: a hold that was garbage-collected is released, so that it doesn't keep the lock for ever (M-37).
* Too long: a section that lasts for longer than ``max_hold`` loses its lease. The hold is lost first, and its user is
  told. The lease then expires by itself: it is not released while the body runs. So nobody gets in before the user was
  told.
"""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from typing import TYPE_CHECKING

from singleton.base.double_hold import parts_of
from singleton.base.invocation import log as _log
from singleton.locking.lock import release
from singleton.locking.section import Section

if TYPE_CHECKING:
    from singleton.base.hold import Hold
    from singleton.locking.lease import Lease
    from singleton.locking.record import SectionRecord


def release_if_dropped(hold: Hold) -> None:
    """Give the lock back when ``hold`` is collected without having been released. Call it on the lock's loop."""
    if isinstance(hold, Section):
        hold.when_dropped(_Collected())


class _Collected:
    """Called on whichever thread lets go of the hold, or collects garbage. In a fork the loop does not run.

    As small as it can be: there is one for each lock that is held.
    """

    __slots__ = ("_context", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()

    def __call__(self, lock: str, record: SectionRecord) -> None:
        with suppress(RuntimeError):  # its loop is closed: the lease lapses
            self._loop.call_soon_threadsafe(_end, lock, record, context=self._context)


def _end(lock: str, record: SectionRecord) -> None:
    """End the section of a hold that was collected, unless it has ended. Call it on the lock's loop."""
    if not record.over:
        _log.warning(
            *("lock %s: its hold was garbage-collected without a release, and is released now", lock),
            extra={"lock": lock},
        )
        record.end()


def lose_after(seconds: float, hold: Section) -> None:
    """Have the hold lost as too long, unless its section has ended by then. Call it on the lock's loop.

    It counts for this section alone: one that gets the same lease next has its own time.
    """
    loop = asyncio.get_running_loop()
    timer = loop.call_at(loop.time() + seconds, _too_long, hold.record, hold.lease)  # not the hold (M-37)
    hold.record.when_settled(timer.cancel)


def _too_long(record: SectionRecord, lease: Lease) -> None:
    if not record.over and not record.lost.ended:  # it has ended where its lock is kept for at_least
        lease.lose("too long")


async def give_back(hold: Hold) -> None:
    """Release a hold, with all its parts, and say so."""
    held = [each.lock for each in parts_of(hold) if isinstance(each, Section) and not each.record.over]
    await release(hold)
    for lock in held:
        _log.debug("lock %s: released", lock)


async def until_lost(hold: Hold) -> None:
    """Wait until the lease of a hold is lost whose section is over, and whose lock is kept. Call it on its loop."""
    lost = asyncio.Event()
    forget = hold.lost.add_callback(lambda _: lost.set())
    try:
        await lost.wait()
    finally:
        forget()

"""Holds which end without a release.

* Dropped: a garbage-collected hold is released, or it would keep the lock for ever (M-37).
* Too long: a section loses its lease after ``max_hold``. The hold is lost first, and its user is told. The lease then
  expires: it is not released while the body runs. The next holder never comes before the user was told.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from singleton.base.invocation import log as _log

if TYPE_CHECKING:
    from contextvars import Context

    from singleton.base.hold import Hold
    from singleton.locking.lease import Lease
    from singleton.locking.record import SectionRecord
    from singleton.locking.section import Section


def release_dropped(context: Context, lock: str, record: SectionRecord) -> None:
    """Release the lock of a dropped hold, on the lock's loop. Call on any thread."""
    record.end_soon(partial(_end, lock, record), context)


def _end(lock: str, record: SectionRecord) -> None:
    """End the section of a collected hold, unless the section has ended. Call on the lock's loop."""
    if not record.over:
        if record.lost.reason != "closed":
            _log.warning(
                *("lock %s: its hold was garbage-collected without a release, and is released now", lock),
                extra={"lock": lock},
            )
        record.end()


def lose_after(seconds: float, hold: Section) -> None:
    """Declare the hold lost (``too long``) after ``seconds``, unless its section has ended. Call on the lock's loop.

    The time counts for this section alone: the next section under the lease has its own.
    """
    loop = asyncio.get_running_loop()
    timer = loop.call_at(loop.time() + seconds, _too_long, hold.record, hold.lease)  # not the hold (M-37)
    hold.record.when_settled(timer.cancel)


def _too_long(record: SectionRecord, lease: Lease) -> None:
    if not record.over and not record.lost.ended:  # ended: at_least keeps the lock of an ended hold
        lease.lose("too long")


async def until_lost(hold: Hold) -> None:
    """Wait for the loss of a lease which ``at_least`` keeps after the section. Call on the lock's loop."""
    lost = asyncio.Event()
    forget = hold.own_lost.add_callback(lambda _: lost.set())
    try:
        await lost.wait()
    finally:
        forget()

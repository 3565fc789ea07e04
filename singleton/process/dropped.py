"""Holds that their callers lose sight of: whoever can't release any more must not keep the lock for ever (M-37)."""

from __future__ import annotations

import asyncio
import contextvars
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from singleton.base.naming import log as _log
from singleton.locking.section import Section

if TYPE_CHECKING:
    from singleton.base.hold import Hold, LossSignal
    from singleton.locking.section import Turn


def release_if_dropped(hold: Hold) -> None:
    """Give the lock back when ``hold`` is collected without having been released. Call it on the lock's loop."""
    if isinstance(hold, Section):
        hold.when_dropped(partial(_collected, asyncio.get_running_loop(), contextvars.copy_context()))


def _collected(
    loop: asyncio.AbstractEventLoop, context: contextvars.Context, lock: str, turn: Turn, lost: LossSignal
) -> None:
    """Run on whichever thread lets go of the hold, or collects garbage. In a fork the loop does not run."""
    with suppress(RuntimeError):  # its loop is closed: the lease lapses
        loop.call_soon_threadsafe(end_dropped, lock, turn, lost, context=context)


def end_dropped(lock: str, turn: Turn, lost: LossSignal) -> None:
    """End the section of a hold that was collected, unless it has ended. Call it on the lock's loop."""
    if turn.is_of(lost):
        _log.warning(
            *("lock %s: its hold was dropped without a release, and is given back now", lock), extra={"lock": lock}
        )
        turn.end(lost)

"""The clock of waits, holds and bodies. Suspended time counts where the system has a clock for that."""

from __future__ import annotations

import functools
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def suspend_aware_clock() -> Callable[[], float]:
    """Return a monotonic clock which counts suspended time, if the system has such a clock (B19)."""
    if sys.platform != "win32":
        for clock in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
            if hasattr(time, clock):
                return functools.partial(time.clock_gettime, getattr(time, clock))
    return time.monotonic


now = suspend_aware_clock()
"""Returns the clock's time in seconds, on any thread. Call it as ``clock.now``: ``timed_by`` replaces it."""


@contextmanager
def timed_by(clock: Callable[[], float]) -> Iterator[None]:
    """Replace the clock of this process for the length of the block: for virtual time."""
    global now  # noqa: PLW0603
    before, now = now, clock
    try:
        yield
    finally:
        now = before

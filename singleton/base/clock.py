"""The clock of waits, holds and bodies. Suspended time counts where the system has a clock for that."""

from __future__ import annotations

import functools
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def suspend_aware_clock() -> Callable[[], float]:
    """Return a monotonic clock, one which counts suspended time where the system has it (B19)."""
    for clock in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        if hasattr(time, clock):
            return functools.partial(time.clock_gettime, getattr(time, clock))
    return time.monotonic


_clock = suspend_aware_clock()


def now() -> float:
    """Return the clock's time in seconds. Call from any thread."""
    return _clock()


@contextmanager
def timed_by(clock: Callable[[], float]) -> Iterator[None]:
    """Replace the clock of this process for the length of the block: for virtual time."""
    global _clock  # noqa: PLW0603
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before

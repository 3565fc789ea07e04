"""The clock by which waits, holds and bodies are measured: where the system can, it counts suspended time."""

from __future__ import annotations

import functools
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def suspend_aware_clock() -> Callable[[], float]:
    """Return a monotonic clock that goes on while the machine is suspended, where the system has one (B19)."""
    for clock in ("CLOCK_BOOTTIME", "CLOCK_MONOTONIC"):
        if hasattr(time, clock):
            return functools.partial(time.clock_gettime, getattr(time, clock))
    return time.monotonic


_clock = suspend_aware_clock()


def now() -> float:
    """Return seconds of the clock, from any thread."""
    return _clock()


@contextmanager
def timed_by(clock: Callable[[], float]) -> Iterator[None]:
    """Have everything in this process measured by another clock for the length of the block: under virtual time."""
    global _clock  # noqa: PLW0603
    before, _clock = _clock, clock
    try:
        yield
    finally:
        _clock = before

"""Watch for endless loops: they never let virtual time move on, and only the real processor's time shows them."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

LIMIT: Final = 10.0
"""Seconds of a processor for one world; normally it takes hundredths of a second."""
_AGAIN: Final = 0.1
"""Seconds until the next try: a ``finally`` that waits for something delays the first."""


class Stuck(KeyboardInterrupt):
    """A world took too long; the message says where it is. No ``Exception``: nothing in the world may catch it."""


@contextmanager
def watched(limit: float = LIMIT) -> Iterator[None]:
    """Raise ``Stuck`` in this block when it has used the processor for ``limit`` seconds.

    It works only on the main thread, and on systems with such timers; elsewhere nothing is watched.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    places: list[str] = []

    def stop(_: int, frame: FrameType | None) -> None:
        places.append(_place(frame))
        raise Stuck(f"time stands still after {limit:g} s of computing: {places[0]}")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _place(frame: FrameType | None) -> str:
    """Name the busy place in the shipped code, if it is there."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if "singleton" in path.parts[-3:-1]:
            return f"busy in {frame.f_code.co_name} ({path.name}, line {frame.f_lineno})"
        frame = frame.f_back
    return "busy outside the locks"

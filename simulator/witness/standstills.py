"""See when nothing ran: the loop of a worker, or its whole process. Both are told when the time is over."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final

from simulator.history.journal import clock

if TYPE_CHECKING:
    import asyncio

    from simulator.history.journal import Write

_EVERY: Final = 0.25
_LATE: Final = 0.5
"""Seconds by which a beat may be late before this is reported."""


def tell_standstills(loop: asyncio.AbstractEventLoop, write: Write) -> None:
    """Write ``loop_stood`` when a loop goes on after it did nothing for a while: nobody could be asked to end then."""

    def beat(before: float) -> None:
        now = loop.time()
        if now - before > _EVERY + _LATE:
            write("loop_stood", seconds=round(now - before, 3))
        loop.call_later(_EVERY, beat, now)

    loop.call_soon(lambda: beat(loop.time()))


def tell_process_standstills(write: Write) -> None:
    """Write ``process_stood`` when no thread of this process ran for a while, from a thread that does nothing else."""

    def watch() -> None:
        while True:
            before = clock()
            time.sleep(_EVERY)
            if (passed := clock() - before) > _EVERY + _LATE:
                write("process_stood", seconds=round(passed, 3))

    threading.Thread(target=watch, name="standstills", daemon=True).start()

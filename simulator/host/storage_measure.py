"""How long the storage takes for a bare request, measured by a process of its own, ten times a second.

One process measures for all hosts: they ask the same storage, and further requests would only slow the storage. The
process asks directly, so the faults on the way of a host are not in the measure, and waits for no code of the run.
"""

from __future__ import annotations

import os
import signal
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from simulator.history.journal import Journal, clock
from simulator.history.slowness import STORAGE, SlownessLog

if TYPE_CHECKING:
    from types import FrameType

_PERIOD: Final = 0.1
_QUICK: Final = 0.05
"""Seconds that an answer may take without being late."""
_PATIENCE: Final = 60.0


def measure_storage(endpoint: str, journal: str) -> None:
    """Measure until this process is told to end, or its parent has ended."""
    parent = os.getppid()
    signal.signal(signal.SIGTERM, _leave)
    with Journal(journal, STORAGE) as writer:
        log = SlownessLog(writer.write)
        asking = _Asking(endpoint)
        before = clock()
        try:
            while os.getppid() == parent:
                answered = asking.ask()
                asked = clock() - before
                time.sleep(_PERIOD)
                now = clock()
                woke_late = now - before - asked - _PERIOD
                log.add(now - before, woke_late + (asked if answered and asked > _QUICK else 0.0))
                before = now
        finally:
            log.flush()


def _leave(_number: int, _frame: FrameType | None) -> None:
    raise SystemExit


class _Asking:
    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._connection = kind(parts.netloc, timeout=_PATIENCE)
        self._target = f"{parts.path.rstrip('/')}/locks?restype=container"

    def ask(self) -> bool:
        """Ask without a signature, and tell whether there was an answer: a refusal is one."""
        try:
            self._connection.request("HEAD", self._target)
            self._connection.getresponse().read()
        except (OSError, HTTPException):
            self._connection.close()
            return False
        return True

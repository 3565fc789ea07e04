"""How long the machine keeps this host waiting, measured by a thread of the host: no code of the app runs here.

A thread that sleeps for a fixed time wakes late if the machine is busy. On Linux the kernel knows more: for how long
each thread of a worker was ready and had no processor. A lock that sleeps, that blocks its loop or keeps the
interpreter's lock makes neither longer. A thread that computes has itself to blame for as much delay as it computed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simulator.history.journal import clock
from simulator.history.slowness import SlownessLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from simulator.history.journal import Write

PROCESSES: Final = "/proc"
_PERIOD: Final = 0.25
_NANOSECONDS: Final = 1e9


class MachineMeasure:
    """Measures until the process ends; `close` writes what is left."""

    def __init__(self, write: Write, workers: Callable[[], Iterable[int]]) -> None:
        """Prepare; ``workers`` returns the ids of the processes that run the app."""
        self._log = SlownessLog(write)
        self._workers = workers
        self._waits = ProcessorWaits()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="machine-measure", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """End the thread, and write what it has measured."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        self._log.flush()

    def _run(self) -> None:
        before = clock()
        while not self._over.is_set():
            self._over.wait(_PERIOD)
            now = clock()
            late = max((self._waits.since(pid) for pid in self._workers()), default=0.0)
            self._log.add(now - before, max(late, now - before - _PERIOD))
            before = now


class ProcessorWaits:
    """Reads how long the threads of a process were ready to run, and did not."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, tuple[int, int]]] = {}

    def since(self, process: int) -> float:
        """Return the seconds since the last call for this process; 0 where the system does not tell."""
        now: dict[str, tuple[int, int]] = {}
        try:
            for thread in Path(PROCESSES, str(process), "task").iterdir():
                ran, waited, _ = (thread / "schedstat").read_bytes().split()
                now[thread.name] = (int(ran), int(waited))
        except (OSError, ValueError):  # the process or one of its threads ended meanwhile
            return 0.0
        before, self._known[process] = self._known.get(process, now), now
        return sum(_waited(now[thread], before.get(thread, (0, 0))) for thread in now) / _NANOSECONDS


def _waited(now: tuple[int, int], before: tuple[int, int]) -> int:
    return max(0, now[1] - before[1] - (now[0] - before[0]))

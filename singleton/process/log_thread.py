"""Where the lock thread's lines are logged: on a separate thread, so that a handler that blocks stops no lock."""

from __future__ import annotations

import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from singleton.base.invocation import say_by

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 10_000
"""Lines that wait for a handler; what comes beyond is dropped."""


class LogThread:
    """A daemon thread that logs one line after another; it is started by the first."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def serve(self) -> None:
        """Have the lines of the calling thread logged here."""
        say_by(self._put)

    def close(self, within: float) -> None:
        """Log what is left, for some seconds at most."""
        if self._thread is not None:
            self._lines.put(None)
            self._thread.join(within)

    def _put(self, say: Callable[[], None]) -> None:
        if not self._begun():
            say()
            return
        if self._lines.qsize() < _MOST:
            self._lines.put(say)

    def _begun(self) -> bool:
        """Start the thread, unless it runs; False where the interpreter ends, and gives out no more threads."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="singleton-log", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _run(self) -> None:
        while (say := self._lines.get()) is not None:
            self._say(say)

    def _say(self, say: Callable[[], None]) -> None:
        with suppress(Exception):  # a filter or handler of the app's: the next line may fare better
            say()

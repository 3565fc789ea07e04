"""The log thread: log lines of the lock thread are logged on one more thread, since a log handler may block."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Final

from singleton.base.invocation import catch_by, caught_here, print_unlogged, say_by

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST: Final = 10_000
"""Number of waiting log lines; further lines are dropped."""


class LogThread:
    """A daemon thread for the log lines of the lock thread; started by the first line."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def serve(self) -> None:
        """Log the lines of the calling thread on the log thread."""
        say_by(self._put)

    def close(self, within: float) -> None:
        """Log the waiting lines, for at most ``within`` seconds."""
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
        """Start the thread, unless it runs; False: the interpreter ends and starts no more threads."""
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="singleton-log", daemon=True)
            try:
                thread.start()
            except RuntimeError:
                return False
            self._thread = thread
        return True

    def _run(self) -> None:
        catch_by(lambda: BaseException)
        while (say := self._lines.get()) is not None:
            self._say(say)

    def _say(self, say: Callable[[], None]) -> None:
        try:
            say()
        except caught_here() as error:
            print_unlogged(error)

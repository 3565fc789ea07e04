"""Says on the error stream that the storage does not answer, so that nobody takes silence for progress."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Final, Self

from singleton.base.errors import StorageUnavailable
from singleton.cli.hearing import SILENT
from singleton.cli.lines import say
from singleton.cli.words import span
from singleton.settings.connection import redact

if TYPE_CHECKING:
    from singleton.base.errors import SingletonError
    from singleton.cli.hearing import Hearing

READING: Final = 15.0
"""Seconds for which a command that only reads asks for one answer."""
_LONGEST_PAUSE: Final = 60.0


class Silence:
    """A block in which the storage is asked: if it has not answered after two seconds, this is said, once."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._told = False

    def __enter__(self) -> Self:
        self._timer = threading.Timer(SILENT, self._tell)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(self, _: object, error: object, __: object) -> None:
        self._timer.cancel()
        if not isinstance(error, StorageUnavailable):
            self._told = False

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            say(f"{self._where} has not answered for {span(SILENT)}; asking again", err=True)


class Outage:
    """A time in which the storage does not answer: told at once, then after pauses that double, up to a minute.

    It began with the first request that was not answered, as far as ``hearing`` knows.
    """

    def __init__(self, hearing: Hearing | None = None) -> None:
        self._hearing = hearing
        self._began: float | None = None
        self._due = self._pause = 0.0

    def goes_on(self, error: SingletonError) -> None:
        """Tell of it, if it is time."""
        now = time.monotonic()
        if self._began is None:
            self._began, self._due, self._pause = now, now, 1.0
            if self._hearing is not None:
                self._began = now if self._hearing.since is None else self._hearing.since
                self._hearing.leave_telling()
        if now < self._due:
            return
        self._pause = min(_LONGEST_PAUSE, 2 * self._pause)
        self._due = now + self._pause
        lasted = f" for {span(now - self._began)}" if now - self._began >= 1 else ""
        say(f"{redact(str(error))}{lasted}; asking again, Ctrl-C ends it", err=True)

    def is_over(self) -> None:
        """Tell that the storage answers, if it did not."""
        if self._began is not None:
            say(f"the storage answers again, after {span(time.monotonic() - self._began)}", err=True)
            self._began = None

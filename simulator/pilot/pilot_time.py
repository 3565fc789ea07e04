"""How long a pilot goes on trying: to the end of its time, or until its storage has been silent for too long."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

_T = TypeVar("_T")

SILENT: Final = 60.0
"""Seconds without an answer to any request after which nothing more is tried."""
LATER: Final = 60.0
"""Seconds beyond the time that was given, for a slow account, after which nothing more is tried."""
_LOOK_EVERY: Final = 1.0
_LEAVE: Final = 10.0


class PilotOverError(Exception):
    """Nothing more is tried; the message says why."""


class PilotTime:
    """The time of a pilot, for all its threads."""

    def __init__(self, seconds: float) -> None:
        """Begin the time; ``seconds``: what was given."""
        self._given = seconds
        self._ends = time.monotonic() + seconds + LATER
        self._open = 0
        self._silent: float | None = None
        """Since when there was no answer, though there was something to answer."""
        self.cut = ""
        """Why something was not tried."""

    def asked(self) -> None:
        """Take note of the begin of a request."""
        self._open += 1
        self._silent = self._silent or time.monotonic()

    def heard(self, *, answered: bool) -> None:
        """Take note of the end of a request."""
        self._open -= 1
        if answered:
            self._silent = time.monotonic() if self._open else None

    def over(self) -> str:
        """Say why nothing more is tried; empty while there is time. It does not begin again."""
        now, silent = time.monotonic(), self._silent
        if silent is not None and now - silent > SILENT:
            self.cut = self.cut or f"the storage had answered nothing for {SILENT:g} s"
        elif now > self._ends:
            self.cut = self.cut or f"the {self._given:g} s were over, and {LATER:g} s more"
        return self.cut

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Do some work. ``PilotOverError``: there was not enough time for it."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                if why := self.over():
                    raise PilotOverError(why)
                await asyncio.wait({task}, timeout=_LOOK_EVERY)
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_LEAVE)

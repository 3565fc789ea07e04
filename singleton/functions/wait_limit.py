"""A wait ends before ``functionTimeout`` does. After that the host restarts the worker, and every body in it ends.

The time since the invocation began counts: the wait for a listener, the wait for the lock, and the time between. The
host begins to count a little earlier, and the invocation must still be answered. So a wait leaves a tenth of the
time-out, at least five seconds, but never more than half of it.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from singleton.base.errors import LockNotAcquired
from singleton.base.forks import cached_property
from singleton.base.timespan import host_json_timespan
from singleton.settings.durations import in_words
from singleton.settings.hostjson import FunctionTimeout, function_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from singleton.base.invocation import Invocation
    from singleton.runtime.registry import Registry

_T = TypeVar("_T")

Acquire: TypeAlias = "Callable[[Registry, float | None], Coroutine[Any, Any, _T]]"
"""Acquires on the lock thread, within so many seconds; None: without end."""

OR_NOT_AT_ALL: Final = (
    "Raise functionTimeout, make the bodies that hold the lock shorter, or don't wait: on_contention='defer' or 'skip'"
)
SHORTER: Final = "Raise functionTimeout, or make the bodies that hold the lock shorter"
"""The advice to a coalescing function: with another policy the last change can be lost."""
_SPARED: Final = 0.1
_SPARED_AT_LEAST: Final = 5.0
_SPARED_AT_MOST: Final = 0.5
_A_MOMENT: Final = 0.05
"""Seconds by which a timer may come before its time."""


@dataclass(frozen=True)
class WaitLimit:
    """For how long an invocation may wait for locks.

    ``timeout`` is the ``functionTimeout``; None: there is none, and a wait may last for ever.
    """

    timeout: FunctionTimeout | None

    @classmethod
    def of(cls, app_dir: Path | None, settings: Mapping[str, str]) -> WaitLimit:
        """Return the limit of an app. It reads host.json: ask once."""
        return cls(function_timeout(app_dir, settings))

    @cached_property
    def seconds(self) -> float:
        """Seconds after its begin at which an invocation waits no longer."""
        if self.timeout is None:
            return math.inf
        whole = self.timeout.seconds
        return whole - min(max(_SPARED * whole, _SPARED_AT_LEAST), _SPARED_AT_MOST * whole)

    def notice(self, wait: float | None) -> str | None:
        """Return a warning if a given time-out is longer than the limit, else None."""
        if wait is None or wait <= self.seconds:
            return None
        longest = host_json_timespan(round(self.seconds, 1))
        return f"the time-out is {in_words(wait)}, but a wait ends after {longest}: {self._why()}"

    async def within(
        self,
        registry: Registry,
        wait: float | None,
        invocation: Invocation | None,
        acquire: Acquire[_T],
        advice: str = OR_NOT_AT_ALL,
    ) -> _T:
        """Wait by ``acquire(registry, seconds)`` for ``wait`` seconds (None: without end), but not past the limit.

        Call this on the lock thread, by whose clock the limit counts. At the limit the ``LockNotAcquired`` says why the
        wait ended, and ``advice`` says what to do.
        """
        loop = asyncio.get_running_loop()
        began, left = loop.time(), self.seconds
        if invocation is not None and self.timeout is not None:
            if invocation.since is None:
                invocation.since = began
            left = round(self.seconds - (began - invocation.since), 1)
        if left == math.inf or (wait is not None and wait <= left):
            return await acquire(registry, wait)
        ends = began + left
        try:
            return await acquire(registry, max(0.0, left))
        except LockNotAcquired as error:
            if loop.time() < ends - _A_MOMENT:
                raise
            raise LockNotAcquired(
                f"{error.message}. The wait ended here because {self._why()}. {advice}",
                lock=error.lock,
                owner=error.owner,
                reason="functionTimeout",
                holder=error.holder,
            ) from None

    def _why(self) -> str:
        assert self.timeout is not None
        limit = host_json_timespan(self.timeout.seconds)
        return (
            f"functionTimeout ({limit}, {self.timeout.source}) includes the wait. When it is over, the host restarts "
            "the worker, and every function in it ends"
        )

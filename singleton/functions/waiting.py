"""A wait ends before ``functionTimeout`` does. After that the host restarts the worker, and every body in it ends.

The time since the invocation began counts: the wait for a listener, the wait for the lock, and the time between. The
host begins to count a little earlier, and the invocation must still be answered. So a wait leaves a tenth of the
time-out, at least five seconds, but never more than half of it.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from singleton.base.errors import LockNotAcquired
from singleton.base.naming import current
from singleton.base.timespan import host_json_timespan
from singleton.process.running import Ask
from singleton.settings.durations import in_words
from singleton.settings.functiontimeout import FunctionTimeout, function_timeout

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping
    from pathlib import Path

    from singleton.base.hold import Hold
    from singleton.base.naming import Invocation
    from singleton.process.address import Address
    from singleton.process.crowd import Crowd, Waiting
    from singleton.process.registry import Registry

_T = TypeVar("_T")

Acquire: TypeAlias = "Callable[[Registry, float | None], Coroutine[Any, Any, _T]]"
"""Acquires on the lock thread, within so many seconds; None: without end."""

_SPARED: Final = 0.1
_SPARED_AT_LEAST: Final = 5.0
_SPARED_AT_MOST: Final = 0.5
_A_MOMENT: Final = 0.05
"""Seconds by which a timer may come before its time."""


@dataclass(frozen=True)
class WaitLimit:
    """For how long an invocation may wait for locks.

    Attributes:
        timeout: the ``functionTimeout``; None: there is none, and a wait may last for ever.
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
        """Say in words that a time-out somebody gave is longer than the limit, where it is."""
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
        *,
        since: float | None = None,
    ) -> _T:
        """Wait by ``acquire(registry, seconds)`` for ``wait`` seconds (None: without end), but not past the limit.

        Call it on the lock thread, whose clock counts. ``since``: when the wait began; None: now.

        Raises:
            LockNotAcquired: as ``acquire`` does; or the limit is reached, and the error says why and what to do.
        """
        loop = asyncio.get_running_loop()
        began = loop.time() if since is None else since
        left = self.left(invocation, began)
        if left == math.inf or (wait is not None and wait <= left):
            return await acquire(registry, wait)
        ends = began + left
        try:
            return await acquire(registry, max(0.0, left))
        except LockNotAcquired as error:
            if loop.time() < ends - _A_MOMENT:
                raise
            raise LockNotAcquired(
                f"{error.message}. The wait ended here because {self._why()}. Raise functionTimeout, make the bodies "
                "that hold the lock shorter, or don't wait: on_contention='defer' or 'skip'",
                lock=error.lock,
                owner=error.owner,
                reason="functionTimeout",
                holder=error.holder,
            ) from None

    def left(self, invocation: Invocation | None, now: float) -> float:
        """Return the seconds for which it may wait from now on, by the lock thread's clock."""
        if self.timeout is None:
            return math.inf
        if invocation is None:
            return self.seconds
        if invocation.since is None:
            invocation.since = now
        return round(self.seconds - (now - invocation.since), 1)

    def _why(self) -> str:
        assert self.timeout is not None
        limit = host_json_timespan(self.timeout.seconds)
        return (
            f"functionTimeout ({limit}, {self.timeout.source}) includes the wait. When it is over, the host restarts "
            "the worker, and every function in it ends"
        )


class GuardAsk(Ask):
    """Asks for the lock of an invocation, which waits no longer than it may last, nor as one too many."""

    __slots__ = ("_acquire", "_crowd", "_invocation", "_limit", "_most", "_others")

    def __init__(
        self,
        address: Address,
        owner: str,
        timeout: float | None,
        acquire: Acquire[Hold] | None,
        *,
        limit: WaitLimit,
        most: int | None = None,
        others: Waiting | None = None,
    ) -> None:
        """Ask in the name of the invocation of now.

        Args:
            address: of the lock; of that which is waited for, where there are several.
            owner: the invocation's id.
            timeout: seconds to wait; 0 asks once; None waits for as long as it takes.
            acquire: how it is acquired; None: in line, or as a runner.
            limit: ends the wait.
            most: how many wait, at most; None: any number.
            others: is told how many wait, where it was asked for in vain.
        """
        super().__init__(address, owner, timeout)
        self._acquire = acquire
        self._limit = limit
        self._most = most
        self._others = others
        self._invocation = current()
        self._crowd: Crowd | None = None

    def patience(self, now: float) -> float:
        """See ``Ask.patience``. With a time-out it asks on the lock thread: at its end a policy may skip the body."""
        if self._acquire is not None or self.timeout is not None:
            return 0.0
        return self._limit.left(self._invocation, now)

    def begin(self, registry: Registry) -> None:
        """Count who waits.

        Raises:
            LockNotAcquired: too many wait already.
        """
        if self.timeout != 0:
            self._crowd = registry.crowd
            self._crowd.come(self.address.blob, self, self.owner, self._most)

    async def go_on(self, registry: Registry, since: float | None) -> Hold:
        """Wait on the lock thread."""
        loop = asyncio.get_running_loop()
        began = loop.time() if since is None else since
        if since is None:
            self.begin(registry)
        acquire = self._acquire or partial(self._in_line, since=since)
        try:
            return await self._limit.within(registry, self.timeout, self._invocation, acquire, since=began)
        finally:
            self._count_out()
            if self._others is not None:
                self._others.number = registry.crowd.of(self.address.blob)
                self._others.seconds = loop.time() - began

    def _in_line(self, registry: Registry, within: float | None, since: float | None) -> Coroutine[Any, Any, Hold]:
        return registry.acquire(self.address, timeout=within, owner=self.owner, since=since)

    def got(self, hold: Hold) -> None:
        """Count out a runner who got it."""
        del hold
        self._count_out()

    def failed(self, error: BaseException) -> None:
        """Count out a runner who goes away."""
        del error
        self._count_out()

    def returned(self) -> None:
        """Count him out, if whoever should have done so was interrupted."""
        self._count_out()

    def _count_out(self) -> None:
        if self._crowd is not None:
            self._crowd.go(self.address.blob, self)

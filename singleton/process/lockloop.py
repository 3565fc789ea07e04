"""The event loop of the lock thread: its clock counts suspended time, and its last requests still go out."""

from __future__ import annotations

import asyncio
import selectors
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from singleton.base.clock import suspend_aware_clock

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_LOOK_UP = 1.0
"""Longest sleep, seconds: select() does not count the time that a machine is suspended."""
_WAKE_UPS = 4096
"""How many of them are taken note of at a time; asyncio does so, too."""
_IN_A_ROW = 4
"""Times in a row that a loop with something to do may go on with that, without a look at its sockets."""


class _AttentiveSelector(selectors.DefaultSelector):
    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        return super().select(_LOOK_UP if timeout is None else min(timeout, _LOOK_UP))


class LockLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on a clock that counts suspended time."""

    # asyncio's own; alike in 3.11 and 3.13.
    _debug: bool
    _ready: deque[Any]
    _scheduled: list[Any]
    _stopping: bool

    def __init__(self) -> None:
        # In place of a method, for it is asked dozens of times for each lock; from any thread.
        self.time = suspend_aware_clock()  # type: ignore[method-assign]
        super().__init__(_AttentiveSelector())

    def _run_once(self) -> None:
        """Run what is ready, and what that makes ready; then do as asyncio, which looks at sockets and timers first.

        A timer that is due is not kept waiting. In debug mode asyncio does it all: it reports slow callbacks.
        """
        ready, scheduled = self._ready, self._scheduled
        for _ in range(_IN_A_ROW):
            if not ready or self._debug or (scheduled and scheduled[0]._when <= self.time()):  # noqa: SLF001
                break
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:  # noqa: SLF001
                    handle._run()  # noqa: SLF001
                del handle  # it may be part of a cycle
            if self._stopping:
                return
        super()._run_once()  # type: ignore[misc]

    def _read_from_self(self) -> None:
        """Take note of a wake-up. asyncio reads until nothing is left; what is left here wakes the loop again."""
        with suppress(BlockingIOError, InterruptedError):
            self._ssock.recv(_WAKE_UPS)  # type: ignore[attr-defined]

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[_Args]], _T], *args: *_Args) -> asyncio.Future[_T]:
        """Run ``func`` on a thread, or here when the interpreter ends and gives out no more of them.

        A request asks for one if it needs a new connection (DNS), and the last request gives a lease back.
        """
        try:
            return super().run_in_executor(executor, func, *args)
        except RuntimeError:
            future = self.create_future()
            future.set_result(func(*args))
            return future

"""The event loop of the lock thread."""

from __future__ import annotations

import asyncio
import contextvars
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from singleton.base.clock import suspend_aware_clock
from singleton.base.invocation import say
from singleton.base.tasks import on_daemon_thread

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_LOOK_UP = 1.0
"""Longest sleep, seconds: select() does not count the time that a machine is suspended."""


class LockLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on a clock that counts suspended time."""

    def __init__(self) -> None:
        # An attribute in place of a method: read dozens of times for a lock, on any thread.
        self.time = suspend_aware_clock()  # type: ignore[method-assign]
        super().__init__()
        # In an empty context: the timer lasts as long as the process, and keeps no caller's context alive.
        self.call_later(_LOOK_UP, self._look_up, context=contextvars.Context())

    def _look_up(self) -> None:
        """Wake the loop again after ``_LOOK_UP``. In the round without this timer asyncio drops cancelled timers."""
        self.call_soon(self.call_later, _LOOK_UP, self._look_up)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log the error of a task or callback, on the log thread."""
        say(partial(super().call_exception_handler, context))

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[_Args]], _T], *args: *_Args) -> asyncio.Future[_T]:
        """Run ``func`` without an executor on a daemon thread of its own: a stuck lookup of a host delays no other."""
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        return on_daemon_thread(self, partial(func, *args), "lookup")

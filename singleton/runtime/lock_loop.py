"""The event loop of the lock thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from singleton.base.clock import suspend_aware_clock
from singleton.base.invocation import say

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
        """Run ``func`` without an executor on a daemon thread of its own, or on this thread if no thread can start.

        A host's lookup that is stuck takes no thread from another lookup, and does not delay the end of the process.
        A request with a new connection needs a lookup, and the last request of an interpreter that ends, and starts no
        more threads, releases a lease.
        """
        if executor is not None:
            return super().run_in_executor(executor, func, *args)
        future: concurrent.futures.Future[_T] = concurrent.futures.Future()

        def work() -> None:
            try:
                future.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
                future.set_exception(error)

        future.set_running_or_notify_cancel()
        answer = asyncio.wrap_future(future, loop=self)
        try:
            threading.Thread(target=work, name="singleton-lookup", daemon=True).start()
        except RuntimeError:
            work()
        return answer

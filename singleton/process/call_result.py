"""What becomes of a call to another thread: an answer, an error, or nothing, where the caller goes away before.

As ``concurrent.futures.Future``, for one caller, without the condition variable, which takes longer than all the rest.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


class CallResult(Generic[_T]):
    """Decided once, from any thread: ``claim`` it before it is answered, or ``cancel`` it.

    Attributes:
        cancelled: nobody waits for it any more.
    """

    __slots__ = ("_callbacks", "_error", "_is_done", "_undecided", "_value", "_waited_for", "cancelled")

    _value: _T

    def __init__(self) -> None:
        self.cancelled = False
        self._error: BaseException | None = None
        self._is_done = False
        self._undecided = threading.Lock()  # taken, for good, by who decides
        self._waited_for = threading.Lock()
        self._waited_for.acquire()
        self._callbacks: list[Callable[[], object]] = []

    def claim(self) -> bool:
        """Decide that there will be an answer; False: it was cancelled."""
        return self._undecided.acquire(blocking=False)

    def cancel(self) -> bool:
        """Decide that nobody waits for it any more; False: it was claimed."""
        if self._undecided.acquire(blocking=False):
            self.cancelled = True
            self._end(concurrent.futures.CancelledError())
        return self.cancelled

    def give(self, value: _T) -> None:
        """Answer. It was claimed."""
        self._value = value
        self._end(None)

    def fail(self, error: BaseException) -> None:
        """Have the caller get this error. It was claimed."""
        self._end(error)

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call this when it is decided, and answered or cancelled, on whichever thread that happens; it may be now."""
        self._callbacks.append(callback)
        if self._is_done:
            self._call_all()

    def wait(self, timeout: float = -1) -> None:
        """Block until it is done; or for so many seconds, at most."""
        if not self._is_done and self._waited_for.acquire(timeout=timeout):
            self._waited_for.release()

    def error(self) -> BaseException | None:
        """Block until it is done; return the error."""
        self.wait()
        return self._error

    def result(self) -> _T:
        """Block until it is done; return the answer, or raise the error."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # of the error's traceback
        return self._value

    async def awaited(self) -> _T:
        """Wait until it is done, as ``result``. A cancellation of the caller leaves it as it is."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        here = contextvars.copy_context()  # of the task: the call that wakes the task is part of the task's work

        def done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no task waits any more
                loop.call_soon_threadsafe(_wake, waiting, context=here)

        self.when_done(done)
        try:
            await waiting
            return self.result()
        finally:
            del self  # of the error's traceback

    def _end(self, error: BaseException | None) -> None:
        self._error = error
        self._is_done = True
        try:  # noqa: SIM105 - an interrupt may come with each call, so there is none in between
            self._waited_for.release()
        except RuntimeError:  # ended twice, where an interrupt let two decide
            pass
        if self._callbacks:
            self._call_all()

    def _call_all(self) -> None:
        """Call each once, on whichever of two threads comes first; one that is interrupted may be called again."""
        while True:
            try:
                callback = self._callbacks.pop(0)
            except IndexError:
                return
            try:
                callback()
            except BaseException:
                self._callbacks.append(callback)
                raise


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():  # as it is where the task was cancelled meanwhile
        waiting.set_result(None)

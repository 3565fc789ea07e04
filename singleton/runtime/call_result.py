"""The result of a call to another thread: a value, an error, or a cancellation by the caller.

Like ``concurrent.futures.Future``, for one caller, without the condition variable, the largest part of its cost.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import contextvars
import threading
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from singleton.base.tasks import running_loop

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_T = TypeVar("_T")


class CallResult(Generic[_T]):
    """Decided once, on any thread: ``claim`` before an answer, or ``cancel``.

    Attributes:
        cancelled: the caller waits no longer.
        task: the work on the other thread, once begun.
    """

    __slots__ = ("_callbacks", "_error", "_is_done", "_undecided", "_value", "_waited_for", "cancelled", "task")

    def __init__(self) -> None:
        self.cancelled = False
        self.task: asyncio.Task[_T] | None = None
        self._value: _T | None = None
        self._error: BaseException | None = None
        self._is_done = False
        self._undecided = threading.Lock()  # taken for good by the deciding thread
        self._waited_for = threading.Lock()
        self._waited_for.acquire()
        self._callbacks: list[Callable[[], object]] = []

    def claim(self) -> bool:
        """Decide for an answer; False: the caller has cancelled."""
        return self._undecided.acquire(blocking=False)

    def cancel(self) -> bool:
        """Decide against an answer; False: claimed before."""
        if self._undecided.acquire(blocking=False):
            self.cancelled = True
            self.fail(concurrent.futures.CancelledError())
        return self.cancelled

    def give(self, value: _T | None, error: BaseException | None = None) -> None:
        """Answer with a value, or with an error, after ``claim``."""
        self._value, self._error = value, error
        self._is_done = True
        try:  # noqa: SIM105 - an interrupt may come at every call: no further call in between
            self._waited_for.release()
        except RuntimeError:  # ended twice: an interrupt let two threads decide
            pass
        if self._callbacks:
            self._call_all()

    def fail(self, error: BaseException) -> None:
        """Answer with an error, after ``claim``."""
        self.give(None, error)

    def when_done(self, callback: Callable[[], object]) -> None:
        """Call ``callback`` after the answer or cancellation, on the deciding thread; at once if done."""
        self._callbacks.append(callback)
        if self._is_done:
            self._call_all()

    def wait(self, timeout: float = -1) -> None:
        """Block until the answer or cancellation, at most ``timeout`` seconds; negative: without limit."""
        if not self._is_done and self._waited_for.acquire(timeout=timeout):
            self._waited_for.release()

    def error(self) -> BaseException | None:
        """Block until done; return the error, or None."""
        self.wait()
        return self._error

    def result(self) -> _T:
        """Block until done; return the value, or raise the error."""
        self.wait()
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self  # the error's traceback has this frame
        return cast("_T", self._value)

    async def awaited(self) -> _T:
        """Wait until done; return the value, or raise the error. A cancellation of the caller decides nothing."""
        loop = running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        here = contextvars.copy_context()  # the callback which wakes the task runs in the task's context

        def done() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no task waits
                loop.call_soon_threadsafe(_wake, waiting, context=here)

        self.when_done(done)
        try:
            await waiting
            return self.result()
        finally:
            del self  # the error's traceback has this frame

    def _call_all(self) -> None:
        """Make every call once, on the faster of two threads; an interrupted call may be repeated."""
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
    if not waiting.done():  # done: the task was cancelled
        waiting.set_result(None)

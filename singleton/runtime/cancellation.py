"""The end of a body whose hold was lost: its task is cancelled, and the cancellation becomes ``LockLost``.

The rules are those of ``asyncio.timeout``: the task that entered is cancelled, once, and the request is taken back at
the end of the body. A cancellation by another cause at the same time is passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from singleton.base.errors import LockLost
from singleton.base.several import none_lost, raise_the_lost
from singleton.runtime.reentry import outer_signals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from singleton.base.hold import Hold
    from singleton.runtime.calls import Work
    from singleton.runtime.registry import Registry

_T = TypeVar("_T")


def cancelled_when_lost(hold: Hold) -> contextlib.AbstractContextManager[None]:
    """Cancel the task of the block at a loss of the hold, and turn the cancellation into ``LockLost``."""
    task = asyncio.current_task()
    return contextlib.nullcontext() if task is None else _Cancelled(hold, task)


class LossWatch:
    """Cancels a task at the first loss of a hold, until the end of the watch.

    The holds refer to the watch weakly: a dropped block ends its watch, and keeps no hold from its collection (M-37).
    """

    __slots__ = ("__weakref__", "_before", "_forget", "_is_over", "_loop", "_ours", "_task")

    def __init__(self, holds: Sequence[Hold], task: asyncio.Task[object]) -> None:
        self._task = task
        self._loop = task.get_loop()
        self._before = task.cancelling()
        self._is_over = self._ours = False
        tell = partial(_cancel_there, weakref.ref(self))
        self._forget: list[Callable[[], None]] = [hold.own_lost.add_callback(tell) for hold in holds]

    def end(self, error: BaseException | None) -> bool:
        """End the watch; tell whether the error of the body is the cancellation by this watch, and by nobody else."""
        self._is_over = True
        for forget in self._forget:
            forget()
        if not self._ours or asyncio.current_task() is not self._task:
            return False
        return self._task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError)

    def cancel_soon(self) -> None:
        """Cancel the task, on its loop. Call on any thread."""
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no task runs
            self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if not (self._is_over or self._ours):
            self._ours = self._task.cancel("the lock is lost")


def _cancel_there(watch: weakref.ref[LossWatch], _: str) -> None:
    if (there := watch()) is not None:
        there.cancel_soon()


class _Cancelled:
    """The block of ``cancelled_when_lost``. A generator would take several times as long, in every invocation."""

    __slots__ = ("_hold", "_task", "_watch")

    _watch: LossWatch

    def __init__(self, hold: Hold, task: asyncio.Task[object]) -> None:
        self._hold = hold
        self._task = task

    def __enter__(self) -> None:
        self._watch = LossWatch((self._hold,), self._task)

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        if self._watch.end(error):
            fail((self._hold,), error, cancelled=True)


def fail(lost: Sequence[Hold], error: BaseException | None, *, cancelled: bool) -> None:
    """Fail at the end of a body whose holds were lost.

    Args:
        lost: the lost holds; empty: nothing happens.
        error: what the body raised. An error of the body's own is left as it is, with a note of the loss.
        cancelled: whether ``error`` is the cancellation by the loss.

    Raises:
        LockLost: the body returned, or was cancelled by the loss.
    """
    for hold in lost[:1]:
        try:
            hold.own_lost.raise_if_over()
        except LockLost as loss:
            if error is None or cancelled:
                raise loss from error
            if isinstance(error, Exception) and not (isinstance(error, LockLost) and error.lock == loss.lock):
                error.add_note(str(loss))


def unless_lost(work: Work[_T]) -> Work[_T]:
    """Return the work, for a body, which ends with ``LockLost`` as soon as a hold around the caller is lost."""
    if not (outer := outer_signals()):
        return work

    async def ask(registry: Registry) -> _T:
        raise_the_lost(outer)
        async with none_lost(outer):
            return await work(registry)

    return ask

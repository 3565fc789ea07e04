"""Cancellation of a guarded body by a loss. The cancellation never reaches the worker: it becomes ``LockLost``."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from functools import partial
from typing import TYPE_CHECKING

from singleton.base.errors import LockLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import Hold


def cancelled_when_lost(hold: Hold) -> contextlib.AbstractContextManager[None]:
    """Cancel the task of the block at a loss of the hold, and turn the cancellation into ``LockLost``.

    A cancellation by another cause is passed on.
    """
    task = asyncio.current_task()
    return contextlib.nullcontext() if task is None else _Cancelling(hold, task)


class _Cancelling:
    """The block. A generator would take several times as long, in every invocation."""

    __slots__ = ("__weakref__", "_before", "_hold", "_is_over", "_loop", "_ours", "_remove", "_task")

    _remove: Callable[[], None]

    def __init__(self, hold: Hold, task: asyncio.Task[object]) -> None:
        self._hold = hold
        self._task = task
        self._loop = task.get_loop()
        self._before = task.cancelling()
        self._is_over = self._ours = False

    def __enter__(self) -> None:
        # The lock keeps its callbacks, and must not keep the task of a closed loop, which has the hold (M-37).
        self._remove = self._hold.lost.add_callback(partial(_cancel_there, weakref.ref(self), self._loop))

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        self._is_over = True
        self._remove()
        if self._ours and self._task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError):
            try:
                self._hold.raise_if_lost()
            except LockLost as lost:
                raise lost from error

    def cancel(self) -> None:
        if not self._is_over:
            self._ours = True
            self._task.cancel("the lock is lost")


def _cancel_there(known: weakref.ref[_Cancelling], loop: asyncio.AbstractEventLoop, _: str) -> None:
    if (block := known()) is not None:
        loop.call_soon_threadsafe(block.cancel)

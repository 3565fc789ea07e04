"""Cancellations around a guarded body: a loss cancels it, and no cancellation reaches a worker that can't answer it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from singleton.base.errors import LockLost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from singleton.base.hold import Hold


def cancelled_when_lost(hold: Hold, *, enabled: bool = True) -> contextlib.AbstractAsyncContextManager[None]:
    """Cancel the running task when the hold is lost, and turn that cancellation into ``LockLost``.

    A cancellation that comes from elsewhere is passed on.
    """
    return _cancelling(hold) if enabled else contextlib.nullcontext()


@contextlib.asynccontextmanager
async def _cancelling(hold: Hold) -> AsyncIterator[None]:
    task = asyncio.current_task()
    if task is None:
        yield
        return
    loop = asyncio.get_running_loop()
    cancelled_before = task.cancelling()
    ended = ours = False

    def cancel() -> None:
        nonlocal ours
        if not ended:
            ours = True
            task.cancel("the lock is lost")

    def cancel_there(_: str) -> None:
        loop.call_soon_threadsafe(cancel)

    remove = hold.lost.add_callback(cancel_there)
    try:
        yield
    except asyncio.CancelledError as cancellation:
        ended = True
        if ours and task.uncancel() <= cancelled_before:
            try:
                hold.raise_if_lost()
            except LockLost as lost:
                raise lost from cancellation
        raise
    except BaseException:
        if ours and not ended:
            task.uncancel()
        raise
    else:
        if ours:
            task.uncancel()
    finally:
        ended = True
        remove()

"""Two questions that asyncio leaves open: is this task being cancelled, and how is another waited for to its end."""

from __future__ import annotations

import asyncio
from typing import Any


def being_cancelled() -> bool:
    """Tell whether the running task is; a cancellation that it meets otherwise is somebody else's (W-75)."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return False
    return task is not None and task.cancelling() > 0


async def to_its_end(task: asyncio.Future[Any], *, cancel: bool = True, grace: float | None = None) -> None:
    """Wait for the task to end. A cancellation of the caller is raised when it has.

    Args:
        task: what to wait for.
        cancel: whether the caller's cancellation is handed on to it, or kept from it.
        grace: seconds for which it is kept from it, at most; None: for ever.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=None if cancelled is None else grace)
            if not task.done():
                task.cancel()
        except asyncio.CancelledError as error:
            cancelled = error
            if cancel:
                task.cancel()
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled

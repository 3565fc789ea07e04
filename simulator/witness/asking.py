"""See that somebody asks a body to end, by a cancellation of its task, and whether its loop could do that at all."""

from __future__ import annotations

import asyncio
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from simulator.history.journal import Write

invoked: ContextVar[str] = ContextVar("simulated_invocation", default="")
"""The id of the invocation for which the worker calls a function."""

_EVERY: Final = 0.25
_LATE: Final = 0.5
"""Seconds by which a beat may be late before this is reported."""


class AskedTask(asyncio.Task[Any]):
    """A task that reports when it is asked to end, and for which invocation it runs."""

    def __init__(self, coro: Any, *, asked: Callable[[str], None], context: Context | None = None, **more: Any) -> None:
        self._asked = asked
        self._where = copy_context() if context is None else context
        super().__init__(coro, context=self._where, **more)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task, and report it."""
        if not self.done():
            self._asked(self._where.get(invoked, ""))
        return super().cancel(msg)


def can_be_asked() -> bool:
    """Tell whether the current code runs in a task that reports when it is asked to end."""
    try:
        return isinstance(asyncio.current_task(), AskedTask)
    except RuntimeError:  # a thread
        return False


def tell_standstills(loop: asyncio.AbstractEventLoop, write: Write) -> None:
    """Write ``loop_stood`` when a loop goes on after it did nothing for a while: nobody could be asked to end then."""

    def beat(before: float) -> None:
        now = loop.time()
        if now - before > _EVERY + _LATE:
            write("loop_stood", seconds=round(now - before, 3))
        loop.call_later(_EVERY, beat, now)

    loop.call_soon(lambda: beat(loop.time()))

"""Locks that live on an event loop which is there already: under virtual time, in place of the lock thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.process.registry import Registry, holds_in

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Coroutine

    from singleton.base.hold import Hold

_T = TypeVar("_T")


class OnLoop:
    """The half of ``LockRuntime`` for coroutines of that loop. Work runs in ``context``, or in its caller's."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, registry: Registry, context: contextvars.Context | None = None
    ) -> None:
        self.registry = registry
        self._loop = loop
        self._context = context

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call_async``."""
        task = self._start(work(self.registry))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(self._undo)
            raise
        return task.result()

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release_async``."""
        if hold.lost.reason != "closed":
            await asyncio.wait({self._start(self.registry.release(hold))})

    def _undo(self, task: asyncio.Task[Any]) -> None:
        """Give back what a caller that was cancelled meanwhile won't take."""
        if not task.cancelled() and task.exception() is None:
            for hold in holds_in(task.result()):
                self._start(self.registry.drop(hold))

    def _start(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        return self._loop.create_task(coro, context=None if self._context is None else self._context.copy())

"""What ``singleton.process.runtime`` is to a process, on a virtual loop: locks live on the test's own loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.process.registry import Registry, holds_in

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.testing.clock import VirtualLoop

_T = TypeVar("_T")


class LoopRuntime:
    """Implements ``singleton.process.runtime.LockRuntime`` on a virtual loop."""

    def __init__(self, loop: VirtualLoop, registry: Registry) -> None:
        self._loop = loop
        self._registry = registry
        self._tasks: set[asyncio.Task[Any]] = set()

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call``."""
        return self._loop.wait_for(self._do(work))

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call_async``."""
        return await self._here(self._do(work))

    def release(self, hold: Hold) -> None:
        """See ``Runtime.release``."""
        self._loop.wait_for(self._release(hold))

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release_async``."""
        await self._here(self._release(hold))

    async def _here(self, coro: Coroutine[Any, Any, _T]) -> _T:
        """Await what runs on the virtual loop, from whichever loop."""
        if asyncio.get_running_loop() is self._loop:
            return await coro
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coro, self._loop))

    async def _do(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        task = self._start(work(self._registry))
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            task.add_done_callback(self._undo)
            raise
        return task.result()

    async def _release(self, hold: Hold) -> None:
        """Release; a cancellation of the caller does not stop it."""
        if hold.lost.reason != "closed":
            await asyncio.shield(self._start(self._registry.release(hold)))

    def _undo(self, task: asyncio.Task[Any]) -> None:
        """Give back what a caller that was cancelled meanwhile won't take."""
        if not task.cancelled() and task.exception() is None:
            for hold in holds_in(task.result()):
                self._start(self._registry.drop(hold))

    def _start(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        task = self._loop.create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

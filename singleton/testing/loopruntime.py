"""What the lock thread is to a process, on a virtual loop: locks live on the test's own loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from singleton.process.onloop import OnLoop
from singleton.process.reentry import asking

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.process.registry import Registry
    from singleton.testing.clock import VirtualLoop

_T = TypeVar("_T")


class LoopRuntime(OnLoop):
    """Implements ``singleton.process.runtime.LockRuntime`` on a virtual loop, for callers on any thread and loop."""

    _loop: VirtualLoop

    def __init__(self, loop: VirtualLoop, registry: Registry) -> None:
        super().__init__(loop, registry)
        self._tasks: set[asyncio.Task[Any]] = set()

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call``."""
        with asking():
            return self._loop.wait_for(super().call_async(work))

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call_async``."""
        with asking():
            return await self._here(super().call_async(work))

    def release(self, hold: Hold) -> None:
        """See ``Runtime.release``."""
        self._loop.wait_for(super().release_async(hold))

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release_async``."""
        await self._here(super().release_async(hold))

    async def _here(self, coro: Coroutine[Any, Any, _T]) -> _T:
        """Await what runs on the virtual loop, from whichever loop."""
        if asyncio.get_running_loop() is self._loop:
            return await coro
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coro, self._loop))

    def _start(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Keep the task from being collected as it runs, and no longer: it has the hold that it brought (M-37)."""
        task = super()._start(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

"""Replaces the lock thread on a virtual loop: the locks are on the test's own loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from singleton.process.calls import Calls

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine

    from singleton.process.call_result import CallResult
    from singleton.process.registry import Registry
    from singleton.testing.clock import VirtualLoop

_T = TypeVar("_T")


class LoopRuntime(Calls):
    """Implements ``singleton.process.calls.LockRuntime`` on a virtual loop, for callers on any thread and loop."""

    _loop: VirtualLoop

    def __init__(self, loop: VirtualLoop, registry: Registry) -> None:
        super().__init__(registry, loop)
        self._tasks: set[asyncio.Task[Any]] = set()

    def _wait(self, answer: CallResult[_T]) -> _T:
        return self._loop.wait_for(answer.awaited())

    def _begun(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Keep the task from garbage collection while it runs, and no longer: it has a reference to the hold (M-37)."""
        task = super()._begun(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

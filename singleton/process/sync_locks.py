"""How a thread runs a coroutine that waits only for the lock thread: without an event loop.

So what a guard does around a body is written once, as a coroutine. Where the body is sync, the locks are ``SyncLocks``,
whose calls block the thread instead of waiting, and ``at_once`` runs the coroutine to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.process.calls import LockRuntime
    from singleton.process.registry import Registry

_T = TypeVar("_T")

Work: TypeAlias = "Callable[[Registry], Coroutine[Any, Any, _T]]"
"""Something to be done on the lock thread. The holds in its result are released if the caller is gone by then."""

Locks: TypeAlias = "LockRuntime | SyncLocks"
"""Where a guard's locks live, for coroutines."""


class SyncLocks:
    """The half of ``LockRuntime`` for coroutines, on a thread that it blocks."""

    def __init__(self, locks: LockRuntime) -> None:
        self._locks = locks

    async def call_async(self, work: Work[_T]) -> _T:
        """See ``Runtime.call``."""
        return self._locks.call(work)

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release``."""
        self._locks.release(hold)


def at_once(coro: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that waits for nothing to its end, on this thread, whether or not a loop runs on it."""
    try:
        coro.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{coro!r} waited")

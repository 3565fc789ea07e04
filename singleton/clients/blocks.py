"""The blocks of the lock clients: what was asked for is held for their length, and given back at their end.

A block is entered once. As a decorator it makes a block of each call.
"""

from __future__ import annotations

from contextlib import AsyncContextDecorator, AsyncExitStack, ContextDecorator, ExitStack
from typing import TYPE_CHECKING, Generic, TypeVar

from singleton.process.current import runtime
from singleton.process.reentry import enter, leave
from singleton.process.registry import holds_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from singleton.base.hold import Hold
    from singleton.process.calls import LockRuntime
    from singleton.process.onthread import Work
    from singleton.process.reentry import Inside

_T = TypeVar("_T")


class _Held(Generic[_T]):
    """What both kinds of blocks know. ``asks`` makes the work that acquires, and checks its arguments."""

    __slots__ = ("_asks", "_entered", "_holds", "_locks", "_work")

    def __init__(self, asks: Callable[[], Work[_T]]) -> None:
        self._asks = asks
        self._work: Work[_T] | None = asks()
        self._locks: LockRuntime
        self._holds: tuple[Hold, ...] = ()
        self._entered: tuple[Inside, ...] = ()

    def _begin(self) -> Work[_T]:
        work, self._work = self._work, None
        if work is None:
            raise RuntimeError("this block was entered before: ask the client for a new one")
        self._locks = runtime()
        return work

    def _got(self, got: _T) -> _T:
        self._holds = holds_in(got)
        self._entered = enter(*self._holds)
        return got

    def _end(self) -> tuple[Hold, ...]:
        leave(self._entered)
        holds, self._holds = self._holds, ()
        return holds


class Block(_Held[_T], ContextDecorator):
    """A ``with`` block on any thread."""

    __slots__ = ()

    def _recreate_cm(self) -> Self:
        return type(self)(self._asks)

    def __enter__(self) -> _T:
        return self._got(self._begin_sync())

    def _begin_sync(self) -> _T:
        work = self._begin()
        return self._locks.call(work)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holds = self._end()
        if len(holds) == 1:
            self._locks.release(holds[0])
            return
        with ExitStack() as releases:
            for hold in holds:
                releases.callback(self._locks.release, hold)


class AsyncBlock(_Held[_T], AsyncContextDecorator):
    """An ``async with`` block on any event loop."""

    __slots__ = ()

    def _recreate_cm(self) -> Self:
        return type(self)(self._asks)

    async def __aenter__(self) -> _T:
        work = self._begin()
        return self._got(await self._locks.call_async(work))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        holds = self._end()
        if len(holds) == 1:
            await self._locks.release_async(holds[0])
            return
        async with AsyncExitStack() as releases:
            for hold in holds:
                releases.push_async_callback(self._locks.release_async, hold)

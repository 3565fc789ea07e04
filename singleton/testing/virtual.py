"""Virtual time for a test: coroutine, locks and lock thread on one loop with a jumping clock."""

from __future__ import annotations

import asyncio
import functools
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from singleton.base.callables import returns_coroutine
from singleton.base.clock import timed_by
from singleton.testing.memory import MemoryLocks, use
from singleton.testing.virtual_loop import LoopRuntime, Stuck, VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

_P = ParamSpec("_P")
_T = TypeVar("_T")


def virtual_time(test: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, _T]:
    """Run a coroutine test in virtual time, with its locks in memory as under ``memory_locks``.

    The loop's clock starts at 0 and jumps to the next timer whenever everything waits: sleeps, timeouts and waits for
    locks take no time. Functions in ``asyncio.to_thread`` may wait for locks too; time stands still while they work.
    ``time.time()``, ``time.sleep()`` and the network stay real: use no network. The test becomes a plain function, so
    it needs no plugin for asyncio.

    Raises:
        TypeError: the test is not a coroutine function.
        RuntimeError: in the test: a wait without end.

    Example::

        @virtual_time
        async def test_the_second_waits_for_the_first() -> None: ...
    """
    if not returns_coroutine(test):
        raise TypeError(
            f"@virtual_time is for async def, which {test!r} is not; "
            "call sync functions in an async test, by `await asyncio.to_thread(function, ...)`"
        )

    @functools.wraps(test)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        __tracebackhide__ = True  # pytest shows the test, not this function
        return _run(test(*args, **kwargs))

    return run


def _run(main: Coroutine[Any, Any, _T]) -> _T:
    __tracebackhide__ = True
    loop = VirtualLoop()
    locks = MemoryLocks(lambda registry: LoopRuntime(loop, registry))
    try:
        with use(locks), timed_by(loop.time):
            try:
                return loop.run_until_complete(_judged(main, locks))
            except Stuck as stuck:
                raise RuntimeError(f"{stuck}{_where(main)}") from None
            finally:
                loop.run_until_complete(loop.wind_up())
                loop.run_until_complete(locks.registry.aclose())
    finally:
        loop.close()


def _where(main: Coroutine[Any, Any, Any]) -> str:
    frame = main.cr_frame  # type: ignore[attr-defined] # of a coroutine function, as checked
    return "" if frame is None else f" ({Path(frame.f_code.co_filename).name}, line {frame.f_lineno})"


async def _judged(main: Coroutine[Any, Any, _T], locks: MemoryLocks) -> _T:
    __tracebackhide__ = True
    result = await main
    await asyncio.sleep(0.001)  # by then all that can be released without a wait is released
    locks.refuse_leftovers()
    return result

"""One coroutine on virtual time, which must leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from simulator.virtual.time.loop import VirtualLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


def run_virtual(coro: Coroutine[Any, Any, _T], *, start: float = 0.0) -> _T:
    """Run ``coro`` on a fresh virtual loop; fail if it leaves a task or an unhandled error behind."""
    loop = VirtualLoop(start)  # type: ignore[abstract]
    result = loop.run_until_complete(coro)
    loop.drain()
    if leftover := loop.leftover_tasks():
        raise AssertionError(f"tasks left behind: {leftover}")
    if loop.errors:
        raise AssertionError(f"errors that nobody handled: {loop.errors}")
    return result

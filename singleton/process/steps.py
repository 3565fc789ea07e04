"""One protocol for threads and coroutines: steps say what to do on the lock thread, a driver waits for it in its way.

A generator yields work for the lock thread and is sent its result, or thrown its error. So what a guard does around a
body is written once, and sync and async callers differ in two small functions.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

if TYPE_CHECKING:
    from singleton.process.registry import Registry
    from singleton.process.runtime import LockRuntime

_T = TypeVar("_T")

Work: TypeAlias = "Callable[[Registry], Coroutine[Any, Any, Any]]"
"""Something to be done on the lock thread."""
Steps: TypeAlias = Generator[Work, Any, _T]


def take(steps: Steps[_T], locks: LockRuntime) -> _T:
    """Go through the steps on the caller's thread."""
    try:
        work = next(steps)
        while True:
            try:
                result = locks.call(work)
            except BaseException as error:  # noqa: BLE001 - the steps see to it
                work = steps.throw(error)
            else:
                work = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def take_async(steps: Steps[_T], locks: LockRuntime) -> _T:
    """Go through the steps on the caller's task."""
    try:
        work = next(steps)
        while True:
            try:
                result = await locks.call_async(work)
            except BaseException as error:  # noqa: BLE001 - the steps see to it
                work = steps.throw(error)
            else:
                work = steps.send(result)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]

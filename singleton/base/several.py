"""Several locks, all or none: acquired one after the other, in the order which every process uses."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.base.joint_signal import raise_the_lost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping

    from singleton.base.hold import Hold, LossSignal

_LockT = TypeVar("_LockT")

_ONE_ANSWER: Final = 0.5
"""Seconds for an answer. With less time left a lock is asked for once: a held lock must not be told as silence."""


@asynccontextmanager
async def all_or_none(
    locks: Iterable[_LockT],
    ask: Callable[[_LockT, float | None], Coroutine[Any, Any, Hold]],
    give_back: Callable[[Hold], Coroutine[Any, Any, None]],
    *,
    timeout: float | None,
) -> AsyncIterator[Mapping[_LockT, Hold]]:
    """Acquire the locks in order. Release the acquired ones if a later lock is not acquired or if the block fails.

    Args:
        locks: in one order for every process, or two processes may wait for each other.
        ask: acquires a lock within a number of seconds.
        timeout: seconds for the locks together; 0 asks once for every lock; None waits without limit.

    Raises:
        LockLost: an acquired lock was lost during the wait for the next.
        LockNotAcquired, LockClosed, StorageError: as ``ask`` does.
    """
    loop = asyncio.get_running_loop()
    ends = None if timeout is None else loop.time() + timeout
    holds: dict[_LockT, Hold] = {}
    try:
        for lock in locks:
            left = None if ends is None else ends - loop.time()
            if left is not None and left < _ONE_ANSWER:
                left = 0.0
            async with none_lost([hold.own_lost for hold in holds.values()]):
                holds[lock] = await ask(lock, left)
        for hold in holds.values():
            hold.raise_if_lost()
        yield holds
    except BaseException:
        giving_back = [loop.create_task(give_back(hold)) for hold in holds.values()]
        if giving_back:
            await asyncio.shield(asyncio.wait(giving_back))
        raise


@asynccontextmanager
async def none_lost(signals: Iterable[LossSignal]) -> AsyncIterator[None]:
    """End the block with ``LockLost`` as soon as a hold is lost: the wait in the block would be in vain."""
    loop = asyncio.get_running_loop()
    signals = tuple(signals)
    try:
        async with asyncio.timeout(None) as block:

            def end(_: object) -> None:
                if not block.expired():
                    block.reschedule(loop.time())

            forget = [signal.add_callback(end) for signal in signals]
            try:
                yield
            finally:
                for each in forget:
                    each()
    except TimeoutError:
        raise_the_lost(signals)
        raise

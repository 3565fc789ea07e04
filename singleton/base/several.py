"""Several locks, all or none: acquired one after the other, in the order which every process uses.

The loss signals of several holds are one signal.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from singleton.base.hold import LossSignal

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping

    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason

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


class JointSignal(LossSignal):
    """The signal of a hold together with others: set by the first loss, ended by the end of the first hold.

    The signals refer to one another, but not to the holds: a dropped hold is collected (M-37).
    """

    __slots__ = ("_forget", "_signals")

    def __init__(self, *signals: LossSignal) -> None:
        super().__init__(None, signals[0]._whose)  # noqa: SLF001 - of our own kind
        self._signals = signals
        self._forget: list[Callable[[], None]] = []
        self._forget += [signal.add_callback(self.fire) for signal in signals]
        self._forget.append(signals[0]._when_over(self.freeze))  # noqa: SLF001

    @property
    def reason(self) -> LossReason | None:
        """See ``LossSignal.reason``."""
        if self._reason is None and not self._ended:
            return next((reason for each in self._signals if (reason := each.reason) is not None), None)
        return self._reason

    @property
    def deadline(self) -> float:
        """The earliest of the deadlines."""
        return math.inf if self._ended else min(each.deadline for each in self._signals)

    def finish(self, *, kept: bool = False) -> None:
        """See ``LossSignal.finish``. The other signals, which may last much longer, forget this signal."""
        super().finish(kept=kept)
        if not kept:
            for forget in self._forget:
                forget()

    def _lost_one(self) -> LossSignal:
        return next((each for each in self._signals if each.reason == self.reason), self)


def raise_the_lost(signals: Iterable[LossSignal]) -> None:
    """Raise ``LockLost`` if a hold is lost; a released hold is no loss."""
    for signal in signals:
        if signal.is_set():
            signal.raise_if_over()

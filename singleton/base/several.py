"""Several locks, all or none: acquired one after the other, in the order which every process uses.

The loss signals of several holds are one signal.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from singleton.base.errors import LockNotAcquired, StorageUnavailable
from singleton.base.hold import LossSignal
from singleton.base.timespan import format_timespan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping

    from singleton.base.hold import Hold
    from singleton.base.kinds import LossReason


class _Named(Protocol):
    @property
    def name(self) -> str: ...


_LockT = TypeVar("_LockT", bound=_Named)

ONE_ANSWER: Final = 0.5
"""Seconds for an answer. With less time left a lock is asked for once: a held lock must not be told as silence."""


@asynccontextmanager
async def all_or_none(
    locks: Collection[_LockT],
    ask: Callable[[_LockT, float | None], Coroutine[Any, Any, Hold]],
    drop: Callable[[Hold], asyncio.Task[None]],
    *,
    timeout: float | None,
    owner: str,
    by: float = math.inf,
) -> AsyncIterator[Mapping[_LockT, Hold]]:
    """Acquire the locks in order. Release the acquired ones if a later lock is not acquired or if the block fails.

    A wait with a time-out ends ``ONE_ANSWER`` after its end at the latest, whichever lock's storage is silent.

    Args:
        locks: in one order for every process, or two processes may wait for each other.
        ask: acquires a lock within a number of seconds; 0 asks once.
        drop: begins to release a hold.
        timeout: seconds for the locks together; 0 asks once for every lock; None waits without limit.
        by: until when single attempts wait for the releases after a failure, or the next one meets its own hold.

    Raises:
        LockLost: an acquired lock was lost during the wait for the next.
        LockNotAcquired, LockClosed, StorageError: as ``ask`` does.
    """
    loop = asyncio.get_running_loop()
    ends = math.inf if timeout is None else loop.time() + timeout
    last = ends + ONE_ANSWER if by == math.inf else by
    holds: dict[_LockT, Hold] = {}
    try:
        for lock in locks:
            left = ends - loop.time()
            within = None if timeout is None else left if left >= ONE_ANSWER else 0.0
            try:
                async with none_lost([hold.own_lost for hold in holds.values()]):
                    async with asyncio.timeout_at(last if timeout else None):
                        holds[lock] = await ask(lock, within)
            except LockNotAcquired:  # a TimeoutError as well
                raise
            except TimeoutError:
                waited = f"the wait for {len(locks)} locks was {format_timespan(timeout or 0)}"
                text = f"lock {lock.name!r}: the storage gave no full answer in time; {waited}"
                raise StorageUnavailable(text, lock=lock.name, owner=owner) from None
        for hold in holds.values():
            hold.raise_if_lost()
        yield holds
    except BaseException:
        if dropping := [drop(hold) for hold in holds.values()]:
            await asyncio.wait(dropping, timeout=None if timeout is None else max(0.0, last - loop.time()))
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

"""The loss signals of several holds as one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from singleton.base.hold import LossSignal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from singleton.base.kinds import LossReason


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
        return next((each for each in self._signals if each.is_set()), self)


def raise_the_lost(signals: Iterable[LossSignal]) -> None:
    """Raise ``LockLost`` if a hold is lost; a released hold is no loss."""
    for signal in signals:
        if signal.is_set():
            signal.raise_if_over()

"""Number of invocations of this process which wait for a lock, at most ``max_waiting``.

Waits begin and end on the lock's loop: cancelled, timed-out and failed waits are counted out like successful ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from singleton.base.errors import LockNotAcquired

if TYPE_CHECKING:
    from singleton.settings.accounts import LockContainer

    BlobKey: TypeAlias = tuple[LockContainer, str]

_FULL: Final = "max_waiting"


def is_full(error: LockNotAcquired) -> bool:
    """Tell whether the error is a refusal by ``max_waiting``."""
    return error.reason == _FULL


@dataclass(slots=True)
class WaitReport:
    """Number of waiting invocations at a refused request, and seconds of the refused request."""

    number: int = 0
    seconds: float = 0.0


class WaiterCount:
    """The waiting invocations of this process, by blob."""

    def __init__(self) -> None:
        self._waiting: dict[BlobKey, set[object]] = {}

    def of(self, blob: BlobKey) -> int:
        """Return the number of waiters for the lock."""
        return len(self._waiting.get(blob, ()))

    def come(self, blob: BlobKey, who: object, owner: str, most: int | None) -> None:
        """Count a waiter, until ``go``. ``LockNotAcquired``: ``most`` waiters already; the caller is not counted."""
        if most is None or (waiting := self.of(blob)) < most:
            self._waiting.setdefault(blob, set()).add(who)
            return
        raise LockNotAcquired(
            f"lock {blob[1]!r} was not waited for: {waiting} invocations of this process wait for it already, and "
            f"max_waiting is {most}. Raise max_waiting, or put the message back: when_full='defer'",
            lock=blob[1],
            owner=owner,
            reason=_FULL,
        )

    def go(self, blob: BlobKey, who: object) -> None:
        """Count out a waiter; a second call changes nothing."""
        waiting = self._waiting.get(blob)
        if waiting is not None:
            waiting.discard(who)
            if not waiting:
                del self._waiting[blob]

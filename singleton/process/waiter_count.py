"""How many invocations of this process wait for each lock, and no more than ``max_waiting`` of them.

Each wait begins and ends on the lock's loop: a wait that is cancelled, times out or fails is counted out as one that
succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from singleton.base.errors import LockNotAcquired

if TYPE_CHECKING:
    from singleton.settings.accounts import LockContainer

    Blob: TypeAlias = tuple[LockContainer, str]

_FULL: Final = "max_waiting"


def is_full(error: LockNotAcquired) -> bool:
    """Tell whether the lock was not waited for, as too many did already."""
    return error.reason == _FULL


@dataclass(slots=True)
class WaitReport:
    """How many invocations waited for a lock as another one asked for it in vain, and for how long that one asked."""

    number: int = 0
    seconds: float = 0.0


class WaiterCount:
    """Those invocations of one process that wait."""

    def __init__(self) -> None:
        self._waiting: dict[Blob, set[object]] = {}

    def of(self, blob: Blob) -> int:
        """Return how many wait for this lock."""
        return len(self._waiting.get(blob, ()))

    def come(self, blob: Blob, who: object, owner: str, most: int | None) -> None:
        """Count who begins to wait for this lock, until ``go``.

        Raises:
            LockNotAcquired: ``most`` wait for it already, and it is not counted.
        """
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

    def go(self, blob: Blob, who: object) -> None:
        """Count out who waits no more; once more changes nothing."""
        waiting = self._waiting.get(blob)
        if waiting is not None:
            waiting.discard(who)
            if not waiting:
                del self._waiting[blob]

"""Two locks held together: the lock of a function, and the lock of its old name (``also``)."""

from __future__ import annotations

from typing import Final

from singleton.base.hold import Hold, LossSignal

STATELESS: Final = (
    "also= is given, and state stays with the name under which it was written: move it after the second deployment"
)


class DoubleHold(Hold):
    """A hold of two locks. The user sees the first one; a loss of either lock is a loss of this hold, with its reason.

    Attributes:
        parts: the holds of the two locks; the first gives name, owner and lease id.
    """

    __slots__ = ("parts",)

    def __init__(self, first: Hold, other: Hold, token: int | None) -> None:
        super().__init__(first.lock, owner=first.owner, token=token)
        self.parts: tuple[Hold, ...] = (first, other)
        self.lease_id = first.lease_id
        self.stateless = STATELESS
        self.lost = LossSignal(_Either(first.lease_id or "", first.lost, other.lost))
        for part in self.parts:
            part.lost.add_callback(
                self.lost.fire
            )  # the callback keeps the signal alive, not the hold: a dropped hold must drop its parts


class _Either:
    """The two leases as one ``Leased``: overdue when either lease is."""

    __slots__ = ("_signals", "id")

    def __init__(self, lease_id: str, *signals: LossSignal) -> None:
        self.id = lease_id
        self._signals = signals

    @property
    def deadline(self) -> float:
        """The earlier deadline of the two leases."""
        return min(signal.deadline for signal in self._signals)

    def overdue(self) -> bool:
        """Tell from any thread whether either lock is lost."""
        return any(signal.is_set() for signal in self._signals)


def parts_of(hold: Hold) -> tuple[Hold, ...]:
    """Return the holds of the single locks in a hold: two for ``also``, else the hold."""
    return hold.parts if isinstance(hold, DoubleHold) else (hold,)

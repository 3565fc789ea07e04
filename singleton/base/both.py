"""Two locks that are held as one: the lock of a function, and the one of its old name (``also``)."""

from __future__ import annotations

from typing import Final

from singleton.base.hold import Hold, LossSignal

STATELESS: Final = (
    "also= is given, and state stays with the name under which it was written: move it after the second deployment"
)


class Both(Hold):
    """A hold of a lock that is good only while another one is held as well.

    To its user it is the hold of the first. It is lost when either is, for the reason of that one.

    Attributes:
        parts: the holds of both; the first gives its name, owner and lease id.
    """

    __slots__ = ("parts",)

    def __init__(self, first: Hold, other: Hold, token: int | None) -> None:
        super().__init__(first.lock, owner=first.owner, token=token)
        self.parts: tuple[Hold, ...] = (first, other)
        self.lease_id = first.lease_id
        self.stateless = STATELESS
        self.lost = LossSignal(_Either(first.lease_id or "", first.lost, other.lost))
        for part in self.parts:
            part.lost.add_callback(self.lost.fire)  # the signal alone: whoever drops the hold drops its parts


class _Either:
    """Both leases, as far as the signal of both asks for them: that one may be lost by the clock. See ``Leased``."""

    __slots__ = ("_signals", "id")

    def __init__(self, lease_id: str, *signals: LossSignal) -> None:
        self.id = lease_id
        self._signals = signals

    @property
    def deadline(self) -> float:
        """The earlier of both."""
        return min(signal.deadline for signal in self._signals)

    def overdue(self) -> bool:
        """Tell from any thread whether one is lost."""
        return any(signal.is_set() for signal in self._signals)


def parts_of(hold: Hold) -> tuple[Hold, ...]:
    """Return the holds of single locks that make up a hold."""
    return hold.parts if isinstance(hold, Both) else (hold,)

"""What single calls of a lock client promise, beside what ``book.py`` knows of who uses which lock.

another lock            a caller got a lock that it had not asked for
lost after its release  a hold was given back, and said later that it was lost
gave up too soon        who asked for a lock's holder was told at once that the storage does not answer
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.callers import STALE
from tests.worlds.judge import Judge

if TYPE_CHECKING:
    from simulator.virtual.time.machine import Machine
    from singleton.base.errors import StorageUnavailable
    from singleton.base.hold import Hold
    from tests.worlds.clients.book import Use

_TRIES: Final = 5.0
"""Seconds for which a call of ``holder`` surely tries: ten minus the last pause, by a fast clock."""
_KEPT: Final = 75.0
"""Seconds for which a hold is checked after its release: by then any lease is over."""


@dataclass(slots=True)
class Calls(Judge):
    """Looks at what calls returned."""

    _released: list[tuple[float, Use, Hold]] = field(default_factory=list)

    def watch(self) -> None:
        """Check released holds, each second."""
        self.world.watch(self._look)

    def got(self, use: Use, holds: tuple[Hold, ...]) -> None:
        """Receive what a caller got, before the book does."""
        for hold in holds:
            if hold.lock not in use.locks:
                self._blame("another lock", f"{use.owner} got {hold.lock}, and asked for {use.locks[0]}")

    def released(self, use: Use, holds: tuple[Hold, ...]) -> None:
        """Receive holds that their user still has when the call that releases them returns."""
        good = [hold for hold in holds if not hold.lost.is_set()]
        if not use.cut:
            self._released += [(self.world.loop.now, use, hold) for hold in good]

    def not_answered(self, machine: Machine, asked: float, error: StorageUnavailable) -> None:
        """Receive the answer that the storage does not answer. A container that is being deleted is known at once."""
        took = self.world.loop.now - asked
        deleting = error.code == "ContainerBeingDeleted"
        if took < _TRIES and not deleting and not self.world.oracle.conduct.strange(machine, took + STALE):
            self._blame("gave up too soon", f"{machine.name} was told after {took:.1f} s: {error}")

    def _look(self) -> None:
        now = self.world.loop.now
        self._released = [each for each in self._released if now - each[0] < _KEPT and not each[1].machine.leaving]
        for _, use, hold in self._released:
            if use.machine.context().run(hold.lost.is_set):
                self._blame("lost after its release", f"{use.owner} had given {hold.lock} back, and is told of a loss")

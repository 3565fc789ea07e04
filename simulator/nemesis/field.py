"""What a nemesis needs of a run: who works, who holds what, and the means to strike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.nemesis.wires import Wire

Tell: TypeAlias = "Callable[[], None]"


@dataclass(frozen=True, slots=True)
class Holding:
    """A host has a lock: the name of its blob, and the seconds of its lease."""

    host: str
    lock: str
    lease: float


@dataclass(frozen=True, slots=True)
class Wanting:
    """A host waits for a lock. ``free_at``: when the lease of a dead holder ends at the latest; None: it lives."""

    host: str
    lock: str
    free_at: float | None = None


class Field(Protocol):
    """The run that is struck, as `simulator.real.field` makes it."""

    @property
    def wires(self) -> Mapping[str, Wire]:
        """The way to the storage of each host that was started and has not ended."""

    @property
    def locking(self) -> bool:
        """Whether the functions are locked at all."""

    def now(self) -> float:
        """Return the time of the journals' clock."""

    def working(self) -> list[str]:
        """Return the hosts that are ready, and do not stand still."""

    def absent(self) -> int:
        """Return how many hosts have ended or are being started again."""

    def holdings(self) -> list[Holding]:
        """Return who has which lock, the locks that others wait for first; without locks: who is inside a body."""

    def wantings(self) -> list[Wanting]:
        """Return who waits for which lock."""

    def locks(self) -> frozenset[str]:
        """Return the blobs of all locks of the run so far."""

    def lease(self) -> float:
        """Return the seconds of a lease of this app."""

    def tend(self) -> None:
        """Start again what is to be started again; called all the time."""

    def kill(self, host: str, tell: Tell, *, holding: bool) -> bool:
        """Kill a host, and start it again a little later; with ``holding`` only while it is inside.

        Each of these calls ``tell`` right before it strikes, and returns False if it could not strike.
        """

    def pause(self, host: str, seconds: float, tell: Tell, *, holding: bool) -> bool:
        """Stop a host, with ``holding`` only while it is inside."""

    def stands(self, host: str) -> bool:
        """Tell whether a host is stopped."""

    def wake(self, host: str) -> None:
        """Let a stopped host go on, if it still stands."""

    def drain(self, host: str, tell: Tell) -> bool:
        """Ask a host to end, as a scale-in does, and start it again when it has ended."""

    def is_gone(self, host: str) -> bool:
        """Tell whether a host that was drained has ended."""

    def operate(self, lock: str, action: str, tell: Tell) -> bool:
        """Break the lease of a lock, or delete its blob, as an operator; False if nobody has it."""

    def write(self, event: str, /, **fields: object) -> None:
        """Write a record into the fleet's journal."""

"""What is known of the users of lock clients: each client, and each of its uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer

Kind = Literal["lock", "set", "slot", "leader", "worker"]
Doing = Literal["waits", "inside", "leaves", "over"]


@dataclass(slots=True, eq=False)
class Customer:
    """A client that somebody has made on a machine."""

    machine: Machine
    place: LockContainer
    brought: bool
    closed: float | None = None
    done: float | None = None
    """When it was closed and the last of its uses had ended."""


@dataclass(slots=True, eq=False)
class Use:
    """One call of a client, until nothing of it is left."""

    customer: Customer
    owner: str
    kind: Kind
    locks: tuple[str, ...]
    """The blobs that it may have."""
    timeout: float | None
    since: float
    company: bool
    """Whether others of the same process waited there before."""
    doing: Doing = "waits"
    cut: bool = False
    """Whether it was cancelled."""

    @property
    def machine(self) -> Machine:
        """Where it is."""
        return self.customer.machine

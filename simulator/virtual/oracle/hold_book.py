"""The holds that hosts were given, by the world's own record: who had which lock, from when to when, and why no longer.

no loss to tell of  a ``LockLost`` says that a hold is lost or released, and by the service's record it is neither
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.conduct import Checks
from singleton.base.hold import single_holds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.virtual.storage.service import Tenure
    from simulator.virtual.time.machine import Machine
    from singleton.base.errors import LockLost
    from singleton.base.hold import Hold

_ROUNDING: Final = 1e-3
_WRITTEN: Final = 6.0
"""Seconds after a grant within which its holder is written."""


@dataclass(slots=True, eq=False, kw_only=True)
class KnownHold:
    """A hold of a host, without a reference to it, which may be dropped."""

    machine: Machine
    lock: str
    owner: str
    token: int | None
    lease_id: str
    since: float
    taken: float = math.inf
    """When its caller got it; infinite for one of two locks that are taken together."""
    given_back: bool = False
    """Whether its host was asked to release it."""
    ends: float = math.inf
    """When its section was over for its lock, too: handed on, or released."""


@dataclass(slots=True)
class HoldBook(Checks):
    """Told of holds, of leases, and of each ``LockLost``."""

    _holds: dict[str, list[KnownHold]] = field(default_factory=lambda: defaultdict(list))
    meddled: set[str] = field(default_factory=set)
    """Locks whose leases an operator has ended, and perhaps taken: the records of their holders are old."""
    _granted: dict[str, list[Tenure]] = field(default_factory=lambda: defaultdict(list))
    _open: dict[Machine, dict[KnownHold, None]] = field(default_factory=lambda: defaultdict(dict))
    _closing: set[Machine] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)
    """The ids of leases that have ended at the service."""
    _limits: dict[tuple[str, str, int | None], float] = field(default_factory=dict)
    """When ``max_hold`` is over, by lock, owner and token of a hold."""

    def cut(self, machine: Machine, lock: str, owner: str) -> None:
        """Take the end of a wait without a result; it may have had the lock for this very moment."""
        now = self.evidence.loop.now
        past = KnownHold(machine=machine, lock=lock, owner=owner, token=None, lease_id="", since=now, ends=now)
        self._holds[lock].append(past)

    def begun(self, machine: Machine, hold: Hold) -> KnownHold:
        """Take a hold, before its caller has it."""
        known = KnownHold(
            machine=machine,
            lock=hold.lock,
            owner=hold.owner,
            token=hold.token,
            lease_id=hold.lease_id or "",
            since=self.evidence.loop.now,
        )
        self._holds[hold.lock].append(known)
        self._open[machine][known] = None
        return known

    def settled(self, known: KnownHold) -> None:
        """Take the end of a hold for its lock: it was handed on, or released."""
        known.ends = self.evidence.loop.now
        del self._open[known.machine][known]

    def all_of(self, lock: str) -> list[KnownHold]:
        """Return all holds of a lock, in order."""
        return self._holds.get(lock, [])

    def open(self, machine: Machine) -> list[KnownHold]:
        """Return the holds of a machine that are in use."""
        return [*self._open[machine]]

    def of(self, lock: str, owner: str) -> Iterator[KnownHold]:
        """Return the holds of an owner, the last one first."""
        return (known for known in reversed(self._holds.get(lock, ())) if known.owner == owner)

    def limited(self, hold: Hold, max_hold: float) -> None:
        """Take the ``max_hold`` of a hold, counted from now; its wait may not have ended yet."""
        for part in single_holds(hold):
            self._limits[part.lock, part.owner, part.token] = self.evidence.loop.now + max_hold

    def limit(self, hold: Hold) -> float:
        """Return when ``max_hold`` of a hold is over; infinite without one."""
        part = single_holds(hold)[0]
        return self._limits.get((part.lock, part.owner, part.token), math.inf)

    def taken(self, machine: Machine, hold: Hold) -> None:
        """Take the moment at which the caller has a hold, if it is of one lock."""
        for known in self._of_hold(machine, hold) if len(single_holds(hold)) == 1 else ():
            known.taken = min(known.taken, self.evidence.loop.now)

    def given_back(self, machine: Machine, hold: Hold) -> None:
        """Take the end of the use of a hold."""
        for known in self._of_hold(machine, hold):
            known.given_back = True

    def _of_hold(self, machine: Machine, hold: Hold) -> list[KnownHold]:
        return [
            known
            for part in single_holds(hold)
            for known in self.of(part.lock, part.owner)
            if known.machine is machine and known.token == part.token
        ]

    def closing(self, machine: Machine) -> None:
        """Take the end of a process, which declares its holds lost."""
        self._closing.add(machine)

    def granted(self, tenure: Tenure) -> None:
        """Take the beginning of a lease."""
        self._granted[tenure.lock].append(tenure)

    def is_recorded(self, lock: str, at: float) -> bool:
        """Tell whether the holder of a lease at a time must have been written: it has had a hold for a while."""
        before = [each for each in self._granted[lock] if each.since < at + _WRITTEN]
        mine = {known.lease_id for known in self._holds.get(lock, ()) if known.since < at - _WRITTEN}
        return bool(before) and before[-1].lease_id in mine

    def lease_ended(self, tenure: Tenure) -> None:
        """Take the end of a lease at the service."""
        self._gone.add(tenure.lease_id)
        if tenure.ending == "operator":
            self.meddled.add(tenure.lock)

    def told_lost(self, machine: Machine, error: LockLost) -> None:
        """Judge what a host tells of a hold."""
        of = [each for each in self.of(error.lock or "", error.owner or "") if each.machine is machine]
        if not of or self.conduct.strange(machine, self.evidence.loop.now - of[-1].since):
            return
        self.evidence.reached["told: lost"] += 1
        if not any(self.is_over(known, error.reason) for known in of):
            self._blame("no loss to tell of", f"{machine.name} was told: {error}; and its hold was good")

    def is_over(self, known: KnownHold, reason: str | None) -> bool:
        """Tell whether a hold is over for this reason: released, or lost."""
        now, machine = self.evidence.loop.now, known.machine
        match reason:
            case "released":
                return known.given_back or machine in self._closing
            case "closed":
                return machine in self._closing
            case "too long":
                limit = self._limits.get((known.lock, known.owner, known.token), math.inf)
                return now - known.since >= (limit - known.since) / self.evidence.bounds.drift
            case "expired":
                failover = self.conduct.touched(known.lease_id)
                ends = min(self.conduct.deadline(known.lease_id), self.conduct.touch_ends(known.lease_id, failover))
                stood = machine.stopped_since(self.evidence.bounds.period * self.evidence.bounds.drift)
                return stood or known.lease_id in self._gone or machine.reads(now) >= ends - _ROUNDING
        return known.lease_id in self._gone

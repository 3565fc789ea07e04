"""The holders that hosts name, and the locks that they list as held: is it so, by the record of all holds?

wrong holder named   an error or the line of a long wait names somebody who did not have the lock, or not since then
nobody held it       the line of a long wait says so of a lock that somebody had all the time
wrong holds          ``holds()`` lists a lock that its host does not have, or not so, or leaves out one that it has
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.oracle.callers import AT_ONCE, KNOWN, PATIENCE, STALE
from simulator.virtual.oracle.conduct import Checks
from simulator.virtual.time.machine import EPOCH
from singleton.base.holds import holds
from singleton.stores.stamps import header_safe

if TYPE_CHECKING:
    from simulator.virtual.oracle.hold_book import HoldBook, KnownHold
    from simulator.virtual.time.machine import Machine
    from singleton.base.holder_record import Holder
    from singleton.base.holds import HeldLock

_A_MOMENT: Final = 1e-3

SOME: Final = 4
"""Bodies of which one has a look at ``holds()``."""


@dataclass(slots=True)
class HolderChecks(Checks):
    """Told of each holder that a host names."""

    book: HoldBook
    strangers: set[Machine]
    """Machines with another version, whose holds are not known."""
    _bodies: int = 0

    def named(self, machine: Machine, holder: Holder, read: float) -> None:
        """Judge a holder that a host names, which it read at a true time, if not from its own memory."""
        self.evidence.reached["holders named"] += 1
        here = holder.recorded is None and holder.pid is not None
        recorded = holder.renewed and holder.lock not in self.book.meddled
        if holder.owner and (here or recorded) and not (self.strangers or holder.endless):
            since = None if holder.since is None else holder.since.timestamp()
            if since is not None and here:
                since += EPOCH - machine.wall() + self.evidence.loop.now
            self.evidence.later(_A_MOMENT, self._judge, machine, holder, since, read, here)

    def _judge(self, machine: Machine, holder: Holder, since: float | None, read: float, here: bool) -> None:  # noqa: FBT001
        """Judge a named holder, who may have got the lock at the very instant at which it was named."""
        of = [
            each for each in self.book.all_of(holder.lock) if header_safe(each.owner) == header_safe(holder.owner or "")
        ]
        told = f"{machine.name} names {holder.owner!r} as who has {holder.lock}"
        if not here and not self.book.is_recorded(holder.lock, read):
            return
        if not any(self._was_inside(each, machine if here else None, read) for each in of):
            self._blame("wrong holder named", f"{told}, who did not have it then")
        elif since is not None and not any(self._since_then(each, since) for each in of):
            self._blame("wrong holder named", f"{told} since {holder.since}, and it was not then")

    def _was_inside(self, known: KnownHold, machine: Machine | None, read: float) -> bool:
        """Tell whether a hold was inside as it was read, or so lately that no later one has been recorded."""
        lag = AT_ONCE
        if machine is None:
            well = self.conduct.well(known.machine, self.evidence.loop.now - read + self.evidence.bounds.period)
            lag = self.evidence.bounds.renewal * self.evidence.bounds.drift + AT_ONCE if well else PATIENCE
        return known.machine is (machine or known.machine) and known.ends >= read - lag

    def _since_then(self, known: KnownHold, told: float) -> bool:
        now = self.evidence.loop.now
        told -= EPOCH if told > EPOCH / 2 else 0.0
        late = (now - known.since) * (self.evidence.bounds.drift - 1.0)
        return abs(told - known.since) <= 2 * AT_ONCE + late or not self.conduct.well(known.machine, now - known.since)

    def said(self, machine: Machine, lock: str, words: str, fields: dict[str, Any], read: float) -> None:
        """Judge the words of a long wait."""
        self.must_be_recent(machine, lock, read)
        tenure, owner = self.evidence.service.tenure(lock), fields.get("holder")
        stood = not self.conduct.well(machine, self.evidence.loop.now - read + AT_ONCE)  # it may have read long before
        if words.startswith("nobody") and tenure is not None and tenure.since < read and not stood:
            self._blame("nobody held it", f"{machine.name} says of {lock}: {words}; and {tenure.machine} has it")
        if owner and repr(owner) not in words:
            self._blame("wrong holder named", f"{machine.name} says of {lock}: {words}; and {owner!r} has it")

    def must_be_recent(self, machine: Machine, lock: str, read: float) -> None:
        """Judge when a holder was read that is told now: a read is asked for anew after a minute."""
        ago = self.evidence.loop.now - read
        if ago > (KNOWN + STALE) * self.evidence.bounds.drift and not machine.stopped_since(ago):
            self._blame("wrong holder named", f"{machine.name} tells who has {lock} as it was {ago:.0f} s ago")

    def listed(self, machine: Machine) -> None:
        """Judge, at a body of some, what ``holds()`` lists on a machine that has run for a while."""
        self._bodies += 1
        if self._bodies % SOME or self.strangers or machine.stopped_since(PATIENCE):
            return
        self.evidence.reached["looks at holds()"] += 1
        held = [*holds().held]
        for each in held:
            of = [known for known in self.book.of(each.lock, each.owner) if known.token == each.token]
            if of and of[0].machine is machine and of[0].taken < math.inf and (wrong := self._wrong(of[0], each)):
                self._blame("wrong holds", f"{machine.name} lists {each.lock} as held by {each.owner!r}, {wrong}")
        listed = {(each.lock, each.owner) for each in held}
        for known in self.book.open(machine):
            new = known.given_back or self.evidence.loop.now - known.taken < AT_ONCE
            if not new and (known.lock, known.owner) not in listed:
                self._blame("wrong holds", f"{machine.name} leaves out {known.lock}, which {known.owner!r} has")

    def _wrong(self, known: KnownHold, held: HeldLock) -> str:
        now, machine = self.evidence.loop.now, known.machine
        age = machine.reads(now) - machine.reads(known.taken)
        if known.ends < now - AT_ONCE:
            return f"{now - known.ends:.1f} s after its end"
        if abs(held.seconds - age) > AT_ONCE:
            return f"for {held.seconds:.1f} s, and it was {age:.1f} s"
        if held.lost is not None and not self.book.is_over(known, held.lost):
            return f"and lost ({held.lost}), and it is good"
        return ""

"""The end of a hold: is anything left of it, after its lock was handed on or given back?

owned after its end   a section was over, and its hold said that it was owned
waits for its end     a section was over, and who waited for the loss of its hold was not woken
callback left         a section was over, and a callback of its user was still kept for a loss
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from simulator.virtual.oracle.conduct import Checks
from singleton.locking.section import Section

if TYPE_CHECKING:
    from simulator.virtual.oracle.hold_book import HoldBook, KnownHold
    from simulator.virtual.time.machine import Machine
    from singleton.base.hold import Hold, LossSignal


@dataclass(slots=True)
class HoldEndChecks(Checks):
    """Told of each hold that a wait ended with."""

    book: HoldBook

    def begun(self, machine: Machine, hold: Hold) -> None:
        """Take a hold; nothing here refers to the hold, which may be dropped."""
        if isinstance(hold, Section):
            known = self.book.begun(machine, hold)
            woken: list[str] = []
            hold.own_lost._when_over(partial(woken.append, hold.owner))  # noqa: SLF001 - wakes as a waiter would
            about = f"{hold.owner}'s hold of {hold.lock}"
            hold.record.when_settled(partial(self._settled, known, hold.own_lost, about, woken))

    def _settled(self, known: KnownHold, signal: LossSignal, about: str, woken: list[str]) -> None:
        machine = known.machine
        self.book.settled(known)
        self.evidence.reached["holds at their end"] += 1
        if not signal.ended:
            self._blame("owned after its end", f"{about} is over on {machine.name}, and says that it is owned")
        elif not woken:
            sleeps = "who waits for its loss is not woken"
            self._blame("waits for its end", f"{about} is over on {machine.name}, and {sleeps}")
        elif signal._callbacks:  # noqa: SLF001 - there is no other way to look
            self._blame("callback left", f"{about} is over on {machine.name}, and keeps a callback")

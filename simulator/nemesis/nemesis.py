"""The nemesis strikes when a fault of the plan is due and a host is at the planned moment, and undoes faults in time.

At least two hosts can always do their work. A host that suffers from one fault is not struck by another, but for those
that strike everybody. What ended is started again; at the end all that can be undone is undone.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from simulator.faults.real import REQUESTS
from simulator.nemesis.aims import Aiming
from simulator.nemesis.field import OVER, FaultHandle, begin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from simulator.faults.real import RealFault, Victims
    from simulator.nemesis.field import Field

WORKING: Final = 2
"""The number of hosts that can always do their work."""
PATIENCE: Final = 8.0
"""Seconds for which a fault waits for its moment at most; later any host is struck."""
GIVEN_UP: Final = 12.0
"""Seconds after `PATIENCE` until a fault without a possible victim is given up."""

AT_A_TIME: Final = 3
"""The number of faults that may wait for their moments at a time."""


@dataclass(frozen=True, slots=True)
class Underway:
    """A fault that has begun: under which number, on whom, and until when."""

    id: int
    fault: RealFault
    mark: Victims
    strike: FaultHandle
    until: float


class Nemesis:
    """Carries a plan out, step by step; the caller makes the steps."""

    def __init__(self, plan: Sequence[RealFault], field: Field, *, seed: int, every: float = PATIENCE) -> None:
        """Prepare; ``start`` begins. Where faults come ``every`` second or so, none waits for its moment for long."""
        self._patience = min(PATIENCE, 2 * every)
        self._plan = sorted(plan, key=lambda fault: fault.at)
        self._field = field
        self._random = random.Random(f"victims {seed}")
        self._underway: list[Underway] = []
        self.aiming: dict[Aiming, float] = {}
        """The faults that wait for their moments, and since when: steps should be short meanwhile."""
        self._number = 0
        self._started = 0.0
        self.healed: float | None = None

    def start(self) -> None:
        """Count the plan's times from now on."""
        self._started = self._field.now()

    def step(self) -> None:
        """Do what is due: end faults, choose the next one, strike."""
        self._field.tend()
        now = self._field.now()
        for each in [*self._underway]:
            if now >= each.until or each.strike.is_over():
                self._end(each)
        self._choose(now)
        for aiming, since in [*self.aiming.items()]:
            if self._aim(aiming, now, now - since):
                del self.aiming[aiming]

    def heal(self) -> bool:
        """Undo faults, and strike no more; True when all hosts work again. The caller repeats this until True."""
        self.undo()
        self._field.tend()
        for each in [*self._underway]:
            if each.strike.is_over():
                self._end(each)
        if self._underway or self._field.absent():
            return False
        if self.healed is None:
            self.healed = self._field.now()
            self._field.write("healed")
        return True

    def undo(self) -> None:
        """Strike no more, and end all faults that can be ended."""
        self._plan = []
        for aiming in self.aiming:
            aiming.end()
        self.aiming = {}
        for each in [*self._underway]:
            if each.until < math.inf:
                self._end(each)

    def _choose(self, now: float) -> None:
        """Take the faults that are due and can strike somebody."""
        room = self._room()
        for fault in [*self._plan]:
            if now < self._started + fault.at or len(self.aiming) >= AT_A_TIME:
                return
            if room >= 1 or not fault.disabling:
                self._plan.remove(fault)
                aiming = Aiming(fault, self._field, self._random)
                if fault.aim in REQUESTS and not self._field.locking:
                    aiming.lower(fault.easiest)  # hosts without locks send no such requests
                self.aiming[aiming] = now

    def _aim(self, aiming: Aiming, now: float, waited: float) -> bool:
        """Strike if it is the moment; tell whether nothing is left to do."""
        struck = [each.mark for each in self._underway if not each.fault.everybody]
        mark = aiming.look(frozenset(host for each in struck for host in each.hosts), self._room())
        if mark is not None and self._strike(aiming, mark, now):
            return True
        if waited > self._patience + GIVEN_UP:
            aiming.end()
            return True
        if waited > self._patience and aiming.aim != aiming.fault.easiest:
            moment = aiming.aim in REQUESTS and self._field.holdings()
            aiming.lower("holder" if moment else aiming.fault.easiest)
        return False

    def _strike(self, aiming: Aiming, mark: Victims, now: float) -> bool:
        fault, seconds = aiming.fault, aiming.fault.length(self._field.lease())
        self._number += 1
        number = self._number

        def tell() -> None:
            self._field.write(
                "fault",
                host=mark.hosts[0],
                id=number,
                kind=fault.kind,
                hosts=list(mark.hosts),
                lock=mark.lock,
                way=fault.way,
                aim=mark.aim,
                meant=fault.aim,
                seconds=seconds,
                what=fault.words(mark, seconds),
            )

        strike = begin(fault, self._field, mark, tell)
        if strike is None:
            self._number -= 1
            if mark.aim not in {"holder", "anybody"}:
                aiming.lower(fault.easiest)  # the moment is over
            return False
        aiming.end(drop=fault.stops)
        until = math.inf if seconds is None else now + seconds
        begun = Underway(number, fault, mark, strike, until)
        self._underway.append(begun)
        if strike is OVER:
            self._end(begun)
        return True

    def _end(self, each: Underway) -> None:
        self._underway.remove(each)
        each.strike.end()
        self._field.write("fault_ended", host=each.mark.hosts[0], id=each.id, hits=each.strike.hits())

    def _room(self) -> int:
        """How many more hosts may be disabled."""
        disabled = {host for each in self._underway if each.fault.disabling for host in each.mark.hosts}
        return len([host for host in self._field.working() if host not in disabled]) - WORKING

"""Planted bugs in what keeps many leases: the wheel that looks at them, and the turns of their requests."""

from __future__ import annotations

from typing import Final

from tests.simulation.planted.mutant import Mutant

LEASE: Final = "singleton/locking/lease.py"
WHEEL: Final = "singleton/locking/wheel.py"
TURNS: Final = "singleton/locking/turns.py"

WHEELS: tuple[Mutant, ...] = (
    Mutant(
        name="deadline waits for the renewal under way",
        file=LEASE,
        old="        when = min(self._deadline, self._renewals.due, self._renewals.ends)\n",
        new="        when = min(self._renewals.due, self._renewals.ends)\n",
        breaks="a renewal that hangs holds up the loss (B5)",
    ),
    Mutant(
        name="deadline of touches has no timer",
        file=LEASE,
        old="min(when, self._touch_ends, self._touches.due)",
        new="min(when, self._touches.due)",
        breaks="a holder whose touch waits or hangs counts on its hold while others take it over",
        by=("tests/unit/locking/test_turns.py",),
        why="a world of some hundred shows it: two inside, in 300 to 1,000 of the workload `failover`",
    ),
    Mutant(
        name="touch waits by the deadline of its lease",
        file=LEASE,
        old="self._turns.ask(touches, self.deadline, now)",
        new="self._turns.ask(touches, self._deadline, now)",
        breaks="a touch waits behind renewals that have more time, and the hold is lost without a fault",
        by=("tests/unit/locking/test_turns.py",),
        why="it takes more leases of one process than a world has",
    ),
    Mutant(
        name="not looked at again after a renewal",
        file=TURNS,
        old="        self.due, self.ends, self.task = due, math.inf, None\n        self.of.arm()\n",
        new="        self.due, self.ends, self.task = due, math.inf, None\n",
        breaks="a lease is renewed once, if at all, and lost in the middle of a long body",
    ),
    Mutant(
        name="wheel keeps its timer when an earlier ticket comes",
        file=WHEEL,
        old="        if when < self._set_for:\n",
        new="        if when < self._set_for == math.inf:\n",
        breaks="a lease that is due before all others is renewed, or lost, too late",
    ),
    Mutant(
        name="wheel follows one that is due later, and passes the others",
        file=WHEEL,
        old="            self._set_for_earliest()\n\n    def forget",
        new="            self._set(when, number)\n\n    def forget",
        breaks="a lease that is due before another one's next renewal is renewed, or lost, too late",
    ),
    Mutant(
        name="wheel forgets the others with one",
        file=WHEEL,
        old="        if not self._watched:\n            self._tickets.clear()\n",
        new="        if self._watched >= 0:\n            self._tickets.clear()\n",
        breaks="the release of one lock stops the renewals of all other locks",
    ),
    Mutant(
        name="time named first is the one that counts",
        file=WHEEL,
        old="        if not before:\n            self._watched += 1\n",
        new="        if before:\n            return\n        self._watched += 1\n",
        breaks="after a renewal that failed the next one comes at the deadline",
    ),
    Mutant(
        name="tickets of nobody are looked at",
        file=WHEEL,
        old="                if what.ticket != number:\n                    continue\n",
        new="",
        breaks="nothing by itself: a look too many finds nothing due; but a lease that has ended is looked at for ever",
        by=("tests/unit/locking/test_wheel.py",),
        why="a look too many finds nothing that is due",
    ),
    Mutant(
        name="who hangs keeps its place",
        file=TURNS,
        old="PATIENCE: Final = 0.5\n",
        new="PATIENCE: Final = 50.0\n",
        breaks="requests that hang hold up the renewals of leases that could be kept",
        by=("tests/unit/locking/test_turns.py",),
        why="no host of a world has so many leases that one waits for its turn",
    ),
    Mutant(
        name="turns in the order of the coming",
        file=TURNS,
        old="        heappush(self._waiting, (deadline, self._made, duty))\n",
        new="        heappush(self._waiting, (0.0, self._made, duty))\n",
        breaks="a request that has time goes before one that has none",
        by=("tests/unit/locking/test_turns.py",),
        why="no host of a world has so many leases that one waits for its turn",
    ),
    Mutant(
        name="who is due alone is forgotten",
        file=TURNS,
        old="            duty.begin(now)\n            return\n",
        new="            return\n",
        breaks="a lease whose renewal is due while no other is, is not renewed",
    ),
    Mutant(
        name="no end to the requests under way",
        file=TURNS,
        old="            if len(self._places) >= self._most:\n",
        new="            if len(self._places) >= PLACES * PLACES:\n",
        breaks="after a stall all leases ask at once, each over a connection of its own",
        by=("tests/unit/locking/test_turns.py",),
        why="no host of a world has so many leases that one waits for its turn",
    ),
)

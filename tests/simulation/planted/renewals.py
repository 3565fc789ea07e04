"""Planted bugs in the timers of leases, and in the order in which their renewals are sent."""

from __future__ import annotations

from typing import Final

from tests.simulation.planted.mutant import Mutant

LEASE: Final = "singleton/locking/lease.py"
RENEWALS_FILE: Final = "singleton/locking/renewals.py"
_TESTS: Final = ("tests/unit/locking/test_renewals.py",)
_FEW: Final = "no host of a world has so many leases that a renewal waits for another one"

RENEWALS: tuple[Mutant, ...] = (
    Mutant(
        name="deadline waits for the renewal under way",
        file=LEASE,
        old="            when = min(self.deadline, self.due)\n",
        new="            when = min(self.deadline + self._period, self.due)\n",
        breaks="a renewal that hangs holds up the loss (B5)",
    ),
    Mutant(
        name="deadline of touches has no timer",
        file=LEASE,
        old="when = min(self.deadline, self.due)",
        new="when = min(self._deadline, self.due)",
        breaks="a holder whose touch waits or hangs counts on its hold while others take it over",
        by=_TESTS,
        why="a world of some hundred shows it: two inside, in 300 to 1,000 of the workload `failover`",
    ),
    Mutant(
        name="touch waits by the deadline of its lease",
        file=LEASE,
        old="self._renewals.ask(self._touches, self.deadline)",
        new="self._renewals.ask(self._touches, self._deadline)",
        breaks="a touch waits behind renewals that have more time, and the hold is lost without a fault",
        by=_TESTS,
        why="it takes more leases of one process than a world has",
    ),
    Mutant(
        name="no timer after a renewal",
        file=RENEWALS_FILE,
        old="        renewable.task = None\n        renewable.set_timer()\n",
        new="        renewable.task = None\n",
        breaks="a lease is renewed once, if at all, and lost in the middle of a long body",
    ),
    Mutant(
        name="time named first is the one that counts",
        file=LEASE,
        old="        if self._timer is not None:\n            self._timer.cancel()\n            self._timer = None\n",
        new="        if self._timer is not None:\n            return\n",
        breaks="after a renewal that failed the next one comes at the deadline",
    ),
    Mutant(
        name="only the first renewals are sent",
        file=RENEWALS_FILE,
        old="        self._sends_soon = False\n        now = ",
        new="        now = ",
        breaks="a lease that is due after all others is never renewed",
    ),
    Mutant(
        name="withdrawn request is sent",
        file=RENEWALS_FILE,
        old="            if renewable.queued != number:\n                continue\n",
        new="",
        breaks="a lease that was stopped while its renewal was queued is renewed all the same",
        by=_TESTS,
        why=_FEW,
    ),
    Mutant(
        name="who hangs keeps its place",
        file=RENEWALS_FILE,
        old="PATIENCE: Final = 0.125\n",
        new="PATIENCE: Final = 50.0\n",
        breaks="requests that hang hold up the renewals of leases that could be kept",
        by=_TESTS,
        why=_FEW,
    ),
    Mutant(
        name="turns in the order of the coming",
        file=RENEWALS_FILE,
        old="        heappush(self._queue, (deadline, self._numbers, renewable))\n",
        new="        heappush(self._queue, (0.0, self._numbers, renewable))\n",
        breaks="a request that has time goes before one that has none",
        by=_TESTS,
        why=_FEW,
    ),
    Mutant(
        name="sent as soon as it is due",
        file=RENEWALS_FILE,
        old="            asyncio.get_running_loop().call_soon(self._send)\n",
        new="            self._send()\n",
        breaks="after a stall a request that has time goes before one that has none",
        by=_TESTS,
        why=_FEW,
    ),
    Mutant(
        name="no end to the requests under way",
        file=RENEWALS_FILE,
        old="        while queue and len(under_way) < AT_A_TIME:\n",
        new="        while queue:\n",
        breaks="after a stall all leases ask at once, each over a connection of its own",
        by=_TESTS,
        why=_FEW,
    ),
    Mutant(
        name="late loop gets more work",
        file=RENEWALS_FILE,
        old="        if now - when >= LATE and not again:\n",
        new="        if now - when >= 100 * LATE and not again:\n",
        breaks="a busy loop sends more and more requests, until none is answered in time",
        by=_TESTS,
        why=_FEW,
    ),
)

"""Planted bugs that only the looks find which every workload takes: errors, records and ends that are not true."""

from __future__ import annotations

from typing import Final

from tests.simulation.planted.mutant import Mutant

PHASE: Final = "singleton/locking/phase.py"
LINE: Final = "singleton/locking/line.py"
LOCK: Final = "singleton/locking/lock.py"
HOLD: Final = "singleton/base/hold.py"
SEMAPHORE: Final = "singleton/locking/semaphore.py"
_BEGUN: Final = (
    "        lease.whose, lease.owner, lease.began = waiter.invocation, waiter.owner, self._phases.loop.time()\n"
)

LOOKS: tuple[Mutant, ...] = (
    Mutant(
        name="waits end after twenty seconds of trouble",
        file=PHASE,
        old="self._failing_since >= _PATIENCE",
        new="self._failing_since >= 20.0",
        breaks="callers are told that the storage does not answer, where a minute would have been enough for it",
        among="queue",
    ),
    Mutant(
        name="trouble of long ago counts",
        file=PHASE,
        old="            self._failing_since = self.loop.time()\n",
        new="            self._failing_since = self._failing_since or self.loop.time()\n",
        breaks="a second trouble ends every wait at once, as if it had lasted since the first",
        among="mutex",
    ),
    Mutant(
        name="a single attempt has three seconds",
        file=LINE,
        old="_TRY_ONCE: Final = 10.0",
        new="_TRY_ONCE: Final = 3.0",
        breaks="a single attempt gives up before its second request had a chance",
        among="skip",
    ),
    Mutant(
        name="a record names the first owner under its lease",
        file=LOCK,
        old=_BEGUN,
        new="        lease.whose, lease.began = waiter.invocation, self._phases.loop.time()\n"
        "        lease.owner = lease.owner or waiter.owner\n",
        breaks="who asks for the holder is told of somebody who has left",
        among="mutex",
    ),
    Mutant(
        name="a slot is recorded for whom it was asked",
        file=SEMAPHORE,
        old="hold.owner, hold.lease.owner, hold.record.caller = first.owner, first.owner, first.caller",
        new="hold.owner, hold.record.caller = first.owner, first.caller",
        breaks="the blob of a slot names a caller that has another slot, or none",
        among="semaphore",
    ),
    Mutant(
        name="a hold goes on after its end",
        file=LOCK,
        old="                record.lost.freeze()\n",
        new="",
        breaks="a hold says after its section that it is owned",
        among="mutex",
    ),
    Mutant(
        name="who waits for a loss is not told of the end",
        file=HOLD,
        old="in a circle\n            waiters = [*self._waiters]\n",
        new="in a circle\n            waiters: list[Callable[[], object]] = []\n",
        breaks="a task that waits for the loss of a hold waits for ever",
        among="mutex",
    ),
    Mutant(
        name="a callback outlives its hold",
        file=HOLD,
        old="            if not kept:\n                self._callbacks",
        new="            if kept:\n                self._callbacks",
        breaks="what a callback refers to is kept until the hold is collected",
        among="mutex",
    ),
)

"""Planted bugs in what a process remembers of a lock, and in what it leaves on the blob for others."""

from __future__ import annotations

from tests.simulation.planted.mutant import Mutant

FENCING = "singleton/locking/fencing.py"
TAKEOVER = "singleton/locking/failover.py"
CALLS = "singleton/runtime/calls.py"

REMEMBERED: tuple[Mutant, ...] = (
    Mutant(
        name="a blob is made without its owner",
        file=FENCING,
        old="self._store.create(self._name, self._signed(NOTHING, owner))",
        new='self._store.create(self._name, self._signed(NOTHING, ""))',
        breaks="nobody can tell who has a new lock until its first renewal",
    ),
    Mutant(
        name="a stamp is spared after a long hold",
        file=FENCING,
        old="not (self.spent or self._told_of_a_long_hold)",
        new="not self.spent",
        breaks="the next hold of the process seems to go on since the long one began",
    ),
    Mutant(
        name="a look at the clocks leaves nothing behind",
        file=FENCING,
        old="        before, self._clocks = self._clocks, self._wall",
        new="        before = self._clocks = self._wall",
        breaks="a restored image of a process goes by what the process remembered",
        among="images",
    ),
    Mutant(
        name="what the process gave is forgotten as a blob is read",
        file=FENCING,
        old="epoch = max(self._epoch, self._highest.epoch, epoch_in(state))",
        new="epoch = max(self._epoch, epoch_in(state))",
        breaks="a process repeats tokens that it gave under other options of the lock",
        among="images",
    ),
    Mutant(
        name="what the process gave is forgotten as a blob is made",
        file=FENCING,
        old="given = made.modified * EPOCHS_A_SECOND, max(self._epoch, self._highest.epoch)\n",
        new="given = made.modified * EPOCHS_A_SECOND, self._epoch\n",
        breaks="a process repeats tokens that it gave under other options of the lock",
        among="images",
    ),
    Mutant(
        name="what was read of a lock outlives its acquisition",
        file=TAKEOVER,
        old="            raise\n        self._suspicion.forget()\n",
        new="            raise\n",
        breaks="who got the lock reads it before he asks for it again",
        by=(
            "tests/unit/locking/test_failover.py::test_who_asked_again_for_a_lease_of_his_own_does_not_read_it_at_the_next_acquisition",
        ),
        why="it costs a request, and only after a lease that was granted without a reply",
    ),
)

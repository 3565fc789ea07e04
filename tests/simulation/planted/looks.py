"""Planted bugs that only the looks find which every workload takes: errors that are not true."""

from __future__ import annotations

from typing import Final

from tests.simulation.planted.mutant import Mutant

PHASE: Final = "singleton/locking/phase.py"
LINE: Final = "singleton/locking/line.py"

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
)

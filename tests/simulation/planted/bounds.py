"""Planted bugs in the bounds of docs/guarantees.md: what takes longer, or ends sooner, than the table says."""

from __future__ import annotations

from typing import Final

from tests.simulation.planted.mutant import Mutant

LEASE: Final = "singleton/locking/lease.py"
ACQUISITION: Final = "singleton/locking/acquisition.py"
HOLDERS: Final = "singleton/runtime/holders.py"
SEMAPHORE: Final = "singleton/locking/semaphore.py"
_ASKED_FOR: Final = (
    "        if number in self._used:\n            self._phases.see_taken()\n            self._stand_by(number)\n"
)

BOUNDS: tuple[Mutant, ...] = (
    Mutant(
        name="renewals a fifth later than their interval",
        file=LEASE,
        old="        super().__init__(sent + self._interval, contextvars.copy_context())\n",
        new="        super().__init__(sent + 1.2 * self._interval, contextvars.copy_context())\n",
        breaks="fewer tries are left when a renewal goes wrong, and the holder hears later of an operator's break",
        among="mutex",
    ),
    Mutant(
        name="a margin of a fifth",
        file=LEASE,
        old="MARGIN = 1 / 15\n",
        new="MARGIN = 1 / 5\n",
        breaks="a hold is lost as expired while its lease is good for two seconds more than the margin",
        among="mutex",
    ),
    Mutant(
        name="a release is tried for twelve seconds",
        file=ACQUISITION,
        old="        ends, pause, failure = loop.time() + _RELEASE, ",
        new="        ends, pause, failure = loop.time() + 12.0, ",
        breaks="a caller waits for its release longer than the bound says",
        among="mutex",
    ),
    Mutant(
        name="who has the lock is read at each refusal",
        file=HOLDERS,
        old="guard.reading is None or loop.time() - guard.reading.at >= _AGAIN",
        new="guard.reading is None or loop.time() >= guard.reading.at",
        breaks="a lock that is often taken costs two requests for each refusal",
        among="mixed",
    ),
    *(
        Mutant(
            name=name,
            file=SEMAPHORE,
            old=_ASKED_FOR,
            new="        if number in self._used or self._stand_ins:\n            self._phases.see_taken()\n"
            "            if number in self._used:\n                self._stand_by(number)\n",
            breaks="a slot stays free while somebody waits for one",
            among=among,
        )
        for name, among in (
            ("a process with a slot asks for no other", "semaphore"),
            ("an app whose function has a slot asks for no other", "limits"),
        )
    ),
)

"""Phases of a lock in this process, and the moves between them.

    idle ──► (aside) ──► asking ◄──► taken, trouble ──► held ──► giving back
                ▲                                                     │
                └───────────────── somebody waits ────────────────────┘

Without waiters every phase ends in ``idle``. For a semaphore the slots' locks have the right half.

In ``asking``, ``taken`` and ``trouble`` the lock asks for the lease, with different knowledge: none yet; another
process has the lock; the storage does not answer. After its run a process stands aside before asking again. A lock
also waits behind a running section of another lock of this process on the blob.
"""

from __future__ import annotations

import asyncio
import enum
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.failover_mark import LOOKS
from singleton.base.invocation import log as _log

if TYPE_CHECKING:
    from singleton.base.errors import SingletonError


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Times of a lock, in seconds. ``SingletonOptions`` checks the ranges."""

    period: float = 15.0
    renewal: float | None = None
    poll_min: float = 0.1
    poll_max: float = 5.0
    handoff_window: float = 30.0
    failover: float | None = None

    @property
    def longest_pause(self) -> float:
        """Seconds between two polls, at most."""
        return self.poll_max if self.failover is None else min(self.poll_max, self.failover / LOOKS)


PATIENCE: Final = 60.0
"""Seconds of storage without a usable answer after which waits end."""
_TURN: Final = 1.1
"""Polling intervals for which a process stands aside after its run."""
_MOSTLY: Final = 0.75
"""If the lock was free for this part of a run, polls of other processes have found it free: they had their turn."""


class Phase(enum.Enum):
    """Phase of a lock."""

    IDLE = "idle"
    ASIDE = "standing aside"
    BEHIND = "behind another section of this process"
    ASKING = "asking"
    TAKEN = "asking, and somebody else has it"
    TROUBLE = "asking, and the storage fails"
    HELD = "held"
    GIVING_BACK = "giving back"

    __hash__ = object.__hash__  # ``Enum.__hash__`` costs more, and a move hashes several phases


_OURS: Final = frozenset({Phase.BEHIND, Phase.HELD, Phase.GIVING_BACK})
_OTHERS: Final = frozenset({Phase.ASIDE, Phase.TAKEN})
_LATER: Final = frozenset({Phase.ASIDE, Phase.BEHIND})
_TRYING: Final = frozenset({Phase.ASKING, Phase.TAKEN, Phase.TROUBLE})
_MOVES: Final = {
    Phase.IDLE: {*_LATER, Phase.ASKING},
    Phase.ASIDE: {Phase.BEHIND, Phase.ASKING},
    Phase.BEHIND: {Phase.BEHIND, Phase.ASKING},
    Phase.ASKING: {*_TRYING, *_LATER, Phase.HELD},
    Phase.TAKEN: {*_TRYING, *_LATER, Phase.HELD},
    Phase.TROUBLE: {*_TRYING, *_LATER, Phase.HELD},
    Phase.HELD: {Phase.GIVING_BACK},
    Phase.GIVING_BACK: {*_LATER, Phase.ASKING},
}
"""The allowed moves. ``idle`` may follow every phase: the line is empty, or the lock is closed."""


class PhaseMachine:
    """The phase of a lock or semaphore in this process, and the times of its moves by the running loop's clock.

    Attributes:
        phase: the phase; changed by the moves below only.
        used: whether a waiter of this process got the lock under the present lease; set by the lock.
        asked: time of the last request; set by the lock. The knowledge of the last answer stays.
    """

    def __init__(self, what: str, timing: Timing) -> None:
        self.phase = Phase.IDLE
        self.asked = -math.inf
        self.loop = asyncio.get_running_loop()
        self._failure: SingletonError | None = None
        self._what = what
        self._timing = timing
        self._failing_since = 0.0
        self._seen_taken = -math.inf
        self._stood_behind = -math.inf
        self._run_since = -math.inf
        self._free_since = self._given_back = -math.inf
        self._free = 0.0
        self.used = False

    def go(self, to: Phase) -> None:
        """Note a move that ``_MOVES`` allows. In ``ASIDE`` and ``BEHIND`` callers here see a lock in use."""
        assert to in _MOVES[self.phase], f"{self._what}: from {self.phase.value} to {to.value}"
        if self.phase is Phase.BEHIND:
            self._stood_behind = self.loop.time()
        self.phase = to

    def begin(self) -> None:
        """Begin to ask. Earlier knowledge is dropped, except trouble which has not ended."""
        if self.phase is not Phase.TROUBLE:
            self.go(Phase.ASKING)

    def answer(self) -> None:
        """Note a usable answer of the storage."""
        if self.phase is Phase.TROUBLE:
            _log.info("%s: storage answers again", self._what, extra=self._fields)
            self.go(Phase.ASKING)

    def refuse(self) -> None:
        """Note a holder in another process."""
        if self.phase is not Phase.TAKEN:  # false at the first poll only
            self.answer()
            self.go(Phase.TAKEN)
        self.see_taken()

    def fail(self, trouble: SingletonError) -> bool:
        """Note an answer which is not usable; return whether the trouble has lasted for too long."""
        if self.phase is not Phase.TROUBLE:
            _log.warning(
                *("%s: storage fails (%s); trying again", self._what, trouble.reason),
                extra={**self._fields, "cause": trouble.reason},
            )
            self._failing_since = self.loop.time()
        self.go(Phase.TROUBLE)
        self._failure = trouble
        return self.loop.time() - self._failing_since >= PATIENCE

    def win(self) -> None:
        """Note that the lease is ours. A run begins, unless other processes had no turn since the last run."""
        self.answer()
        if self._others_had_theirs:
            self._run_since, self._free = self.loop.time(), 0.0
        else:
            self._free += max(0.0, self.loop.time() - self._free_since)
        self.used = False
        self.go(Phase.HELD)

    def given_back(self, free_since: float) -> None:
        """Note the end of the release: the lock is free since ``free_since``. A used lease means contention."""
        self._free_since = free_since
        if self.used:
            self._given_back = free_since

    def granted_unusable(self, since: float, free_since: float) -> None:
        """Note a lease which was granted at ``since`` without an answer, and is free since ``free_since``."""
        self._free += max(0.0, since - self._free_since)
        self._free_since = free_since

    def rest(self) -> None:
        """Note that the line is empty."""
        self.phase = Phase.IDLE

    def see_taken(self) -> None:
        """Note a holder elsewhere, of the lock or of a slot: evidence of contention for present waiters."""
        self._seen_taken = self.loop.time()

    @property
    def _fields(self) -> dict[str, object]:
        return {"lock": self._what.partition(" ")[2]}

    @property
    def trouble(self) -> SingletonError | None:
        """The error of waiters while the storage fails; else None."""
        return self._failure if self.phase is Phase.TROUBLE else None

    @property
    def ours(self) -> bool:
        """Tell whether this process has the lease."""
        return self.phase in _OURS

    @property
    def used_here(self) -> bool:
        """Tell whether a caller of this process has the lock, or had it under the present lease.

        A lease which came too late for its waiter was never used, and is no evidence.
        """
        return self.phase is Phase.BEHIND or (self.used and self.phase in _OURS)

    @property
    def in_use(self) -> bool:
        """Tell whether the lock is known to be in use, here or elsewhere."""
        return self.phase in _OTHERS or self.used_here

    @property
    def polled_lately(self) -> bool:
        """Tell whether a refusal counts as the first poll of the next wait: not long ago, and the lock was not ours."""
        return self._seen_taken > max(self._free_since, self.loop.time() - self._timing.longest_pause)

    def was_taken_since(self, since: float) -> bool:
        """Tell whether the service has reported a holder elsewhere at ``since`` or later."""
        return self._seen_taken >= since

    def was_in_use_since(self, since: float) -> bool:
        """Tell whether there is evidence of a use of the lock at ``since`` or later."""
        return self.was_taken_since(since) or max(self._given_back, self._stood_behind) > since

    @property
    def had_its_run(self) -> bool:
        """Tell whether our run is over: after ``handoff_window`` seconds other processes should get their turn."""
        return self.loop.time() - self._run_since >= self._timing.handoff_window and not self._others_had_theirs

    @property
    def _others_had_theirs(self) -> bool:
        """Tell whether other processes had their turn since our run began: one poll each, or most of the time."""
        if self.phase in _OURS:
            return False
        now = self.loop.time()
        free = self._free + max(0.0, now - self._free_since)
        return now >= self.aside_until or free >= _MOSTLY * (now - self._run_since)

    @property
    def aside_until(self) -> float:
        """Time at which every waiter elsewhere has polled once since the lock became free."""
        return self._free_since + self._timing.poll_max * _TURN

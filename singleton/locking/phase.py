"""What a lock of this process is doing: its states, and the moves between them.

    idle ──► (aside) ──► asking ◄──► taken, trouble ──► held ──► giving back
                ▲                                                     │
                └───────────────── somebody waits ────────────────────┘

Where nobody waits any more, each of them ends in ``idle``. A semaphore has its slots' locks for the right half.

In ``asking``, ``taken`` and ``trouble`` the lock asks for the lease. They differ in what is known: nothing yet;
somebody else has it; the storage does not answer. A process that has had its run stands aside before it asks again. It
also waits behind a section that another lock of this process has on the same blob.
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
    """How a lock behaves in time; all in seconds. Checked by ``SingletonOptions``."""

    period: float = 15.0
    renewal: float | None = None
    poll_min: float = 0.1
    poll_max: float = 5.0
    handoff_window: float = 30.0
    failover: float | None = None

    @property
    def longest_pause(self) -> float:
        """The longest time between two polls."""
        return self.poll_max if self.failover is None else min(self.poll_max, self.failover / LOOKS)


_PATIENCE: Final = 60.0
"""Seconds that storage may go without a usable answer before its waiters are told."""
_TURN: Final = 1.1
"""Polling intervals for which a process that had its run leaves the lock alone."""
_MOSTLY: Final = 0.75
"""Part of a run for which the lock was free that is turn enough for others: each of their polls finds it so."""


class Phase(enum.Enum):
    """What is being done."""

    IDLE = "idle"
    ASIDE = "standing aside"
    BEHIND = "behind another section of this process"
    ASKING = "asking"
    TAKEN = "asking, and somebody else has it"
    TROUBLE = "asking, and the storage fails"
    HELD = "held"
    GIVING_BACK = "giving back"

    __hash__ = object.__hash__  # that of ``Enum`` costs more, and each move needs several


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
"""What may follow what. ``idle`` may follow all of them, when nobody waits any more, or the lock is closed."""


class PhaseMachine:
    """The state of one lock or semaphore in this process; the running loop's clock tells when it moves.

    Attributes:
        phase: the phase itself; only the moves below change it.
        asked: when a request was last sent.
    """

    __slots__ = (
        "_failing_since",
        "_failure",
        "_free",
        "_free_since",
        "_given_back",
        "_run_since",
        "_seen_taken",
        "_stood_behind",
        "_timing",
        "_used",
        "_what",
        "asked",
        "loop",
        "phase",
    )

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
        self._used = False

    # --- moves --------------------------------------------------------------------------------------------------------

    def back_off(self) -> bool:
        """After its run, leave the lock to other processes: for callers here it is in use. Tell if that takes time."""
        if not self.had_its_run or self.loop.time() >= self.aside_until:
            return False
        self._go(Phase.ASIDE)
        return True

    def wait_for_section(self) -> None:
        """Another lock of this process has a section on the same blob: for callers here it is in use."""
        self._go(Phase.BEHIND)

    def begin(self) -> None:
        """Begin to ask. Of what was known earlier only trouble counts that has not ended."""
        if self.phase is not Phase.TROUBLE:
            self._go(Phase.ASKING)

    def ask(self, now: float) -> None:
        """Send a request. What the last answer said is still what is known."""
        self.asked = now

    def answer(self) -> None:
        """The storage gives a usable answer."""
        if self.phase is Phase.TROUBLE:
            _log.info("%s: storage answers again", self._what, extra=self._fields)
            self._go(Phase.ASKING)

    def refuse(self) -> None:
        """Somebody else has it."""
        if self.phase is not Phase.TAKEN:  # each poll but the first finds it so
            self.answer()
            self._go(Phase.TAKEN)
        self.see_taken()

    def fail(self, trouble: SingletonError) -> bool:
        """The storage gives no usable answer; tell whether it has gone without one for too long."""
        if self.phase is not Phase.TROUBLE:
            _log.warning(
                *("%s: storage fails (%s); trying again", self._what, trouble.reason),
                extra={**self._fields, "cause": trouble.reason},
            )
            self._failing_since = self.loop.time()
        self._go(Phase.TROUBLE)
        self._failure = trouble
        return self.loop.time() - self._failing_since >= _PATIENCE

    def win(self) -> None:
        """The lease is ours; a run of our own begins, unless others had no turn since the last."""
        self.answer()
        if self._others_had_theirs:
            self._run_since, self._free = self.loop.time(), 0.0
        else:
            self._free += self._free_now
        self._used = False
        self._go(Phase.HELD)

    def use(self) -> None:
        """Somebody here gets it, under the lease that is ours."""
        self._used = True

    def give_back(self) -> None:
        """The lease is being given back."""
        self._go(Phase.GIVING_BACK)

    def given_back(self, free_since: float) -> None:
        """Others can have it since then. Where somebody here had it, those who asked in vain hear that."""
        self._free_since = free_since
        if self._used:
            self._given_back = free_since

    def granted_unusable(self, since: float, free_since: float) -> None:
        """The lease was ours since then, and could not be used; others can have it since ``free_since``.

        That is no evidence that it was in use: the storage had no answer.
        """
        self._free += max(0.0, since - self._free_since)
        self._free_since = free_since

    def rest(self) -> None:
        """Nobody here waits any more."""
        self.phase = Phase.IDLE

    def see_taken(self) -> None:
        """Note that somebody else has it, or a part of it: evidence for those who wait now."""
        self._seen_taken = self.loop.time()

    @property
    def _fields(self) -> dict[str, object]:
        """What a log line about it has as fields."""
        return {"lock": self._what.partition(" ")[2]}

    def _go(self, to: Phase) -> None:
        assert to in _MOVES[self.phase], f"{self._what}: from {self.phase.value} to {to.value}"
        if self.phase is Phase.BEHIND:
            self._stood_behind = self.loop.time()
        self.phase = to

    # --- what follows -------------------------------------------------------------------------------------------------

    @property
    def trouble(self) -> SingletonError | None:
        """What to tell those who wait, while the storage fails; else None."""
        return self._failure if self.phase is Phase.TROUBLE else None

    @property
    def ours(self) -> bool:
        """Tell whether this process has the lease."""
        return self.phase in _OURS

    @property
    def used_here(self) -> bool:
        """Tell whether somebody of this process has it, or had it under the lease that is ours still.

        A lease that came too late for who asked has been of use to nobody, and is no evidence.
        """
        return self.phase is Phase.BEHIND or (self.ours and self._used)

    @property
    def in_use(self) -> bool:
        """Tell whether it is known to be in use, here or elsewhere."""
        return self.phase in _OTHERS or self.used_here

    def was_taken_since(self, since: float) -> bool:
        """Tell whether the service has said, then or later, that somebody else has it."""
        return self._seen_taken >= since

    def was_in_use_since(self, since: float) -> bool:
        """Tell whether there is evidence, from then or later, that it was in use."""
        return self.was_taken_since(since) or max(self._given_back, self._stood_behind) > since

    @property
    def had_its_run(self) -> bool:
        """Tell whether our run is over: this process has had the lock for so long that others should get their turn."""
        return self.loop.time() - self._run_since >= self._timing.handoff_window and not self._others_had_theirs

    @property
    def run_ends(self) -> float:
        """When our run is over, while the lock is ours."""
        return self._run_since + self._timing.handoff_window

    @property
    def _others_had_theirs(self) -> bool:
        """Tell whether others could have had the lock since our run began: by asking once, or most of the time."""
        if self.ours:
            return False
        now = self.loop.time()
        return now >= self.aside_until or self._free + self._free_now >= _MOSTLY * (now - self._run_since)

    @property
    def _free_now(self) -> float:
        """For how long others can have it by now."""
        return max(0.0, self.loop.time() - self._free_since)

    @property
    def aside_until(self) -> float:
        """When every waiter elsewhere has polled once since the lock became free."""
        return self._free_since + self._timing.poll_max * _TURN

"""What an invocation of the workload ``listener`` answers, and after how long.

wrong answer      an invocation returned something else than its body, or something where none ran
made unlocked     an item that a body gives was made without its lock
dropped           what can't be put back ended as a success without its body, as another process listens
not skipped       a timer failed because its lock is taken, or another process listens
asked too late    a policy function was asked long after the first attempt, or more than once
asked wrongly     a policy function was told of another function, invocation or message
policy ignored    an invocation ended otherwise than its policy function said
gave up early     an invocation was told that the lock is taken before it had waited for its time
waits too long    an invocation waited for longer than its time-out, or than its functionTimeout allows
not answered      an invocation ended in a way that no worker answers
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from simulator.virtual.oracle.callers import AT_ONCE, ONCE, QUIET
from simulator.virtual.worlds.world import Judge
from tests.worlds.listeners.app import PATIENCE, WAITS_UNTIL

if TYPE_CHECKING:
    from simulator.host.triggers.queue import QueueMessage
    from simulator.virtual.time.machine import Machine
    from tests.worlds.listeners.app import Work

_NEVER_DROPPED: Final = (
    "answer",
    "answer_sync",
    "both",
    "twice",
    "tally",
    "ship",
    "ship_sync",
    "attempt",
    "limited",
    "report",
)
_SKIPPED: Final = ("sweep", "sweep_sync", "idle", "nightly")
_ITEMS: Final = ("report", "report_sync", "tally")
"""Functions whose items the worker would iterate over."""
_WAITS: Final = {
    "ship_sync": (20.0, 20.0),
    "limited": (WAITS_UNTIL, WAITS_UNTIL),
    "attempt": (9.0, 15.0 + 5 * ONCE),
    "twice": (0.0, WAITS_UNTIL),
}
"""How long callers wait, at least and at most."""
_EARLY: Final = 0.5
_GIVES_BACK: Final = 5.0
"""Seconds for a release."""
_ONE_MORE: Final = 1.0
"""Seconds for one request more."""


@dataclass(slots=True)
class Invoked(Judge):
    """An invocation, and what it answered."""

    kind: str
    name: str
    machine: Machine
    work: Work
    since: float
    received: QueueMessage | None = None
    results: list[object] = field(default_factory=list)
    exited: bool = False

    def answered(self, result: object) -> None:
        """Take what it returned."""
        self.results.append(result)

    def judge(self, outcome: str) -> None:
        """Judge how it ended: ``ok``, ``failed``, or the name of its error."""
        self._judge_answer(outcome)
        if self.work.asked:
            self._judge_policy(outcome)
        self._judge_wait(outcome)

    def _judge_answer(self, outcome: str) -> None:
        work = self.work
        if self.exited:
            self._blame("not answered", f"{self.name} ended with what no worker answers for")
        if work.unlocked:
            self._blame("made unlocked", f"{self.name} made {work.unlocked} items without its lock")
        if outcome == "ok" and not work.ran and self.kind in _NEVER_DROPPED:
            self._blame("dropped", f"{self.name} ended as a success, and its body did not run")
        if outcome == "LockNotAcquired" and self.kind in _SKIPPED:
            self._blame("not skipped", f"{self.name} failed, though it is to be skipped where the lock is taken")
        if outcome == "ok":
            poisoned = self._poisoned()  # it failed, and its host must delete its message
            items = work.gives == "items" and bool(work.ran) and not poisoned
            expected = ["item 0", "item 1"] if items else None if poisoned else work.gave
            if self.results[-1] != expected or (items and self.kind not in _ITEMS):
                answered = f"answered {self.results[-1]!r}, and its body gave {expected!r}"
                self._blame("wrong answer", f"{self.name} {answered}")

    def _judge_policy(self, outcome: str) -> None:
        work, oracle = self.work, self.world.oracle
        at, contention = work.asked[0]
        waited = at - self.since
        well = oracle.conduct.well(self.machine, self._age() + QUIET)
        most = (AT_ONCE + _ONE_MORE) if well else ONCE * oracle.bounds.drift + AT_ONCE
        if len(work.asked) > 1 or (waited > most and not self.machine.stopped_since(self._age())):
            asked = f"asked its policy {len(work.asked)} times, the first time after {waited:.1f} s"
            self._blame("asked too late", f"{self.name} {asked}")
        wanted = (None, 0) if self.received is None else (self.received.id, self.received.dequeue_count)
        told = (contention.message_id, contention.dequeue_count)
        if (contention.function, contention.owner) != (self.kind, self.name) or told != wanted or not contention.lock:
            self._blame("asked wrongly", f"{self.name} told its policy {contention}")
        ran = bool(work.ran)
        fits = {
            "skip": outcome == "ok" and not ran,
            "raise": outcome == "LockNotAcquired" and not ran,
            "wait": ran or outcome != "ok",
            "defer": True,
        }
        if not fits[work.policy]:
            ended = f"ended with {outcome}{' after its body' if ran else ''}"
            self._blame("policy ignored", f"{self.name} was to {work.policy}, and {ended}")

    def _judge_wait(self, outcome: str) -> None:
        """Judge how long it waited: for its lock, or for the answer that others have it."""
        work, drift = self.work, self.world.oracle.bounds.drift
        least, most = _WAITS.get(self.kind, (0.0, 0.0))
        if self.kind == "ask" and work.asked and work.policy == "wait":
            least, most = PATIENCE, PATIENCE + ONCE
        if not most or self.machine.stopped_since(self._age()):
            return
        if self.kind == "twice" and not work.ran:
            most += _GIVES_BACK  # what it got as it listened no longer
        waited = (work.began if work.ran else self.world.loop.now) - self.since
        if outcome == "LockNotAcquired" and not work.ran and waited < least / drift - _EARLY:
            self._blame("gave up early", f"{self.name} was told after {waited:.1f} s that the lock is taken")
        if waited > most * drift + AT_ONCE:
            self._blame("waits too long", f"{self.name} waited for {waited:.1f} s")

    def _poisoned(self) -> bool:
        """Tell whether its message was moved to the poison queue."""
        return any(
            record.event == "lock" and record.text("kind") == "poisoned" and record.text("owner") == self.name
            for record in self.world.records
        )

    def _age(self) -> float:
        return self.world.loop.now - self.since

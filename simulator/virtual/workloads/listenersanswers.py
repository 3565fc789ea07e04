"""What an invocation of the workload ``listener`` answers, and how long it took to.

wrong answer      an invocation returned something else than its body, or something where none ran
made unlocked     an item that a body gives was made without its lock
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
from simulator.virtual.workloads.listenersapp import PATIENCE, WAITS_UNTIL

if TYPE_CHECKING:
    from simulator.host.triggers.messages import Message
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.workloads.listenersapp import Work
    from simulator.virtual.worlds.world import World

_ITEMS: Final = ("report", "report_sync", "tally")
"""Functions whose items the worker would go through."""
_WAITS: Final = {"ship_sync": (20.0, 20.0), "limited": (WAITS_UNTIL, WAITS_UNTIL), "attempt": (9.0, 15.0 + 5 * ONCE)}
"""How long callers wait, at least and at most."""
_EARLY: Final = 0.5
_SECOND_LOOK: Final = 1.0
"""Seconds for one request more, and for a deferral's notes."""


@dataclass(slots=True)
class Invoked:
    """An invocation, and what it answered."""

    kind: str
    name: str
    machine: Machine
    work: Work
    since: float
    received: Message | None
    results: list[object] = field(default_factory=list)

    def answered(self, result: object) -> None:
        """Take what it returned."""
        self.results.append(result)


def judge_answer(world: World, one: Invoked, outcome: str) -> None:
    """Judge an invocation that has ended."""
    for check, text in (_answer(one, outcome), _asked(world, one, outcome), _waited(world, one, outcome)):
        if check:
            world.oracle.blame(check, f"{one.name} {text}")
            return


def _answer(one: Invoked, outcome: str) -> tuple[str, str]:
    work = one.work
    if outcome == "exit":
        return "not answered", "ended with SystemExit"
    if work.unlocked:
        return "made unlocked", f"made {work.unlocked} items without its lock"
    if outcome != "ok":
        return "", ""
    result = one.results[-1]
    expected = work.gave if work.ran else None
    if work.gives == "items" and work.ran:
        expected = ["item 0", "item 1"]
    if result != expected or (work.gives == "items" and work.ran and one.kind not in _ITEMS):
        return "wrong answer", f"answered {result!r}, and its body gave {expected!r}"
    return "", ""


def _asked(world: World, one: Invoked, outcome: str) -> tuple[str, str]:
    if not one.work.asked:
        return "", ""
    at, contention = one.work.asked[0]
    waited = at - one.since
    well = world.oracle.conduct.well(one.machine, world.loop.now - one.since + QUIET)
    stopped = one.machine.stopped_since(world.loop.now - one.since)
    most = (AT_ONCE + _SECOND_LOOK) if well else ONCE * world.oracle.bounds.drift + AT_ONCE
    if len(one.work.asked) > 1:
        return "asked too late", f"asked its policy {len(one.work.asked)} times"
    if waited > most and not stopped:
        return "asked too late", f"asked its policy after {waited:.1f} s"
    wanted = (None, 0) if one.received is None else (one.received.id, one.received.dequeue_count)
    told = (contention.message_id, contention.dequeue_count)
    if (contention.function, contention.owner) != (one.kind, one.name) or told != wanted or not contention.lock:
        return "asked wrongly", f"told its policy {contention}"
    said, ran = one.work.policy, bool(one.work.ran)
    fits = {
        "skip": outcome == "ok" and not ran,
        "raise": outcome == "LockNotAcquired" and not ran,
        "wait": ran or outcome != "ok",
        "defer": True,
    }
    if not fits[said]:
        return "policy ignored", f"was to {said}, and ended with {outcome}{' after its body' if ran else ''}"
    return "", ""


def _waited(world: World, one: Invoked, outcome: str) -> tuple[str, str]:
    """Judge how long it waited: for its lock, or until it was told that others have it."""
    least, most = _WAITS.get(one.kind, (0.0, 0.0))
    if one.kind == "ask" and one.work.asked and one.work.policy == "wait":
        least, most = PATIENCE, PATIENCE + ONCE
    if not most or one.machine.stopped_since(world.loop.now - one.since):
        return "", ""
    drift = world.oracle.bounds.drift
    waited = (one.work.began if one.work.ran else world.loop.now) - one.since
    if outcome == "LockNotAcquired" and not one.work.ran and waited < least / drift - _EARLY:
        return "gave up early", f"was told after {waited:.1f} s that the lock is taken"
    if waited > most * drift + AT_ONCE:
        return "waits too long", f"waited for {waited:.1f} s"
    return "", ""

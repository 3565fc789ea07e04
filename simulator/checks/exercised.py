"""What the run tried, and what the app declares but the run never reached: that was not shown."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, Wait

_WAITED: Final = 0.25
"""Seconds after which a wait was for another holder, and not for the storage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exercised:
    """How often the run saw what a lock must be able to do.

    Attributes:
        renewals: holds whose renewal was seen on the network.
        waits: invocations that acquired the lock after another had held it.
        refusals: invocations that gave up: they skipped, deferred, raised or timed out.
        handed_between: how often a host acquired a lock after another host.
        handed_within: how often a host acquired a lock again after itself.
        kills: hosts that were killed while they held a lock.
        losses: holds that were lost.
        longest: seconds of the longest body.
    """

    renewals: int = 0
    waits: int = 0
    refusals: int = 0
    handed_between: int = 0
    handed_within: int = 0
    kills: int = 0
    losses: int = 0
    longest: float = 0.0


def count_exercised(history: History) -> Exercised:
    """Count what the run tried."""
    takers: dict[str, list[str]] = defaultdict(list)
    for got in sorted(history.acquisitions, key=lambda got: got.t):
        takers[got.lock].append(got.host)
    hands = [pair for hosts in takers.values() for pair in pairwise(hosts)]
    return Exercised(
        renewals=sum(got.renewed > 0 for got in history.acquisitions),
        waits=sum(map(_waited, history.waits)),
        refusals=len(history.refusals),
        handed_between=sum(before != after for before, after in hands),
        handed_within=sum(before == after for before, after in hands),
        kills=sum(bool(kill.holds) for kill in history.kills),
        losses=sum(history.losses.values()),
        longest=max((section.end - section.start for section in history.sections), default=0.0),
    )


def untried(history: History, exercised: Exercised) -> tuple[str, ...]:
    """Return in words what the app declares and the run did not reach."""
    if not (history.sections and history.setup.get("singleton", True)):
        return ()
    return tuple(_untried(history, exercised))


def _untried(history: History, exercised: Exercised) -> Iterator[str]:
    ran = {section.function for section in history.sections}
    guarded = [function for function in history.functions.values() if function.guarded]
    if idle := sorted(function.name for function in guarded if function.name not in ran):
        yield f"{', '.join(idle)} never ran"
    if not exercised.renewals:
        yield f"no renewal was seen (bodies take {exercised.longest:.0f} s at most)"
    if len(history.hosts) > 1 and not exercised.handed_between:
        yield "no lock went from one host to another"
    for name in _never_handed_on(history):
        yield f"no hand-over of {name!r} was seen"
    contended = {refusal.function for refusal in history.refusals} | {
        wait.function for wait in history.waits if _waited(wait)
    }
    for function in guarded:
        if function.name in ran and function.name not in contended:
            yield f"no invocation of {function.name} {_POLICIES.get(function.on_contention, _OTHER)}"


def _never_handed_on(history: History) -> list[str]:
    """Name the listeners that stayed on one host, although that host was killed."""
    led = {(held.lock, held.function) for kill in history.kills for held in kill.holds if held.mode == "listener"}
    had = {(got.lock, got.host) for got in history.acquisitions}
    return sorted(name for lock, name in led if sum(lock == theirs for theirs, _ in had) <= 1)


def _waited(wait: Wait) -> bool:
    return wait.mode == "function" and wait.ending == "acquired" and wait.end - wait.start > _WAITED


_POLICIES: Final = {
    "wait": "had to wait",
    "skip": "was skipped",
    "defer": "was deferred",
    "raise": "failed for contention",
}
_OTHER: Final = "met a lock that was taken"

"""An invocation leaves for a waiter only (``on_contention="coalesce"``), and the waiter's body begins later.

So for each invocation that left, a body with its key begins after the invocation, or somebody with its key who waited
at that time died, failed, or waits at the end of the run. The message of a dead waiter is delivered again, and other
checks find its loss. The key is what the app has written: a lock that has the bodies of several keys is not asked.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Deed, History, Section, Wait

LEFT: Final = "coalesce"
"""The reason of a refusal that tells that the invocation left."""


class _Keys(NamedTuple):
    """What excludes a deed: the lock, and the expected key, where the host knows the key."""

    keys: dict[tuple[str, str, str], str]

    @classmethod
    def of(cls, history: History) -> _Keys:
        calls = history.invocations
        return cls({(call.host, call.id, mode): key for call in calls for mode, key in call.keys.items() if key})

    def alike(self, one: Deed, other: Deed) -> bool:
        """Tell whether two deeds of one lock have one expected key; true where a key is not known."""
        mine, theirs = (self.keys.get((each.host, each.owner, each.mode)) for each in (one, other))
        return mine == theirs or mine is None or theirs is None


def judge_coalesced(history: History) -> Iterator[Finding]:
    """Find invocations that left although no body with their key began later, and nobody else waited."""
    refusals = [refusal for refusal in history.refusals if refusal.reason == LEFT]
    if not refusals:
        return
    keys = _Keys.of(history)
    bodies: defaultdict[str, list[Section]] = defaultdict(list)
    for section in sorted(history.sections, key=lambda section: -section.start):
        bodies[section.lock].append(section)
    waits: defaultdict[str, list[Wait]] = defaultdict(list)
    for wait in history.waits:
        waits[wait.lock].append(wait)
    failed = {(each.host, each.owner) for each in history.refusals if each.reason == "timeout"}
    alone = Counter[str]()
    for refusal in refusals:
        last = next((each for each in bodies[refusal.lock] if keys.alike(each, refusal)), None)
        if last is not None and last.start >= refusal.called:
            continue
        alone[refusal.function] += not any(
            wait.owner != refusal.owner
            and wait.start <= refusal.t
            and wait.end >= refusal.called
            and (wait.ending != "contended" or (wait.host, wait.owner) in failed)
            and keys.alike(wait, refusal)
            for wait in waits[refusal.lock]
        )
    for name, number in sorted((+alone).items()):
        yield violation(
            f"{count(number, 'invocation')} of {name!r} ended as coalesced, and no body of its lock began later, nor "
            "did another invocation wait: on_contention='coalesce' promises a body after each"
        )

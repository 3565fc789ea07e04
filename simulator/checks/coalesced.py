"""An invocation leaves for a waiter only (``on_contention="coalesce"``), and the waiter's body begins later.

So for each invocation that left, a body with its key begins after the invocation, or somebody with its key who waited
at that time died, failed, or waits at the end of the run. The message of a dead waiter is delivered again, and other
checks find its loss. The keys are what the app has written, two with ``also=``: one in common is enough. Where the host
knows no key, the lock counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import Deed, History, Section, Wait

_MODES: Final = ("function", "also")
LEFT: Final = "coalesce"
"""The reason of a refusal that tells that the invocation left."""


class _Keys(NamedTuple):
    """What excludes the bodies of an invocation: the expected keys of its lock, where the host knows them."""

    known: dict[tuple[str, str], set[str]]

    @classmethod
    def of(cls, history: History) -> _Keys:
        keys = {(call.host, call.id): {call.keys.get(mode) for mode in _MODES} for call in history.invocations}
        return cls({whose: {key for key in several if key} for whose, several in keys.items()})

    def places(self, deed: Deed) -> set[str]:
        """Return under what a deed is found: its lock, and its keys."""
        return {f"lock {deed.lock}", *self.known.get((deed.host, deed.owner), ())}

    def alike(self, one: Deed, other: Deed) -> bool:
        """Tell whether two deeds have a key in common; where a key is not known, whether they have one lock."""
        mine, theirs = (self.known.get((each.host, each.owner)) for each in (one, other))
        return not mine.isdisjoint(theirs) if mine and theirs else one.lock == other.lock


def judge_coalesced(history: History) -> Iterator[Finding]:
    """Find invocations that left although no body with their key began later, and nobody else waited."""
    refusals = [refusal for refusal in history.refusals if refusal.reason == LEFT]
    if not refusals:
        return
    keys = _Keys.of(history)
    bodies: defaultdict[str, list[Section]] = defaultdict(list)
    for section in sorted(history.sections, key=lambda section: -section.start):
        for place in keys.places(section):
            bodies[place].append(section)
    waits: defaultdict[str, list[Wait]] = defaultdict(list)
    for wait in history.waits:
        for place in keys.places(wait):
            waits[place].append(wait)
    failed = {(each.host, each.owner) for each in history.refusals if each.reason == "timeout"}
    alone = Counter[str]()
    for refusal in refusals:
        places = keys.places(refusal)
        last = (next((each for each in bodies[place] if keys.alike(each, refusal)), None) for place in places)
        if any(each is not None and each.start >= refusal.called for each in last):
            continue
        alone[refusal.function] += not any(
            wait.owner != refusal.owner
            and wait.start <= refusal.t
            and wait.end >= refusal.called
            and (wait.ending != "contended" or (wait.host, wait.owner) in failed)
            and keys.alike(wait, refusal)
            for place in places
            for wait in waits[place]
        )
    for name, number in sorted((+alone).items()):
        yield violation(
            f"{count(number, 'invocation')} of {name!r} ended as coalesced, and no body of its lock began later, nor "
            "did another invocation wait: on_contention='coalesce' promises a body after each"
        )

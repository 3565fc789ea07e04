"""An invocation leaves for a waiter only (``on_contention="coalesce"``), and the waiter's body begins later.

So for each invocation that left, a body of its lock begins after the invocation, or somebody who waited at that time
died, failed, or waits at the end of the run. The message of a dead waiter is
delivered again, and other checks find its loss.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History

LEFT: Final = "coalesce"
"""The reason of a refusal that tells that the invocation left."""


def judge_coalesced(history: History) -> Iterator[Finding]:
    """Find invocations that left although no body of their lock began later, and nobody else waited."""
    last: defaultdict[str, float] = defaultdict(lambda: -math.inf)
    for section in history.sections:
        last[section.lock] = max(last[section.lock], section.start)
    alone = Counter[str]()
    for refusal in history.refusals:
        if refusal.reason != LEFT or last[refusal.lock] >= refusal.called:
            continue
        alone[refusal.function] += not any(
            wait.lock == refusal.lock
            and wait.owner != refusal.owner
            and wait.start <= refusal.t
            and wait.end >= refusal.called
            and wait.ending != "contended"
            for wait in history.waits
        )
    for name, number in sorted((+alone).items()):
        yield violation(
            f"{count(number, 'invocation')} of {name!r} ended as coalesced, and no body of its lock began later, nor "
            "did another invocation wait: on_contention='coalesce' promises a body after each"
        )

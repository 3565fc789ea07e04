"""Starts by `start_singleton`: who starts an orchestration has looked at the instance after the start before."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from simulator.checks.excuses import disturbed
from simulator.checks.findings import Finding, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, PatternUse


def judge_starts(history: History) -> Iterator[Finding]:
    """Find starts of an instance that another start came before, after the caller's look at the instance."""
    uses: dict[str, list[PatternUse]] = defaultdict(list)
    for use in history.uses:
        if use.of == "instance":
            uses[use.name].append(use)
    for name, several in sorted(uses.items()):
        starts = [use for use in several if use.what == "start_new"]
        blind: list[tuple[PatternUse, PatternUse]] = []
        for start in starts:
            mine = (start.host, start.id)
            looked = max((u.start for u in several if (u.host, u.id) == mine and u.start < start.start), default=None)
            if looked is not None and not disturbed(history, start.host, looked, start.start):
                others = (use for use in starts if use.ok and use is not start and looked < use.end)
                blind += [(start, other) for other in others if other.start < start.start]
        for start, other in blind[:1]:
            yield violation(
                f"{count(len(blind), 'start')} of the orchestration {name!r} came upon another that began after its "
                f"caller had looked: the first on {start.host} at {start.start - history.start:.1f} s, upon the one of "
                f"{other.host} at {other.start - history.start:.1f} s"
            )

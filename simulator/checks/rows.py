"""Row states: each claim of a row has a version of its own, and an older claim writes nothing after a newer one.

The database is not read: what claimers got, and which of their writes were refused, shows both.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import Finding, by_function, count, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, PatternUse


_ROUNDED: Final = 1.0
"""Seconds by which a database's clock may differ from the hosts', over the time of a claim."""


def judge_rows(history: History) -> Iterator[Finding]:
    """Find rows that two claimers had under one version, and writes of stale claims that were not refused."""
    claims: dict[tuple[str, str], list[PatternUse]] = defaultdict(list)
    for use in history.uses:
        if use.of == "rows" and use.what == "claim":
            claims[use.name, use.key].append(use)
    twice: dict[str, list[str]] = defaultdict(list)
    writes = [use for use in history.uses if use.of == "rows" and use.what != "claim"]
    for (table, key), several in claims.items():
        for first, second in pairwise(sorted(several, key=lambda use: use.place)):
            mine = [use for use in writes if (use.name, use.key, use.place) == (table, key, first.place)]
            renewed = max([first.start, *(use.start for use in mine if use.what == "renew")])
            over = any(use.what != "renew" and use.start <= second.end for use in mine)
            over |= history.paused(first.host, first.start - first.keep, first.start)  # it may tell late of its claim
            if second.place == first.place + 1 and not over and second.end - renewed < first.keep - _ROUNDED:
                twice[table].append(f"row {key} by {first.host} and {second.host}")
        for version, number in Counter(use.place for use in several).items():
            if number > 1:
                hosts = " and ".join(use.host for use in several if use.place == version)
                twice[table].append(f"row {key} by {hosts}")
    for table, (example, *more) in sorted(twice.items()):
        yield violation(
            f"{count(1 + len(more), 'row')} of {table!r} had several claimers at a time: the first {example}"
        )
    stale = Counter(
        f"rows {use.name}"
        for use in writes
        if use.ok and any(each.place > use.place and each.end < use.start for each in claims[use.name, use.key])
    )
    yield from by_function(stale, "was not refused, though another had claimed the row since", "write of a stale claim")

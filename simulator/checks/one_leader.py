"""One leader: the bodies of a listener run in one worker, until another worker becomes the listener."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from simulator.checks.excuses import disturbed
from simulator.checks.findings import Finding, label, violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from simulator.history.facts import History, Section


def judge_leaders(history: History) -> Iterator[Finding]:
    """Find a listener whose bodies ran here, there, and here again, and who had not become the listener again."""
    bodies: dict[str, list[Section]] = defaultdict(list)
    for section in sorted(history.sections, key=lambda section: section.start):
        if section.mode == "listener":
            bodies[section.lock].append(section)
    for lock, several in sorted(bodies.items()):
        last: dict[tuple[str, int], Section] = {}
        for section, before in zip(several[1:], several, strict=False):
            last[before.host, before.worker] = before
            mine = last.get((section.host, section.worker))
            if mine is None or mine is before or _led_anew(history, mine, section):
                continue
            yield violation(
                f"two leaders of {label(lock)}: a body ran on {before.host} at {before.start - history.start:.1f} s, "
                f"between bodies on {section.host} at {mine.start - history.start:.1f} s and at "
                f"{section.start - history.start:.1f} s, and neither had become the listener anew"
            )
            break


def _led_anew(history: History, first: Section, later: Section) -> bool:
    """Tell whether a worker became the listener again between two bodies, or something kept it from knowing better."""
    start, end = first.start, later.start
    anew = any(
        (got.host, got.worker, got.lock) == (later.host, later.worker, later.lock) and start < got.t <= end
        for got in history.acquisitions
    )
    return anew or history.rough or later.ending == "lost" or disturbed(history, later.host, start, end)

"""Never two inside: the bodies of one lock don't overlap, and each runs under its lock.

A listener's lock is its process's: bodies of one worker may run at the same time under it, those of two may not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.checks.findings import Finding, count, label, note, violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from simulator.history.facts import History, Section


@dataclass(frozen=True, slots=True, kw_only=True)
class Overlap:
    """Two bodies of one lock that were inside at the same time; `at` counts from the start of the run."""

    lock: str
    at: float
    seconds: float
    first: Section
    second: Section


def overlapping(sections: Iterable[Section]) -> list[tuple[Section, Section]]:
    """Find every pair of bodies of one lock that shared some time, the earlier one first.

    A body that starts at the very instant at which the other ends shares none with it.
    """
    pairs = []
    inside: dict[str, list[Section]] = defaultdict(list)
    for section in sorted(sections, key=lambda section: (section.start, section.end)):
        others = [other for other in inside[section.lock] if other.end > section.start]
        pairs += [(other, section) for other in others if not _together(other, section)]
        inside[section.lock] = [*others, section]
    return pairs


def _together(first: Section, second: Section) -> bool:
    one_process = (first.host, first.worker) == (second.host, second.worker)
    return first.mode == second.mode == "listener" and one_process


def find_overlaps(history: History) -> tuple[list[Overlap], list[Overlap]]:
    """Return the overlaps of the run, the longest first, and apart from them those in which who was late was caught.

    A host that stands still past its lease is inside its body when it wakes, with somebody else. That can't be helped;
    it is caught if the lock told it, so that the body ended as lost. What it wrote in between, tokens keep out.

    Where anything may strike (`History.rough`) three more can't be helped: a host that never wakes; a
    thread that was told in time, or as its host woke, and that nobody can end; a body whose lease an operator ended.
    """
    pairs = overlapping(history.sections)
    caught = [pair for pair in pairs if _stood_still(history, *pair) or (history.rough and _struck(history, *pair))]
    return _longest_first(history, [pair for pair in pairs if pair not in caught]), _longest_first(history, caught)


def _stood_still(history: History, first: Section, second: Section) -> bool:
    """Tell whether one of them stood still inside or on its way in while the other began, and was told when it woke."""
    inside = first.ending == "lost" and history.paused(first.host, first.start, second.start)
    return inside or (second.ending == "lost" and history.stood_still_asking(second, second.start))


def _struck(history: History, first: Section, second: Section) -> bool:
    """Tell whether something that no lock can help let the second in."""
    stands = first.ending in {"killed", "open"} and history.stands_still(first.host, second.start)
    late = history.paused(first.host, first.start, second.start)
    told = first.told is not None and (late or first.told <= second.start) and history.function(first.function).sync
    return stands or told or history.operated_before(first, second.start)


def _longest_first(history: History, pairs: list[tuple[Section, Section]]) -> list[Overlap]:
    overlaps = [
        Overlap(
            lock=first.lock,
            at=second.start - history.start,
            seconds=min(first.end, second.end) - second.start,
            first=first,
            second=second,
        )
        for first, second in pairs
    ]
    return sorted(overlaps, key=lambda overlap: (-overlap.seconds, overlap.at, overlap.lock))


def judge_overlaps(overlaps: list[Overlap], caught: list[Overlap]) -> Iterator[Finding]:
    """Say what the overlaps amount to."""
    if late := len({(overlap.first.host, overlap.first.owner) for overlap in caught}):
        yield note(f"{count(late, 'body', 'bodies')} woke after a pause without the lock, and ended as lost")
    if overlaps:
        worst = overlaps[0]
        yield violation(
            f"{count(len(overlaps), 'overlap')}: two bodies of one lock ran at the same time; the longest for "
            f"{worst.seconds:.2f} s, of {label(worst.lock)}, on {worst.first.host} and {worst.second.host}"
        )


def judge_guards(history: History) -> Iterator[Finding]:
    """Find guarded functions whose bodies ran past their guard, or without the lock."""
    if bare := sum(not section.held for section in history.sections):
        why = "" if history.setup.get("singleton", True) else " (--no-singleton)"
        yield violation(f"{count(bare, 'guarded body', 'guarded bodies')} ran without holding the lock{why}")
    ids = {(call.host, call.id) for call in history.invocations}
    deeds = (*history.sections, *history.refusals)
    met = {(deed.host, deed.owner) for deed in deeds}
    past = Counter(
        call.function
        for call in history.invocations
        if call.ending == "ok" and history.function(call.function).guarded and (call.host, call.id) not in met
    )
    # Where a binding is called `context`, an async function has no invocation id to give.
    past -= Counter(deed.function for deed in deeds if (deed.host, deed.owner) not in ids)
    for function, number in sorted(past.items()):
        calls = count(number, "invocation")
        yield violation(f"{calls} of {function!r} succeeded without passing through its guard")

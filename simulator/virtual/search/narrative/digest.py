"""What a story leaves out, in a line each: how many healthy visits, in which time, on how many hosts."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final

from simulator.checks.findings import count, label

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from simulator.virtual.search.narrative.visits import Visit

_NAMED: Final = 3
_KINDS: Final[dict[tuple[str, str], Callable[[Visit], bool]]] = {
    ("healthy hand-over", ""): lambda visit: visit.well and visit.got is not None,
    ("healthy body", "healthy bodies"): lambda visit: visit.well,
    ("lost hold", ""): lambda visit: visit.was_lost,
    ("hold that is never let go", "holds that are never let go"): lambda visit: visit.has and visit.left is not None,
    ("hold that goes on", "holds that go on"): lambda visit: visit.has,
    ("call in vain", "calls in vain"): lambda _: True,
}
"""The outcome of a visit, in one word and in many; the first that is true."""


def fold(visits: Iterable[Visit], breaks: Iterable[float]) -> Iterator[tuple[float, str]]:
    """Say in few lines how these visits ended; holds before and after each of the ``breaks`` are separate."""
    times = sorted(breaks)
    groups: list[list[Visit]] = []
    stretch = None
    for visit in sorted((visit for visit in visits if visit.has or visit.done is not None), key=_met):
        began, stretch = stretch, bisect_right(times, _met(visit)) if visit.has else stretch
        if groups and began in (None, stretch):
            groups[-1].append(visit)
        else:
            groups.append([visit])
    for group in groups:
        yield _met(group[0]), _folded(group)


def _met(visit: Visit) -> float:
    """Return when it got the lock, or was told that it does not."""
    first = visit.got or visit.entered or visit.done
    return visit.start if first is None else first.t


def _folded(group: Sequence[Visit]) -> str:
    kinds = Counter(next(kind for kind, holds in _KINDS.items() if holds(visit)) for visit in group)
    first, *others = [count(kinds[kind], *kind) for kind in _KINDS if kinds[kind]]
    hosts = sorted({visit.host for visit in group})
    where = f"on {hosts[0]}" if len(hosts) == 1 else f"among {len(hosts)} hosts"
    rest = f", and {' and '.join(others)}" if others else ""
    of = "of" if any(visit.has for visit in group) else "for"
    return f"until {max(visit.last for visit in group):.3f} s: {first} {of} {_locks(group)} {where}{rest}"


def _locks(group: Sequence[Visit]) -> str:
    names = sorted({label(visit.lock) for visit in group})
    return " and ".join(names) if len(names) <= _NAMED else f"{len(names)} locks"

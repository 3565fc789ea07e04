"""Deadlines: what must come in time may come later by as much as the machine was slow.

The run measures for how long the machine and the storage kept each host waiting (`simulator.history.slowness`). So many
seconds are added to a deadline, up to one polling interval of the function concerned. Something later than that, though
not later than the machine explains, is not judged. Something later than the machine explains breaks the promise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from simulator.checks.findings import Finding, unproven
from simulator.history.slowness import STORAGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simulator.history.facts import Deed, History

SLACK: Final = 1.5
"""Seconds that a request, and the records about the request, may take in a run that does not measure the machine."""
_SPARED: Final = 1.0
"""Seconds less in a run that measures."""

Timing = Literal["in time", "late", "not judged"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run of a row's clock, for a deed of a host.

    Attributes:
        bound: the seconds that are allowed, as the table says.
        slack: seconds that are allowed besides, for a request, in a run that does not measure the machine.
        most: seconds that are allowed even while the storage does not answer.
        what: more words for the row's sentence.
        other: a further host that the clock waited for.
        slows: whether a slow machine makes the clock run longer.
        polls: whether polls end the clock: then delays since the last poll before the deadline count, else delays since
            the deadline. A timer comes late only by what keeps it waiting when it is due.
    """

    deed: Deed
    start: float
    end: float
    bound: float
    slack: float = SLACK
    most: float = math.inf
    what: str = ""
    other: str = ""
    slows: bool = True
    polls: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row of the table: how it is measured, and the sentence about a clock that ran for too long.

    ``rule``: the bound in words, if the seconds of the bound don't say it.
    """

    clocks: Callable[[History], Iterator[Measured]]
    says: str
    rule: str = ""


def slack(history: History, seconds: float = SLACK) -> float:
    """Return by how many seconds a deadline may be passed on a quick machine; ``seconds`` if not measured."""
    return seconds - _SPARED if history.slowness.measured else seconds


def timing(history: History, over: float, *hosts: str, start: float, end: float, most: float) -> Timing:
    """Judge what these hosts did between ``start`` and ``end``, and ended ``over`` seconds past deadline and slack.

    ``most``: the polling interval, in seconds: so much of the machine's slowness is added to the deadline.
    """
    if over <= 0:
        return "in time"
    explained = history.slowness.late(*hosts, STORAGE, start=start, end=end)
    return "in time" if over <= min(explained, most) else "not judged" if over <= explained else "late"


def too_slow(history: History, text: str, start: float, end: float) -> Finding:
    """Say that something was not judged: ``text`` is the accusation that is not made."""
    since, until = start - history.start, end - history.start
    return unproven(
        f"{text}: not judged, as this machine was too slow from {since:.1f} s to {until:.1f} s", (since, until)
    )


def joined(spans: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return the spans in order; spans that meet become one span.

    >>> joined([(4.0, 6.0), (1.0, 2.0), (5.0, 8.0)])
    ((1.0, 2.0), (4.0, 8.0))
    """
    whole: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if whole and start <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(whole[-1][1], end))
        else:
            whole.append((start, end))
    return tuple(whole)

"""One fault of a nemesis: what it did, to whom, and for how long."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """One fault of a nemesis.

    Attributes:
        id: its number, from 1.
        kind: what it does; ``unknown`` is a kind that this version does not know, and excuses nothing.
        hosts: whom it hits.
        lock: the path of a lock's blob, if it is about one lock.
        way: of a partition: what does not get through, ``both``, ``requests`` or ``replies``.
        aim: what it struck: ``holder``, ``renewal``, ``release``, ``waiters`` or ``anybody``.
        meant: what it was to strike; something else if that moment did not come in time.
        what: one sentence for people.
        start: when it began.
        end: when it was over; infinity while it lasts.
        seconds: how long it was to last; None for an instant.
        hits: how many requests it hit.
    """

    id: int
    kind: str
    hosts: tuple[str, ...] = ()
    lock: str = ""
    way: str = ""
    aim: str = ""
    meant: str = ""
    what: str = ""
    start: float
    end: float = math.inf
    seconds: float | None = None
    hits: int = 0

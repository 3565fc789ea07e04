"""The mark of a hold that is touched: after how long a silence others may take it, and in which epoch.

A holder with ``failover`` writes it on the lock's blob before its section begins, and again at every touch. It is worth
something only while its epoch is the blob's: a holder that does not touch stamps the next epoch, and keeps or deletes
the mark of an earlier one.

Each side stops a fifteenth earlier, or later, than ``failover`` says. So a break comes after the holder's own deadline
as long as either clock is off by no more than that.
"""

from __future__ import annotations

import math
import re
from typing import Final

from singleton.base.failover import LONGEST, SHORTEST

MARK_KEY: Final = "SingletonFailover"
"""The key of the blob's metadata: milliseconds, a slash, the epoch."""
_DRIFT: Final = 1 / 15
"""Part of ``failover`` by which each clock may be off."""
_FORM: Final = re.compile(r"([0-9]{1,6})/([0-9]{1,15})", re.ASCII)


def written_mark(failover: float, epoch: int) -> str:
    """Return what a holder writes on the blob."""
    return f"{math.ceil(failover * 1000)}/{epoch}"


def read_mark(text: str, epoch: int | None) -> float | None:
    """Return the ``failover`` of whoever wrote this last; None where that was in another epoch, or is none of ours.

    >>> read_mark("2000/17", 17), read_mark("2000/17", 18)
    (2.0, None)
    """
    match = _FORM.fullmatch(text)
    if match is None or int(match[2]) != epoch:
        return None
    failover = int(match[1]) / 1000
    return failover if SHORTEST <= failover <= LONGEST else None


def good_for(failover: float) -> float:
    """Return for how many seconds a hold is good after the sending of its last touch, by the holder's clock."""
    return failover * (1 - _DRIFT)


def silent_for(failover: float) -> float:
    """Return after how many seconds of silence a hold may be taken, by a waiter's clock."""
    return failover * (1 + _DRIFT)

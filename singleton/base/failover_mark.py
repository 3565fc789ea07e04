"""Failover as it is written on a blob: the mark of a hold that is touched, and the numbers that rooms share.

The mark names the seconds of silence after which a waiter may take the hold over, the epoch of the hold, and the id of
its lease. A holder with ``failover`` writes the mark on the lock's blob before its section begins, and again at every
touch. The mark counts only while its epoch is the blob's: a holder that does not touch stamps the next epoch, and keeps
or deletes the mark of an earlier epoch. An older version writes no lease id, and keeps the id of an earlier epoch.

The holder stops a fifteenth earlier than ``failover`` says, and a waiter waits a fifteenth longer. So the break comes
after the holder's own deadline as long as neither clock is off by more than a fifteenth.
"""

from __future__ import annotations

import math
import re
from typing import Final

SHORTEST: Final = 2.0
LONGEST: Final = 10.0
"""Seconds of ``failover``, at least and at most."""
TOUCHES: Final = 3
"""Touches of a holder in the time of its ``failover``."""
LOOKS: Final = 4
"""Looks of a waiter in the time of its own ``failover``."""
MARK_KEY: Final = "SingletonFailover"
"""The key of the blob's metadata: milliseconds, a slash, the epoch."""
LEASE_KEY: Final = "SingletonFailoverLease"
"""The key of the blob's metadata: the epoch, a slash, the id of the lease."""
_DRIFT: Final = 1 / 15
"""Part of ``failover`` by which each clock may be off."""
_FORM: Final = r"([0-9]{1,6})/([0-9]{1,15})"
_LEASE: Final = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


def written_mark(failover: float, epoch: int, lease_id: str) -> dict[str, str]:
    """Return what a holder writes on the blob."""
    return {MARK_KEY: f"{math.ceil(failover * 1000)}/{epoch}", LEASE_KEY: f"{epoch}/{lease_id}"}


def read_mark(text: str, epoch: int | None) -> float | None:
    """Return the ``failover`` of the mark's writer; None: the mark has another epoch, or the text is no mark.

    >>> read_mark("2000/17", 17), read_mark("2000/17", 18)
    (2.0, None)
    """
    match = re.fullmatch(_FORM, text, re.ASCII)
    if match is None or int(match[2]) != epoch:
        return None
    failover = int(match[1]) / 1000
    return failover if SHORTEST <= failover <= LONGEST else None


def read_lease(text: str, epoch: int | None) -> str | None:
    """Return the lease id of the mark; None: the mark's writer is an older version, or the text has another form."""
    number, _, lease_id = text.partition("/")
    return lease_id if number == str(epoch) and re.fullmatch(_LEASE, lease_id, re.ASCII) else None


def good_for(failover: float) -> float:
    """Return for how many seconds a hold is good after the sending of its last touch, by the holder's clock."""
    return failover * (1 - _DRIFT)


def silent_for(failover: float) -> float:
    """Return after how many seconds of silence a hold may be taken, by a waiter's clock."""
    return failover * (1 + _DRIFT)

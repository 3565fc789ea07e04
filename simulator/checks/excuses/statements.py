"""What a fault of each kind may cause. What is not said here is a violation, whatever fault there was.

Kills and pauses are not in the table of effects: their own records say what they did, and every check knows these.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from simulator.history.faults import FaultKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a fault of one kind may cause, on the hosts that it hits, while it lasts and shortly after.

    Attributes:
        may: what it may cause, in words.
        still: what is a violation all the same, in words.
        hinders: requests fail or come late: whoever waits for an answer may wait longer. If that lasts for a third of a
            lease, a hold may be lost; if it lasts for the lock's patience, an invocation may fail with
            StorageUnavailable, and at once if it puts its message back; and a message may come back.
        leases: a release may not be carried out, or a request for a lease after it: a lock that its host had may stay
            leased for one more lease.
        unseen: a request may be carried out without its host knowing: a lock that it only asked for may be leased, too.
        after: seconds after its end until which its effects may begin: its last requests are under way, or whoever was
            told to wait waits.
        resets: it resets connections, too: it may have effects on requests that are not counted as hit.
    """

    may: str
    still: str
    hinders: bool = False
    leases: bool = False
    unseen: bool = False
    after: float = 0.0
    resets: bool = False


_NEVER: Final = "an overlap in which the first was not told before the second began"

STATEMENTS: Final[dict[FaultKind, Statement]] = {
    "kill": Statement(
        may="its bodies are cut; its locks stay leased for one lease; its messages run again",
        still="a take-over after its bound; a lock that is never free again; a message that is lost",
    ),
    "pause": Statement(
        may="a body that wakes past its lease overlaps with the next holder; it is told at once, and ends as lost; its "
        "messages run again",
        still="a body that wakes and is not told; an overlap without a pause",
    ),
    "partition": Statement(
        may="its holds are lost at their deadlines, and its invocations fail with LockLost or StorageUnavailable; a "
        "thread that was told goes on beside the next holder; a lock stays leased for one more lease; its messages "
        "come back",
        still=f"{_NEVER}; a hold that is lost by a cut of less than a third of a lease",
        hinders=True,
        leases=True,
        unseen=True,
        after=5.0,
        resets=True,
    ),
    "lose": Statement(
        may="a request is repeated; a lock whose release was lost stays leased for one more lease; its messages come "
        "back; the same as a partition, if it lasts for a third of a lease",
        still=_NEVER,
        hinders=True,
        leases=True,
        unseen=True,
        after=5.0,
        resets=True,
    ),
    "delay": Statement(
        may="waits are longer, by as long as it lasts and 5 seconds; a request that its sender gave up leases a lock "
        "once more; the same as a partition, if it lasts for a third of a lease",
        still=_NEVER,
        hinders=True,
        leases=True,
        unseen=True,
        after=5.0,
    ),
    "duplicate": Statement(
        may="a second request for a lease arrives after the release, and the lock stays leased for one more lease",
        still="everything else: an overlap, a lost hold, a failed invocation, a message that runs again",
        leases=True,
        unseen=True,
        after=5.0,
    ),
    "throttle": Statement(
        may="waits are longer, by as long as it lasts and 5 seconds; where the patience of a wait ends, its invocation "
        "fails with StorageUnavailable; a lock whose release was refused stays leased for one more lease; the same as "
        "a partition, if it lasts for a third of a lease",
        still=_NEVER,
        hinders=True,
        leases=True,
        after=5.0,
    ),
    "error": Statement(
        may="the same as throttling",
        still=_NEVER,
        hinders=True,
        leases=True,
        after=5.0,
    ),
    "break": Statement(
        may="the holder of that lock does not know it until its next renewal, half a lease and a request later at "
        "most: until then the next holder is inside too, and the token protects; then the hold is lost",
        still="an overlap on another lock, or later; a holder that is not told",
    ),
    "drain": Statement(
        may="its bodies get 10 seconds, then they are cut as by a kill; LockClosed while it ends",
        still="a lock that is not free after a body has ended in time; a message that is lost",
    ),
    "unknown": Statement(may="nothing", still="everything"),
}

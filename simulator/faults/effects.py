"""The effects that a fault of real hosts may have. Every other effect is a violation, whatever fault there was."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class Effects:
    """The effects of a fault of one kind, on the hosts that are hit, while the fault lasts and shortly after.

    A kill and a pause have no flags here: the journal has records of kills and pauses, and every check reads these.

    Attributes:
        may: the effects that are excused, in words.
        still: the effects that remain violations, in words.
        hinders: requests fail or come late, so waits may be longer. After a third of a lease a hold may be lost. After
            the lock's patience an invocation may fail with StorageUnavailable, and at once if the invocation puts its
            message back. A message may come back.
        leases: a release may not be carried out, or a late request for a lease may follow the release: a lock of the
            host may stay leased for one more lease.
        unseen: a request may be carried out without the host knowing: a lock that the host only asked for may be
            leased, too.
        after: seconds after the end of the fault in which effects may begin: the last requests are under way, or a
            host was told to wait.
        resets: connections are reset or forgotten, too: requests may fail that are not counted as hit.
    """

    may: str
    still: str
    hinders: bool = False
    leases: bool = False
    unseen: bool = False
    after: float = 0.0
    resets: bool = False


UNKNOWN: Final = Effects(may="nothing", still="everything")
"""The effects of a kind that this version does not know."""
_NEVER: Final = "an overlap in which the first was not told before the second began"

_of_requests: Final = partial(Effects, hinders=True, leases=True, unseen=True, after=5.0)
"""What most faults of requests have in common."""

EFFECTS: Final[Mapping[str, Effects]] = {
    "kill": Effects(
        may="its bodies are cut; its locks stay leased for one lease; its messages run again",
        still="a take-over after its bound; a lock that is never free again; a message that is lost",
    ),
    "pause": Effects(
        may="a body that wakes past its lease overlaps with the next holder; it is told at once, and ends as lost; its "
        "messages run again",
        still="a body that wakes and is not told; an overlap without a pause",
    ),
    "drain": Effects(
        may="its bodies get 10 seconds, then they are cut as by a kill; LockClosed while it ends",
        still="a lock that is not free after a body has ended in time; a message that is lost",
    ),
    "forget": Effects(
        may="a request is lost, and its invocation waits for 5 seconds more",
        still="a second request that is lost; a lost hold; a lock that stays leased after its release",
        hinders=True,
        after=5.0,
        resets=True,
    ),
    "break": Effects(
        may="the holder of that lock does not know it until its next renewal, half a lease and a request later at "
        "most: until then the next holder is inside too, and the token protects; then the hold is lost",
        still="an overlap on another lock, or later; a holder that is not told",
    ),
    "partition": _of_requests(
        may="its holds are lost at their deadlines, and its invocations fail with LockLost or StorageUnavailable; a "
        "thread that was told goes on beside the next holder; a lock stays leased for one more lease; its messages "
        "come back",
        still=f"{_NEVER}; a hold that is lost by a cut of less than a third of a lease",
        resets=True,
    ),
    "lose": _of_requests(
        may="a request is repeated; a lock whose release was lost stays leased for one more lease; its messages come "
        "back; the same as a partition, if it lasts for a third of a lease",
        still=_NEVER,
        resets=True,
    ),
    "delay": _of_requests(
        may="waits are longer, by as long as it lasts and 5 seconds; a request that its sender gave up leases a lock "
        "once more; the same as a partition, if it lasts for a third of a lease",
        still=_NEVER,
    ),
    "duplicate": _of_requests(
        may="a second request for a lease arrives after the release, and the lock stays leased for one more lease",
        still="everything else: an overlap, a lost hold, a failed invocation, a message that runs again",
        hinders=False,
    ),
    "throttle": _of_requests(
        may="waits are longer, by as long as it lasts and 5 seconds; where the patience of a wait ends, its invocation "
        "fails with StorageUnavailable; a lock whose release was refused stays leased for one more lease; the same as "
        "a partition, if it lasts for a third of a lease",
        still=_NEVER,
        unseen=False,
    ),
    "error": _of_requests(may="the same as throttling", still=_NEVER, unseen=False),
}


def effects_of(kind: str) -> Effects:
    """Return what a fault of this kind may cause; nothing, if the kind is unknown."""
    return EFFECTS.get(kind, UNKNOWN)

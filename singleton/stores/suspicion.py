"""What a waiter has read of a lock that somebody else has, and whether its holder has been silent for too long.

Every touch changes the blob's ETag, and nothing else that a live holder does is needed to show that it lives. So
whoever reads the same ETag twice knows that no touch has reached the blob in between: from the *reply* to the first
reading to the *sending* of the second, by one and the same clock. Nobody's clock is compared with another's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from singleton.stores.mark import MARK_KEY, read_mark, silent_for
from singleton.stores.stamps import EPOCH_KEY, metadata_value, written_epoch

if TYPE_CHECKING:
    from singleton.stores.protocol import BlobState


class Suspicion:
    """What was read of one lock, while somebody else had it.

    Attributes:
        etag: the ETag as of the last reading; None: nothing is known.
        due: when a second reading may be sent that shows the holder's silence; infinite where its silence says nothing.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing any more."""
        self.etag: str | None = None
        self.due = math.inf

    def read(self, state: BlobState, *, sent: float, replied: float) -> str | None:
        """Take what was read by a request of these times; return the ETag on whose condition to break the lease.

        None: nobody has it, or its holder has given a sign of life, or gives none ever.
        """
        if not state.held or state.endless:
            self.forget()
            self.etag = state.etag if state.held else None
            return None
        if state.etag == self.etag:
            return state.etag if sent >= self.due else None
        failover = failover_of_holder(state)
        self.etag = state.etag
        self.due = math.inf if failover is None else replied + silent_for(failover)
        return None


def failover_of_holder(state: BlobState) -> float | None:
    """Return the ``failover`` of the hold that was stamped last; None where that one is not touched."""
    return read_mark(metadata_value(state, MARK_KEY) or "", written_epoch(metadata_value(state, EPOCH_KEY) or ""))

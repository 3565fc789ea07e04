"""Touches: how the holder of a lock with ``failover`` shows that it lives.

A touch writes the stamp again, under the lease and on condition of the ETag that the last one left. So a touch that
comes late, or twice, changes nothing: not after another touch, and not in another hold. It is good for less than
``failover``, counted from before it was *sent*, and it never extends the lease: the hold is over at the earlier of both
deadlines (``Lease.touched``).
"""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final

from singleton.base.failover import TOUCHES
from singleton.base.invocation import speaking_of
from singleton.base.tasks import being_cancelled
from singleton.locking.lease import as_failure
from singleton.locking.renewals import Renewable
from singleton.stores.mark import good_for

if TYPE_CHECKING:
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease
    from singleton.stores.protocol import StoreFailure

_FASTEST_RETRY: Final = 1 / 20
_SHORTEST_CALL: Final = 1 / 10
"""Parts of ``failover``."""


class Touches(Renewable):
    """The touches of one hold, for ``Lease.accompany``: a third of ``failover`` after the last one was sent.

    After a failure they come sooner and sooner, until the hold is lost.
    """

    __slots__ = ("_failover", "_fencing", "_lease", "_trouble")

    def __init__(self, lease: Lease, fencing: FencingCounter, failover: float) -> None:
        """Take the stamp for the first touch.

        Args:
            lease: was stamped.
            fencing: of the lock.
            failover: seconds.
        """
        super().__init__(fencing.touched + failover / TOUCHES, lease.context)
        self._lease = lease
        self._fencing = fencing
        self._failover = failover
        self._trouble: StoreFailure | None = None

    @property
    def task_name(self) -> str:
        """The name of a touch's task."""
        return f"touch {self._lease.name}"

    def set_timer(self) -> None:
        """Set the timer of the lease anew."""
        self._lease.set_timer()

    async def renew(self) -> float:
        """Touch the lock; return when to do so again, infinite: never."""
        lease, failover = self._lease, self._failover
        begun = asyncio.get_running_loop().time()
        left = lease.deadline - begun
        if lease.lost is not None or left <= 0:
            return math.inf
        try:
            with speaking_of(lease.whose):
                async with asyncio.timeout(min(left, max(failover * _SHORTEST_CALL, left / 2))):
                    sent = await self._fencing.touch(lease.id, lease.owner, lease.served)
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled():
                raise
            return begun + self._sooner(as_failure(error), left)
        lease.touched(sent, good_for(failover))
        lease.end_of(self._trouble)
        return sent + failover / TOUCHES

    def _sooner(self, trouble: StoreFailure, left: float) -> float:
        """Note that a touch failed; return how long after it the next one is due."""
        lease, failover = self._lease, self._failover
        self._trouble = trouble
        if trouble.loss is not None:
            lease.lose(trouble.loss, trouble)
        lease.note(trouble, "touch")
        delay = max(failover * _FASTEST_RETRY, min(left / 4, failover / TOUCHES / 2))
        last_try = left - failover * _SHORTEST_CALL
        return min(max(delay, trouble.retry_after or 0.0), max(last_try, failover * _FASTEST_RETRY))

"""Touches: how the holder of a lock with ``failover`` shows that it lives.

A touch writes the stamp again, under the lease and on condition of the ETag that the last one left. So a touch that
comes late, or twice, changes nothing: not after another touch, and not in another hold. It is good for less than
``failover``, counted from before it was *sent*, and it never extends the lease: the hold is over at the earlier of both
deadlines (``Lease.touched``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from singleton.base.failover import TOUCHES
from singleton.base.naming import speaking_of
from singleton.base.tasks import being_cancelled
from singleton.locking.lease import as_failure
from singleton.locking.mark import good_for

if TYPE_CHECKING:
    from singleton.locking.fencing import FencingCounter
    from singleton.locking.lease import Lease
    from singleton.stores.protocol import StoreFailure

_FASTEST_RETRY: Final = 1 / 20
_SHORTEST_CALL: Final = 1 / 10
"""Parts of ``failover``."""


async def keep_touching(lease: Lease, fencing: FencingCounter, failover: float) -> None:
    """Touch a third of ``failover`` after the last one was sent; after a failure, sooner and sooner; until it is lost.

    Args:
        lease: was stamped, which was its first touch.
        fencing: of the lock.
        failover: seconds.
    """
    loop = asyncio.get_running_loop()
    begun, delay = fencing.touched, failover / TOUCHES
    trouble: StoreFailure | None = None
    while True:
        await asyncio.sleep(max(0.0, begun + delay - loop.time()))
        begun = loop.time()
        left = lease.deadline - begun
        if lease.lost is not None or left <= 0:
            return
        try:
            with speaking_of(lease.whose):
                async with asyncio.timeout(min(left, max(failover * _SHORTEST_CALL, left / 2))):
                    begun = await fencing.touch(lease.id, lease.owner, lease.served)
        except (Exception, asyncio.CancelledError) as error:
            if being_cancelled():
                raise
            trouble = as_failure(error)
            if trouble.loss is not None:
                lease.lose(trouble.loss, trouble)
            lease.note(trouble, "touch")
            delay = max(failover * _FASTEST_RETRY, min(left / 4, failover / TOUCHES / 2))
            last_try = left - failover * _SHORTEST_CALL
            delay = min(max(delay, trouble.retry_after or 0.0), max(last_try, failover * _FASTEST_RETRY))
        else:
            lease.touched(begun, good_for(failover))
            lease.end_of(trouble)
            delay = failover / TOUCHES

"""After storage went back in time: make a lock's later tokens greater than all earlier ones.

An account that failed over, or was restored to a point in time, may have lost its last writes. Then a blob has an older
epoch than was used already, and the next tokens would repeat. The lost epochs can't be read any more, and need not be:
epochs begin at a thousand times the service's clock and grow by one a lease (``fencing.py``), so all that were given
until now are below a thousand times the next second. The clock is the service's, from the reply to a write.

It is done under a lease, so no holder is disturbed: a lock that somebody has is left alone.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.stores.protocol import LeaseStore, StoreFailure, within
from singleton.stores.stamps import EPOCH_KEY, lifted_epoch

_CALL: Final = 5.0
_TRY: Final = 30.0
_ANSWER: Final = 60.0
"""Seconds for one lock, all tries together."""
_SHORTEST: Final = 15


async def lift_epoch(store: LeaseStore, name: str, lease_id: str) -> int | None:
    """Write an epoch above all that were given so far; return it, or None where somebody has the lock, or took it.

    Args:
        store: of the lock's container.
        name: the lock's.
        lease_id: a new one, for this lock only. With it everything may be done again where an answer is missing.

    Raises:
        StorageError: the storage refuses, does not answer, or has no such lock. A lease that was granted without an
            answer lapses within 15 seconds.
    """
    try:
        return await answered(lambda: _lift_under_a_lease(store, name, lease_id), call=_TRY, answer=_ANSWER)
    except StoreFailure as failure:
        if failure.meaning in ("held", "lost", "changed"):
            return None
        raise storage_error(name, failure) from failure


async def _lift_under_a_lease(store: LeaseStore, name: str, lease_id: str) -> int:
    await within(_CALL, store.acquire(name, lease_id, _SHORTEST))
    try:
        return await _lifted(store, name, lease_id)
    finally:
        with suppress(StoreFailure):
            await within(_CALL, store.release(name, lease_id))


async def _lifted(store: LeaseStore, name: str, lease_id: str) -> int:
    before = await within(_CALL, store.read(name))
    await within(_CALL, store.write(name, lease_id, before.metadata, before.etag))
    now = await within(_CALL, store.read(name))  # its Last-Modified is the clock
    epoch = lifted_epoch(now)
    kept = {key: value for key, value in now.metadata.items() if key.lower() != EPOCH_KEY.lower()}
    await within(_CALL, store.write(name, lease_id, {**kept, EPOCH_KEY: str(epoch)}, now.etag))
    return epoch

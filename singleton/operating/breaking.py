"""How an operator takes a lock away: its lease ends, at once or in time, and nobody can renew it.

By default the rest of the lease runs out. Its holder counts its own deadline from before the last renewal was sent, and
stops earlier than the service does, so nobody gets in beside it: also if it hangs, is suspended or can't be reached.

With a shorter notice the holder, if all is well with it, is told at its next renewal, after half a period. If it can't
be told, it believes in its lease to the end of it: for so long two may be inside, and only fencing tokens keep them
apart. How long that is comes from the service: the break is asked for without a period first, which answers what is
left of the lease, and then with the notice. A break can only bring the end nearer.

A lease that was being broken already does not tell how much of it was cut off then: a break leaves no mark, and the
service tells only what is left. So the most that there can be is said: a lease lasts a minute at most.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered, recorded
from singleton.operating.keeping import keeping_of
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from singleton.base.holder import Holder
    from singleton.stores.protocol import LeaseStore


_LONGEST: Final = 60.0
"""Seconds of a lease, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A lease that was broken.

    Attributes:
        lock: name of the lock's blob.
        holder: who had it, as its last stamp says.
        free_in: seconds until others can have it, by the service's word.
        together: seconds from then on for which the old holder may believe that it still has it, at most: two may be
            inside. 0 where the lease was left to run out; infinite where it would never have.
        before: whether the lease was being broken already, by this or another operator. How much of it was cut off then
            can't be known, so ``together`` is the most that there can be of a lease that lasts a minute at most. It is
            0 in truth if no break before gave a notice.
    """

    lock: str
    holder: Holder
    free_in: float
    together: float
    before: bool = False


async def break_hold(store: LeaseStore, name: str, notice: float | None = None) -> Broken | None:
    """End the lease of whoever has the lock now; None where nobody has, or it went on to the next in that moment.

    Args:
        store: of the lock's container.
        name: the lock's.
        notice: seconds after which the lease ends; None: when it would without a renewal.

    Raises:
        ConfigurationError: the lease never ends by itself, and no notice was given.
        StorageError: the storage refuses, or does not answer.
    """
    keeping = keeping_of(store)
    try:
        seen = await answered(lambda: store.read(name))
        if not seen.held:
            return None
        if seen.endless and notice is None:
            raise ConfigurationError(
                f"the lease of lock {name!r} never ends by itself, so breaking it ends it at once: give the seconds "
                "of notice, or 0"
            )
        rest: float = math.inf
        if not seen.endless:
            rest = await answered(lambda: keeping.shorten(name, None, seen.etag))
        left = rest
        if notice is not None and notice < rest:
            period = math.ceil(notice)
            left = await answered(lambda: keeping.shorten(name, period, seen.etag))
    except StoreFailure as failure:
        if failure.meaning in ("missing", "lost", "changed"):
            return None
        raise storage_error(name, failure) from failure
    before = seen.lease == "breaking"
    believed = _LONGEST if before and not seen.endless else rest
    together = max(0.0, believed - left)
    return Broken(lock=name, holder=recorded(name, seen), free_in=left, together=together, before=before)

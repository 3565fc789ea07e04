"""How an operator takes a lock away: its lease ends, at once or in time, and nobody can renew it.

By default the lease expires, without renewals. Its holder counts its own deadline from before it sent the last renewal,
so it stops earlier than the service does. So no two are inside, also if it hangs, is suspended or can't be reached.

With a shorter notice the holder, if all is well with it, is told at its next renewal, after half a period. If it can't
be told, it believes in its lease to the end of it: for so long two may be inside, and only fencing tokens keep them
apart. How long that is comes from the service: the break is asked for without a period first, which answers what is
left of the lease, and then with the notice. A break can only bring the end nearer.

Each request names the ETag that was read, so that nobody is broken who got the lock after that. Holders write on their
blobs, too: at the first renewal, and all the time with ``failover``. Then the blob is read again, and the request is
made again if it is still the same hold.

A lease that was being broken already does not tell how much of it was cut off then: a break leaves no mark, and the
service tells only what is left. So the most that there can be is said: a lease lasts a minute at most.
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from singleton.base.errors import ConfigurationError
from singleton.base.invocation import log as _log
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered, recorded
from singleton.operating.container import keeping_of
from singleton.operating.missing_lock import no_such_lock
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from singleton.base.holder import Holder
    from singleton.stores.protocol import BlobState, LeaseStore


_LONGEST: Final = 60.0
"""Seconds of a lease, at most."""
_TRIES: Final = 20
"""Times that the blob is read again because its holder wrote it before the break arrived."""
_PAUSE: Final = 0.05
"""Seconds by which the pause before the next try gets longer."""
_OVER: Final = ("missing", "lost")
"""What a break is answered where no lease is left."""
_ROUNDED: Final = 5.0
"""Seconds by which two records of one hold may disagree on its begin: both have whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A lease that was broken.

    Attributes:
        lock: name of the lock's blob.
        holder: who had it, as its last stamp says.
        free_in: seconds until others can have it, by the service's word.
        together: for how many seconds after that the old holder may still believe that it has the lock, at most: two
            may be inside. 0 where the lease could expire by itself; infinite where the lease had no end.
        before: whether the lease was being broken already, by this or another operator. How much of the lease that
            break cut off is not known, so ``together`` is an upper bound: a lease lasts a minute at most. If no earlier
            break gave a notice, nobody is inside with the old holder.
    """

    lock: str
    holder: Holder
    free_in: float
    together: float
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A lock that went on to the next one while it was to be broken: nothing was.

    Attributes:
        before: who had it when it was looked at.
        now: who has it.
    """

    before: Holder
    now: Holder


async def break_hold(store: LeaseStore, name: str, notice: float | None = None, container: str = "") -> Broken | None:
    """End the lease of whoever has the lock; None where nobody has, or it went on to the next one. See ``end_hold``.

    Raises:
        StorageError: as ``end_hold``; or there is no lock of this name.
    """
    ended = await end_hold(store, name, notice)
    if isinstance(ended, Passed):
        _log.warning(
            "lock %s: it changed hands before the break arrived, so nothing was broken. "
            "Before, %r had it; now %r has it",
            name,
            ended.before.owner,
            ended.now.owner,
        )
        return None
    if ended is None:
        await _see_it(store, name, container)
    return ended


async def _see_it(store: LeaseStore, name: str, container: str) -> None:
    """See to it that there is such a blob."""
    try:
        await answered(lambda: store.read(name))
    except StoreFailure as failure:
        if failure.meaning == "missing":
            raise await no_such_lock(keeping_of(store), container, name) from failure
        raise storage_error(name, failure) from failure


async def end_hold(store: LeaseStore, name: str, notice: float | None = None) -> Broken | Passed | None:
    """End the lease of whoever has the lock now; None where nobody has.

    Args:
        store: of the lock's container.
        name: the lock's.
        notice: seconds after which the lease ends; None: when it would without a renewal.

    Raises:
        ConfigurationError: the lease never ends by itself, and no notice was given.
        StorageError: the storage refuses, or does not answer; or the holder wrote the blob before each try.
    """
    try:
        seen = await answered(lambda: store.read(name))
        if not seen.held:
            return None
        if seen.endless and notice is None:
            raise ConfigurationError(
                f"the lease of lock {name!r} never ends by itself, so breaking it ends it at once: give notice, from "
                "0 to 60 seconds"
            )
        return await _Breaking(store, name, seen).end(notice)
    except StoreFailure as failure:
        if failure.meaning in _OVER:
            return None
        raise storage_error(name, failure) from failure


class _Breaking:
    """The end of the hold that was seen on the blob."""

    def __init__(self, store: LeaseStore, name: str, seen: BlobState) -> None:
        self._store = store
        self._keeping = keeping_of(store)
        self._name = name
        self._seen = seen

    async def end(self, notice: float | None) -> Broken | Passed | None:
        """Break its lease; None where it is over already.

        Raises:
            StoreFailure: nothing was broken, or that is not known.
        """
        if self._seen.endless:
            left = await self._shortened(math.ceil(notice or 0.0))
            return left if left is None or isinstance(left, Passed) else self._broken(left, math.inf)
        rest = await self._shortened(None)
        if rest is None or isinstance(rest, Passed):
            return rest
        before = self._seen.lease == "breaking"
        believed = _LONGEST if before else rest
        if notice is None or notice >= rest:
            return self._broken(rest, believed - rest, before=before)
        period = math.ceil(notice)
        try:
            left = await self._shortened(period)
        except StoreFailure as failure:  # the lease is broken all the same; that it was cut is not known
            return self._broken(0 if failure.meaning in _OVER else rest, believed - period, before=before)
        if left is None or isinstance(left, Passed):
            return self._broken(0, believed - period, before=before)
        return self._broken(left, believed - left, before=before)

    async def _shortened(self, after: int | None) -> int | Passed | None:
        """Make the request, again where the holder wrote its blob meanwhile; None where the lease is over."""
        for number in range(_TRIES):
            try:
                return await answered(lambda: self._keeping.shorten(self._name, after, self._seen.etag))
            except StoreFailure as failure:
                if failure.meaning != "changed":
                    raise
            await asyncio.sleep(number * _PAUSE)  # one of its own each time: touches come at a steady pace
            now = await answered(lambda: self._store.read(self._name))
            if not now.held:
                return None
            was, has = recorded(self._name, self._seen), recorded(self._name, now)
            if not _is_same_hold(was, has):
                return Passed(before=was, now=has)
            self._seen = now
        raise StoreFailure(412, "ConditionNotMet", f"its holder wrote the blob before each of {_TRIES} tries")

    def _broken(self, free_in: float, together: float, *, before: bool = False) -> Broken:
        who = recorded(self._name, self._seen)
        return Broken(lock=self._name, holder=who, free_in=free_in, together=max(0.0, together), before=before)


def _is_same_hold(before: Holder, now: Holder) -> bool:
    """Tell whether two records are of one hold.

    The first record of a hold may name an earlier owner of that process: there only the process and the epoch count.
    """
    if (before.host, before.pid, before.token) != (now.host, now.pid, now.token):
        return False
    if before.renewed is False:
        return True
    if before.renewed and before.since and now.since:
        return before.owner == now.owner and abs((now.since - before.since).total_seconds()) <= _ROUNDED
    return before.owner == now.owner

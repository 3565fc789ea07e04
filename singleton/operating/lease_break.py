"""The break of a lease by an operator: ``docs/locks-cli.md`` says what it does to a holder.

With a notice the service says for how long two holders may be inside: the first break has no period, and the answer is
what is left of the lease; the second break has the notice. A break can only bring the end nearer.

Each request has the read ETag as a condition, so that a later holder is never broken. Holders write on their blobs,
too: at the first renewal, and all the time with ``failover``. After such a write the blob is read again, and the
request is repeated for the same hold.
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
from singleton.operating.lock_names import no_such_lock
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from singleton.base.holder_record import Holder
    from singleton.stores.lock_keeping import BlobStore
    from singleton.stores.protocol import BlobState

_LONGEST: Final = 60.0
"""Seconds of a lease, at most."""
_TRIES: Final = 20
"""Tries, each after a new read, where the holder wrote the blob before the break arrived."""
_PAUSE: Final = 0.05
"""Seconds added to the pause before each further try."""
_OVER: Final = ("missing", "lost")
"""Meanings of the answer to a break where no lease is left."""
_ROUNDED: Final = 5.0
"""Greatest difference in seconds between the begins in two records of one hold: records have whole seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A broken lease.

    Attributes:
        lock: name of the lock's blob.
        holder: holder of the broken lease, by the last stamp.
        free_in: seconds until the lock is free, by the service's word.
        together: greatest number of seconds after ``free_in`` in which the old holder may still believe in the hold:
            two holders may be inside. 0 for a lease that expires by itself; infinite for a lease without an end.
        before: whether the lease was being broken already. How much an earlier break cut off is not known, so
            ``together`` is an upper bound: a lease lasts a minute at most. If no earlier break had a notice, no other
            holder is inside with the old one.
    """

    lock: str
    holder: Holder
    free_in: float
    together: float
    before: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A lock that changed hands before the break arrived: no lease was broken.

    ``before``: the holder at the look before the break.
    """

    before: Holder
    now: Holder


async def break_hold(store: BlobStore, name: str, notice: float | None = None, container: str = "") -> Broken | None:
    """End the lease of the lock's holder; None for a free lock, and for a lock that changed hands. See ``end_hold``."""
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
        try:  # a free lock, or none at all
            await answered(lambda: store.read(name))
        except StoreFailure as failure:
            if failure.meaning == "missing":
                raise await no_such_lock(store, container, name) from failure
            raise storage_error(name, failure) from failure
    return ended


async def end_hold(store: BlobStore, name: str, notice: float | None = None) -> Broken | Passed | None:
    """End the lease of the lock's holder; None for a free lock.

    ``notice``: seconds until the end of the lease; None: the lease ends as without a further renewal.

    Raises:
        ConfigurationError: the lease never ends by itself, and no notice was given.
        StorageError: the storage refuses or does not answer, or the holder wrote the blob before each try.
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
    """The break of the hold that was read from the blob."""

    def __init__(self, store: BlobStore, name: str, seen: BlobState) -> None:
        self._store = store
        self._name = name
        self._seen = seen

    async def end(self, notice: float | None) -> Broken | Passed | None:
        """Break the lease; None: the lease had ended. ``StoreFailure``: not broken, or the outcome is not known."""
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
        except StoreFailure as failure:  # the lease is broken, but perhaps not cut
            return self._broken(0 if failure.meaning in _OVER else rest, believed - period, before=before)
        if left is None or isinstance(left, Passed):
            return self._broken(0, believed - period, before=before)
        return self._broken(left, believed - left, before=before)

    async def _shortened(self, after: int | None) -> int | Passed | None:
        """Send the break, again after each write by the holder; None for a lease that has ended."""
        for number in range(_TRIES):
            try:
                return await answered(lambda: self._store.break_(self._name, self._seen.etag, after))
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

    The first record of a hold may name an earlier owner of the process: then only process and epoch are compared.
    """
    if (before.host, before.pid, before.token) != (now.host, now.pid, now.token):
        return False
    if before.renewed is False:
        return True
    if before.renewed and before.since and now.since:
        return before.owner == now.owner and abs((now.since - before.since).total_seconds()) <= _ROUNDED
    return before.owner == now.owner

"""The acquisition of a lease: ask, stamp, release. It is done as a whole or undone, whichever reply is lost."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from singleton.base.errors import StorageDenied, StorageError, StorageUnavailable
from singleton.base.failover_mark import good_for
from singleton.base.invocation import log as _log
from singleton.locking.failover import Touches
from singleton.locking.lease import Lease, as_failure
from singleton.locking.renewals import Renewals
from singleton.stores.protocol import LeaseStore, StoreFailure, within
from singleton.stores.refusals import denial

if TYPE_CHECKING:
    import random

    from singleton.locking.fencing import FencingCounter
    from singleton.locking.phase import Timing

_CALL = 5.0
"""Seconds for one request. Shorter than any lease."""
_RELEASE = 5.0
"""Seconds for the tries of a release; after that the lease lapses by itself."""
_RELEASE_PAUSE = 0.1
_NO_ANSWER = StoreFailure(detail="no answer")


@dataclass(slots=True)
class Guess:
    """Whether the blobs of locks that a process asks for the first time are missing, as the last of them was.

    ``of_firsts``: the guess for the first name of each kind; the first answer to this guess is learnt there, too.
    """

    missing: bool = False
    of_firsts: Guess | None = None

    def learn(self, missing: bool) -> None:  # noqa: FBT001 - what is learnt
        """Note whether a blob was missing."""
        self.missing = missing
        if self.of_firsts is not None:
            self.of_firsts.missing, self.of_firsts = missing, None


class Acquisition:
    """Asks for the lease of one lock. Each acquisition has a lease id of its own (B7, B8).

    Asking again with the same id is idempotent: after a lost answer the request is sent again, without waiting a lease
    out. Once a release was sent for an id, that id is never asked for again: a late release must hit nothing.

    Attributes:
        in_doubt: whether a request under the present id may have been carried out, or may still be.
        lingers: until when a lease that was not released may stand.
        unusable: since when the last attempt had a lease that it could not stamp, and since when others can have that.
    """

    def __init__(
        self,
        store: LeaseStore,
        name: str,
        timing: Timing,
        *,
        rng: random.Random,
        fencing: FencingCounter | None,
        guess: Guess | None = None,
        renewals: Renewals | None = None,
    ) -> None:
        self._store = store
        self._renewals = renewals or Renewals()
        self._guess: Guess | None = guess or Guess()
        self._name = name
        self._timing = timing
        self._rng = rng
        self._fencing = fencing
        self._id = self._new_id()
        self.in_doubt = False
        self.lingers = -math.inf
        self.unusable: tuple[float, float] | None = None

    async def ask(self, owner: str) -> Lease:
        """Ask for the lease once, make a missing blob, and stamp the blob with token and owner.

        At the first request for a lock, a guess decides between two requests: make the blob, or ask for the lease. A
        wrong guess costs one request.

        Raises:
            StoreFailure: the lease is not ours, or was given back because stamping failed (B6), or took so long that
                the hold would be over soon.
        """
        loop = asyncio.get_running_loop()
        doubt, began = self.in_doubt, loop.time()
        self.in_doubt, self.unusable = True, None
        guess, self._guess = self._guess, None
        etag = ""
        try:
            if created := guess is not None and guess.missing:
                await self._create(owner, guess)
            while True:
                sent = loop.time()  # the lease's clock starts before the sending (B4)
                try:
                    etag = await within(_CALL, self._store.acquire(self._name, self._id, round(self._timing.period)))
                    break
                except StoreFailure as failure:
                    if created or failure.meaning != "missing":
                        raise
                created = True
                await self._create(owner, guess)
        except StoreFailure as failure:
            self.in_doubt = doubt or failure.leaves_doubt
            raise
        of = self._timing
        lease = Lease(
            self._store, self._name, self._id, sent=sent, period=of.period, renewal=of.renewal, renewals=self._renewals
        )
        try:
            if (fencing := self._fencing) is not None:
                await self._stamp(fencing, lease, etag, owner)
        except BaseException:
            self.unusable = began, await self.give_back(lease)
            raise
        finally:
            self.in_doubt = False
        return lease

    async def _stamp(self, fencing: FencingCounter, lease: Lease, etag: str, owner: str) -> None:
        lease.owner = owner
        if (failover := self._timing.failover) is not None:
            good = good_for(failover)
            await within(min(_CALL, good), fencing.stamp(lease.id, etag, owner))
            if (took := asyncio.get_running_loop().time() - fencing.touched) > failover / 2:
                raise StoreFailure(detail=f"its first touch took {took:.1f} s, over half of failover={failover:g}")
            lease.touched(fencing.touched, good)
            lease.add_touches(Touches(lease, fencing, failover))
            return
        if not fencing.spares_stamp(etag, owner):
            await within(_CALL, fencing.stamp_anew(lease.id, etag, owner))
        if fencing.counts:
            lease.when_renewed = fencing.sign

    async def stamp_again(self, lease: Lease) -> None:
        """Begin the next epoch under a lease whose tokens are used up. A failure leaves the lease without tokens."""
        assert self._fencing is not None
        try:
            await within(_CALL, self._fencing.begin_epoch(lease.id, lease.owner))
        except (StoreFailure, TimeoutError) as failure:
            _log.debug("lock %s: its next tokens were not written: %s", self._name, failure)

    async def give_up(self) -> None:
        """Release the lease of a request in doubt, or the lease would block the lock for a period.

        A later "no" proves nothing: the earlier request may be stuck on its way.
        """
        lease_id, self._id = self._id, self._new_id()
        doubt, self.in_doubt = self.in_doubt, False
        if doubt and not await self._release(lease_id):
            self.lingers = asyncio.get_running_loop().time() + self._timing.period

    async def give_back(self, lease: Lease) -> float:
        """Join the renewals, then release (B22). A lease that another host has by now is left alone.

        Returns:
            when other hosts can have the lease, by the loop's clock: later than now if the lease has to lapse.
        """
        self._id = self._new_id()
        try:
            await lease.stop()
        finally:  # also after a cut, which a close makes when it has waited long enough
            done = lease.lost not in (None, "expired", "broken", "too long") or await self._release(lease.id)
        now = asyncio.get_running_loop().time()
        if not done:
            self.lingers = lease.lapses
        return now if done else max(now, lease.lapses)

    async def _create(self, owner: str, guess: Guess | None) -> None:
        """Make the blob, unless the blob is there; the guess learns whether it was missing."""
        if self._fencing is not None:
            made = await within(_CALL, self._fencing.create(owner))
        else:
            made = await within(_CALL, self._store.create(self._name)) is not None
        if guess is not None:
            guess.learn(made)

    async def _release(self, lease_id: str) -> bool:
        """Release by id, trying for a few seconds; tell if it is. Gone or somebody else's is as good (W-78)."""
        loop = asyncio.get_running_loop()
        ends, pause, failure = loop.time() + _RELEASE, _RELEASE_PAUSE, _NO_ANSWER
        while loop.time() < ends:
            try:
                async with asyncio.timeout_at(min(ends, loop.time() + _RELEASE / 2)):
                    await self._store.release(self._name, lease_id)
                    return True
            except Exception as error:  # noqa: BLE001 - whatever a store raises, a release must end
                failure = as_failure(error)
            if failure.meaning in ("held", "lost", "missing", "deleting"):
                return True
            if failure.meaning != "transient":
                break
            await asyncio.sleep(min(pause, max(0.0, ends - loop.time())))
            pause *= 2
        _log.warning(
            *("lock %s: not released (%s); its lease expires within %g s", self._name, failure, self._timing.period),
            extra={"lock": self._name, "cause": str(failure)},
        )
        return False

    def _new_id(self) -> str:
        """Make a random GUID (version 4), the only kind of lease id that the service takes."""
        bits = f"{self._rng.getrandbits(128):032x}"
        return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{'89ab'[int(bits[16], 16) % 4]}{bits[17:20]}-{bits[20:]}"


def storage_error(lock: str, failure: StoreFailure, *, what: str = "lock", owner: str | None = None) -> StorageError:
    """Put a store's final answer into the words of the caller."""
    kind, text = _WORDS.get(failure.meaning, _WORDS["transient"])
    text = f"{text or denial(failure)} ({failure})"
    if failure.meaning == "refused" and failure.source == "unsent":  # by this package
        text = str(failure)
    told, why = f"{what} {lock!r}: {text}", str(failure)
    error = kind(told, lock=lock, owner=owner, reason=why, status=failure.status, code=failure.code)
    error.__cause__ = failure
    return error


_WORDS: dict[str, tuple[type[StorageError], str]] = {
    "denied": (StorageDenied, ""),
    "refused": (StorageError, "the storage refuses the request, and trying again will not help"),
    "deleting": (StorageUnavailable, "its container is being deleted, and can't be used until that is done"),
    "transient": (StorageUnavailable, "the storage does not answer as it should"),
}

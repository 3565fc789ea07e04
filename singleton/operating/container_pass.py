"""A pass of an operator's command over the blobs of a container, page by page, while apps use the locks.

``docs/locks-cli.md`` says what a sweep and a lift of epochs do, and at which pace.

A sweep deletes a blob by one request, without a lease id, on condition of the listed ETag. So no hold is lost. The next
acquire makes the blob again, and the tokens go on from the second in which the blob is made (``locking/fencing.py``).
To keep this second a new one, no blob is deleted within a minute of the last write.

The lift of epochs is a pass, too, for a storage that went back in time: later tokens exceed all earlier tokens.
An account that failed over, or was restored to a point in time, may have lost its last writes. Then a blob has an older
epoch than was used already, and the next tokens would repeat. Nobody has to know the lost epochs: an epoch begins at a
thousand times the service's clock and grows by one a lease (``fencing.py``), so all epochs that were given until now
are below a thousand times the next second. The clock is the service's, from the reply to a write. The epoch is written
under a lease, so no holder is disturbed.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, fields
from statistics import median
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

from singleton.base.errors import StorageError
from singleton.base.state import WHILE_KEY, expired, marked
from singleton.dotnet.webjobs import CONTAINER as WEBJOBS
from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.container import next_page
from singleton.operating.locks import parts_of, seat_of
from singleton.stores.lock_keeping import IN_USE
from singleton.stores.protocol import StoreFailure, within
from singleton.stores.stamps import CONTENT_KEYS, EPOCH_KEY, STAMP_KEYS, lifted_epoch, recorded_epoch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from singleton.stores.lock_keeping import BlobStore, Listed
    from singleton.stores.protocol import LeaseStore


class Counts:
    """Base of a record with a field for each outcome: the number of blobs with this outcome."""

    __slots__ = ()

    @property
    def seen(self) -> int:
        """Number of blobs, over all outcomes."""
        return sum(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type] # a dataclass


_CountsT = TypeVar("_CountsT", bound=Counts)


class ContainerPass(ABC, Generic[_CountsT]):
    """One pass over a container.

    Args:
        counts: type of the record of outcomes.
        due: field of ``counts`` for blobs to work on.
        rest: length of a rest as a multiple of the work before, for the lockers' sake; a dry run does not rest.
    """

    _page: ClassVar[int] = 1000
    """Blobs that are listed at a time."""

    def __init__(
        self,
        store: BlobStore,
        container: str,
        counts: type[_CountsT],
        due: str,
        *,
        prefix: str,
        dry_run: bool,
        rest: float = 0.0,
    ) -> None:
        self._store = store
        self._container = container
        self._counts = counts
        self._due = due
        self._prefix = prefix
        self._dry_run = dry_run
        self._ends: Counter[str] = Counter()
        self._marker: str | None = None
        self._waiting: list[Listed] = []
        self._listed = 0
        self._pace = Pace(0.0 if dry_run else rest)

    @property
    def result(self) -> _CountsT:
        """Outcomes so far."""
        return self._counts(**self._ends)

    @property
    def done(self) -> int:
        """Number of blobs worked on; in a dry run, of blobs to work on."""
        return self._ends[self._due]

    @property
    def left(self) -> int:
        """Number of blobs listed and not worked on yet."""
        return self._listed - self.result.seen

    @abstractmethod
    def _end_of(self, blob: Listed, at: float) -> str:
        """Return the intended outcome of a blob listed at this time by the service's clock."""

    @abstractmethod
    async def _work_on(self, blob: Listed) -> str:
        """Work on a blob; return the outcome."""

    async def go_on(self) -> bool:
        """Work on the next few blobs, or list the next page; return whether work is left.

        Raises:
            StorageError: the storage refuses or does not answer. Finished work is counted.
        """
        await self._pace.turn()
        began = asyncio.get_running_loop().time()
        try:
            if self._waiting:
                at_once = self._pace.at_once
                batch, self._waiting = self._waiting[:at_once], self._waiting[at_once:]
                await self._work_on_all(batch)
            else:
                await self._list()
        finally:
            self._pace.rest_after(began)
        return bool(self._waiting) or self._marker is not None

    async def _list(self) -> None:
        page = await next_page(self._store, self._container, self._prefix, self._marker, self._page)
        for blob in page.entries:
            end = self._end_of(blob, page.at)
            if end == self._due and not self._dry_run:
                self._waiting.append(blob)
            else:
                self._ends[end] += 1
        self._listed += len(page.entries)
        self._marker = page.marker

    async def _work_on_all(self, batch: list[Listed]) -> None:
        tasks = [asyncio.ensure_future(self._timed(blob)) for blob in batch]
        try:
            times = [await task for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._pace.adapt(times)

    async def _timed(self, blob: Listed) -> float:
        """Work on a blob; return the seconds of this work."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._ends[await self._work_on(blob)] += 1
        return loop.time() - began


_MOST: Final = 16
"""Requests under way at a time, where the storage does not mind."""
_ENOUGH: Final = 8
"""Requests whose times are compared with the best: a single one says little."""
_SLOWER: Final = 1.25
_NOISE: Final = 0.01
"""Seconds: from a quarter more than the best, and this, the storage has too much to do."""
_LONGEST: Final = 30.0
"""Seconds of a rest, at most."""


class Pace:
    """The pace of one command: ``at_once`` requests may be under way now. ``rest``: see ``ContainerPass``."""

    def __init__(self, rest: float) -> None:
        self.at_once = 1
        self._rest = rest
        self._rests_until = -math.inf
        self._best = math.inf
        self._times: list[float] = []
        self._failed = False

    async def turn(self) -> None:
        """Wait until the rest is over."""
        if (left := self._rests_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)

    def failed(self) -> None:
        """Count a request that was refused for load, or not answered."""
        self._failed = True

    def rest_after(self, began: float) -> None:
        """Begin to rest; ``began``: begin of the work by the loop's clock, in seconds."""
        now = asyncio.get_running_loop().time()
        self._rests_until = now + min(self._rest * (now - began), _LONGEST)

    def adapt(self, times: Iterable[float]) -> None:
        """Choose the number of requests at a time from the seconds that the last requests took."""
        self._times += times
        if self._failed:
            self.at_once = 1
        elif len(self._times) < _ENOUGH:
            return
        else:
            typical = median(self._times)
            self._best = min(self._best, typical)
            slow = typical > self._best * _SLOWER + _NOISE
            self.at_once = max(1, self.at_once // 2) if slow else min(_MOST, self.at_once + 1)
        self._times, self._failed = [], False


YOUNGEST: Final = 60.0
"""Least seconds between the last write of a blob and its deletion."""
_CALL: Final = 30.0
_ANSWER: Final = 120.0
"""Seconds for one delete, all tries together: a sweep has time."""
_REST: Final = 5.0
"""The lockers have five sixths of the time, also of a storage that does one thing at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(Counts):
    """Outcomes of a sweep, as numbers of blobs.

    Attributes:
        swept: deleted; in a dry run, blobs to delete.
        in_use: not deleted, because the lease is held.
        changed: not deleted, because of a write since the listing.
        gone: deleted by another client.
        young: modified too short a time ago.
        kept: blobs that are not empty, have state in use, or are not locks of this library.
    """

    swept: int = 0
    in_use: int = 0
    changed: int = 0
    gone: int = 0
    young: int = 0
    kept: int = 0


class Sweep(ContainerPass[Swept]):
    """One sweep of a container.

    Args:
        older_than: least seconds since the last write of a blob; never less than a minute.
        fast: without rests, for an hour in which no app uses locks.
    """

    def __init__(
        self,
        store: BlobStore,
        container: str,
        *,
        older_than: float,
        prefix: str = "",
        dry_run: bool = False,
        fast: bool = False,
    ) -> None:
        rest = 0.0 if fast else _REST
        super().__init__(store, container, Swept, "swept", prefix=prefix, dry_run=dry_run, rest=rest)
        self._older_than = max(older_than, YOUNGEST)

    def _end_of(self, blob: Listed, at: float) -> str:
        if not (is_sweepable(blob, self._container) or is_of_no_use(blob, at)):
            return "kept"
        # The service's clock has fractions of a second that Last-Modified has not: that one is less, never more.
        if blob.modified >= at - self._older_than:
            return "young"
        return "in_use" if blob.held else "swept"

    async def _work_on(self, blob: Listed) -> str:
        """Delete the blob, unless the service refuses. A repeated request may find the blob deleted by the first.

        State in use while another blob exists stays. The look for that blob comes behind the listing: after a later
        write of the state the service refuses to delete.
        """
        for other in (marked(blob.metadata, WHILE_KEY) or "").split():
            if not await self._is_gone(other):
                return "kept"
        asked = 0

        async def request() -> None:
            nonlocal asked
            asked += 1
            if asked > 1:
                self._pace.failed()
            await self._store.drop(blob.name, blob.etag)

        try:
            await answered(request, call=_CALL, answer=_ANSWER)
        except StoreFailure as failure:
            # A delete of a blob that is gone may be answered like one of a blob that was written: that takes a look.
            if failure.meaning == "missing" or (failure.meaning == "changed" and await self._is_gone(blob.name)):
                return "swept" if asked > 1 else "gone"
            if failure.meaning == "changed":
                return "changed"
            if failure.code == IN_USE:
                return "in_use"
            raise storage_error(blob.name, failure) from failure
        return "swept"

    async def _is_gone(self, name: str) -> bool:
        """Tell whether surely no blob has this name, or, behind a slash at the end of the name, a name below."""
        page = await next_page(self._store, self._container, name, None, 1, answer=_ANSWER)
        if not page.entries:
            return page.marker is None
        return not name.endswith("/") and page.entries[0].name != name


def is_of_no_use(blob: Listed, at: float) -> bool:
    """Tell whether the blob is a lock of this library with expired state."""
    return expired(blob.metadata, at) and all(key.lower() in STAMP_KEYS | CONTENT_KEYS for key in blob.metadata)


def is_sweepable(blob: Listed, container: str) -> bool:
    """Tell whether this is certainly the blob of a lock of this library.

    The blob is empty, and has only a stamp's metadata: no state. The stamp has an epoch or the owner's machine, as only
    our stamps do; or a layout makes the blob's name. In the container of WebJobs only the locks of functions are ours:
    other locks may be the Functions host's own.
    """
    if blob.size or any(key.lower() not in STAMP_KEYS for key in blob.metadata):
        return False
    parts = parts_of(blob.name, container)
    if container == WEBJOBS:
        return parts is not None and parts.function is not None
    return parts is not None or recorded_epoch(blob) is not None


_LIFT_CALL: Final = 5.0
_LIFT_TRY: Final = 30.0
_LIFT_ANSWER: Final = 60.0
"""Seconds for one lock, all tries together."""
_SHORTEST: Final = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Lifted(Counts):
    """Outcomes of a lift of epochs, as numbers of blobs.

    Attributes:
        lifted: locks whose next tokens are greater than all earlier tokens; in a dry run, locks to lift.
        held: held locks, unchanged: call the lift again when these locks are free.
        gone: locks deleted meanwhile. The epoch of a new blob counts from the clock.
        kept: blobs without a sign of a lock with tokens.
    """

    lifted: int = 0
    held: int = 0
    gone: int = 0
    kept: int = 0


class Lift(ContainerPass[Lifted]):
    """One lift of epochs."""

    _page = 100
    """Each lock takes six requests: with pages of a thousand nothing would be told for long."""

    def __init__(self, store: BlobStore, container: str, *, dry_run: bool = False) -> None:
        super().__init__(store, container, Lifted, "lifted", prefix="", dry_run=dry_run)

    def _end_of(self, blob: Listed, at: float) -> str:  # noqa: ARG002 - how old a lock is does not count
        if not has_tokens(blob, self._container):
            return "kept"
        return "held" if blob.held else "lifted"

    async def _work_on(self, blob: Listed) -> str:
        try:
            epoch = await lift_epoch(self._store, blob.name, str(uuid.uuid4()))
        except StorageError as error:
            if isinstance(error.__cause__, StoreFailure) and error.__cause__.meaning == "missing":
                return "gone"
            raise
        return "held" if epoch is None else "lifted"


def has_tokens(blob: Listed, container: str) -> bool:
    """Tell whether the blob is a lock with tokens, or with tokens that were lost. Seats give no tokens."""
    if seat_of(blob, container) is not None:
        return False
    if recorded_epoch(blob) is not None:
        return True
    return container != WEBJOBS and not blob.size and parts_of(blob.name, container) is not None


async def lift_epoch(store: LeaseStore, name: str, lease_id: str) -> int | None:
    """Write and return an epoch above all earlier epochs; None: the lock is held, was taken, or has changed.

    ``lease_id``: a new id, for this lock only. Requests under this id may be repeated if an answer is missing.

    Raises:
        StorageError: the storage refuses, does not answer, or has no such lock. A lease that was granted without an
            answer lapses within 15 seconds.
    """
    try:
        return await answered(lambda: _lift_under_a_lease(store, name, lease_id), call=_LIFT_TRY, answer=_LIFT_ANSWER)
    except StoreFailure as failure:
        if failure.meaning in ("held", "lost", "changed"):
            return None
        raise storage_error(name, failure) from failure


async def _lift_under_a_lease(store: LeaseStore, name: str, lease_id: str) -> int:
    await within(_LIFT_CALL, store.acquire(name, lease_id, _SHORTEST))
    try:
        before = await within(_LIFT_CALL, store.read(name))
        await within(_LIFT_CALL, store.write(name, lease_id, before.metadata, before.etag))
        now = await within(_LIFT_CALL, store.read(name))  # its Last-Modified is the clock
        epoch = lifted_epoch(now)
        kept = {key: value for key, value in now.metadata.items() if key.lower() != EPOCH_KEY.lower()}
        await within(_LIFT_CALL, store.write(name, lease_id, {**kept, EPOCH_KEY: str(epoch)}, now.etag))
        return epoch
    finally:
        with suppress(StoreFailure):
            await within(_LIFT_CALL, store.release(name, lease_id))

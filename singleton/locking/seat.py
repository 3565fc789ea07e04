"""The seat of a lock: which invocation waits for the lock in the name of the invocations that leave.

``on_contention="coalesce"`` promises: an invocation leaves only while another invocation of the same lock waits whose
body has not begun. A seat is a lease on ``<lock>~next``, with a *word* in the metadata of the blob. Each arrival first
asks for the lock itself, once. An arrival that is refused asks for the seat, once.

* The holder of the seat stamps the blob with its name and ``waiting``, and waits for the lock. Granted the lock, the
  holder writes ``begun`` and awaits the answer. Only then may the body begin (``begin``). Beside the body the holder
  releases the seat; a holder that fails removes the word before (``leave``).
* A refused arrival reads the seat. The arrival leaves only if the lease has a holder and the word is ``waiting``.

**Claim.** If a read finds ``waiting``, then a body of the writer begins after the sending of the read, or the writer
has failed or died, and the body of its repeated delivery begins after the sending of the read.

1. *The writer lives.* The word stays ``waiting`` until ``begin`` was answered, and the body begins after the answer. If
   the lease was lost meanwhile, ``begin`` takes the lease again and stamps ``begun``; or finds that the blob does not
   say ``waiting`` in the writer's name any more. Nothing writes that a second time. No other answer lets the body
   begin: after 5 seconds the invocation fails, and its message comes back at once, beside the release of the seat.
2. *The writer has died, or has failed.* A repeated delivery (``again``) takes the seat before its body, even if the
   lock is free, and never leaves. The repeated delivery gets the seat after the end of the dead writer's lease, and
   stamps the blob. So all reads that found the dead writer's word were answered before the body begins. Triggers
   without a count of deliveries lack this step, and so does a last delivery: the next arrival brings the next body.
3. *A late request.* A late stamp or ``begun`` needs the lease of its sender. One acquisition asks for its id: after the
   end of that lease the service refuses both. So no stamp needs to know the one before, and the ETag that the acquire
   has answered is its condition. A sender without an answer to its stamp goes on as a repeated delivery does: another
   stamp of the sender comes before its body. A late acquire or renewal writes no word. It holds the seat for nobody,
   with the word of the last writer. That word is ``waiting`` only if the last writer has died, or could not remove the
   word: step 2.
4. *Trouble* is no answer. An arrival that gets no usable answer fails, or waits as a repeated delivery does.
5. *Within the process* ``waits`` is true from the answered stamp until the loop goes on after the grant. An arrival
   that leaves by ``waits`` arrived before the body, which begins after the answer to ``begun``. A read that finds
   ``waiting`` counts for all arrivals of the process before its sending (``lets_leave``).

Two writers may wait at a time, if the first has lost its lease: both begin, later.

**Two names.** With ``also=`` a lock has a seat under each name. An invocation needs one seat to wait, and a repeated
delivery all. A waiter says ``begun`` on each seat that it has. An arrival leaves only if it finds ``waiting`` on all.
Step 2 fails for one seat alone: the repeated delivery may come to a version that does not know its name. Let each
version that has run since the words were written share a name with the arrival's version. Then a body begins after the
arrival. Suppose not: each seat has the word of a dead writer, whose repeated body began before, in a version without
that seat. The repeated delivery stamped another seat of the arrival: after the dead writer's word, and before the word
that the arrival finds there. So each word that it finds is older than another one, and there is no newest.
"""

from __future__ import annotations

import asyncio
import math
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from singleton.base.errors import StorageUnavailable
from singleton.locking.acquisition import Acquisition, storage_error
from singleton.locking.fencing import FencingCounter
from singleton.locking.lease import as_failure
from singleton.locking.line import OR_OURS
from singleton.locking.section import closed_error
from singleton.stores.protocol import StoreFailure, within
from singleton.stores.stamps import OWNER_KEY, WORD_KEY, header_safe, metadata_value, signature

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterator, Mapping

    from singleton.base.errors import StorageError
    from singleton.locking.lease import Lease
    from singleton.locking.phase import Timing
    from singleton.stores.lock_keeping import BlobStore
    from singleton.stores.protocol import BlobState

_T = TypeVar("_T")
Word = Literal["waiting", "begun"]
_BEGIN: Final = 5.0
"""Seconds in which ``begun`` must be answered."""
_TRY: Final = 2.0
_PAUSE: Final = 0.2
_READ: Final = 5.0
_SUFFIX: Final = "~next"


def seat_name(lock: str) -> str:
    """Return the name of the blob of a lock's seat.

    >>> seat_name("locks/myapp/refresh")
    'locks/myapp/refresh~next'
    """
    return lock + _SUFFIX


def _waits(state: BlobState) -> bool:
    return metadata_value(state, WORD_KEY) == "waiting"


class Throttle:
    """Lets a thing be done at most once in a while."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = -math.inf

    def lets(self, pause: float) -> bool:
        """Tell whether the last time is ``pause`` seconds ago; then the next time is now."""
        now = asyncio.get_running_loop().time()
        if may := now - self._last >= pause:
            self._last = now
        return may


class SeatStamps(FencingCounter):
    """The stamps of a seat, each with the word of its writer. A seat gives no tokens, and keeps no other metadata."""

    word: Word | None = None

    def __init__(self, store: BlobStore, name: str) -> None:
        super().__init__(store, name, counts=False)

    async def create(self, owner: str) -> bool:
        """Make a missing blob, without a word: the lease is not ours yet."""
        word, self.word = self.word, None
        try:
            return await super().create(owner)
        finally:
            self.word = word

    def spares_stamp(self, etag: str, owner: str) -> bool:  # noqa: ARG002 - as of a lock
        """Return False: a stamp says ``waiting``."""
        return False

    async def stamp_anew(self, lease_id: str, etag: str, owner: str) -> None:
        """Write the stamp on the ETag that the acquire has answered. Nothing of the stamp before is needed."""
        self._etag = etag
        await self.touch(lease_id, owner, 0.0)

    def _adopt(self, state: BlobState) -> None:
        """Go on from any stamp: the next write needs the lease."""
        self._note(state)

    def _signed(self, others: Mapping[str, str], owner: str, held: float = 0.0) -> dict[str, str]:  # noqa: ARG002
        signed = signature(owner, held, counts=True)
        return signed if self.word is None else {**signed, WORD_KEY: self.word}


class Seat:
    """The seat of one lock, as this process uses the seat. Every method runs on the loop of the locks.

    Attributes:
        waits: whether an invocation of this process has the seat and its lock was not granted yet.
        known: when a caller last had an answer: that the seat is held, or trouble.
        told: the answer, for errors.
        asks: the pace of this process's polls: of repeated deliveries, and of others. One caller polls for each.
    """

    def __init__(self, store: BlobStore, lock: str, *, timing: Timing, rng: random.Random) -> None:
        self.name = seat_name(lock)
        self.waits = False
        self.known = -math.inf
        self.told: str | StorageError = ""
        self._store = store
        self._stamps = SeatStamps(store, self.name)
        self._acquisition = Acquisition(store, self.name, replace(timing, failover=None), rng=rng, fencing=self._stamps)
        self._work: asyncio.Task[Any] | None = None
        self._lease: Lease | None = None
        self._entering: asyncio.Future[None] | None = None
        self._asking: asyncio.Timeout | None = None
        self._taken = self._closed = False
        self._owner, self._begun = "", False
        self._failure = StoreFailure()
        self._found = -math.inf
        self.asks = {again: Throttle() for again in (True, False)}

    @property
    def forgettable(self) -> bool:
        """Whether the seat is unused, and no lease of this process may linger."""
        return not self._taken and not self._busy and self._acquisition.lingers < asyncio.get_running_loop().time()

    @property
    def _busy(self) -> bool:
        return self._work is not None

    def _next(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> asyncio.Task[_T]:
        """Do this after what was begun before, in a task: a caller who goes away cuts nothing off."""
        before = self._work

        async def in_turn() -> _T:
            if before is not None:
                await asyncio.wait({before})
            return await work()

        self._work = task = asyncio.get_running_loop().create_task(in_turn(), name=f"seat {self.name}")
        task.add_done_callback(self._done)
        return task

    def _done(self, work: asyncio.Task[Any]) -> None:
        if self._work is work:
            self._work = None

    def lets_leave(self, came: float) -> bool:
        """Tell whether an invocation that came at this time may leave by what this process knows already."""
        return self.waits or self._found > came

    async def take(self, owner: str, *, again: bool) -> bool | None:
        """Ask for the seat once. Return True: the caller has the seat. False: another waits. None: neither is known.

        ``again``: the delivery may be a repeated one, and is never told False.

        Raises:
            StorageError: the storage refused, or gave no usable answer.
            LockClosed: the locks of the process are closed.
        """
        self.refuse_closed(owner)
        if self._busy:  # another caller of this process asks, or gives back: a silent seat delays one caller
            return None
        if self._taken:
            self._is_held()
            return False if self.waits and not again else None
        taking = self._next(partial(self._take, owner, again=again))
        try:
            await asyncio.wait((taking,))
            return taking.result()
        except asyncio.CancelledError:
            taking.add_done_callback(lambda task: task.cancelled() or task.exception())  # asyncio logs an unread error
            self.leave()
            raise

    async def _take(self, owner: str, *, again: bool) -> bool | None:
        self._stamps.word = "waiting"
        try:
            async with asyncio.timeout(_BEGIN if self._closed else None) as self._asking:
                self._lease = await self._acquisition.ask(owner)
        except Exception as error:
            if (failure := as_failure(error)).meaning == "held":
                await self._acquisition.give_up()
            else:  # a silent storage is told before it is asked for a release
                self._next(self._acquisition.give_up)
                raise self._trouble(failure, owner) from error
        else:
            self._taken = self.waits = True
            self._owner, self._begun = owner, False
            self._failure = StoreFailure(detail="no answer in time")
        sent = self._is_held()
        if self._taken:
            return True
        # A lease of this process that was not given back may still stand: a retry must not leave for its own word.
        if again or sent < self._acquisition.lingers or not await self._another_waits(owner):
            return None
        self._found = sent
        return False

    def _is_held(self) -> float:
        """Note that the seat is held, and return the time."""
        self.known = now = asyncio.get_running_loop().time()
        perhaps = OR_OURS * (not self._taken and now < self._acquisition.lingers)
        self.told = f"its seat {self.name!r} was taken{perhaps}"
        return now

    def _trouble(self, failure: StoreFailure, owner: str) -> StorageError:
        """Note the trouble of a caller, and return its error."""
        self.known = asyncio.get_running_loop().time()
        self.told = storage_error(self.name, failure, what="seat", owner=owner)
        return self.told

    async def _another_waits(self, owner: str) -> bool:
        try:
            state = await within(_READ, self._store.read(self.name))
        except Exception as error:
            if (failure := as_failure(error)).meaning == "missing":
                return False
            raise self._trouble(failure, owner) from error
        return state.held and _waits(state)

    async def begin(self, seconds: float = _BEGIN) -> None:
        """Write ``begun``, and return as soon as no reader finds the word ``waiting`` of this caller.

        Raises:
            StorageError: there was no such answer in the given time, five seconds at most. The body must not begin.
            LockClosed: nor will there be one, as the locks of the process are closed.
        """
        self.waits = False
        await asyncio.wait({self._next(self._tell)}, timeout=min(_BEGIN, seconds))
        self.refuse_closed(self._owner)
        if not self._begun and self._failure.meaning == "held":
            text = f"seat {self.name!r}: another lease is on it, and {'begun'!r} could not be written in time"
            raise StorageUnavailable(text, lock=self.name, owner=self._owner, reason=str(self._failure))
        if not self._begun:
            raise self._trouble(self._failure, self._owner) from self._failure

    async def _tell(self) -> None:
        """Try to write ``begun``. A lease that was lost is given back first."""
        self._stamps.word = "begun"
        loop = asyncio.get_running_loop()
        ends = loop.time() + _BEGIN
        while not self._begun and loop.time() < ends and not self._closed:
            if (lease := self._lease) is not None and not lease.alive():
                self._lease = None
                await self._acquisition.give_back(lease)
                continue
            try:
                async with asyncio.timeout_at(min(ends, loop.time() + _TRY)):
                    await self._say()
                self._begun = True
            except Exception as error:  # noqa: BLE001 - whatever a store raises is no answer
                self._failure = as_failure(error)
                if self._failure.meaning in ("denied", "refused"):
                    return
            if not self._begun:
                await asyncio.sleep(_PAUSE)

    async def _say(self) -> None:
        """Write ``begun`` under the lease, or under a new lease; or find that ``waiting`` is gone from the blob."""
        if (lease := self._lease) is not None:
            try:
                await self._stamps.touch(lease.id, self._owner, 0.0)
            except StoreFailure as failure:
                if failure.loss is not None:
                    lease.lose(failure.loss, failure, quiet=True)
                raise
            return
        try:
            self._lease = await self._acquisition.ask(self._owner)
        except StoreFailure as failure:
            if failure.meaning != "held":
                raise
            state = await self._store.read(self.name)
            if _waits(state) and (metadata_value(state, OWNER_KEY) or "") == header_safe(self._owner):
                raise

    def leave(self) -> asyncio.Task[None]:
        """Give the seat back, in a task; who fails takes the word back first. Missing answers delay the task."""
        self.waits = False
        return self._next(self._leave)

    async def _leave(self) -> None:
        self.waits = False
        try:
            if (lease := self._lease) is None:
                await self._acquisition.give_up()
                return
            if not self._begun and lease.alive():
                self._stamps.word = None
                with suppress(Exception):  # whatever a store raises, the lease is given back
                    await within(_TRY, self._stamps.touch(lease.id, self._owner, 0.0))
            await self._acquisition.give_back(lease)
        finally:
            self._lease, self._taken = None, False

    @contextmanager
    def entering(self) -> Iterator[None]:
        """Let a closing wait for what a caller does between the grant of the lock and the body."""
        self._entering = entering = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            entering.set_result(None)

    def refuse_closed(self, owner: str) -> None:
        """Raise ``LockClosed`` once the locks of the process close."""
        if self._closed:
            raise closed_error("seat", self.name, owner)

    async def aclose(self) -> None:
        """Refuse arrivals and a body that has not begun, and give the seat back for a waiter, whose lock is closed."""
        self._closed = True
        if self._asking is not None:
            with suppress(RuntimeError):  # it was answered
                self._asking.reschedule(asyncio.get_running_loop().time() + _BEGIN)
        if self._entering is not None:
            await asyncio.wait({self._entering}, timeout=_BEGIN)
        await asyncio.wait({self.leave()})

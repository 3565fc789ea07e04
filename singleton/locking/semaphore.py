"""A semaphore: at most so many holders at a time, over as many locks, its slots, ``{name}/slot-0`` and so on.

* **Never more than the limit.** A hold is a hold of one slot, with all that a lock promises. Its fencing token orders
  the holds of that slot only: it is no fence across the semaphore.
* **One queue, one poll.** Waiters of this process stand in line. One task goes over the slots for all of them, with one
  request for each that others have, and then pauses as a lock does; a slot that this process uses is not asked for, but
  a stand-in waits in its line, and brings the hold to whoever is first in ours. So slots are handed on without a
  request, and given to others after ``handoff_window``, as locks are.
* **Few blobs.** The low slots are tried first, in rings of doubling size, each from a random start: there are at most
  twice as many blobs as there were ever holders at once, however high the limit.
* **What it costs.** Finding a free slot takes one request for each taken one; waiting, up to 32 requests
  a poll. Meant for limits of some dozens.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
import math
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import LockNotAcquired, SingletonError, StorageUnavailable
from singleton.locking.acquisition import storage_error
from singleton.locking.section import Section, Turn, Waiter, closed_error
from singleton.locking.slots import Slots
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterator

    from singleton.base.hold import Hold
    from singleton.locking.lock import Lock
    from singleton.locking.timing import Timing

_log = logging.getLogger("singleton")

_TOGETHER: Final = 8
"""Slots that are asked for at a time, when so many wait."""
_PATIENCE: Final = 60.0
_LAST_LOOK: Final = 0.5


class Semaphore:
    """The semaphore of one name and limit in this process. Everything happens on the loop on which it is used."""

    def __init__(
        self, name: str, limit: int, slot: Callable[[int], Lock], *, timing: Timing, rng: random.Random
    ) -> None:
        self.name = name
        self.limit = limit
        self._slot = slot
        self._timing = timing
        self._rng = rng
        self._queue: OrderedDict[Waiter, None] = OrderedDict()
        self._server: asyncio.Task[None] | None = None
        self._stand_ins: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._turns: dict[int, Turn] = {}
        self._slots = Slots(limit, rng)
        self._somebody_left = asyncio.Event()
        self._asked = -math.inf
        self._seen_taken = -math.inf
        self._trouble: StorageUnavailable | None = None
        self._trouble_since = 0.0
        self._closed = False

    @property
    def idle(self) -> bool:
        """Tell whether nobody here waits for it."""
        return not self._queue and not self._ending and self._server is None

    async def acquire(self, *, timeout: float | None = None, owner: str = "") -> Hold:
        """Wait in line for a slot; the hold must be given to ``release``. See ``Lock.acquire``."""
        if self._closed:
            raise closed_error("semaphore", self.name, owner)
        if timeout == 0 and self._first() is not None:
            raise self._not_acquired(owner)
        loop = asyncio.get_running_loop()
        now = loop.time()
        waiter = Waiter(owner, now, now + (timeout or math.inf), timeout == 0, loop.create_future())
        alarm = loop.call_at(waiter.deadline, self._time_is_up, waiter) if timeout else None
        self._queue[waiter] = None
        if self._server is None:
            self._server = self._start(self._serve())
        try:
            await waiter.granted
            return waiter.take()
        except asyncio.CancelledError:
            if waiter.hold is not None:
                waiter.hold.end()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
            self._queue.pop(waiter, None)
            self._somebody_left.set()
            self._rest_if_nobody_waits()

    async def aclose(self) -> None:
        """Refuse all waiters; what is held stays so."""
        self._closed = True
        self._refuse_all(closed_error("semaphore", self.name))
        self._rest_if_nobody_waits()
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    # --- the tasks behind the queue ---------------------------------------------------------------------------------

    def _start(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coro, name=f"semaphore {self.name}")
        self._ending.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """See to it that every wait ends, whatever became of a task."""
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("semaphore %s: unexpected %r", self.name, error, exc_info=error)
            unexpected = SingletonError(f"semaphore {self.name!r}: unexpected {error!r}", lock=self.name)
            unexpected.__cause__ = error
            self._refuse_all(unexpected)
        elif task.cancelled() and task is self._server:
            self._server = None
            self._refuse_all(closed_error("semaphore", self.name))

    def _first(self) -> Waiter | None:
        """Return the first in line who still waits."""
        while (first := next(iter(self._queue), None)) is not None and first.granted.done():
            del self._queue[first]
        return first

    def _rest_if_nobody_waits(self) -> None:
        """Let go of what is under way for nobody: an attempt that has succeeded by now is given back by its lock."""
        if self._first() is not None:
            return
        for task in (*self._stand_ins.values(), *([self._server] if self._server else [])):
            task.cancel()
        self._stand_ins.clear()
        self._server = None

    async def _serve(self) -> None:
        """While anybody waits, go over the slots."""
        loop = asyncio.get_running_loop()
        pause = self._timing.poll_min
        slots = self._slots.all()
        try:
            while (first := self._first()) is not None:
                self._asked = loop.time()
                await self._go_over(slots)
                if first.once:
                    first.refuse(self._trouble_of_now() or self._not_acquired())
                await self._sleep_until(loop.time() + pause * self._rng.uniform(0.5, 1.0))
                pause = min(pause * 2, self._timing.poll_max)
                slots = self._slots.some()
        finally:
            if self._server is asyncio.current_task() and self._first() is None:
                self._server = None

    async def _go_over(self, slots: Iterator[int]) -> None:
        """Ask for the slots in this order, for some of those who wait at a time, while somebody does."""
        while self._first() is not None:
            owners = [waiter.owner for waiter in itertools.islice(self._queue, _TOGETHER)]
            batch = list(itertools.islice(slots, len(owners)))
            if not batch or not all(await asyncio.gather(*map(self._ask, batch, owners))):
                return

    async def _ask(self, number: int, owner: str) -> bool:
        """Try to get this slot for whoever is first in line then; return whether to go on to others."""
        if self._is_ours(number):
            self._seen_taken = asyncio.get_running_loop().time()
            self._stand_by(number)
            return True
        try:
            hold = await self._slot(number).acquire(timeout=0, owner=owner)
        except LockNotAcquired:
            self._taken()
            self._slots.warm.discard(number)
        except SingletonError as error:
            self._judge(error)
            return False
        else:
            self._deliver(number, hold)
        return True

    def _is_ours(self, number: int) -> bool:
        turn = self._turns.get(number)
        if turn is not None and turn.settled.done():
            del self._turns[number]
            turn = None
        return turn is not None or number in self._stand_ins

    def _stand_by(self, number: int) -> None:
        """Wait in the line of a slot that this process uses, for whoever is first in ours when its turn comes."""
        if number not in self._stand_ins and self._first() is not None:
            self._stand_ins[number] = self._start(self._stand_in(number))

    async def _stand_in(self, number: int) -> None:
        first = self._first()
        try:
            hold = await self._slot(number).acquire(owner=first.owner if first else "")
        except SingletonError as error:
            self._stood_in(number)
            self._judge(error)
        else:
            self._stood_in(number)
            self._deliver(number, hold)

    def _stood_in(self, number: int) -> None:
        if self._stand_ins.get(number) is asyncio.current_task():
            del self._stand_ins[number]

    def _deliver(self, number: int, hold: Hold) -> None:
        """Give the hold to the first in line; if somebody is left, stand by for the next."""
        assert isinstance(hold, Section)
        self._trouble = None
        self._slots.warm.add(number)
        first = self._first()
        if first is None:
            hold.end()
            return
        del self._queue[first]
        self._turns[number] = hold.turn
        hold.owner = first.owner
        first.give(hold)
        self._stand_by(number)

    async def _sleep_until(self, due: float) -> None:
        """Wait, but not past the last look of the first in line, and no longer than anybody waits."""
        loop = asyncio.get_running_loop()
        while (first := self._first()) is not None and (now := loop.time()) < due:
            last_look = now if first.once else first.deadline - _LAST_LOOK
            if now >= last_look and first.since > self._asked:
                return  # nobody has asked for it yet, and later is too late
            self._somebody_left.clear()
            try:
                async with asyncio.timeout_at(min(due, last_look) if now < last_look else due):
                    await self._somebody_left.wait()
            except TimeoutError:
                return

    # --- what an attempt means for those who wait --------------------------------------------------------------------

    def _taken(self) -> None:
        self._seen_taken = asyncio.get_running_loop().time()
        self._trouble = None

    def _judge(self, error: SingletonError) -> None:
        if not isinstance(error, StorageUnavailable):
            self._refuse_all(error)
            return
        now = asyncio.get_running_loop().time()
        if self._trouble is None:
            self._trouble_since = now
        self._trouble = error
        if now - self._trouble_since >= _PATIENCE:
            self._refuse_all(error)

    def _refuse_all(self, error: SingletonError) -> None:
        for waiter in tuple(self._queue):
            waiter.refuse(_another(error))

    def _time_is_up(self, waiter: Waiter) -> None:
        """Say what is known: that all are taken, or, without evidence for that, that the storage did not answer."""
        waiter.refuse(self._trouble_of_now() or self._unproven(waiter) or self._not_acquired(within=waiter.within))

    def _trouble_of_now(self) -> SingletonError | None:
        return None if self._trouble is None else _another(self._trouble)

    def _unproven(self, waiter: Waiter) -> SingletonError | None:
        if self._seen_taken >= waiter.since or self._first() is not waiter:
            return None
        return storage_error(self.name, StoreFailure(detail="no answer yet"))

    def _not_acquired(self, owner: str | None = None, within: str = "at once") -> LockNotAcquired:
        what = f"semaphore {self.name!r} was not acquired {within}: all of its {self.limit} slots are taken"
        return LockNotAcquired(what, lock=self.name, owner=owner)


def _another(error: SingletonError) -> SingletonError:
    """Copy an error: each of those who get it raises one of its own."""
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin

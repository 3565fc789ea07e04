"""A semaphore: at most so many holders at a time, over as many locks, its slots, ``{name}/slot-0`` and so on.

* **Never more than the limit.** A hold is a hold of one slot, with all that a lock promises. Its fencing token orders
  the holds of that slot only: it is no fence across the semaphore.
* **One line, one poll.** Waiters of this process stand in line, as those of a lock do (``line.py``). One task goes over
  the slots for all of them, with one request for each that others have, and then pauses as a lock does; a slot that
  this process uses is not asked for, but a stand-in waits in its line, and brings the hold to whoever is first in ours.
  So slots are handed on without a request, and given to others after ``handoff_window``, as locks are.
* **Few blobs.** The low slots are tried first, in rings of doubling size, each from a random start: there are at most
  twice as many blobs as there were ever holders at once, however high the limit.
* **What it costs.** Finding a free slot takes one request for each taken one; waiting, up to 32 requests
  a poll. Meant for limits of some dozens.
"""

from __future__ import annotations

import asyncio
import itertools
import math
from typing import TYPE_CHECKING, Any, Final

from singleton.base.errors import ConfigurationError, LockNotAcquired, SingletonError, StorageUnavailable
from singleton.base.invocation import log as _log
from singleton.base.invocation import speak_of
from singleton.base.words import quoted
from singleton.locking.line import Line
from singleton.locking.section import Section

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterator

    from singleton.base.hold import Hold
    from singleton.locking.lock import Lock
    from singleton.locking.phase import Timing
    from singleton.locking.record import SectionRecord

MOST: Final = 2**31 - 1
"""The highest limit (M-60)."""

_RING: Final = 8
_AT_ONCE: Final = 32
"""Slots that are asked for in one poll, after each has been asked for once."""


def slot_name(name: str, number: int) -> str:
    """Return the name of a slot's blob."""
    return f"{name}/slot-{number}"


def checked_limit(limit: object) -> int:
    """Return a semaphore's limit if it is one."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise ConfigurationError(f"limit is {quoted(limit)}: give a whole number from 1 to {MOST:,}")
    return limit


class Slots:
    """The numbers of the slots, in the order in which one process asks for them.

    Attributes:
        warm: those that this process had last, as far as it knows: taking one saves requests.
    """

    def __init__(self, limit: int, rng: random.Random) -> None:
        self.warm: set[int] = set()
        self._limit = limit
        self._rng = rng
        self._next = 0

    def all(self) -> Iterator[int]:
        """The warm ones, then the others in rings of doubling size: a free one among the lowest is found first."""
        warm = sorted(self.warm)
        self._rng.shuffle(warm)
        yield from warm
        tried = set(warm)
        start, size = 0, _RING
        while start < self._limit:
            ring = range(start, min(start + size, self._limit))
            offset = self._rng.randrange(len(ring))
            turned = (ring[(step + offset) % len(ring)] for step in range(len(ring)))
            yield from (number for number in turned if number not in tried)
            start += size
            size = start

    def some(self) -> Iterator[int]:
        """All, or the next of many, so that all get their turn."""
        if self._limit <= _AT_ONCE:
            return self.all()
        start, self._next = self._next, (self._next + _AT_ONCE) % self._limit
        return iter([(start + step) % self._limit for step in range(_AT_ONCE)])


_TOGETHER: Final = 8
"""Slots that are asked for at a time, when so many wait."""


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
        taken = f"all of its {limit} slots are taken"
        self._line = Line("semaphore", name, taken=taken, timing=timing, try_once=math.inf)
        self._state = self._line.state
        self._server: asyncio.Task[None] | None = None
        self._stand_ins: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._records: dict[int, SectionRecord] = {}
        self._slots = Slots(limit, rng)

    @property
    def idle(self) -> bool:
        """Tell whether nobody here waits for it."""
        return not self._line and not self._ending and self._server is None

    @property
    def forgettable(self) -> bool:
        """The same."""
        return self.idle

    async def at_rest(self) -> None:
        """Wait until what is under way now has ended."""
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    async def acquire(self, *, timeout: float | None = None, owner: str = "") -> Hold:
        """Wait in line for a slot; the hold must be given to ``release``. See ``Lock.acquire``."""
        try:
            return await self._line.wait(timeout, owner, self._ensure_server)
        finally:
            self._rest_if_nobody_waits()

    def refuse(self) -> None:
        """Refuse all waiters, and who comes from now on; what is held stays so."""
        self._line.close()

    async def aclose(self) -> None:
        """Refuse all waiters; what is held stays so."""
        self._line.close()
        self._rest_if_nobody_waits()
        await self.at_rest()

    # --- the tasks behind the line ------------------------------------------------------------------------------------

    def _ensure_server(self) -> None:
        if self._server is None:
            self._server = self._start(self._serve())

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
            self._line.break_down(error)
        elif task.cancelled() and task is self._server:
            self._server = None
            self._line.give_up()

    def _rest_if_nobody_waits(self) -> None:
        """Let go of what is under way for nobody: an attempt that has succeeded by now is given back by its lock."""
        if self._line.first() is not None:
            return
        for task in (*self._stand_ins.values(), *([self._server] if self._server else [])):
            task.cancel()
        self._stand_ins.clear()
        self._server = None
        self._state.rest()

    async def _serve(self) -> None:
        """While anybody waits, go over the slots: over all of them where somebody asks once, whose answer that is."""
        loop = asyncio.get_running_loop()
        pause = self._timing.poll_min
        self._state.begin()
        everything = True
        try:
            while (first := self._line.first()) is not None:
                speak_of(first.invocation)
                self._state.ask(loop.time())
                all_taken = await self._go_over(self._slots.all() if everything else self._slots.some())
                if all_taken and everything:
                    self._line.refused()
                await self._line.sleep_until(loop.time() + pause * self._rng.uniform(0.5, 1.0))
                pause = min(pause * 2, self._timing.poll_max)
                everything = any(waiter.once for waiter in self._line)
        finally:
            if self._server is asyncio.current_task() and self._line.first() is None:
                self._server = None
                self._state.rest()

    async def _go_over(self, slots: Iterator[int]) -> bool:
        """Ask for the slots in this order, for some of those who wait at a time; tell whether all of them are taken."""
        while self._line.first() is not None:
            owners = [waiter.owner for waiter in itertools.islice(self._line, _TOGETHER)]
            batch = list(itertools.islice(slots, len(owners)))
            if not batch:
                return True
            if not all(await asyncio.gather(*map(self._ask, batch, owners))):
                return False
        return False

    async def _ask(self, number: int, owner: str) -> bool:
        """Try to get this slot for whoever is first in line then; return whether to go on to others."""
        if self._is_ours(number):
            self._state.see_taken()
            self._stand_by(number)
            return True
        try:
            hold = await self._slot(number).acquire(timeout=0, owner=owner)
        except LockNotAcquired:
            self._state.answer()
            self._state.see_taken()
            self._slots.warm.discard(number)
        except SingletonError as error:
            self._judge(error)
            return False
        else:
            self._deliver(number, hold)
        return True

    def _judge(self, error: SingletonError) -> None:
        if isinstance(error, StorageUnavailable):
            self._line.failed(error)
            self._line.end_single_attempts(error)
        else:
            self._line.refuse_all(error)

    def _is_ours(self, number: int) -> bool:
        record = self._records.get(number)
        if record is not None and record.settled:
            del self._records[number]
            record = None
        return record is not None or number in self._stand_ins

    def _stand_by(self, number: int) -> None:
        """Wait in the line of a slot that this process uses, for whoever is first in ours when its turn comes."""
        if number not in self._stand_ins and self._line.first() is not None:
            self._stand_ins[number] = self._start(self._stand_in(number))

    async def _stand_in(self, number: int) -> None:
        first = self._line.first()
        speak_of(first.invocation if first else None)
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
        self._state.answer()
        self._slots.warm.add(number)
        first = self._line.first()
        if first is None:
            hold.record.end()
            return
        self._records[number] = hold.record
        hold.owner = first.owner
        if self.limit > 1:
            hold.fencing = None  # with several at a time, nobody's state
        hold.concerns(first.invocation)
        self._line.grant(first, hold)
        self._stand_by(number)

"""A semaphore: up to ``limit`` holders at a time. Its slots are locks, ``{name}/slot-0``, ``{name}/slot-1`` ….

* **Never more than the limit.** A hold is a hold of one slot, with the promises of a lock. Its fencing token orders
  the holds of the slot only: it is no fence across the semaphore.
* **One line, one poll.** Waiters of this process stand in line, as for a lock (``line.py``). One task asks for slots on
  behalf of the line, with one request for a slot held elsewhere, and then pauses as a lock does. A slot which this
  process uses is not asked for: a stand-in waits in the slot's line, and brings the hold to the first waiter. Slots
  are handed on without a request, and released for other processes after ``handoff_window``, like locks.
* **Few blobs.** Low slots are tried first, in rings of doubling size, from a random start in a ring. While storage
  answers, the blobs are at most eight, or twice the greatest number of holders so far, however high the limit.
* **Cost.** A free slot behind N taken ones takes N requests; a wait takes up to 32 requests a poll. Meant for limits of
  some dozens.
"""

from __future__ import annotations

import asyncio
import itertools
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from singleton.base.caller import serving
from singleton.base.errors import ConfigurationError, LockNotAcquired, SingletonError, StorageUnavailable
from singleton.base.invocation import log as _log
from singleton.base.invocation import speak_of
from singleton.base.words import quoted
from singleton.locking.line import Line
from singleton.locking.section import Section

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterable, Iterator

    from singleton.base.hold import Hold
    from singleton.locking.line import Waiter
    from singleton.locking.lock import Lock
    from singleton.locking.phase import Timing

MOST: Final = 2**31 - 1
"""The highest limit (M-60)."""

_RING: Final = 8
_AT_ONCE: Final = 32
"""Slots asked for in one poll, after a first poll over every slot."""


def slot_name(name: str, number: int) -> str:
    """Return the name of a slot's blob."""
    return f"{name}/slot-{number}"


def checked_limit(limit: object) -> int:
    """Return the limit of a semaphore if it is valid."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
        raise ConfigurationError(f"limit is {quoted(limit)}: give a whole number from 1 to {MOST:,}")
    return limit


class Slots:
    """Numbers of the slots, in the order of this process's requests.

    Attributes:
        warm: slots which this process was the last to hold, as far as known: taking such a slot saves requests.
    """

    def __init__(self, limit: int, rng: random.Random) -> None:
        self.warm: set[int] = set()
        self._limit = limit
        self._rng = rng
        self._next = 0

    def all(self) -> Iterator[int]:
        """Return every slot: warm slots, then rings of doubling size. A free low slot is found first."""
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
        """Return every slot, or the next ``_AT_ONCE`` of many in turn."""
        if self._limit <= _AT_ONCE:
            return self.all()
        start, self._next = self._next, (self._next + _AT_ONCE) % self._limit
        return iter([(start + step) % self._limit for step in range(_AT_ONCE)])


_TOGETHER: Final = 8
"""Slots asked for at a time, for as many waiters."""


class Semaphore:
    """The semaphore of a name and limit in this process. Every method runs on one event loop.

    ``watches`` are called when every slot is found to be in use.
    """

    def __init__(
        self, name: str, limit: int, slot: Callable[[int], Lock], *, timing: Timing, rng: random.Random
    ) -> None:
        self.name = name
        self.limit = limit
        self._slot = slot
        self._timing = timing
        self._rng = rng
        taken = f"all of its {limit} slots are taken"
        self.watches: tuple[Callable[[], object], ...] = ()
        self._line = Line("semaphore", name, taken=taken, timing=timing, every_slot=True)
        self.waiters: Iterable[Waiter] = self._line
        self._phases = self._line.phases
        self._server: asyncio.Task[None] | None = None
        self._stand_ins: dict[int, asyncio.Task[None]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._used: set[int] = set()  # slots with a hold of this process
        self._slots = Slots(limit, rng)

    @property
    def idle(self) -> bool:
        """Tell whether the semaphore has no waiter and no task in this process."""
        return not self._line and not self._ending and self._server is None

    forgettable = idle

    async def at_rest(self) -> None:
        """Wait for the end of the present tasks."""
        if self._ending:
            await asyncio.wait(tuple(self._ending))

    async def acquire(self, *, timeout: float | None = None, owner: str = "") -> Hold:
        """Wait in line for a slot. The caller must give the hold to ``release``. See ``Lock.acquire``."""
        try:
            return await self._line.wait(timeout, owner, self._ensure_server)
        finally:
            self._rest_if_nobody_waits()

    def refuse(self) -> None:
        """Refuse present and later waiters; holds stay."""
        self._line.close()

    async def aclose(self) -> None:
        """Refuse waiters, and wait for the end of the tasks; holds stay."""
        self._line.close()
        self._rest_if_nobody_waits()
        await self.at_rest()

    def _ensure_server(self) -> None:
        if self._server is None:
            self._server = self._start(self._serve())

    def _start(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        context = copy_context()
        context.run(serving.set, None)  # the task outlives the call of the first waiter
        task = asyncio.get_running_loop().create_task(coro, name=f"semaphore {self.name}", context=context)
        self._ending.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        """End the waits after an error or the cancellation of a task."""
        self._ending.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("semaphore %s: unexpected %r", self.name, error, exc_info=error)
            self._line.break_down(error)
        elif task.cancelled() and task is self._server:
            self._server = None
            self._line.give_up()

    def _rest_if_nobody_waits(self) -> None:
        """Cancel the tasks if the line is empty. The slot's lock releases a hold which was granted meanwhile."""
        if self._line.first() is not None:
            return
        for task in (*self._stand_ins.values(), *([self._server] if self._server else [])):
            task.cancel()
        self._stand_ins.clear()
        self._server = None
        self._phases.rest()

    async def _serve(self) -> None:
        """While the line has waiters, ask for slots: for every slot if a single attempt needs the answer."""
        loop = asyncio.get_running_loop()
        pause = self._timing.poll_min
        self._phases.begin()
        everything = True
        try:
            while (first := self._line.first()) is not None:
                speak_of(first.invocation)
                self._phases.asked = loop.time()
                all_taken = await self._go_over(self._slots.all() if everything else self._slots.some())
                if all_taken and everything:
                    self._line.refused()
                    for look in self.watches:
                        look()
                await self._line.sleep_until(loop.time() + pause * self._rng.uniform(0.5, 1.0))
                pause = min(pause * 2, self._timing.poll_max)
                everything = any(waiter.once for waiter in self._line)
        finally:
            if self._server is asyncio.current_task() and self._line.first() is None:
                self._server = None
                self._phases.rest()

    async def _go_over(self, slots: Iterator[int]) -> bool:
        """Ask for the slots in order, for several waiters at a time; return whether every slot is taken."""
        while self._line.first() is not None:
            owners = [waiter.owner for waiter in itertools.islice(self._line, _TOGETHER)]
            batch = list(itertools.islice(slots, len(owners)))
            if not batch:
                return True
            if not all(await asyncio.gather(*map(self._ask, batch, owners))):
                return False
        return False

    async def _ask(self, number: int, owner: str) -> bool:
        """Ask for a slot on behalf of the first waiter; return whether to go on to the next slots."""
        if number in self._used:
            self._phases.see_taken()
            self._stand_by(number)
            return True
        try:
            hold = await self._slot(number).acquire(timeout=0, owner=owner)
        except LockNotAcquired:
            self._phases.see_taken()
            if number not in self._stand_ins:  # whose lock may know it from an earlier answer
                self._phases.answer()
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

    def _stand_by(self, number: int) -> None:
        """Wait in the line of a slot which this process uses, on behalf of the first waiter at the grant."""
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
        """Give the hold to the first waiter; for a further waiter, stand by in the slot's line."""
        assert isinstance(hold, Section)
        self._phases.answer()
        self._slots.warm.add(number)
        first = self._line.first()
        if first is None:
            hold.record.end()
            return
        self._used.add(number)
        hold.record.when_settled(partial(self._used.discard, number))
        hold.owner, hold.lease.owner, hold.record.caller = first.owner, first.owner, first.caller
        if self.limit > 1:
            hold.fencing = None  # a semaphore keeps no state: it has several holders
        hold.lease.whose = first.invocation
        self._line.grant(first, hold)
        self._stand_by(number)

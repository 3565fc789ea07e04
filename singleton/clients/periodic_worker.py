"""A periodic worker: at each tick the worker tries the lock, and works under the lock or skips (S-9, S-10)."""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from abc import abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Self

from singleton.base.callables import finish, returns_coroutine
from singleton.base.caller import alone
from singleton.base.errors import LockClosed, LockNotAcquired
from singleton.base.invocation import log as _log
from singleton.base.tasks import Deciding, decided_in_thread, running_loop, to_its_end
from singleton.base.words import quoted
from singleton.locking.section import claims
from singleton.runtime.cancellation import cancelled_when_lost
from singleton.runtime.lock_thread import runtime
from singleton.runtime.reentry import BodyContext

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import Hold
    from singleton.runtime.calls import Work
    from singleton.runtime.closing import Closing


class Running:
    """The start and the end of a worker. ``label`` is the name in logs and of the thread."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._stopping = threading.Event()
        self._started = False
        self._thread: threading.Thread | None = None
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped: asyncio.Event | None = None

    def start(self) -> None:
        """Run in a thread of its own, until ``stop``."""
        self._begin()
        self._thread = threading.Thread(target=self._main, name=self._label, daemon=True)
        self._thread.start()

    @abstractmethod
    def stop(self, timeout: float | None = None) -> bool:
        """End the worker; tell whether the end has come."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _main(self) -> None:
        alone.set(True)
        try:
            asyncio.run(self._run())
        except LockClosed:
            self._tell_of_closing()

    async def run(self) -> None:
        """Run on this event loop, until ``stop``. A cancellation cancels async work, and gives the lock back.

        Raises:
            LockClosed: the client was closed.
        """
        self._begin()
        await self._run()

    async def __aenter__(self) -> Self:
        self._begin()
        self._running = running_loop().create_task(self._run(), name=self._label)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._running is not None
        self.stop()
        await to_its_end(self._running)
        if not self._running.cancelled() and isinstance(self._running.exception(), LockClosed):
            self._tell_of_closing()

    @abstractmethod
    async def _run(self) -> None:
        """Work until ``_stopped`` is set, after ``_prepare``."""

    def _begin(self) -> None:
        if self._started:
            raise RuntimeError(f"{quoted(self._label)} was started before: make a new one")
        self._started = True

    def _prepare(self) -> asyncio.Event:
        """Return the event that ``stop`` sets."""
        self._stopped, self._loop = asyncio.Event(), running_loop()
        return self._stopped

    def _end(self, halt: Callable[[], object], timeout: float | None) -> bool:
        """Set the stop, call ``halt`` on the loop, and wait for the thread; tell whether the worker has ended."""
        self._stopping.set()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the worker has ended
                self._loop.call_soon_threadsafe(halt)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
            return not self._thread.is_alive()
        return self._running is None or self._running.done()

    def _halt(self) -> None:
        if self._stopped is not None:
            self._stopped.set()

    def _tell_of_closing(self) -> None:
        _log.warning("%s ends: its client was closed", self._label)


class PeriodicWorker(Running):
    """Does work every so many seconds, on one of the instances with such a worker. Made by ``periodic``.

    Ticks come at fixed times from the start, the first at once; a tick that falls into running work is left out. At a
    tick the instance with the lock works, and the rest skip: an instance that dies costs one tick after the lease. An
    error in the work, or of the storage, is logged, and the next tick still comes. When the hold is lost meanwhile,
    async work is cancelled; sync work asks the hold.

    In a thread of its own: ``with locks.periodic(...)``, or ``start`` and ``stop``. On the running event loop:
    ``async with locks.periodic(...)``, or ``await worker.run()``. Either once.

    Attributes:
        name: name of the lock.
        every: seconds from tick to tick.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[Hold], object],
        *,
        every: float,
        attempt: Work[Hold | LockNotAcquired],
        door: Closing,
    ) -> None:
        super().__init__(f"worker {name}")
        self.name = name
        self.every = every
        self._work = work
        self._attempt = attempt
        self._door = door
        self._tick_task: asyncio.Task[None] | None = None
        self._may_cut_off = False
        self._works = False
        self._skips = False

    @property
    def stopping(self) -> bool:
        """Tell whether ``stop`` was called: long sync work may read this from its thread, and end early."""
        return self._stopping.is_set()

    def stop(self, timeout: float | None = None, *, cancel: bool = False) -> bool:
        """End the wait at once; let running work end, and give the lock back.

        Args:
            timeout: seconds to wait for the end of a worker with a thread of its own; None: without end.
            cancel: cancel running async work, instead of waiting for the end of the work.

        Returns:
            Whether the worker has ended.
        """
        return self._end(partial(self._halt, cancel=cancel), timeout)

    async def _run(self) -> None:
        loop, stopped = running_loop(), self._prepare()
        due = loop.time()
        while not self._stopping.is_set():
            self._tick_task = loop.create_task(self._tick(), name=f"tick of {self.name}")
            await to_its_end(self._tick_task)
            if not self._tick_task.cancelled():
                self._report(self._tick_task.exception())
            due += self.every * max(1, math.ceil((loop.time() - due) / self.every))
            if not self._stopping.is_set():
                try:
                    async with asyncio.timeout_at(due):
                        await stopped.wait()
                except TimeoutError:
                    continue

    def _halt(self, *, cancel: bool = False) -> None:
        super()._halt()
        if self._tick_task is not None and (cancel or self._may_cut_off):
            self._tick_task.cancel()

    async def _tick(self) -> None:
        locks = runtime()
        self._may_cut_off, self._works = True, False
        hold = await locks.call_async(self._attempt)
        self._may_cut_off = False
        if isinstance(hold, LockNotAcquired):
            # Each tick of an instance that does not work is the same: the first is told of.
            level = logging.DEBUG if self._skips else logging.INFO
            who, whose = hold.who_has
            _log.log(level, "worker %s skips: %s has the lock%s", self.name, who, whose, extra={"lock": self.name})
            self._skips = True
            return
        self._skips = False
        kept = claims(hold)  # by this frame, which an interrupt ends, and not by a variable that has the hold
        try:
            if not self._stopping.is_set():
                with BodyContext(hold, shown=False):
                    await self._do(hold)
        finally:
            await locks.release_async(hold)
            kept.clear()

    async def _do(self, hold: Hold) -> None:
        hold.raise_if_lost()  # this process may have stood still since it got the lock
        self._works = True
        with Deciding("work"):  # an exit would end a thread, unheard, or the loop
            if self._thread is not None or returns_coroutine(self._work):
                returned = self._work(hold)  # nothing else is on this thread's loop
            else:
                returned = await decided_in_thread("work", partial(self._work, hold))
            with cancelled_when_lost(hold):
                await finish(returned, "work")
        self._works = False
        hold.raise_if_lost()

    def _report(self, error: BaseException | None) -> None:
        if isinstance(error, LockClosed) and (self._door.is_closed or not self._works):  # else of another client
            raise error
        if error is not None:
            _log.error("worker %s failed; it tries again at its next tick", self.name, exc_info=error)

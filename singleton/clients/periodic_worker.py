"""A periodic worker: at each tick it tries the lock, does its work under it, or skips (S-9, S-10)."""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from functools import partial
from typing import TYPE_CHECKING

from singleton.base.errors import LockClosed
from singleton.base.invocation import log as _log
from singleton.base.tasks import to_its_end
from singleton.clients.worker_lifecycle import Running
from singleton.process.cancellation import cancelled_when_lost
from singleton.process.lock_thread import runtime
from singleton.process.reentry import inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.base.hold import Hold
    from singleton.process.calls import Work


class PeriodicWorker(Running):
    """Does its work every so many seconds, on one of all the instances that have such a worker. Made by ``periodic``.

    Its ticks come at fixed times from its start, the first at once; those that fall into the work are left out. At a
    tick the instance that gets the lock works, and the others skip: an instance that dies costs one tick after its
    lease. An error in the work, or of the storage, is logged, and the next tick still comes. When the hold is lost
    meanwhile, async work is cancelled; sync work asks its hold.

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
        attempt: Work[Hold | None],
    ) -> None:
        super().__init__(f"worker {name}")
        self.name = name
        self.every = every
        self._work = work
        self._attempt = attempt
        self._tick_task: asyncio.Task[None] | None = None
        self._may_cut_off = False
        self._skips = False

    @property
    def stopping(self) -> bool:
        """Tell whether a stop was asked for: long sync work may look here, from its thread, and end early."""
        return self._stopping.is_set()

    def stop(self, timeout: float | None = None, *, cancel: bool = False) -> bool:
        """End the wait at once; let the work that is under way end, and the lock be given back.

        Args:
            timeout: seconds to wait for that, where it runs in its own thread; None: for as long as it takes.
            cancel: cancel async work that is under way, instead of letting it end.

        Returns:
            Whether it has ended.
        """
        return self._end(partial(self._halt, cancel=cancel), timeout)

    async def run(self) -> None:
        """Run here, until ``stop``. Cancelling this cancels async work, and gives the lock back.

        Raises:
            LockClosed: the client was closed.
        """
        await super().run()

    async def _run(self) -> None:
        loop, stopped = asyncio.get_running_loop(), self._prepare()
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
        self._may_cut_off = True
        hold = await locks.call_async(self._attempt)
        self._may_cut_off = False
        if hold is None:
            # Each tick of an instance that does not work is the same: the first is told of.
            level = logging.DEBUG if self._skips else logging.INFO
            _log.log(level, "worker %s skips: somebody else has the lock", self.name, extra={"lock": self.name})
            self._skips = True
            return
        self._skips = False
        try:
            if not self._stopping.is_set():
                with inside(hold):
                    await self._do(hold)
        finally:
            await locks.release_async(hold)

    async def _do(self, hold: Hold) -> None:
        hold.raise_if_lost()  # this process may have stood still since it got the lock
        if inspect.iscoroutinefunction(self._work):
            with cancelled_when_lost(hold):
                await self._work(hold)
        elif self._thread is not None:
            self._work(hold)  # nothing else is on this thread's loop
        else:
            await to_its_end(working := asyncio.ensure_future(asyncio.to_thread(self._work, hold)), cancel=False)
            working.result()
        hold.raise_if_lost()

    def _report(self, error: BaseException | None) -> None:
        if isinstance(error, LockClosed):
            raise error
        if error is not None:
            _log.error("worker %s failed; it tries again at its next tick", self.name, exc_info=error)

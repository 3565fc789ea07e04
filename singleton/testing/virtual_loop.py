"""An event loop on virtual time, whose clock jumps to the next timer, and the runtime of locks on this loop.

Only the clock differs from asyncio's own loop. While a function works in a thread (``asyncio.to_thread``), time stands
still, until the function ends or waits for a lock. So a wait of five minutes takes no time, and a millisecond of work
takes a millisecond.
"""

from __future__ import annotations

import asyncio
import contextlib
import selectors
import threading
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

from singleton.runtime.calls import Calls

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.runtime.registry import Registry

_T = TypeVar("_T")
_Args = TypeVarTuple("_Args")

_LONGEST = 24 * 3600.0
"""Virtual seconds after which a test counts as one that never ends."""
_PATIENCE = 60.0
"""Real seconds without a sign from threads at work, after which the threads count as stuck."""
_SIGN = 1.0
"""Real seconds to wait for a sign from other threads when nothing is left to do on this loop."""


class Stuck(Exception):
    """The main coroutine can't end."""


class _JumpingSelector(selectors.DefaultSelector):
    """The clock, and the number of threads that hold it up. It replaces the sleep of asyncio's loop."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.at_work = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(0)
        if events or (timeout is not None and timeout <= 0):
            return events
        if timeout is None or self.at_work:
            return self._sign()
        self.now += timeout
        if self.now > _LONGEST:
            raise Stuck(f"{_LONGEST / 3600:g} h of virtual time have passed, and the test still waits")
        return []

    def _sign(self) -> list[tuple[selectors.SelectorKey, int]]:
        events = super().select(_PATIENCE if self.at_work else _SIGN)
        if not events and self.at_work:
            raise Stuck(f"virtual time stands still while a thread works, and one has for {_PATIENCE:g} s")
        if not events:
            raise Stuck(f"nothing more will happen after {self.now:g} s of virtual time, and the test still waits")
        return events


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose ``time()`` starts at 0 and passes only while everything waits."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        self._thread = threading.get_ident()
        self._threads = threading.local()
        self._jobs: set[asyncio.Future[None]] = set()
        super().__init__(self._clock)

    def time(self) -> float:
        """Return virtual seconds."""
        return self._clock.now

    def run_in_executor(self, executor: Any, func: Callable[[Unpack[_Args]], _T], *args: *_Args) -> asyncio.Future[_T]:  # noqa: ARG002
        """Run ``func`` on a thread of its own, with any executor. Time stands still while it works."""
        answer: asyncio.Future[_T] = self.create_future()
        job: asyncio.Future[None] = self.create_future()
        self._jobs.add(job)
        self._clock.at_work += 1

        def end(settle: Callable[[Any], None], outcome: object) -> None:
            self._clock.at_work -= 1
            self._jobs.discard(job)
            job.set_result(None)
            if not answer.cancelled():
                settle(outcome)

        def work() -> None:
            self._threads.counted = True
            try:
                outcome: object = func(*args)
                settle: Callable[[Any], None] = answer.set_result
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
                settle, outcome = answer.set_exception, error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                self.call_soon_threadsafe(end, settle, outcome)

        threading.Thread(target=work, name="singleton-virtual", daemon=True).start()
        return answer

    def wait_for(self, coro: Coroutine[Any, Any, _T]) -> _T:
        """Run ``coro`` on this loop and wait for it, from a thread; meanwhile the thread is not at work.

        Raises:
            RuntimeError: this is the loop's own thread, which can't wait for itself.
        """
        if threading.get_ident() == self._thread:
            coro.close()
            raise RuntimeError(
                "a sync function that waits for a lock was called on the event loop, which would wait for itself: "
                "under virtual time, call it by `await asyncio.to_thread(function, ...)`"
            )
        counted = getattr(self._threads, "counted", False)
        return asyncio.run_coroutine_threadsafe(self._waited_for(coro) if counted else coro, self).result()

    async def _waited_for(self, coro: Coroutine[Any, Any, _T]) -> _T:
        self._clock.at_work -= 1
        try:
            return await coro
        finally:
            self._clock.at_work += 1

    async def wind_up(self) -> None:
        """Cancel the tasks that are left, and wait until they and the threads have ended."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if ends := [*left, *self._jobs]:
            await asyncio.wait(ends)
        await self.shutdown_asyncgens()


class LoopRuntime(Calls):
    """The registry of this process on a virtual loop, for callers on any thread and loop."""

    _loop: VirtualLoop

    def __init__(self, loop: VirtualLoop, registry: Registry) -> None:
        super().__init__(registry, loop, wait=lambda answer: loop.wait_for(answer.awaited()))
        self._tasks: set[asyncio.Task[Any]] = set()

    def _begun(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Keep the task from garbage collection while it runs, and no longer: it has a reference to the hold (M-37)."""
        task = super()._begun(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

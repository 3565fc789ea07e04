"""An event loop whose clock jumps, for many hosts at once: hours of leases in milliseconds, the same every time.

Nothing here waits and nothing here does I/O. It goes round as asyncio's own loop does: the callbacks that are ready,
then the timers that are due; when there is neither, time moves on to the next timer. A program that waits for
something that can never come is a deadlock, and says so.

**Hosts.** A callback belongs to the host in its context (``HOST``, see ``machine.py``): asyncio copies contexts from
task to task, so everything that a host's first task starts is that host's. The loop asks the machine before it runs a
callback: a paused one keeps it for later, a crashed one for ever (kept, not dropped: a ``finally`` block of a process
that is gone must not run). A machine whose clock drifts reads other times and sets its timers by them. Callbacks
without a host are the network's and the service's, and always run.

**Order.** First come, first served; with ``shuffle``, a random host's next callback, but never one host's own out of
order: asyncio promises that order, the world does not promise the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import heapq
from collections import deque
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from simulator.virtual.time.machine import HOST, Callback

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterator

    from simulator.virtual.time.machine import Machine

_T = TypeVar("_T")
_TURNS_A_COLLECTION = 1_000_000

_FEW_TASKS = 64
_MOST_TURNS = 5_000_000
"""Callbacks at one instant, after which time is taken to stand still."""


_Timer: TypeAlias = "tuple[float, int, Callback]"
"""When it is due, its number, and what runs."""


class Deadlock(Exception):
    """The main coroutine waits, and nothing is left to happen; or callbacks go on for ever while time stands still."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """An asyncio loop on virtual time, in seconds from ``start``."""

    def __init__(self, start: float = 0.0, *, shuffle: random.Random | None = None) -> None:
        self.now = start
        self.errors: list[dict[str, Any]] = []
        self.turns = 0
        self._ready: deque[Callback] = deque()
        self._timers: list[_Timer] = []
        self._far: dict[int, list[_Timer]] = {}
        self._seconds: list[int] = []
        self._near_until = 0.0
        self._order = 0
        self._tasks: dict[asyncio.Task[Any], Machine | None] = {}
        self._many = _FEW_TASKS
        self._shuffle = shuffle
        self._nobody = contextvars.Context()
        self._turns_before = 0
        self._collect_at = _TURNS_A_COLLECTION

    # --- time ---------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the time as the current host's clock shows it; the true time outside hosts."""
        machine = HOST.get()
        return self.now if machine is None else machine.reads(self.now)

    # --- callbacks ----------------------------------------------------------------------------------------------------

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        """Run the callback after those that are ready."""
        handle = Callback(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        """Run the callback at ``when`` by the current host's clock; those for one time in the order of the calls."""
        timer = Callback(callback, args, self, context, when)
        machine = timer.machine
        due = when if machine is None else machine.when(when, self.now)
        self._order += 1
        if due < self._near_until:
            heapq.heappush(self._timers, (due, self._order, timer))
        else:
            self._put_off((due, self._order, timer))
        return timer

    def _put_off(self, timer: _Timer) -> None:
        """Keep a timer unsorted with those of its second: most are cancelled before that comes."""
        second = int(timer[0])
        if second in self._far:
            self._far[second].append(timer)
        else:
            self._far[second] = [timer]
            heapq.heappush(self._seconds, second)

    def _next_second(self) -> None:
        """Sort the timers of the next second that has some."""
        second = heapq.heappop(self._seconds)
        self._near_until = second + 1.0
        self._timers.extend(timer for timer in self._far.pop(second) if not timer[2]._cancelled)  # noqa: SLF001
        heapq.heapify(self._timers)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Callback:
        """Run the callback ``delay`` seconds from now."""
        machine = HOST.get() if context is None else context.get(HOST)
        start = self.now if machine is None else machine.reads(self.now)
        return self.call_at(start + delay, callback, *args, context=context)

    def later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        """Run the callback outside all hosts, ``delay`` seconds of true time from now."""
        self._nobody.run(self.call_at, self.now + delay, callback, *args)

    def requeue(self, handles: list[Callback]) -> None:
        """Make callbacks ready that a paused machine kept, in their order."""
        self._ready.extend(handles)

    # --- futures and tasks --------------------------------------------------------------------------------------------

    def create_future(self) -> asyncio.Future[Any]:
        """Make a future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        """Make a task of this loop, and keep it from being collected."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = HOST.get() if context is None else context.get(HOST)
        if len(self._tasks) > self._many:
            self._forget_the_done()
        return task

    def _forget_the_done(self) -> None:
        """Let go of tasks that have ended, now and then: a callback from each would be one turn in ten."""
        self._tasks = {task: host for task, host in self._tasks.items() if not task.done()}
        self._many = max(_FEW_TASKS, 2 * len(self._tasks))

    def leftover_tasks(self) -> dict[asyncio.Task[Any], Machine | None]:
        """Return the tasks that have not ended, each with its host, in the order in which they began."""
        self._forget_the_done()
        return dict(self._tasks)

    # --- running ------------------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Coroutine[Any, Any, _T]) -> _T:  # type: ignore[override]
        """Run ``future`` to its end; raise ``Deadlock`` if it can't get there."""
        asyncio._set_running_loop(self)  # noqa: SLF001 - as every loop does
        self._turns_before = self.turns
        try:
            with _young_garbage_only():
                main: asyncio.Task[_T] = self.create_task(future)
                while not main.done():
                    self._advance()
                    for _ in range(len(self._ready)):
                        self._turn()
                    if self.turns >= self._collect_at:
                        self._collect_at = self.turns + _TURNS_A_COLLECTION
                        gc.collect(0)
            return main.result()
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001

    def drain(self) -> None:
        """Run what is ready, without letting time move on."""
        asyncio._set_running_loop(self)  # noqa: SLF001
        try:
            while self._ready:
                self._turn()
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001

    def _turn(self) -> None:
        """Run one ready callback, unless its machine keeps it."""
        ready = self._ready
        alone = self._shuffle is None or len(ready) == 1
        handle = ready.popleft() if alone else self._any_hosts_next()
        if handle._cancelled:  # noqa: SLF001 - as every loop does
            return
        machine = handle.machine
        if machine is not None and not machine.may_run(handle):
            return
        self.turns += 1
        handle._run()  # noqa: SLF001
        del handle  # this frame may live on in a traceback, and would keep the task of its exception alive

    def _any_hosts_next(self) -> Callback:
        """Take the first callback of a random one of the hosts that have some ready."""
        ready = self._ready
        firsts: dict[Machine | None, int] = {}
        for index, handle in enumerate(ready):
            firsts.setdefault(handle.machine, index)
        assert self._shuffle is not None
        index = self._shuffle.choice(list(firsts.values()))
        handle = ready[index]
        del ready[index]
        return handle

    def _advance(self) -> None:
        """Make ready what is due; if nothing is ready at all, move time on to the next timer."""
        timers = self._timers
        while self._seconds and self._seconds[0] <= self.now:
            self._next_second()
        while timers and timers[0][2]._cancelled:  # noqa: SLF001
            heapq.heappop(timers)
        if not self._ready:
            while not timers and self._seconds:
                self._next_second()
            if not timers:
                raise Deadlock(f"nothing left to happen at {self.now:.3f} s; waiting: {[*self.leftover_tasks()]}")
            if timers[0][0] > self.now:
                self.now = timers[0][0]
                self._turns_before = self.turns
        if self.turns - self._turns_before > _MOST_TURNS:
            raise Deadlock(f"time stands still at {self.now:.3f} s; busy: {[*self.leftover_tasks()]}")
        while timers and timers[0][0] <= self.now:
            timer = heapq.heappop(timers)[2]
            if not timer._cancelled:  # noqa: SLF001
                self._ready.append(timer)

    # --- what asyncio asks of a loop ----------------------------------------------------------------------------------

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Told by asyncio; cancelled timers are dropped when they come up."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio reports, for the one who judges the run."""
        self.errors.append(context)

    get_debug = staticmethod(bool)
    """False: asyncio's debug mode reads the real clock. It is asked for each future, so it is no function of ours."""

    def is_running(self) -> bool:
        """Tell whether this loop runs."""
        return asyncio._get_running_loop() is self  # noqa: SLF001

    def is_closed(self) -> bool:
        """Return False: there is nothing to close."""
        return False


@contextlib.contextmanager
def _young_garbage_only() -> Iterator[None]:
    """Keep Python from looking for garbage among all objects: its cost would grow with the number of hosts."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()

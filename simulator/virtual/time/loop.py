"""An event loop whose clock jumps, for many hosts at once: hours of leases in milliseconds, the same every time.

Nothing here waits and nothing here does I/O. It works as asyncio's own loop does: first the callbacks that are ready,
then the timers that are due. If there is neither, time moves on to the next timer. A program that waits for something
that can never come raises ``Deadlock``.

**Hosts.** A callback belongs to the host in its context (``HOST``, see ``machine.py``): asyncio copies contexts from
task to task, so everything that a host's first task starts is that host's. The loop asks the machine before it runs a
callback: a paused machine keeps it for later, a crashed one for ever. It is kept, not dropped: a ``finally`` block of a
dead process must not run. A machine whose clock drifts reads other times and sets its timers by them. Callbacks without
a host are the network's and the service's, and always run.

**Timers.** The timers of this eighth of a second are in one sorted list, the next one last: most new timers are due
soon, so they go in near the end. Later timers are unsorted, those of each eighth on a shelf of their own. Most are
cancelled there, and are gone at once. Wider shelves make long lists: with ten thousand hosts they take longer.

**Order.** The first callback runs first. With ``shuffle`` a random host's next callback runs, but the callbacks of one
host stay in order: asyncio promises that order, and the world does not promise an order among hosts.

**Watchdog.** An endless loop never lets virtual time move on: only the real processor's time shows it.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import heapq
import math
import signal
import sys
import threading
import warnings
from asyncio import format_helpers
from bisect import insort
from collections import deque
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from simulator.virtual.time.machine import HOST, Callback, Timer

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterator
    from types import FrameType

    from simulator.virtual.time.machine import Machine

    Hosts: TypeAlias = "dict[asyncio.Task[Any], Machine | None]"
    """Tasks with their hosts; None: a task without a host."""

_FEW: Final = 16
"""Tasks among which no ended ones are looked for."""
_T = TypeVar("_T")
_SHELVES_A_SECOND = 8
"""A power of two: the shelf of a time is exact."""
_TURNS_A_LOOK = 1_000_000
"""Callbacks between two checks of garbage, and of whether time moves."""
_MOST_TURNS = 2_000_000
"""Callbacks at one instant after which time counts as standing still."""

_Due: TypeAlias = "tuple[float, int, Timer]"
"""When a timer is due, its number, and itself; both numbers negative, as the next timer is the last of its list."""


class Deadlock(Exception):
    """The main coroutine waits and nothing is left to do, or callbacks go on for ever while time stands still."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """An asyncio loop on virtual time, in seconds from ``start``."""

    def __init__(self, start: float = 0.0, *, shuffle: random.Random | None = None) -> None:
        self.now = start
        self.errors: list[dict[str, Any]] = []
        self.turns = 0
        self._ready: deque[Callback] = deque()
        self._near: list[_Due] = []
        self._near_until = (math.floor(start * _SHELVES_A_SECOND) + 1) / _SHELVES_A_SECOND
        self._far: dict[int, dict[Timer, _Due]] = {}
        self._shelves: list[int] = []
        self._order = 0
        self._tasks: Hosts = {}
        self._most_tasks = _FEW
        self._shuffle = shuffle
        self.nobody = contextvars.Context()  # one for all: code outside hosts may set no variable
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]
        self._now_before, self._turns_before = start, 0
        self._look_up_at = _TURNS_A_LOOK

    # --- time ---------------------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the time as the current host's clock shows it; the true time outside hosts."""
        machine = HOST.get()
        return self.now if machine is None else machine.offset + self.now * machine.rate

    # --- callbacks ----------------------------------------------------------------------------------------------------

    def call_soon(self, *call: Any, context: contextvars.Context | None = None) -> Callback:  # type: ignore[override]
        """Run the callback with its arguments after those that are ready."""
        if context is None:
            context = copy_context()
        handle = Callback()
        handle.call, handle.context, handle.machine = call, context, context.get(HOST)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_at(  # type: ignore[override]
        self, when: float, *call: Any, context: contextvars.Context | None = None
    ) -> Timer:
        """Run the callback at ``when`` by the current host's clock; those for one time in the order of the calls."""
        if context is None:
            context = copy_context()
        machine = context.get(HOST)
        due = when if machine is None else machine.when(when, self.now)
        return self.set_timer(due, call, context, machine)

    def call_later(  # type: ignore[override]
        self, delay: float, *call: Any, context: contextvars.Context | None = None
    ) -> Timer:
        """Run the callback ``delay`` seconds from now."""
        if context is None:
            context = copy_context()
        machine, now = context.get(HOST), self.now
        due = now + delay if machine is None else machine.when(machine.reads(now) + delay, now)
        return self.set_timer(due, call, context, machine)

    def later(self, delay: float, callback: Callable[..., object], *args: object) -> None:
        """Run the callback outside all hosts, ``delay`` seconds of true time from now."""
        self.set_timer(self.now + delay, (callback, *args), self.nobody, None)

    def at(self, when: float, callback: Callable[..., object], *args: object) -> None:
        """Run the callback outside all hosts, at ``when`` of true time."""
        self.set_timer(when, (callback, *args), self.nobody, None)

    def set_timer(
        self, due: float, call: tuple[Any, ...], context: contextvars.Context, machine: Machine | None
    ) -> Timer:
        """Run the callback at ``due`` of true time: a timer in order if that is near, else on its shelf."""
        self._order = order = self._order - 1
        timer = Timer()
        timer.call, timer.context, timer.machine = call, context, machine
        if due < self._near_until:
            timer.shelf = None
            insort(self._near, (-due, order, timer))
            return timer
        shelf = self._far.get(number := int(due * _SHELVES_A_SECOND))
        if shelf is None:
            shelf = self._far[number] = {}
            heapq.heappush(self._shelves, number)
        shelf[timer] = (-due, order, timer)
        timer.shelf = shelf
        return timer

    def _next_shelf(self) -> None:
        """Sort the timers of the next shelf; raise ``Deadlock`` if there is none."""
        if not self._shelves:
            raise Deadlock(f"nothing left to happen at {self.now:.3f} s; waiting: {[*self.leftover_tasks()]}")
        number = heapq.heappop(self._shelves)
        self._near_until = (number + 1) / _SHELVES_A_SECOND
        shelf = self._far.pop(number)
        self._near.extend(shelf.values())
        self._near.sort()
        shelf.clear()  # the timers refer to their shelf

    def requeue(self, handles: list[Callback]) -> None:
        """Make callbacks ready that a paused machine kept, in their order."""
        self._ready.extend(handles)

    # --- futures and tasks --------------------------------------------------------------------------------------------

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None, **_: Any
    ) -> asyncio.Task[Any]:
        """Make a task of this loop, and keep it from garbage collection."""
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks[task] = HOST.get() if context is None else context.get(HOST)
        if len(self._tasks) > self._most_tasks:
            self.leftover_tasks()
        return task

    def leftover_tasks(self) -> Hosts:
        """Return the tasks that have not ended, each with its host, in the order of their beginnings; drop the rest.

        A callback from each task that ends would take a tenth of the time.
        """
        self._tasks = {task: host for task, host in self._tasks.items() if not task.done()}
        self._most_tasks = max(_FEW, 2 * len(self._tasks))
        return dict(self._tasks)

    def timers(self, machine: Machine) -> list[Timer]:
        """Return the timers of a machine that are set."""
        far = (timer for shelf in self._far.values() for timer in shelf)
        return [timer for timer in (*(due[2] for due in self._near), *far) if timer.call and timer.machine is machine]

    def close_tasks(self) -> None:
        """Close the tasks that have not ended though they were cancelled, before they are collected as others run.

        A closed coroutine may make a last request in a ``finally``. Nobody can await it, and it is collected here, too.
        """
        left = [*reversed(self.leftover_tasks())]
        if not left:
            return
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            while left:
                _close(left.pop())
            gc.collect()

    # --- running ------------------------------------------------------------------------------------------------------

    def run_until_complete(self, future: Coroutine[Any, Any, _T]) -> _T:  # type: ignore[override]
        """Run ``future`` to its end; raise ``Deadlock`` if it can't get there."""
        asyncio._set_running_loop(self)  # noqa: SLF001 - as every loop does
        self._now_before, self._turns_before = self.now, self.turns
        try:
            with _young_garbage_only():
                main: asyncio.Task[_T] = self.create_task(future)
                self._run_until(main.done)
            return main.result()
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001

    def drain(self) -> None:
        """Run what is ready, without letting time move on."""
        asyncio._set_running_loop(self)  # noqa: SLF001
        try:
            self._run_until(lambda: not self._ready)
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001

    def _run_until(self, done: Callable[[], bool]) -> None:
        """Run a round: due timers, then ready callbacks, without the callbacks kept by stopped machines.

        Most rounds have one timer and nothing else: it is run without becoming ready first.
        """
        ready, timers, first = self._ready, self._near, self._ready.popleft
        if self._shuffle is not None:
            first = self._any_hosts_next
        left = 0  # of this round
        while True:
            if left:
                left -= 1
                handle = first()
            elif done():
                return
            elif self.turns >= self._look_up_at:
                self._look_up()
                continue
            elif ready:
                if (timers and timers[-1][0] >= -self.now) or self.now >= self._near_until:
                    self._make_ready()
                left = len(ready) - 1
                handle = first()
            elif timers:
                minus_due, _, handle = timers.pop()
                if not handle.call:
                    continue
                if minus_due < -self.now:
                    self.now = -minus_due
                if (timers and timers[-1][0] >= -self.now) or self.now >= self._near_until:
                    ready.append(handle)
                    self._make_ready()
                    left = len(ready) - 1
                    handle = first()
            else:
                self._next_shelf()
                continue
            call, machine = handle.call, handle.machine
            try:
                if call and (machine is None or machine.steady or machine.may_run(handle)):
                    self.turns += 1
                    handle.context.run(*call)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as every loop does
                self._report(error, handle)
            finally:  # this frame may live on in a traceback, and would keep the task of its exception alive
                del handle, call

    def _make_ready(self) -> None:
        """Make ready, after what is, the timers that are due now."""
        timers, minus_now = self._near, -self.now
        while self._shelves and self._shelves[0] <= self.now * _SHELVES_A_SECOND:
            self._next_shelf()
        while timers and timers[-1][0] >= minus_now:
            timer = timers.pop()[2]
            if timer.call:
                self._ready.append(timer)

    def _look_up(self) -> None:
        """Now and then: collect young garbage, and see whether time still moves."""
        self._look_up_at = self.turns + _TURNS_A_LOOK
        gc.collect(0)
        if self.now > self._now_before:
            self._now_before, self._turns_before = self.now, self.turns
        elif self.turns - self._turns_before > _MOST_TURNS:
            raise Deadlock(f"time stands still at {self.now:.3f} s; busy: {[*self.leftover_tasks()]}")

    def _report(self, error: BaseException, handle: Callback) -> None:
        """Keep what a callback raised, in asyncio's words."""
        function, *args = handle.call or (None,)  # it may have cancelled itself
        called = format_helpers._format_callback_source(function, args)  # noqa: SLF001
        self.call_exception_handler({"message": f"Exception in callback {called}", "exception": error})

    def _any_hosts_next(self) -> Callback:
        """Take the first callback of a random one of the hosts that have some ready."""
        ready = self._ready
        if len(ready) == 1:
            return ready.popleft()
        firsts: dict[Machine | None, int] = {}
        for index, handle in enumerate(ready):
            firsts.setdefault(handle.machine, index)
        assert self._shuffle is not None
        index = self._shuffle.choice(list(firsts.values()))
        handle = ready[index]
        del ready[index]
        return handle

    # --- what asyncio asks of a loop ----------------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what asyncio reports, for the judge of the run."""
        self.errors.append(context)

    get_debug = staticmethod(bool)
    """False: asyncio's debug mode reads the real clock. It is asked for each future, so it is no function of ours."""

    def is_running(self) -> bool:
        """Tell whether this loop runs."""
        return asyncio._get_running_loop() is self  # noqa: SLF001

    def is_closed(self) -> bool:
        """Return False: there is nothing to close."""
        return False


def _close(task: asyncio.Task[Any]) -> None:
    with suppress(Exception):  # the coroutine ignores its closing, too, or minds the foreign context
        if (coro := task.get_coro()) is not None:  # of a task that has ended, from Python 3.12 on
            coro.close()


@contextmanager
def _young_garbage_only() -> Iterator[None]:
    """Keep Python from searching all objects for garbage: the cost would grow with the number of hosts."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


LIMIT: Final = 10.0
"""Seconds of a processor for one world; normally it takes hundredths of a second."""
_AGAIN: Final = 0.1
"""Seconds until the next try: a ``finally`` that waits for something delays the first."""


class Stuck(KeyboardInterrupt):
    """A world took too long; the message has the place. No ``Exception``: nothing in the world may catch it."""


@contextmanager
def watched(limit: float = LIMIT) -> Iterator[None]:
    """Raise ``Stuck`` in this block when it has used the processor for ``limit`` seconds.

    It works only on the main thread, and on systems with such timers; elsewhere nothing is watched.
    """
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return

    places: list[str] = []

    def stop(_: int, frame: FrameType | None) -> None:
        places.append(_place(frame))
        raise Stuck(f"time stands still after {limit:g} s of computing: {places[0]}")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit, _AGAIN)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)


def _place(frame: FrameType | None) -> str:
    """Name the busy place in the shipped code, if it is there."""
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if "singleton" in path.parts[-3:-1]:
            return f"busy in {frame.f_code.co_name} ({path.name}, line {frame.f_lineno})"
        frame = frame.f_back
    return "busy outside the locks"

"""A simulated machine: may it run now, and what does its clock show?

Three parts run on a machine as on a real worker: the user's event loop, the lock thread, and the thread that logs for
the lock thread. A blocked user loop stops only the first, a log handler that blocks stops the thread that logs; a
stopped process (SIGSTOP, a long GC pause, a frozen VM) stops all. Requests on the wire travel on in any case.

A sync body runs on a real thread that holds a baton: the loop stands still while the body runs, and goes on while the
body waits. So the order of events is the same in every run.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, TypeVar, get_args

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


Part = Literal["user", "locks", "log"]

HOST: contextvars.ContextVar[Machine | None] = contextvars.ContextVar("simulated_host", default=None)
"""The machine of the running code; None for the network, the service, and observers."""
PART: contextvars.ContextVar[Part] = contextvars.ContextVar("simulated_part", default="user")

EPOCH: Final = 1_800_000_000.0
"""The wall-clock time at which virtual worlds begin; a multiple of every pace of a timer."""

_NOWHERE: Final = contextvars.Context()
"""The context of what was cancelled."""


def here() -> Machine:
    """Return the machine of the running code; there must be one."""
    machine = HOST.get()
    assert machine is not None, "a lock was used outside every simulated host"
    return machine


class Callback:
    """A callback of a virtual loop: an ``asyncio.Handle``, with its machine.

    The loop fills the fields: a call of an ``__init__`` would cost as much as everything else.
    """

    __slots__ = ("call", "context", "machine")

    call: tuple[Any, ...]
    """The function to call, and its arguments; empty: cancelled. A tuple, for ``Context.run``."""
    context: contextvars.Context
    machine: Machine | None

    def cancel(self) -> None:
        """Never run; drop at once all that would have run, and where."""
        self.call, self.context = (), _NOWHERE

    def cancelled(self) -> bool:
        """Tell whether it was cancelled."""
        return not self.call


class Timer(Callback):
    """A callback for later: an ``asyncio.TimerHandle``."""

    __slots__ = ("shelf",)

    shelf: dict[Timer, tuple[float, int, Timer]] | None
    """Where the loop keeps a timer until the time is near, with a place in the order. Most are cancelled before."""

    def cancel(self) -> None:
        """As for each callback; and the loop drops it."""
        self.call, self.context = (), _NOWHERE
        if self.shelf is not None:
            self.shelf.pop(self, None)
            self.shelf = None


class _Loop(Protocol):
    """What a machine asks of the virtual loop that it runs on."""

    now: float

    def call_at(self, when: float, callback: Callable[..., object], /) -> Timer: ...

    def requeue(self, handles: list[Callback], /) -> None: ...


class Machine:
    """One host.

    Its clock shows ``offset`` at the beginning (the clocks of two machines have nothing in common), and runs at
    ``rate``: 1.05 gains five seconds in a hundred.
    """

    def __init__(self, index: int, loop: _Loop, *, rate: float = 1.0, offset: float = 0.0) -> None:
        self.index = index
        self.name = f"host-{index}"
        self.rate = rate
        self.offset = offset
        self.ahead = 0.0
        """Seconds by which its wall clock is wrong."""
        self.crashed = False
        self.leaving = False
        """It was told to stop, or is gone."""
        self.tell: Callable[..., None] = lambda _, **__: None
        """Told ``pause`` when anything of it stands still, and ``resume`` when all of it goes on."""
        self.calls: list[asyncio.Task[Any]] = []
        """The calls of users that are under way, each in a task of its own."""
        self.clients: dict[str, Callable[[], object]] = {}
        """How to close the lock client of a call, by the name of the call."""
        self._before_step: Callable[[], object] | None = None
        self.steady = True
        """Nothing stops the machine's callbacks, now or at a step: the loop need not ask before a callback."""
        self._steps = 0
        self.stopped_at = self.resumed_at = float("-inf")
        """True times of the begin and the end of the last pause."""
        self._loop = loop
        self._stopped_until: dict[Part, float] = {}
        self._kept: list[Callback] = []
        self._stops_armed = False
        self._at_step: list[tuple[int, int, Callable[[], object]]] = []

    def __repr__(self) -> str:
        return f"<{self.name}>"

    # --- for the loop -------------------------------------------------------------------------------------------------

    def reads(self, now: float) -> float:
        """Return what this machine's clock shows at the true time ``now``."""
        return self.offset + now * self.rate

    def wall(self) -> float:
        """Return what its wall clock shows, in seconds since 1970; right clocks agree at the beginning."""
        return EPOCH + self.ahead - self.offset + self.reads(self._loop.now)

    def when(self, shown: float, now: float) -> float:
        """Return the true time at which this machine's clock shows ``shown``; not before ``now``."""
        offset, rate = self.offset, self.rate
        due = (shown - offset) / rate
        while offset + due * rate < shown:  # rounding: a timer that fires must find that its time has come
            due += max(math.ulp(shown), math.ulp(due))
        return due if due > now else now  # noqa: FURB136 - each timer asks, and ``max`` takes longer

    def may_run(self, handle: Callback) -> bool:
        """Tell whether a callback of this machine may run now; else keep the callback. Not asked while ``steady``."""
        if not self.crashed:
            self._steps += 1
            if self._at_step and self._steps >= self._at_step[0][0]:
                self._at_step.pop(0)[2]()
                self._look_whether_steady()
            if self._before_step is not None and self.calls and _is_step(handle) and self._goes_on_with(handle):
                self._before_step()
            if self._goes_on_with(handle):
                return True
        self._kept.append(handle)
        return False

    def _goes_on_with(self, handle: Callback) -> bool:
        stopped = self._stopped_until
        return not self.crashed and not (stopped and handle.context.get(PART, "user") in stopped)

    # --- for faults ---------------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Tell whether the user's part can't run: its process is stopped or gone, or its loop is blocked."""
        return self.crashed or "user" in self._stopped_until

    @property
    def tells(self) -> bool:
        """Tell whether its lock thread runs, which tells bodies of a loss; who asks by himself hears of it anyway."""
        return not self.crashed and "locks" not in self._stopped_until

    def stopped_since(self, seconds: float) -> bool:
        """Tell whether it stood still at any time in the last ``seconds``."""
        return self.crashed or not self._goes_on or self._loop.now - self.resumed_at <= seconds

    @property
    def _goes_on(self) -> bool:
        """Tell whether all of it runs that locks and users need."""
        return not self._stopped_until.keys() - {"log"}

    def stop(self, seconds: float) -> None:
        """Stop the whole process, as SIGSTOP does; it goes on after ``seconds`` of true time."""
        for part in get_args(Part):
            self.block(part, seconds)

    def at_step(self, steps_from_now: int, act: Callable[[], object]) -> None:
        """Do this between two of its callbacks, so many from now: where no timer can be set for it."""
        number = len(self._at_step)
        self._at_step = sorted([*self._at_step, (self._steps + steps_from_now, number, act)], key=lambda each: each[:2])
        self.steady = False

    def watch_steps(self, before: Callable[[], object]) -> None:
        """Call this before each step of a task, if a call is under way; it may cancel, stop or crash."""
        self._before_step, self.steady = before, False

    def stop_at_step(self, steps_from_now: int, seconds: float) -> None:
        """Stop the process between two of its callbacks: the pause that no timer can be set for."""
        self._stops_armed = True
        self.at_step(steps_from_now, lambda: self.stop(seconds) if self._stops_armed else None)

    def disarm(self) -> None:
        """Drop the stops whose step has not come."""
        self._stops_armed = False

    def crash(self) -> None:
        """End the process, as SIGKILL does: nothing of it runs again, its ``finally`` blocks neither."""
        self.crashed, self.steady = True, False

    def revive(self) -> None:
        """Run everything that was kept: only to clean up after the world has ended."""
        self.crashed = False
        self._stopped_until.clear()
        self._at_step.clear()
        self._before_step = None
        self.steady = True
        kept, self._kept = self._kept, []
        self._loop.requeue(kept)

    def block(self, part: Part, seconds: float) -> None:
        """Keep one part busy, from the end of its callback that runs now."""
        if part != "log" and self._goes_on and not self.crashed:
            self.stopped_at = self._loop.now
            self.tell("pause")
        until = self._loop.now + seconds
        self._stopped_until[part] = max(until, self._stopped_until.get(part, until))
        self.steady = False
        contextvars.Context().run(self._loop.call_at, until, self._go_on)

    def _go_on(self) -> None:
        over = [part for part, until in self._stopped_until.items() if until <= self._loop.now]
        stood = not self._goes_on
        for part in over:
            del self._stopped_until[part]
        self._look_whether_steady()
        if over and not self.crashed:
            if stood and set(over) != {"log"}:
                self.resumed_at = self._loop.now
                if self._goes_on:
                    self.tell("resume")
            kept, self._kept = self._kept, []
            self._loop.requeue(kept)

    def _look_whether_steady(self) -> None:
        self.steady = not (self.crashed or self._stopped_until or self._at_step or self._before_step)

    def context(self, part: Part = "user") -> contextvars.Context:
        """Return a context in which all code belongs to this machine."""
        context = contextvars.copy_context()
        context.run(HOST.set, self)
        context.run(PART.set, part)
        return context


def _is_step(handle: Callback) -> bool:
    """Tell whether a callback begins a task, or goes on with a task."""
    return isinstance(getattr(handle.call[0], "__self__", None), asyncio.Task)


_T = TypeVar("_T")


class Baton:
    """Runs sync functions on real threads, one at a time, in step with a virtual loop.

    A thread is kept for the next function: to start one takes longer than most functions run.
    """

    _held = threading.local()
    _idle: ClassVar[list[Baton]] = []

    def __init__(self) -> None:
        self._go = _taken_lock()
        self._back = _taken_lock()
        self._function: Callable[[], Any] | None = None
        self._wish: Coroutine[Any, Any, Any] | None = None
        self._answer: tuple[Any, BaseException | None] = (None, None)
        threading.Thread(target=self._serve, name="singleton-baton", daemon=True).start()

    @classmethod
    async def run(cls, function: Callable[[], _T]) -> _T:
        """Run ``function`` as if on a worker's thread; while it waits under ``Baton.wait`` the loop goes on."""
        baton = cls._idle.pop() if cls._idle else cls()
        value, error = await baton.carry(partial(contextvars.copy_context().run, function))
        cls._idle.append(baton)
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    @classmethod
    def wait(cls, wish: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine on the loop and wait for it, from a sync function that runs under a baton."""
        baton: Baton = cls._held.baton
        value, error = baton.hand_over(wish)
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    @classmethod
    def held(cls) -> bool:
        """Tell whether this thread runs under a baton."""
        return hasattr(cls._held, "baton")

    async def carry(self, function: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """Run a function on the thread, and what it waits for on the loop; return the result."""
        self._function = function
        while True:
            self._go.release()
            self._back.acquire()  # the loop stands still until the thread waits or ends
            if self._function is None:
                outcome, self._answer = self._answer, (None, None)
                return outcome
            self._answer = await self._granted()

    def hand_over(self, wish: Coroutine[Any, Any, Any]) -> tuple[Any, BaseException | None]:
        """On the thread: give the baton back until the wish is granted."""
        self._wish = wish
        self._back.release()
        self._go.acquire()
        return self._answer

    def _serve(self) -> None:
        Baton._held.baton = self
        while True:
            self._go.acquire()
            assert self._function is not None
            try:
                self._answer = self._function(), None
            except BaseException as error:  # noqa: BLE001 - it is raised again where it is awaited
                self._answer = None, error
            self._function = None
            self._back.release()

    async def _granted(self) -> tuple[Any, BaseException | None]:
        """Await what the thread waits for. A cancellation does not reach the thread: it can't be killed."""
        assert self._wish is not None
        task = asyncio.create_task(self._wish)
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError:
                continue
        if task.cancelled():
            return None, asyncio.CancelledError()
        return (None, error) if (error := task.exception()) is not None else (task.result(), None)


def _taken_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock

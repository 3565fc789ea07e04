"""The host's own witness: when the user's innermost function begins and ends, for which invocation, and what stays.

The witness asks the lock nothing. Every body is seen: also a body that runs after its lock was released, that runs
twice, or that runs for nobody. Tasks, threads and calls in thread pools that start while an invocation runs belong to
that invocation. A cancellation of a body's task is seen, and whether the loop of the body could cancel at all.
"""

from __future__ import annotations

import asyncio
import inspect
import itertools
import math
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, thread
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from simulator.witness.codewatch import watch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from simulator.history.journal import Write


invoked: ContextVar[str] = ContextVar("simulated_invocation", default="")
"""The id of the invocation for which the worker calls a function."""

_EVERY: Final = 0.25
_LATE: Final = 0.5
"""Seconds by which a beat may be late before this is reported."""


class AskedTask(asyncio.Task[Any]):
    """A task that reports when it is asked to end, and for which invocation it runs."""

    def __init__(self, coro: Any, *, asked: Callable[[str], None], context: Context | None = None, **more: Any) -> None:
        self._asked = asked
        self._where = copy_context() if context is None else context
        super().__init__(coro, context=self._where, **more)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel the task, and report it."""
        if not self.done():
            self._asked(self._where.get(invoked, ""))
        return super().cancel(msg)


def can_be_asked() -> bool:
    """Tell whether the current code runs in a task that reports when it is asked to end."""
    try:
        return isinstance(asyncio.current_task(), AskedTask)
    except RuntimeError:  # a thread
        return False


def tell_standstills(loop: asyncio.AbstractEventLoop, write: Write) -> None:
    """Write ``loop_stood`` when a loop goes on after it did nothing for a while: nobody could be asked to end then."""

    def beat(before: float) -> None:
        now = loop.time()
        if now - before > _EVERY + _LATE:
            write("loop_stood", seconds=round(now - before, 3))
        loop.call_later(_EVERY, beat, now)

    loop.call_soon(lambda: beat(loop.time()))


inside: ContextVar[str] = ContextVar("simulated_body", default="")
"""The id of the invocation in whose body this code runs; the empty text outside all bodies."""

_OF_A_POOL: Final = getattr(thread, "_worker", None)


class Leftovers:
    """Follows what each body starts, until it ends. ``asked`` is told when a task that no body started is cancelled."""

    def __init__(self, asked: Callable[[str], None]) -> None:
        self._asked = asked
        self._started: dict[str, dict[object, str]] = defaultdict(dict)
        self._turn = threading.Lock()

    def of(self, invocation: str) -> list[str]:
        """Return in words what this invocation's body started and what still runs."""
        with self._turn:
            return [*self._started.get(invocation, {}).values()]

    def task_factory(self, loop: asyncio.AbstractEventLoop, coro: Any, **more: Any) -> asyncio.Task[Any]:
        """Make a task, as ``loop.set_task_factory`` wants it."""
        invocation = inside.get()
        if not invocation:
            return AskedTask(coro, asked=self._asked, loop=loop, **more)
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, **more)
        self._begin(invocation, task, f"task {getattr(coro, '__qualname__', coro)}")
        task.add_done_callback(lambda ended: self._end(invocation, ended))
        return task

    @contextmanager
    def threads_followed(self) -> Iterator[None]:
        """Follow the threads, and the calls in thread pools, that this process starts meanwhile."""
        start, submit = threading.Thread.start, ThreadPoolExecutor.submit

        def followed_start(started: threading.Thread) -> None:
            if (invocation := inside.get()) and getattr(started, "_target", None) is not _OF_A_POOL:
                started.run = self._followed(invocation, started, started.run)  # type: ignore[method-assign]
                self._begin(invocation, started, f"thread {started.name}")
            start(started)

        def followed_submit(pool: ThreadPoolExecutor, work: Any, /, *args: Any, **kwargs: Any) -> Any:
            if invocation := inside.get():
                key = object()
                self._begin(invocation, key, f"a pool's thread, in {getattr(work, '__qualname__', work)}")
                future = submit(pool, self._followed(invocation, key, work), *args, **kwargs)
                future.add_done_callback(lambda _: self._end(invocation, key))  # if it was cancelled before it ran
                return future
            return submit(pool, work, *args, **kwargs)

        threading.Thread.start = followed_start  # type: ignore[method-assign, assignment]
        ThreadPoolExecutor.submit = followed_submit  # type: ignore[assignment]
        try:
            yield
        finally:
            threading.Thread.start = start  # type: ignore[method-assign]
            ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]

    def _followed(self, invocation: str, thing: object, work: Callable[..., Any]) -> Callable[..., Any]:
        def followed(*args: Any, **kwargs: Any) -> Any:
            before = inside.set(invocation)
            try:
                return work(*args, **kwargs)
            finally:
                inside.reset(before)
                self._end(invocation, thing)

        return followed

    def _begin(self, invocation: str, thing: object, words: str) -> None:
        with self._turn:
            self._started[invocation][thing] = words

    def _end(self, invocation: str, thing: object) -> None:
        with self._turn:
            things = self._started.get(invocation, {})
            things.pop(thing, None)
            if not things:
                self._started.pop(invocation, None)


_SAME: Final = 1.0
"""Seconds within which a second request to end is not reported."""


@dataclass(slots=True)
class _Called:
    """An invocation that runs: its function, the value of its trigger, and the fields of its body's records.

    Attributes:
        gave: what its body returned last.
        asked: when it was last reported that it was asked to end.
    """

    function: str
    value: object
    told: Mapping[str, object]
    gave: object = None
    asked: float = -math.inf
    runs: Iterator[int] = field(default_factory=lambda: itertools.count(1))


class Witness:
    """Writes ``body_entered`` and ``body_left`` for each run of a user's function.

    ``hold`` returns the hold that a body can see, or raises RuntimeError.
    """

    def __init__(self, write: Write, hold: Callable[[], Any] | None = None) -> None:
        self.leftovers = Leftovers(self._asked)
        self._write = write
        self._hold = hold
        self._watched: dict[FunctionType, CodeType] = {}
        self._names: dict[CodeType, list[str]] = {}
        self._called: dict[str, _Called] = {}
        self._runs: dict[object, tuple[str, str, str]] = {}
        self._strays = itertools.count(1)
        self._turn = threading.Lock()

    def watch(self, functions: Mapping[str, Callable[..., Any]]) -> None:
        """Watch the innermost function of each from now on. The keys are the functions' names in the host."""
        for name, function in functions.items():
            innermost = inspect.unwrap(function)
            if isinstance(innermost, FunctionType):
                if innermost not in self._watched:
                    self._watched[innermost] = watch(innermost, self)
                self._names.setdefault(self._watched[innermost], []).append(name)

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Follow what runs on a loop: the tasks that bodies start, requests to end, and times when none is possible."""
        loop.set_task_factory(self.leftovers.task_factory)
        tell_standstills(loop, self._write)

    @contextmanager
    def invocation(self, name: str, function: str, value: object, told: Mapping[str, object]) -> Iterator[None]:
        """Know an invocation and the value of its trigger until it is answered; report what it raises."""
        with self._turn:
            self._called[name] = _Called(function, value, told)
        before = invoked.set(name)
        try:
            yield
        except BaseException as error:
            self._write("call_raised", invocation=name, error=type(error).__name__)
            raise
        finally:
            invoked.reset(before)
            with self._turn:
                self._called.pop(name, None)

    def entered(self, code: CodeType, run: object, arguments: Mapping[str, Any]) -> None:
        """A body begins."""
        invocation = self._whose(arguments)
        names = self._names.get(code, [code.co_name])
        called = self._called.get(invocation)
        function = called.function if called and called.function in names else names[0]
        with self._turn:
            label = f"{invocation}#{next(called.runs if called else self._strays)}"
            self._runs[run] = (label, function, invocation)
        inside.set(invocation)
        told = {**called.told} if called else {}
        if code.co_flags & inspect.CO_COROUTINE and can_be_asked():
            told["can_be_asked"] = True
        self._write("body_entered", run=label, function=function, invocation=invocation, **told, **self._seen())

    def left(self, code: CodeType, run: object, value: object, error: BaseException | None) -> None:
        """A body has ended."""
        with self._turn:
            label, function, invocation = self._runs.pop(run, ("", code.co_name, ""))
            if called := self._called.get(invocation):
                called.gave = value
        inside.set("")
        told: dict[str, object] = {"function": function, "invocation": invocation, **self._seen()}
        if error is not None:
            told["error"] = "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        if still := self.leftovers.of(invocation):
            told["left_running"] = still
        self._write("body_left", run=label, **told)

    def _seen(self) -> dict[str, object]:
        """Return what a body can see here of its hold: the token that fences its writes, and whether it is lost."""
        if self._hold is None:
            return {}
        try:
            hold = self._hold()
        except RuntimeError:
            return {"blind": True}
        try:
            hold.raise_if_lost()
        except Exception:  # noqa: BLE001 - whatever it is, it is how a body hears of a loss
            return {"token": hold.token, "lost": True}
        return {"token": hold.token, "lost": False}

    def returned(self, invocation: str, result: object) -> None:
        """A function has returned the result of its body, or something else.

        A result that is iterated over may become a list.
        """
        called = self._called.get(invocation)
        gave = called.gave if called else None
        if gave is not None and gave is not result and not isinstance(gave, Iterator):
            self._write("result_replaced", invocation=invocation)

    def _asked(self, invocation: str) -> None:
        called, now = self._called.get(invocation), time.monotonic()
        if called and now - called.asked > _SAME:
            called.asked = now
            self._write("asked_to_end", invocation=invocation)

    def _whose(self, arguments: Mapping[str, Any]) -> str:
        """Return the invocation for which a body runs: the one with this value, otherwise the one in its context."""
        with self._turn:
            theirs = [
                name
                for name, called in self._called.items()
                if any(value is called.value for value in arguments.values())
            ]
        return theirs[0] if len(theirs) == 1 else invoked.get()

"""What a body leaves running when it ends: its tasks, its threads, and its calls in thread pools.

All that starts while an invocation runs belongs to that invocation, also tasks of tasks and threads of threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor, thread
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

from simulator.witness.asking import AskedTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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

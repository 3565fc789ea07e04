"""Sync functions in virtual time, on real threads that stop and go on in step with the loop.

A sync body runs on a real thread that holds a baton: the loop stands still while it runs, and goes on while it waits;
so the order of events is one and the same in every run.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

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

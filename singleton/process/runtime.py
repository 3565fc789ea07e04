"""The lock thread: one daemon thread per process with an event loop of its own, on which all locks live.

A user function that blocks its event loop, or uses up the worker's threads, can't starve a renewal there. Its clock
counts suspended time too, so a machine that slept knows that its leases are gone. Sync callers block on a future,
async callers await it; a caller that goes away (cancelled, interrupted) leaves nothing behind: what it would have got
is undone.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import enum
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from singleton.base.errors import LockClosed, SingletonError
from singleton.base.naming import noted
from singleton.locking.section import CLOSED
from singleton.process.lockloop import LockLoop
from singleton.process.reentry import asking
from singleton.process.registry import Registry, holds_in

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.process.logthread import LogThread

_T = TypeVar("_T")

_CLOSING = 12.0
"""Seconds that closing takes at most: bodies of listeners end (5), leases are given back (5)."""
_LAST_CALLS = 1.0
_LAST_LINES = 1.0


class Phase(enum.Enum):
    """The life of a lock thread.

    open ── close ──► closing ── all is given back, or time is up ──► over
      └────────────────┴────── the thread could not be prepared ───────┘
    """

    OPEN = "everybody is served"
    CLOSING = "who comes is refused; what was got is given back"
    OVER = "nothing happens any more"


class Runtime:
    """The lock thread of this process and the registry on it."""

    def __init__(
        self, registry: Registry, *, prepare: Callable[[], None] = lambda: None, log: LogThread | None = None
    ) -> None:
        """Start the thread; it calls ``prepare`` before its loop begins to run. ``log``: where its lines are logged."""
        self.holds: weakref.WeakSet[Hold] = weakref.WeakSet()
        self.phase = Phase.OPEN
        self._failure: SingletonError | None = None
        self._registry = registry
        self._loop = LockLoop()
        self._log = log
        self._prepare = prepare
        self._door = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="singleton-locks", daemon=True)
        self._thread.start()

    # --- for callers on any thread ------------------------------------------------------------------------------------

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """Run ``work`` on the lock thread, and wait for what it returns; holds that nobody takes are released."""
        self._refuse_itself("acquire")
        answer: concurrent.futures.Future[_T] = concurrent.futures.Future()
        try:
            self._ask(work, answer)
            return self._remember(answer.result())
        except BaseException:
            self._abandon(answer)
            raise

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """Run ``work`` on the lock thread, and await what it returns; holds that nobody takes are released."""
        answer: concurrent.futures.Future[_T] = concurrent.futures.Future()
        try:
            self._ask(work, answer)
            return self._remember(await asyncio.wrap_future(answer))
        except BaseException:
            self._abandon(answer)
            raise

    def release(self, hold: Hold) -> None:
        """Release from a thread. A hold of a closed lock thread, or of a parent process, has nothing to release."""
        self._refuse_itself("release")
        if (given_back := self._release(hold, self._registry.release)) is not None:
            with contextlib.suppress(LockClosed):
                given_back.result()

    async def release_async(self, hold: Hold) -> None:
        """Release from a coroutine. The caller's cancellation does not stop it."""
        if (given_back := self._release(hold, self._registry.release)) is not None:
            with contextlib.suppress(LockClosed):
                await asyncio.shield(asyncio.wrap_future(given_back))

    def close(self) -> None:
        """Close locks and stores and end the thread. Who waits gets ``LockClosed``, as does who comes later."""
        closed: concurrent.futures.Future[None] = concurrent.futures.Future()
        if self._move(Phase.OPEN, Phase.CLOSING, then=lambda: self._start(self._registry.aclose(), closed)):
            concurrent.futures.wait({closed}, timeout=_CLOSING)
            if self._move(Phase.CLOSING, Phase.OVER):
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING)

    def forget(self) -> None:
        """Be over, in a forked child: the thread is not there, nor whoever had a lock of this object or of a hold."""
        self._door = threading.Lock()
        self.phase = Phase.OVER
        for hold in {*self.holds, *self._registry.acquired}:
            hold.lost.forget()

    def _ask(self, work: Callable[[Registry], Coroutine[Any, Any, _T]], answer: concurrent.futures.Future[_T]) -> None:
        """Begin the work of a caller. Cancelling the answer cancels it; a result that comes too late is undone."""
        coro = work(self._registry)
        with noted(), asking():
            begun = self._move(Phase.OPEN, Phase.OPEN, then=lambda: self._start(coro, answer, undo=self._give_back))
        if not begun:
            coro.close()
            raise self._refusal()

    def _abandon(self, answer: concurrent.futures.Future[Any]) -> None:
        """Undo the work of a caller who has gone: withdraw it, or release what it brought."""
        if not answer.cancel() and answer.exception() is None:
            for hold in holds_in(answer.result()):
                self._release(hold, self._registry.drop)

    def _release(
        self, hold: Hold, way: Callable[[Hold], Coroutine[Any, Any, None]]
    ) -> concurrent.futures.Future[None] | None:
        """Begin to release; None where there is nothing to do."""
        if hold.lost.reason == "closed":
            return None
        given_back: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._door:
            if self.phase is Phase.OVER:
                return None
            self._start(way(hold), given_back)
        return given_back

    def _move(self, before: Phase, after: Phase, then: Callable[[], None] = lambda: None) -> bool:
        """Go from one phase to another, and do what belongs to it, at once for all threads; tell if it was that one."""
        with self._door:
            if self.phase is not before:
                return False
            self.phase = after
            then()
            return True

    def _refusal(self) -> SingletonError:
        return LockClosed(CLOSED) if self._failure is None else self._failure.another()

    def _refuse_itself(self, what: str) -> None:
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                f"can't {what} on the lock thread, where callbacks of a loss run: it would wait for itself for ever"
            )

    def _remember(self, answer: _T) -> _T:
        self.holds.update(holds_in(answer))
        return answer

    # --- on the lock thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        if self._log is not None:
            self._log.serve()
        try:
            if self._prepared():
                self._loop.run_forever()
            self._loop.run_until_complete(self._drain())
        finally:
            self._loop.close()
            if self._log is not None:
                self._log.close(_LAST_LINES)

    def _prepared(self) -> bool:
        """Prepare the thread; where that fails, nobody may wait for it."""
        try:
            self._prepare()
        except Exception as error:  # noqa: BLE001 - a library's import may raise anything
            self._failure = SingletonError(f"the lock thread could not start: {error!r}")
            self._failure.__cause__ = error
            with self._door:
                self.phase = Phase.OVER
            return False
        return True

    async def _drain(self) -> None:
        """Let the last calls come to their ends; cut off what does not."""
        await asyncio.sleep(0)  # what was asked for at the last moment has begun
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left and self._failure is None:
            _, left = await asyncio.wait(left, timeout=_LAST_CALLS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_LAST_CALLS)

    async def _give_back(self, answer: object) -> None:
        for hold in holds_in(answer):
            await self._registry.drop(hold)

    def _start(
        self,
        coro: Coroutine[Any, Any, _T],
        future: concurrent.futures.Future[_T],
        undo: Callable[[_T], Awaitable[None]] | None = None,
    ) -> None:
        async def run() -> None:
            task = asyncio.create_task(coro)
            future.add_done_callback(lambda done: done.cancelled() and self._loop.call_soon_threadsafe(task.cancel))
            try:
                await asyncio.wait({task})
                if not future.set_running_or_notify_cancel():
                    if undo is not None and not task.cancelled() and task.exception() is None:
                        await undo(task.result())
                elif task.cancelled():
                    future.set_exception(self._refusal())
                elif (error := task.exception()) is not None:
                    future.set_exception(error)
                else:
                    future.set_result(task.result())
            except asyncio.CancelledError:
                if not future.done():
                    future.set_exception(self._refusal())
                raise

        asyncio.run_coroutine_threadsafe(run(), self._loop)


class LockRuntime(Protocol):
    """What a guard needs of the place where its locks live. ``Runtime`` is the real one."""

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call``."""

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call_async``."""

    def release(self, hold: Hold) -> None:
        """See ``Runtime.release``."""

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release_async``."""

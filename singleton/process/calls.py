"""Calls from any thread and any loop to the registry of a process, on the loop of the lock thread.

Sync callers block until there is a result, async callers await the result. A caller that is cancelled or interrupted
leaves nothing behind: a lock that the caller would have got is released.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from singleton.base.errors import LockClosed, SingletonError
from singleton.base.hold import holds_in
from singleton.locking.section import CLOSED
from singleton.process.call_result import CallResult
from singleton.process.reentry import Asking

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from singleton.base.hold import Hold
    from singleton.process.registry import Registry

_T = TypeVar("_T")

Work: TypeAlias = "Callable[[Registry], Coroutine[Any, Any, _T]]"
"""Something to be done on the lock thread. The holds in its result are released if the caller is gone by then."""

CLOSING = 12.0
"""Seconds that closing takes at most: bodies of listeners end (5), leases are given back (5)."""


class Lifetime(enum.Enum):
    """The life of the place where locks live.

    open ── close ──► closing ── all is given back, or time is up ──► over
      └────────────────┴────── the thread could not be prepared ───────┘
    """

    OPEN = "everybody is served"
    CLOSING = "who comes is refused; what was got is given back"
    OVER = "nothing happens any more"


class Calls:
    """The registry of this process, for callers on any thread and any loop.

    Whose loop it is says how a thread waits (``_refuse_itself``, ``_wait``), and how something is done there
    (``_soon``, ``_begun``).
    """

    def __init__(self, registry: Registry, loop: asyncio.AbstractEventLoop) -> None:
        self.phase = Lifetime.OPEN
        self._failure: SingletonError | None = None
        self.registry = registry
        self._loop = loop
        self._door = threading.RLock()

    def call(self, work: Work[_T]) -> _T:
        """Run ``work`` on the lock thread, and wait for what it returns; holds that nobody takes are released."""
        self._refuse_itself("acquire")
        answer: CallResult[_T] = CallResult()
        try:
            self._ask(work, answer)
            return self._remember(self._wait(answer))
        except BaseException:
            self._abandon(answer)
            raise
        finally:
            del answer  # of the error's traceback, which would be kept until a collection

    async def call_async(self, work: Work[_T]) -> _T:
        """Run ``work`` on the lock thread, and await what it returns; holds that nobody takes are released."""
        answer: CallResult[_T] = CallResult()
        try:
            self._ask(work, answer)
            return self._remember(await answer.awaited())
        except BaseException:
            self._abandon(answer)
            raise
        finally:
            del answer

    def release(self, hold: Hold) -> None:
        """Release from a thread. A hold of a closed lock thread, or of a parent process, has nothing to release."""
        self._refuse_itself("release")
        if (given_back := self._release(hold)) is not None:
            with contextlib.suppress(LockClosed):
                self._wait(given_back)

    async def release_async(self, hold: Hold) -> None:
        """Release from a coroutine. The caller's cancellation does not stop it."""
        if (given_back := self._release(hold)) is not None:
            with contextlib.suppress(LockClosed):
                await given_back.awaited()

    def begin_closing(self) -> CallResult[None] | None:
        """Refuse who comes from now on, and give back everything; done then. None: it had begun before."""
        closed: CallResult[None] = CallResult()
        begun = self._move(
            Lifetime.OPEN,
            Lifetime.CLOSING,
            then=lambda: self._soon(lambda: self._begin(self.registry.aclose(), closed)),
        )
        return closed if begun else None

    def end(self) -> bool:
        """Be over once closing has taken its time; False where it was over before."""
        return self._move(Lifetime.CLOSING, Lifetime.OVER)

    def forget(self) -> None:
        """Be over, in a forked child: the thread is not there, nor those that had this object's or a hold's mutex."""
        self._door = threading.RLock()
        self.phase = Lifetime.OVER
        for hold in (*self.registry.acquired,):
            hold.lost.forget()

    def _ask(self, work: Work[_T], answer: CallResult[_T]) -> None:
        """Begin the work of a caller. Cancelling the answer cancels it; a result that comes too late is undone."""
        coro = work(self.registry)
        with self._door, Asking():
            if self.phase is Lifetime.OPEN:
                self._soon(partial(self._begin, coro, answer, undo=self._give_back))
                return
        coro.close()
        raise self._refusal()

    def _abandon(self, answer: CallResult[Any]) -> None:
        """Undo the work of a caller who has gone: withdraw it, or release what it brought."""
        if not answer.cancel() and answer.error() is None:
            for hold in holds_in(answer.result()):
                self._release(hold, dropped=True)

    def _release(self, hold: Hold, *, dropped: bool = False) -> CallResult[None] | None:
        """Begin to release; None where there is nothing to do. ``dropped``: its caller never got it."""
        if hold.lost.reason == "closed":
            return None
        given_back: CallResult[None] = CallResult()

        def begin() -> None:
            if dropped or not self.registry.end(hold, partial(given_back.give, None)):
                self._begin((self.registry.drop if dropped else self.registry.release)(hold), given_back)

        with self._door:
            if self.phase is Lifetime.OVER:
                return None
            self._soon(partial(self._loop.call_soon, begin))  # after what was asked for before, which began as a task
        return given_back

    def _move(self, before: Lifetime, after: Lifetime, then: Callable[[], None] = lambda: None) -> bool:
        """Go from one phase to another, and do what belongs to it, at once for all threads; tell if it was that one."""
        with self._door:
            if self.phase is not before:
                return False
            self.phase = after
            then()
            return True

    def _refusal(self) -> SingletonError:
        return LockClosed(CLOSED) if self._failure is None else self._failure.another()

    def _remember(self, answer: _T) -> _T:
        for hold in holds_in(answer):
            hold.crossing = self
            self.registry.acquired.add(hold)
        return answer

    async def _give_back(self, answer: object) -> None:
        for hold in holds_in(answer):
            await self.registry.drop(hold)

    def _begin(
        self,
        coro: Coroutine[Any, Any, _T],
        answer: CallResult[_T],
        undo: Callable[[_T], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        """Run this on the loop, and answer with what came of it."""
        task = self._begun(coro)
        answer.when_done(lambda: self._cancel(task) if answer.cancelled else None)
        task.add_done_callback(partial(self._ended, answer, undo))

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed, and no task runs any more
            self._soon(task.cancel)

    def _ended(
        self,
        answer: CallResult[_T],
        undo: Callable[[_T], Coroutine[Any, Any, None]] | None,
        task: asyncio.Task[_T],
    ) -> None:
        """Tell the caller what came of its work; undo it if the caller has gone."""
        error = self._refusal() if task.cancelled() else task.exception()
        if not answer.claim():
            if undo is not None and error is None:
                self._begun(undo(task.result()))
        elif error is not None:
            answer.fail(error)
        else:
            answer.give(task.result())

    # --- whose loop it is ---------------------------------------------------------------------------------------------

    def _refuse_itself(self, what: str) -> None:
        """Raise ``RuntimeError`` on the thread that serves all others, where a wait would have no end."""

    def _wait(self, answer: CallResult[_T]) -> _T:
        """Block the calling thread until there is an answer."""
        try:
            return answer.result()
        finally:
            del answer  # of the error's traceback

    def _soon(self, callback: Callable[[], object]) -> None:
        """Call this on the loop."""
        self._loop.call_soon_threadsafe(callback)

    def _begun(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Begin to run this, on the loop."""
        return self._loop.create_task(coro)


class LockRuntime(Protocol):
    """What a guard needs of the place where its locks live. ``Runtime`` is the real one."""

    def call(self, work: Work[_T]) -> _T:
        """See ``Runtime.call``."""

    async def call_async(self, work: Work[_T]) -> _T:
        """See ``Runtime.call_async``."""

    def release(self, hold: Hold) -> None:
        """See ``Runtime.release``."""

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release_async``."""


Locks: TypeAlias = "LockRuntime | SyncLocks"
"""Where a guard's locks live, for coroutines."""


class SyncLocks:
    """The half of ``LockRuntime`` for coroutines; its calls block the thread.

    So a guard is written once, as a coroutine: for a sync body ``at_once`` runs the coroutine without an event loop.
    """

    def __init__(self, locks: LockRuntime) -> None:
        self._locks = locks

    async def call_async(self, work: Work[_T]) -> _T:
        """See ``Runtime.call``."""
        return self._locks.call(work)

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release``."""
        self._locks.release(hold)


def at_once(coro: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that waits for nothing to its end, on this thread, whether or not a loop runs on it."""
    try:
        coro.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{coro!r} waited")

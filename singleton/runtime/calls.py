"""Calls from any thread and any loop to the registry of a process, on the loop of the lock thread.

Sync callers block until there is a result, async callers await the result. A caller that is cancelled or interrupted
leaves nothing behind: a lock that the caller would have got is released.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from singleton.base.errors import LockClosed, SingletonError
from singleton.base.hold import holds_in, single_holds
from singleton.locking.section import CLOSED, Section, claims
from singleton.runtime.call_result import CallResult
from singleton.runtime.reentry import asking_context

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine
    from contextvars import Context

    from singleton.base.hold import Hold
    from singleton.runtime.registry import Registry

_T = TypeVar("_T")

Work: TypeAlias = "Callable[[Registry], Coroutine[Any, Any, _T]]"
"""Work for the lock thread. Holds in its result are released if the caller is gone by then."""

CLOSING = 12.0
"""Seconds of closing, at most: bodies of listeners end (5), leases are released (5), stores are closed (2)."""


class Lifetime(enum.Enum):
    """The life of the lock thread.

    open ── close ──► closing ── leases are released, or time is up ──► over
      └────────────────┴─ the thread could not be prepared, or has died ─┘
    """

    OPEN = "calls are served"
    CLOSING = "new calls are refused; holds are released"
    OVER = "nothing runs"


class Calls:
    """The registry of this process, for callers on any thread and any loop.

    Subclasses say how work is started on the loop (``_soon``, ``_begun``).
    """

    _thread_id: int | None = None
    """The lock thread, where a wait would never end."""

    def __init__(
        self,
        registry: Registry,
        loop: asyncio.AbstractEventLoop,
        wait: Callable[[CallResult[Any]], Any] = CallResult.result,
    ) -> None:
        """``wait``: blocks the calling thread until there is a result, and returns the value or raises the error."""
        self.phase = Lifetime.OPEN
        self.failure: SingletonError | None = None
        self.registry = registry
        self._loop = loop
        self._wait = wait
        self._door = threading.RLock()
        self._waits: set[CallResult[Any]] = set()

    def call(self, work: Work[_T]) -> _T:
        """Run ``work`` on the lock thread, and block until its result; holds without a taker are released."""
        if threading.get_ident() == self._thread_id:
            raise _waits_for_itself("acquire")
        answer: CallResult[_T] = CallResult()
        try:
            self._ask(work, answer, blocks=True)
            result: _T = self._wait(answer)
            return self._remember(result)
        except BaseException:
            self._abandon(answer)
            raise
        finally:
            self._waits.discard(answer)
            del answer  # the error's traceback has this frame: a circle of references otherwise

    async def call_async(self, work: Work[_T]) -> _T:
        """Run ``work`` on the lock thread, and await its result; holds without a taker are released."""
        answer: CallResult[_T] = CallResult()
        try:
            self._ask(work, answer, blocks=False)
            return self._remember(await answer.awaited())
        except BaseException:
            self._abandon(answer)
            raise
        finally:
            self._waits.discard(answer)
            del answer

    def release(self, hold: Hold) -> None:
        """Release on a thread. A hold of a closed lock thread, or of a parent process, needs no release."""
        if threading.get_ident() == self._thread_id:
            raise _waits_for_itself("release")
        if (given_back := self._release(hold)) is not None:
            try:
                with contextlib.suppress(SingletonError):  # of a lock thread that has ended
                    self._wait(given_back)
            finally:
                self._waits.discard(given_back)

    async def release_async(self, hold: Hold) -> None:
        """Release in a coroutine. The caller's cancellation does not stop the release."""
        if (given_back := self._release(hold)) is not None:
            try:
                with contextlib.suppress(SingletonError):
                    await given_back.awaited()
            finally:
                self._waits.discard(given_back)

    def begin_closing(self) -> CallResult[None] | None:
        """Refuse new calls and close the registry; the result is given afterwards. None: closing has begun before."""
        closed: CallResult[None] = CallResult()
        self._waits.add(closed)
        begun = self._move(
            Lifetime.OPEN,
            Lifetime.CLOSING,
            then=lambda: self._soon(lambda: self._begin(self.registry.aclose(), closed)),
        )
        return closed if begun else None

    def end(self) -> bool:
        """Be over, after closing; False: over before."""
        return self._move(Lifetime.CLOSING, Lifetime.OVER)

    def forget(self) -> None:
        """Be over, in a forked child: the lock thread does not exist there, nor a thread with a taken mutex."""
        self._door = threading.RLock()
        self.phase = Lifetime.OVER
        for hold in (*self.registry.acquired,):
            hold.own_lost.forget()
            hold.lost.forget()
            if isinstance(hold, Section):
                hold.record.over = True

    def end_waits(self) -> None:
        """Be over: who still waits for the loop gets the refusal."""
        with self._door:
            self.phase = Lifetime.OVER
        for answer in (*self._waits,):
            if answer.claim():
                answer.fail(self._refusal())

    def _ask(self, work: Work[_T], answer: CallResult[_T], *, blocks: bool) -> None:
        """Start the work of a caller. Cancelling the answer cancels the work; holds of a late result are released."""
        coro, context = work(self.registry), asking_context(blocks=blocks)
        self._waits.add(answer)
        with self._door:
            if self.phase is Lifetime.OPEN:
                self._soon(partial(self._begin, coro, answer, undo=self._give_back), context)
                return
        coro.close()
        raise self._refusal()

    def _abandon(self, answer: CallResult[Any]) -> None:
        """Cancel the work of a caller who has gone, or release the holds of its result."""
        if answer.cancel():
            with contextlib.suppress(RuntimeError):  # the loop is closed, and no task runs
                self._soon(partial(self._loop.call_soon, _cancel, answer))  # after the first step of the work
        elif answer.error() is None:
            for hold in holds_in(answer.result()):
                self._release(hold, dropped=True)

    def _release(self, hold: Hold, *, dropped: bool = False) -> CallResult[None] | None:
        """Start the release; None: nothing to release. ``dropped``: the caller never got the hold."""
        given_back: CallResult[None] = CallResult()
        ended = hold.own_lost.reason == "closed"
        kept = claims(hold)  # by the release, until its end: from now on no interrupt of the caller matters

        async def release() -> None:
            await (self.registry.drop if dropped else self.registry.release)(hold)
            kept.clear()

        def begin() -> None:
            if dropped or not self.registry.end(hold, partial(given_back.give, None)):
                self._begin(release(), given_back)

        with self._door:
            if not (ended or self.phase is Lifetime.OVER or self.failure is not None):
                if not dropped:
                    self._waits.add(given_back)
                try:  # after the first step of the work of earlier calls
                    self._soon(partial(self._loop.call_soon, begin))
                except BaseException:  # the trace of an interrupt has this frame
                    kept.clear()
                    raise
                return given_back
        for part in single_holds(hold):  # no lease is to be released, but a later section may wait for the end
            if isinstance(part, Section):
                part.record.end_soon()
        return None

    def _move(self, before: Lifetime, after: Lifetime, then: Callable[[], None] = lambda: None) -> bool:
        """Go from phase ``before`` to ``after`` and call ``then``, atomically; False: the phase was another."""
        with self._door:
            if self.phase is not before:
                return False
            self.phase = after
            then()
            return True

    def _refusal(self) -> SingletonError:
        return LockClosed(CLOSED) if self.failure is None else self.failure.another()

    def _remember(self, answer: _T) -> _T:
        for hold in holds_in(answer):
            hold.crossing = self
            self.registry.acquired.add(hold)
        if self.failure is not None:
            raise self._refusal()
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
        """Run the coroutine on the loop, and answer with its result."""
        answer.task = self._begun(coro)
        answer.task.add_done_callback(partial(self._ended, answer, undo))

    def _ended(
        self,
        answer: CallResult[_T],
        undo: Callable[[_T], Coroutine[Any, Any, None]] | None,
        task: asyncio.Task[_T],
    ) -> None:
        """Give the caller the result of the work; undo the work if the caller has gone."""
        error = self._refusal() if task.cancelled() else task.exception()
        if not answer.claim():
            if undo is not None and error is None:
                self._begun(undo(task.result()))
        elif error is not None:
            answer.fail(error)
        else:
            answer.give(task.result())

    def _soon(self, callback: Callable[[], object], context: Context | None = None) -> None:
        """Call the callback on the loop, in the context or else in a copy of the caller's."""
        self._loop.call_soon_threadsafe(callback, context=context)

    def _begun(self, coro: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        return self._loop.create_task(coro)


def _waits_for_itself(what: str) -> RuntimeError:
    return RuntimeError(
        f"can't {what} on the lock thread, where callbacks of hold.lost run: it would wait for itself for "
        "ever. Do it on another thread"
    )


def _cancel(answer: CallResult[Any]) -> None:
    if answer.task is not None:
        answer.task.cancel()


Locks: TypeAlias = "Calls | SyncLocks"
"""The lock thread for a guard's coroutine."""


class SyncLocks:
    """The coroutines of ``Calls`` for a thread without an event loop: calls block the thread.

    A guard is written once, as a coroutine: for a sync body ``at_once`` runs the coroutine without an event loop.
    """

    def __init__(self, locks: Calls) -> None:
        self._locks = locks

    async def call_async(self, work: Work[_T]) -> _T:
        """See ``Calls.call``."""
        return self._locks.call(work)

    async def release_async(self, hold: Hold) -> None:
        """See ``Calls.release``."""
        self._locks.release(hold)


def at_once(coro: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine which never suspends to its end, on the calling thread, with or without a running loop."""
    try:
        coro.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError(f"{coro!r} waited")

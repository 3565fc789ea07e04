"""What asyncio lacks: is this task being cancelled, waiting for a task until its end, an error where trio runs."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import math
import threading
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_P = ParamSpec("_P")
_T = TypeVar("_T")


def running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of asyncio on this thread. ``RuntimeError``: there is none, as under trio."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "no event loop of asyncio runs on this thread, and async locks need one. Under trio use a LockClient on a "
            "thread, with trio.to_thread.run_sync (anyio: anyio.to_thread.run_sync); or run the program with asyncio"
        ) from None


def being_cancelled() -> bool:
    """Tell whether the running task is being cancelled. If not, a ``CancelledError`` comes from another task (W-75)."""
    try:
        task = asyncio.current_task()
    except RuntimeError:  # a thread without a loop
        return False
    return task is not None and task.cancelling() > 0


def from_outside(error: BaseException) -> bool:
    """Tell whether the error ends the running coroutine from outside: a cancellation of the task, or a close.

    If not, code that the coroutine called has raised the error.
    """
    if isinstance(error, GeneratorExit):
        try:
            return asyncio.current_task() is None
        except RuntimeError:  # no loop runs
            return True
    return isinstance(error, asyncio.CancelledError) and being_cancelled()


def ends_the_thread(error: BaseException, *, awaited: bool = True) -> bool:
    """Tell whether an error that the app's code raised would end more than the one call: a task, a loop, a thread.

    The Functions worker never answers for such an error (facts §6, H-84): a cancellation without a caller who asked for
    it, an exit, a panic of Rust code (PyO3), and ``StopIteration``, which no future can carry. An interrupt of the main
    thread is no such error; nor is a cancellation from outside or a close, which only reach ``awaited`` code.
    """
    if isinstance(error, KeyboardInterrupt):
        return threading.current_thread() is not threading.main_thread()
    if isinstance(error, Exception):
        return isinstance(error, StopIteration)
    return not (awaited and (isinstance(error, GeneratorExit) or from_outside(error)))


class Deciding:
    """Call code of the app's in the block, on a thread that others rely on, for one call that needs the answer.

    An exception is the call's error. A ``SystemExit`` and its like would end a loop or a task: ``RuntimeError``.
    """

    def __init__(self, what: str, *, awaited: bool = True) -> None:
        self._what = what
        self._awaited = awaited

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is not None and ends_the_thread(error, awaited=self._awaited):
            said = f"{self._what} raised {type(error).__name__}: it must return, or raise an error"
            raise RuntimeError(said) from error


def decided(what: str, ask: Callable[[], _T]) -> _T:
    """Return the answer of plain code of the app's, on the thread of the one call that needs the answer.

    An exception is the call's error, and an interrupt the thread's. A ``SystemExit`` and its like: ``RuntimeError``.
    """
    with Deciding(what, awaited=False):
        return ask()


def on_daemon_thread(loop: asyncio.AbstractEventLoop, work: Callable[[], _T], name: str) -> asyncio.Future[_T]:
    """Begin plain work on a thread of its own; return a future of the loop with the outcome.

    A thread that is stuck takes no thread from other work, and does not delay the end of the process. An interpreter
    that ends starts no more threads, while locks may still be held: then the work is done here.
    """
    answer: asyncio.Future[_T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not answer.done():
            outcome()

    def run() -> None:
        try:
            outcome = functools.partial(answer.set_result, work())
        except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
            outcome = functools.partial(answer.set_exception, error)
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
            loop.call_soon_threadsafe(settle, outcome)

    try:
        threading.Thread(target=run, name=f"singleton-{name}", daemon=True).start()
    except RuntimeError:
        run()
    return answer


async def to_its_end(task: asyncio.Future[Any], *, cancel: bool = True, grace: float | None = None) -> None:
    """Wait for the end of the task. A cancellation of the caller is raised after the end.

    Args:
        cancel: True hands the caller's cancellation on to the task; False keeps it from the task.
        grace: seconds from the caller's cancellation to the cancellation of the task; None: the task is not cancelled.
    """
    clock = asyncio.get_running_loop().time
    cancelled: asyncio.CancelledError | None = None
    patience = math.inf
    while not task.done():
        try:
            await asyncio.wait({task}, timeout=None if patience == math.inf else max(0.0, patience - clock()))
            if not task.done():
                task.cancel()
                patience = math.inf
        except asyncio.CancelledError as error:
            if cancelled is None and grace is not None:
                patience = clock() + grace
            cancelled = error
            if cancel:
                task.cancel()
    if cancelled is not None:
        if not task.cancelled():
            task.exception()
        raise cancelled


def undisturbed(work: Callable[_P, Coroutine[Any, Any, _T]]) -> Callable[_P, Coroutine[Any, Any, _T]]:
    """Run the coroutine to its end; a cancellation of the caller is raised after the end."""

    @functools.wraps(work)
    async def to_the_end(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        task = asyncio.get_running_loop().create_task(work(*args, **kwargs))
        await to_its_end(task, cancel=False)
        return task.result()

    return to_the_end


@undisturbed
async def decided_in_thread(what: str, ask: Callable[[], _T]) -> _T:
    """Return the answer of plain code of the app's, called in a thread, which no cancellation ends. See ``decided``."""
    return await asyncio.to_thread(decided, what, ask)

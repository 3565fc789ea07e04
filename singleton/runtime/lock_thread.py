"""The lock thread: one daemon thread per process, with an event loop for the locks of the process.

The thread is started at the first use, closed at the end of the process, and started anew after a fork. A user function
which blocks its event loop, or uses up the worker's threads, can't starve a renewal. The loop's clock counts suspended
time: after a suspend a machine knows that its leases have expired.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import importlib
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from singleton.base.errors import SingletonError, text_of
from singleton.base.events import forget_going
from singleton.base.forks import importing
from singleton.base.invocation import catch_by
from singleton.base.invocation import log as _log
from singleton.runtime.calls import CLOSING, Calls, Lifetime
from singleton.runtime.lock_loop import LockLoop
from singleton.runtime.log_thread import LogThread
from singleton.runtime.provided import provided_runtime
from singleton.runtime.registry import Registry
from singleton.stores.request_count import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from singleton.settings.accounts import LockContainer
    from singleton.settings.connection import StorageAccount
    from singleton.stores.lock_keeping import BlobStore
    from singleton.stores.message_store import MessageStore

_LAST_CALLS = 1.0
_LAST_LINES = 1.0
_TRIES: Final = 3


class Runtime(Calls):
    """The lock thread of this process and the registry on it."""

    _loop: LockLoop

    def __init__(
        self,
        registry: Registry,
        *,
        prepare: Callable[[], None] = lambda: None,
        log: LogThread | None = None,
        before: Runtime | None = None,
    ) -> None:
        """Start the thread, which calls ``prepare`` before its loop runs.

        ``log``: the thread for its log lines; ``before``: a lock thread that has died, and is replaced.
        """
        super().__init__(registry, contextvars.Context().run(LockLoop))  # the loop's pipe keeps its maker's context
        self._log = log
        self._prepare = prepare
        if before is not None:
            registry.take_over(before.registry, self._loop)
        self._thread = threading.Thread(target=self._run, name="singleton-locks", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close locks and stores and end the thread. Waiting calls and later calls get ``LockClosed``."""
        if (closed := self.begin_closing()) is not None:
            closed.wait(CLOSING)
            if self.failure is None and self.end():
                with contextlib.suppress(RuntimeError):  # the thread has died meanwhile
                    self._loop.call_soon_threadsafe(self._loop.stop)
        self.join()

    def join(self) -> None:
        """Wait for the end of the thread, except on the thread itself."""
        if threading.get_ident() != self._thread_id:
            self._thread.join(CLOSING)

    # --- on the lock thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        self._thread_id = threading.get_ident()
        catch_by(lambda: BaseException)
        asyncio.set_event_loop(self._loop)
        if self._log is not None:
            self._log.serve()
        try:
            if self._prepared():
                self._loop.run_forever()
                if self.phase is not Lifetime.OVER:
                    self._die(RuntimeError("its loop was stopped"))
            self._loop.run_until_complete(self._drain())
        except BaseException as error:  # noqa: BLE001 - nobody may wait for a thread that has died
            self._die(error)
        finally:
            self._loop.close()  # before the phase OVER: another lock thread takes over from a loop that runs nothing
            self.end_waits()
            self._thread_id = None
            if self._log is not None:
                self._log.close(_LAST_LINES)

    def _prepared(self) -> bool:
        """Prepare the thread; after a failure later calls are refused."""
        try:
            self._prepare()
        except Exception as error:  # noqa: BLE001 - an import may raise anything
            self._fail(f"the lock thread could not start: {error!r}", error)
            return False
        return True

    def _fail(self, text: str, error: BaseException) -> SingletonError:
        with self._door:
            self.failure = failure = SingletonError(text)
            failure.__cause__ = error
            self.phase = Lifetime.CLOSING
        return failure

    def _die(self, error: BaseException) -> None:
        """Tell holders and callers that no lease is renewed any more. The next call starts another thread."""
        text = f"the lock thread of this process has ended by {text_of(error, repr)}: its holds are lost"
        self.registry.lose_all(self._fail(text, error))
        _log.critical("%s, and its waits end. The next call starts another lock thread", text, exc_info=error)
        for _ in range(_TRIES):
            with contextlib.suppress(BaseException):  # what has ended the loop may come once more
                self._loop.run_until_complete(self._drain())
                break

    async def _drain(self) -> None:
        """Let the last calls end; cancel the rest."""
        await asyncio.sleep(0)  # calls of the last moment start
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left and self.failure is None:
            _, left = await asyncio.wait(left, timeout=_LAST_CALLS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_LAST_CALLS)
        await self.registry.close_stores()


_guard = threading.Lock()
_current: Runtime | None = None
_forked: list[Runtime] = []
_NEEDED = ("singleton.stores.wire", "encodings.idna")
"""Modules of a request. The last would be imported at the first request, while another thread may fork."""


def _load_http() -> None:
    """Import the modules of requests before the loop runs. A missing module is reported at its use."""
    with importing, contextlib.suppress(ImportError):
        for module in _NEEDED:
            importlib.import_module(module)
        if {"singleton.functions.deferrable", "singleton.stores.message_store"} & sys.modules.keys():  # for messages
            importlib.import_module("azure.storage.queue.aio")


def _open_store(place: LockContainer) -> BlobStore:
    with importing:
        from singleton.runtime.accounts.stores import open_container

        return counted(open_container(place.account, place.container, place.http), "blob")


def _open_queue(account: StorageAccount, queue: str) -> MessageStore:
    with importing:
        from singleton.runtime.accounts.stores import open_queue

        return counted(open_queue(account, queue), "queue")


def runtime() -> Calls:
    """Return the lock thread of this process; start it at the first call."""
    global _current  # noqa: PLW0603 - one per process
    if (provided := provided_runtime()) is not None:
        return provided
    if (ending := _current) is not None and ending.failure is not None:
        ending.join()
    with _guard:
        if _current is None or _current.phase is Lifetime.OVER:  # a failed start is repeated, a dead thread replaced
            with importing:
                importlib.import_module("singleton.runtime.accounts.stores")
            registry = Registry(_open_store, open_queue=_open_queue)
            _current = Runtime(registry, prepare=_load_http, log=LogThread(), before=_current)
        return _current


@atexit.register
def shutdown() -> None:
    """Close the lock thread of this process, if started. A later use starts a new thread."""
    global _current
    with _guard:
        closing, _current = _current, None
    if closing is not None:
        closing.close()


def _after_fork() -> None:
    """Start afresh in a forked child, which holds nothing and starts a lock thread of its own.

    The parent's objects are kept alive: a collection of its sockets would unregister them in the parent.
    """
    global _current, _guard  # noqa: PLW0603
    forget_going()
    _guard = threading.Lock()
    if _current is not None:
        _current.forget()
        _forked.append(_current)
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

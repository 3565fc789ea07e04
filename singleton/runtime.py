"""The lock thread: one daemon thread per process with an event loop of its own, on which all locks live.

A user function that blocks its event loop, or uses up the worker's threads, can't starve a renewal there. Its clock
counts suspended time too, so a machine that slept knows that its leases are gone. Sync callers block on a future,
async callers await it; a caller that goes away (cancelled, interrupted) leaves nothing behind: what it would have got
is undone.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import importlib
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from singleton.errors import LockClosed
from singleton.lockloop import LockLoop
from singleton.registry import Address, Place, Registry, holds_in, open_azure_queue
from singleton.section import CLOSED

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from singleton.hold import Hold
    from singleton.queueplace import QueuePlace
    from singleton.stores.given import GivenClients
    from singleton.stores.messages import MessageStore
    from singleton.stores.protocol import LeaseStore

_T = TypeVar("_T")

_CLOSING = 12.0
"""Seconds that closing takes at most: bodies of listeners end (5), leases are given back (5)."""
_LAST_CALLS = 1.0


class Runtime:
    """The lock thread of this process and the registry on it."""

    def __init__(
        self, open_store: Callable[[Place], LeaseStore], *, prepare: Callable[[], None] = lambda: None
    ) -> None:
        """Start the thread; it calls ``prepare`` before its loop begins to run."""
        self.holds: weakref.WeakSet[Hold] = weakref.WeakSet()
        self._registry = Registry(open_store, open_queue=_open_queue)
        self._loop = LockLoop()
        self._prepare = prepare
        self._door = threading.Lock()
        self._closed = self._over = False
        self._thread = threading.Thread(target=self._run, name="singleton-locks", daemon=True)
        self._thread.start()

    def acquire(self, address: Address, *, timeout: float | None, owner: str) -> Hold:
        """Acquire from a thread. See ``Lock.acquire``."""
        return self.call(lambda registry: registry.acquire(address, timeout=timeout, owner=owner))

    async def acquire_async(self, address: Address, *, timeout: float | None, owner: str) -> Hold:
        """Acquire from a coroutine on any loop. See ``Lock.acquire``."""
        return await self.call_async(lambda registry: registry.acquire(address, timeout=timeout, owner=owner))

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """Run ``work`` on the lock thread, and wait for what it returns; holds that nobody takes are released."""
        self._refuse_itself("acquire")
        answer: concurrent.futures.Future[_T] = concurrent.futures.Future()
        try:
            self._submit(work(self._registry), answer, undo=self._give_back)
            return self._remember(answer.result())
        except BaseException:
            self._abandon(answer)
            raise

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """Run ``work`` on the lock thread, and await what it returns; holds that nobody takes are released."""
        answer: concurrent.futures.Future[_T] = concurrent.futures.Future()
        try:
            self._submit(work(self._registry), answer, undo=self._give_back)
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
        with self._door:
            already, self._closed = self._closed, True
            closed: concurrent.futures.Future[None] = concurrent.futures.Future()
            if not already:
                self._start(self._registry.aclose(), closed)
        if not already:
            concurrent.futures.wait({closed}, timeout=_CLOSING)
            with self._door:
                self._over = True
            self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_CLOSING)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._prepare()
            self._loop.run_forever()
            self._loop.run_until_complete(self._drain())
        finally:
            self._loop.close()

    async def _drain(self) -> None:
        """Let the last calls come to their ends; cut off what does not."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if left:
            _, left = await asyncio.wait(left, timeout=_LAST_CALLS)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=_LAST_CALLS)

    def _refuse_itself(self, what: str) -> None:
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError(
                f"can't {what} on the lock thread, where callbacks of a loss run: it would wait for itself for ever"
            )

    def _remember(self, answer: _T) -> _T:
        self.holds.update(holds_in(answer))
        return answer

    def _abandon(self, answer: concurrent.futures.Future[Any]) -> None:
        """Undo an acquisition whose caller won't take it: withdraw it, or release what it brought."""
        if not answer.cancel() and answer.exception() is None:
            for hold in holds_in(answer.result()):
                self._release(hold, self._registry.drop)

    async def _give_back(self, answer: object) -> None:
        for hold in holds_in(answer):
            await self._registry.drop(hold)

    def _release(
        self, hold: Hold, way: Callable[[Hold], Coroutine[Any, Any, None]]
    ) -> concurrent.futures.Future[None] | None:
        """Begin to release; None where there is nothing to do."""
        if hold.lost.reason == "closed":
            return None
        given_back: concurrent.futures.Future[None] = concurrent.futures.Future()
        with self._door:
            if self._over:
                return None
            self._start(way(hold), given_back)
        return given_back

    def _submit(
        self,
        coro: Coroutine[Any, Any, _T],
        future: concurrent.futures.Future[_T],
        undo: Callable[[_T], Awaitable[None]] | None = None,
    ) -> None:
        """Run ``coro`` on the lock loop. Cancelling the future cancels it; a result that comes too late is undone."""
        with self._door:
            if not self._closed:
                self._start(coro, future, undo)
                return
        coro.close()
        raise LockClosed(CLOSED)

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
                    future.set_exception(LockClosed(CLOSED))
                elif (error := task.exception()) is not None:
                    future.set_exception(error)
                else:
                    future.set_result(task.result())
            except asyncio.CancelledError:
                if not future.done():
                    future.set_exception(LockClosed(CLOSED))
                raise

        asyncio.run_coroutine_threadsafe(run(), self._loop)


class LockRuntime(Protocol):
    """What a guard needs of the place where its locks live. ``Runtime`` is the real one."""

    def acquire(self, address: Address, *, timeout: float | None, owner: str) -> Hold:
        """See ``Runtime.acquire``."""

    async def acquire_async(self, address: Address, *, timeout: float | None, owner: str) -> Hold:
        """See ``Runtime.acquire_async``."""

    def call(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call``."""

    async def call_async(self, work: Callable[[Registry], Coroutine[Any, Any, _T]]) -> _T:
        """See ``Runtime.call_async``."""

    def release(self, hold: Hold) -> None:
        """See ``Runtime.release``."""

    async def release_async(self, hold: Hold) -> None:
        """See ``Runtime.release_async``."""


_guard = threading.Lock()
_provider: Callable[[], LockRuntime] | None = None
_accounts: Callable[[str], GivenClients] | None = None
_current: Runtime | None = None
_forked: list[Runtime] = []
_loading = threading.RLock()
"""Held while modules are imported or clients made, and by who forks.

A child that inherits half a module could never import it, and a lock that the SDK or the standard library has taken to
make a client (``platform`` does, on 3.11) stays taken in the child for ever.
"""


def provide_runtime(
    provider: Callable[[], LockRuntime] | None, accounts: Callable[[str], GivenClients] | None = None
) -> None:
    """Have locks live elsewhere than on this process's lock thread: under virtual time. None undoes it.

    ``accounts`` says which account a connection's name stands for there; without it, the settings do.
    """
    global _provider, _accounts
    _provider, _accounts = provider, accounts


def provided_account(connection: str) -> GivenClients | None:
    """Return the account that a connection's name stands for where locks live elsewhere; None: ask the settings."""
    return None if _accounts is None else _accounts(connection)


def _load_sdk() -> None:
    """Import the SDK while no loop waits for it. It is said where it is first needed that it is not installed."""
    with _loading, contextlib.suppress(ImportError):
        importlib.import_module("azure.storage.blob.aio")
        if "singleton.deferring" in sys.modules:  # some function puts messages back
            importlib.import_module("azure.storage.queue.aio")


def open_store(place: Place) -> LeaseStore:
    """Open the store of a container, by its connection or with what the caller brought along."""
    from singleton.connection import BlobAccount
    from singleton.stores.azure_blob import open_container

    with _loading:
        if isinstance(place.account, BlobAccount):
            return open_container(place.account, place.container)
        return place.account.open(place.container)


def _open_queue(place: QueuePlace) -> MessageStore:
    with _loading:
        return open_azure_queue(place)


def runtime() -> LockRuntime:
    """Return the lock thread of this process; start it at the first call."""
    global _current  # noqa: PLW0603 - one per process
    if _provider is not None:
        return _provider()
    with _guard:
        if _current is None:
            with _loading:
                importlib.import_module("singleton.stores.azure_blob")
            _current = Runtime(open_store, prepare=_load_sdk)
        return _current


@atexit.register
def shutdown() -> None:
    """Close the lock thread of this process, if there is one. A later use starts a new one."""
    global _current
    with _guard:
        closing, _current = _current, None
    if closing is not None:
        closing.close()


def _after_fork() -> None:
    """A child holds nothing, and starts a lock thread of its own.

    The parent's is kept unreachable but alive: collecting its sockets here would unregister them in the parent.
    """
    global _current, _guard  # noqa: PLW0603
    _loading.release()
    _guard = threading.Lock()
    if _current is not None:
        for hold in _current.holds:
            hold.lost.forget()
        _forked.append(_current)
        _current = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_loading.acquire, after_in_parent=_loading.release, after_in_child=_after_fork)

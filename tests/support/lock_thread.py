"""A lock thread over the model of the service, with a clock that a test can push: leases lapse without waiting."""

from __future__ import annotations

import asyncio
import inspect
import os
from typing import TYPE_CHECKING, Any, Self, TypeVar

from singleton.base.events import LockEvent, subscribe
from singleton.decorator import guards_of, singleton
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.provided import provide_runtime
from singleton.runtime.registry import Registry
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    import pytest

    from simulator.host.worker import RetryContext
    from singleton.settings.accounts import LockContainer
    from singleton.stores.lock_keeping import BlobStore

T = TypeVar("T")

FOREIGN = "99999999-9999-4999-8999-999999999999"
"""Lease id of somebody else, in another process."""


class LockThread:
    """``singleton.runtime.lock_thread`` as it ships, on one ``MemoryLeaseStore`` (or another store) for all places."""

    def __init__(self, store: BlobStore | None = None) -> None:
        self.memory = MemoryLeaseStore()
        self.store = store or self.memory
        self.places: list[LockContainer] = []
        self.events: list[LockEvent] = []

    def __enter__(self) -> Self:
        self.runtime = Runtime(Registry(self._open))
        provide_runtime(lambda: self.runtime)
        self._unsubscribe = subscribe(self.events.append)
        return self

    def __exit__(self, *_: object) -> None:
        self._unsubscribe()
        provide_runtime(None)
        self.runtime.close()

    def _open(self, place: LockContainer) -> BlobStore:
        self.places.append(place)
        return self.store

    def do(self, request: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on the lock thread."""
        return asyncio.run_coroutine_threadsafe(request(), self.runtime._loop).result(60)

    def push_clock(self, seconds: float) -> None:
        """Let the lock thread's clock jump, as it does when a suspended machine wakes up."""
        loop = self.runtime._loop
        clock = loop.time
        loop.time = lambda: clock() + seconds  # type: ignore[method-assign]
        loop.call_soon_threadsafe(lambda: None)

    def taken_by_another_process(self, lock: str) -> None:
        """Have somebody else hold this lock."""

        async def take() -> None:
            await self.memory.create(lock)
            await self.memory.acquire(lock, FOREIGN, 60)

        self.do(take)

    def given_back_by_the_other(self, lock: str) -> None:
        self.do(lambda: self.memory.release(lock, FOREIGN))

    def deleted(self, lock: str) -> None:
        """Have an operator delete the blob, and the next renewal find that out."""
        self.memory.delete(lock)
        self.push_clock(8)

    def leased(self) -> set[str]:
        async def look() -> set[str]:
            return set(self.memory.leased())

        return self.do(look)

    def kinds(self) -> list[str]:
        """Return the kinds of all events so far, a reason after a colon."""
        return [f"{event.kind}:{event.reason}" if event.reason else event.kind for event in self.events]


def an_app(folder: Path, environment: pytest.MonkeyPatch, host_json: str = '{"version": "2.0"}') -> None:
    """Make ``folder`` the Functions app that declarations find, with settings of its own."""
    for name in [*os.environ]:
        if name.lower().startswith(("azurefunctionsjobhost__", "website_", "container_name")):
            environment.delenv(name)
    (folder / "host.json").write_text(host_json)
    environment.setenv("AzureWebJobsScriptRoot", str(folder))
    environment.setenv("AzureFunctionsWebHost__hostid", "app")
    environment.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")


class Context:
    """What the worker passes as ``context``: no instance of ``func.Context``."""

    def __init__(
        self, invocation_id: str = "inv-1", function_name: str = "", retry: RetryContext | None = None
    ) -> None:
        self.invocation_id = invocation_id
        self.function_name = function_name
        self.retry_context = retry


def a_job(kind: str, body: Callable[[], Any] = lambda: None, **arguments: Any) -> Callable[..., Any]:
    """Return a guarded function that runs ``body``, which may itself be async for an async job."""

    def job(msg: str = "") -> Any:
        return body()

    async def async_job(msg: str = "") -> Any:
        result = body()
        return await result if inspect.isawaitable(result) else result

    async_job.__name__ = "job"
    return singleton(**arguments)(async_job if kind == "async" else job)


def guard_of(function: object) -> Any:
    """Return the only guard of a guarded function."""
    (guard,) = guards_of(function)
    return guard


def call(job: Callable[..., Any], *, owner: str = "inv-1", msg: str = "") -> Any:
    """Invoke as the worker does: a coroutine on an event loop, or on this thread."""
    return outcome(job(msg=msg, context=Context(owner)))


def outcome(result: Any) -> Any:
    """Return what a function returned, or what the coroutine that it returned does."""
    return asyncio.run(result) if inspect.iscoroutine(result) else result

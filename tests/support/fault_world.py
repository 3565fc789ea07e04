"""Faults on a real emulator, many at once: each scenario has a lock, a proxy and a setting of its own.

A lease lasts fifteen seconds at least, so a scenario that waits for one to lapse takes that long. They all run at the
same time, on threads of one process that shares one lock thread, as the functions of one worker do.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import textwrap
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pytest
from azure.storage.blob import BlobClient, BlobLeaseClient, BlobServiceClient

from singleton import LockClient, LockLost, SingletonOptions, current_hold, singleton
from tests.support.lock_thread import Context, an_app
from tests.support.recording_proxy import ProxyThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from simulator.azurite.server import Azurite

ROOT = Path(__file__).resolve().parents[2]
PERIOD, MARGIN = 15.0, 1.0
DEADLINE = PERIOD - MARGIN
"""Seconds after the sending of the last request that was granted at which a hold counts as lost."""
RENEWAL = PERIOD / 2
SLACK = 10.0
"""Seconds by which a busy machine may be late: less than a lease. How soon a call is repeated, virtual time tells."""
CONTAINER = "faults"
POLLS: dict[str, float] = {"lock_acquisition_polling_interval": 0.5, "lock_acquisition_min_polling_interval": 0.05}
OPTIONS = SingletonOptions(container=CONTAINER, **POLLS)  # type: ignore[arg-type] # two of its numbers
HOST_JSON = (
    f'{{"singleton": {{"container": "{CONTAINER}", "lockAcquisitionPollingInterval": "00:00:00.5", '
    '"lockAcquisitionMinPollingInterval": "00:00:00.05"}}'
)
OTHER = "99999999-9999-4999-8999-999999999999"


class World:
    """One scenario's lock and everything around it."""

    def __init__(self, name: str, azurite: Azurite) -> None:
        self.lock = f"locks/app/job.{name}"
        self._scope = name
        self._direct = azurite.connection_string
        self.proxy = ProxyThread(azurite.blob_port)
        self._setting = f"FAULT_{name}"
        self._ends = ExitStack()

    def __enter__(self) -> Self:
        self._ends.enter_context(self.proxy)
        self.through = self.proxy.connection_string(self._direct)
        os.environ[self._setting] = self.through
        self._ends.callback(os.environ.pop, self._setting)
        self._pool = self._ends.enter_context(ThreadPoolExecutor(4))
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.close()

    # --- the guarded function and the client under test -----------------------------------------------------------

    def call(self, body: Callable[[], Any], *, on_contention: Any = "wait", timeout: float | None = None) -> Any:
        """Run ``body`` in a guarded function, an async one if ``body`` is: the worker's way, by keyword."""
        self.called = time.monotonic()
        guarded = singleton(
            scope_id=self._scope, on_contention=on_contention, timeout=timeout, connection=self._setting
        )
        if inspect.iscoroutinefunction(body):

            async def async_job() -> Any:
                return await body()

            async_job.__name__ = "job"
            return asyncio.run(guarded(async_job)(context=Context("inv-1")))  # type: ignore[call-arg]

        def job() -> Any:
            return body()

        return guarded(job)(context=Context("inv-1"))  # type: ignore[call-arg]

    def client(self, options: SingletonOptions = OPTIONS) -> LockClient:
        """Return a client in this process, through the proxy."""
        return LockClient(self.through, options=options)

    def is_told(self, reason: str, *, within: float, earliest: float = 0.0) -> Callable[[], None]:
        """Return a sync body that waits to be told of its loss, and goes on to its end."""

        def body() -> None:
            start = time.monotonic()
            hold = current_hold()
            assert hold.lost.wait(within + SLACK), "it was never told"
            self.assert_in_time(start, within, earliest)
            assert hold.lost.reason == reason
            with pytest.raises(LockLost):
                hold.raise_if_lost()

        return body

    def is_cancelled(self, *, within: float, earliest: float = 0.0) -> Callable[[], Any]:
        """Return an async body that waits to be cancelled."""

        async def body() -> None:
            start = time.monotonic()
            try:
                await asyncio.sleep(60)
            finally:
                self.assert_in_time(start, within, earliest)

        return body

    def assert_in_time(self, start: float, within: float, earliest: float) -> None:
        """Check the time of a loss: the lease's clock starts between the call and the body, on a slow machine, too."""
        now = time.monotonic()
        assert now - self.called >= earliest
        assert now - start <= within + SLACK

    def fails_with_lock_lost(self, body: Callable[[], Any], reason: str) -> None:
        """Check that the invocation fails with nothing but ``LockLost``."""
        with pytest.raises(LockLost, match=reason) as caught:
            self.call(body)
        assert (caught.value.reason, caught.value.owner) == (reason, "inv-1")

    def stays_held(self, seconds: float) -> Callable[[], None]:
        """Return a sync body that lasts and never loses its lock."""

        def body() -> None:
            assert not current_hold().lost.wait(seconds), current_hold().lost.reason

        return body

    def works_again(self, *, within: float = 3.0) -> None:
        """Check that the next invocation gets the lock, which nothing that was left behind blocks."""
        start = time.monotonic()
        assert self.call(lambda: "done", timeout=within + SLACK) == "done"
        assert time.monotonic() - start < within + SLACK

    # --- everybody else ---------------------------------------------------------------------------------------------

    def later(self, act: Callable[[], Any], *, after: float = 0.0) -> Future[Any]:
        """Do something on another thread."""

        def run() -> Any:
            time.sleep(after)
            return act()

        return self._pool.submit(run)

    def blob(self) -> BlobClient:
        """Return the SDK's client for the lock blob, past the proxy: what an operator has."""
        service = BlobServiceClient.from_connection_string(self._direct, retry_total=0)
        self._ends.callback(service.close)
        return service.get_blob_client(CONTAINER, self.lock)

    def broken(self) -> None:
        BlobLeaseClient(self.blob()).break_lease(lease_break_period=0)

    def stolen(self) -> BlobLeaseClient:
        """Break the lease, and take it for somebody else."""
        self.broken()
        lease = BlobLeaseClient(self.blob(), lease_id=OTHER)
        lease.acquire(lease_duration=60)
        return lease

    def deleted(self) -> None:
        """Delete the blob by the holder's own lease: no renewal comes between a break and the deletion."""
        ids = [request.proposed_lease_id for request in self.proxy.requests if request.operation == "acquire"]
        self.blob().delete_blob(lease=ids[-1])

    def rival(self) -> Future[float]:
        """Have somebody in another place wait for the lock, past the proxy; the result is when it was had."""
        options = OPTIONS.replace(lock_acquisition_polling_interval=0.5, handoff_window=0)

        def wait() -> float:
            with LockClient(self._direct, options=options).lock(self.lock, timeout=60):
                return time.monotonic()

        return self._pool.submit(wait)

    def script(self, code: str, *arguments: str) -> subprocess.Popen[str]:
        """Start another process that uses this lock through the proxy. See ``script``."""
        return script(code, *arguments, lock=self.lock, connection=self.through, options=OPTIONS)


def script(
    code: str, *arguments: str, lock: str, connection: str, options: SingletonOptions, flags: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """Start a process that runs ``code`` with a lock client ``locks``, the lock's name ``LOCK``, and ``say``."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LOCKS": connection}
    prelude = (
        "import asyncio, os, signal, sys, threading, time\n"
        "from singleton import AsyncLockClient, LockClient, LockLost, LockNotAcquired, SingletonOptions\n"
        "from singleton import StorageUnavailable\n"
        f"LOCK, OPTIONS = {lock!r}, {options!r}\n"
        "locks, alocks = (kind(os.environ['LOCKS'], options=OPTIONS) for kind in (LockClient, AsyncLockClient))\n"
        "def say(*words): print(*words, flush=True)\n"
    )
    command = [sys.executable, *flags, "-c", prelude + textwrap.dedent(code), *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


def started(process: subprocess.Popen[str]) -> Iterator[str]:
    """Iterate over what a script says, line by line."""
    assert process.stdout is not None
    return (line.strip() for line in process.stdout)


def run_all(scenarios: Iterable[Callable[[World], None]], azurite: Azurite, folder: Path) -> dict[str, Future[None]]:
    """Run scenarios at the same time; return their outcomes by name once all have ended."""

    def run(scenario: Callable[[World], None]) -> None:
        with World(scenario.__name__, azurite) as world:
            scenario(world)

    with pytest.MonkeyPatch.context() as environment:
        an_app(folder, environment, HOST_JSON)
        with BlobServiceClient.from_connection_string(azurite.connection_string) as service:
            if not service.get_container_client(CONTAINER).exists():
                service.create_container(CONTAINER)
        chosen = list(scenarios)
        with ThreadPoolExecutor(max(1, len(chosen))) as pool:
            return {scenario.__name__: pool.submit(run, scenario) for scenario in chosen}

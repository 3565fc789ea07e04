"""Locks of ours as they are used: through clients and around functions, warm, new, handed over, after somebody else."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import uuid
from typing import TYPE_CHECKING, Final

from azure.storage.blob import BlobClient, BlobLeaseClient

from benchmarks.measuring import Contestant
from singleton import AsyncLockClient, LockClient, SingletonOptions, singleton

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTAINER: Final = "bench"
OPTIONS: Final = SingletonOptions(handoff_window=1e9, container=CONTAINER)
"""Never stand back: nobody else waits here."""
HELD: Final = "held"
"""A lock that somebody else has for ever."""
_SETTING: Final = "BENCH_STORAGE"
_WAITERS: Final = 50
ASYNC: Final = "AsyncLockClient"
SYNC: Final = "LockClient, from a thread"
GUARDED: Final = "guarded function"
GUARDED_ASYNC: Final = "guarded async function"
WEBJOBS: Final = 'guarded function, `layout="webjobs"`'
WEBJOBS_NEW: Final = 'a scope value for the first time, `layout="webjobs"`'
NEW: Final = "a scope value for the first time"
AFTER_OTHERS: Final = "another process had it in between"
HANDED_OVER: Final = f"a section of {_WAITERS} that wait in one process"
REFUSED: Final = "a look at a lock that somebody else has"
THROUGH_SDK: Final = 'AsyncLockClient, `http="sdk"`'


@contextlib.contextmanager
def contestants(connection_string: str) -> Iterator[list[Contestant]]:
    """Make all of ours on this account; the blobs of warm ones are there from their second cycle on."""
    settings = {
        _SETTING: connection_string,
        "AzureFunctionsJobHost__singleton__container": CONTAINER,
        "AzureFunctionsJobHost__singleton__handoffWindow": "10:00:00",
        "AzureFunctionsJobHost__singleton__hostId": "bench",
    }
    os.environ.update(settings)
    with BlobClient.from_connection_string(connection_string, CONTAINER, HELD) as blob:
        if not blob.exists():
            blob.upload_blob(b"")
            BlobLeaseClient(blob).acquire()
    try:
        yield [*_clients(connection_string), *_functions()]
    finally:
        for name in settings:
            del os.environ[name]


def _clients(connection_string: str) -> Iterator[Contestant]:
    locks = AsyncLockClient(connection_string, options=OPTIONS)
    others = AsyncLockClient(connection_string, options=OPTIONS.replace(lock_period=60))
    threads = LockClient(connection_string, options=OPTIONS)
    names = (str(uuid.uuid4()) for _ in itertools.count())

    async def warm() -> None:
        async with locks.lock("async"):
            pass

    def from_a_thread() -> None:
        with threads.lock("sync"):
            pass

    async def new() -> None:
        async with locks.lock(next(names)):
            pass

    async def in_turns() -> None:
        for client in (locks, others):
            async with client.lock("turns"):
                pass

    async def handed_over() -> None:
        await asyncio.gather(*(_section(locks, "line") for _ in range(_WAITERS)))

    async def refused() -> None:
        async with locks.try_lock(HELD) as hold:
            assert hold is None

    yield Contestant(ASYNC, warm)
    yield Contestant(SYNC, from_a_thread)
    yield Contestant(NEW, new)
    yield Contestant(AFTER_OTHERS, in_turns, sections=2)
    yield Contestant(HANDED_OVER, handed_over, sections=_WAITERS)
    yield Contestant(REFUSED, refused)
    if hasattr(OPTIONS, "http"):
        # A container's first lock decides for all of this process how requests travel to it.
        through_sdk = AsyncLockClient(connection_string, options=OPTIONS.replace(http="sdk", container="bench-sdk"))

        async def sdk() -> None:
            async with through_sdk.lock("sdk"):
                pass

        yield Contestant(THROUGH_SDK, sdk)


async def _section(locks: AsyncLockClient, name: str) -> None:
    async with locks.lock(name):
        pass


class _Context:
    """An invocation of its own: WebJobs writes its id on the blob."""

    function_name = "shared"

    def __init__(self) -> None:
        self.invocation_id = str(uuid.uuid4())


def _functions() -> Iterator[Contestant]:
    @singleton(scope_id="sync", connection=_SETTING)
    def job(timer: object) -> None: ...

    @singleton(scope_id="async", connection=_SETTING)
    async def async_job(timer: object) -> None: ...

    @singleton(scope_id="warm", layout="webjobs", connection=_SETTING)
    def shared(timer: object) -> None: ...

    @singleton(scope="Id", layout="webjobs", connection=_SETTING)
    def shared_new(msg: str) -> None: ...

    async def invoked() -> None:
        await async_job(None)

    yield Contestant(GUARDED, lambda: job(None))
    yield Contestant(GUARDED_ASYNC, invoked)
    yield Contestant(WEBJOBS, lambda: shared(None, context=_Context()))  # type: ignore[call-arg]
    yield Contestant(WEBJOBS_NEW, lambda: shared_new(f'{{"Id": "{uuid.uuid4()}"}}', context=_Context()))  # type: ignore[call-arg]

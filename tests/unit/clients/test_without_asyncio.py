"""Where no event loop of asyncio runs, as under trio: asyncio is said, and nothing is held."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, once, singleton
from tests.support.inline import CONNECTION
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

    from singleton.clients.periodic_worker import PeriodicWorker


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def a_client() -> AsyncLockClient:
    return AsyncLockClient(CONNECTION)


async def entered(block: Any) -> None:
    async with block:
        pytest.fail("the block was entered")


def worker(locks: AsyncLockClient) -> PeriodicWorker:
    async def work(_: object) -> None:
        pytest.fail("the work ran")

    return locks.periodic("job", work, every=5)


@singleton
async def guarded(msg: str) -> None:
    pytest.fail("the body ran")


@once(key="Id")
async def kept(msg: str) -> None:
    pytest.fail("the body ran")


async def decorated(locks: AsyncLockClient) -> None:
    @locks.lock("job")
    async def body() -> None:
        pytest.fail("the body ran")

    await body()


USES: dict[str, Callable[[], Coroutine[Any, Any, Any]]] = {
    "lock": lambda: entered(a_client().lock("job")),
    "try_lock": lambda: entered(a_client().try_lock("job")),
    "semaphore": lambda: entered(a_client().semaphore("job", 2)),
    "lock_all": lambda: entered(a_client().lock_all(["a", "b"])),
    "once": lambda: entered(once(a_client(), "7", name="job")),
    "leadership": lambda: entered(a_client().leadership("job")),
    "periodic": lambda: entered(worker(a_client())),
    "run": lambda: worker(a_client()).run(),
    "acquire": lambda: a_client().acquire("job"),
    "holder": lambda: a_client().holder("job"),
    "decorator": lambda: decorated(a_client()),
    "@singleton": lambda: guarded("{}"),
    "@once": lambda: kept('{"Id": 7}'),
}


@pytest.mark.parametrize("use", USES)
def test_without_asyncio_its_name_is_said_and_nothing_is_held(thread: LockThread, use: str) -> None:
    with pytest.raises(RuntimeError, match=r"no event loop of asyncio .* LockClient on a thread.*trio"):
        USES[use]().send(None)
    deadline = time.monotonic() + 60
    while thread.leased() and time.monotonic() < deadline:
        time.sleep(0.001)
    assert thread.leased() == set()

"""A loss reaches an async body from the lock thread at once, and leaves no cancellation behind in its task."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from singleton import LockLost
from tests.support.lock_thread import LockThread, a_job, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path

LOCK = "locks/app/job"


@pytest.fixture(autouse=True)
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch, '{"singleton": {"lockAcquisitionMinPollingInterval": "00:00:00.01"}}')
    with LockThread() as running:
        yield running


def test_a_body_that_sleeps_is_woken_at_once(thread: LockThread) -> None:
    async def body() -> None:
        thread.deleted(LOCK)
        await asyncio.sleep(250)

    started = time.monotonic()
    with pytest.raises(LockLost):
        asyncio.run(a_job("async", body)(), debug=True)
    assert time.monotonic() - started < 200


async def _swallows_and_returns() -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(250)


async def _swallows_and_raises() -> None:
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(250)
    raise KeyError("something else")


@pytest.mark.parametrize(
    ("ends", "error"), [(_swallows_and_returns, LockLost), (_swallows_and_raises, KeyError)], ids=["returns", "raises"]
)
def test_a_body_that_swallows_the_cancellation_leaves_its_task_as_it_was(
    thread: LockThread, ends: Callable[[], Coroutine[None, None, None]], error: type[Exception]
) -> None:
    async def body() -> None:
        thread.deleted(LOCK)
        await ends()

    async def invocation() -> int:
        with pytest.raises(error):
            await a_job("async", body)()
        task = asyncio.current_task()
        assert task is not None
        return task.cancelling()

    assert asyncio.run(invocation()) == 0

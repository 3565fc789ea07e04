"""A hold that its caller lost sight of is given back (M-37, M-53)."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import logging
import os
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, LockClient, SingletonOptions
from singleton.base.invocation import Invocation
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton import Hold

OPTIONS = SingletonOptions(lock_acquisition_min_polling_interval=0.01)


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def dropped_by_a_thread(limit: int | None) -> None:
    LockClient(options=OPTIONS).acquire("job", limit=limit)


def dropped_by_a_coroutine(limit: int | None) -> None:
    async def acquire() -> None:
        await AsyncLockClient(options=OPTIONS).acquire("job", limit=limit)

    asyncio.run(acquire())


def dropped_in_a_circle(limit: int | None) -> None:
    circle: list[object] = [LockClient(options=OPTIONS).acquire("job", limit=limit)]
    circle.append(circle)


@pytest.mark.parametrize("limit", [None, 1], ids=["lock", "semaphore"])
@pytest.mark.parametrize("drop", [dropped_by_a_thread, dropped_by_a_coroutine, dropped_in_a_circle])
def test_a_hold_that_was_dropped_is_given_back_and_said(
    thread: LockThread, caplog: pytest.LogCaptureFixture, drop: Callable[[int | None], None], limit: int | None
) -> None:
    with caplog.at_level(logging.WARNING, "singleton"):
        drop(limit)
        gc.collect()
        with LockClient(options=OPTIONS).try_lock("another"):  # behind it on the lock thread
            pass
        client = LockClient(options=OPTIONS)
        client.release(client.acquire("job", limit=limit, timeout=5))
    lock = "job" if limit is None else "job/slot-0"
    said = [record.getMessage() for record in caplog.records if "garbage-collected" in record.getMessage()]
    assert said == [f"lock {lock}: its hold was garbage-collected without a release, and is released now"]
    assert thread.leased() == set()


def test_a_hold_whose_release_was_interrupted_is_given_back_though_a_lock_of_its_body_is_held_on(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, release = LockClient(options=OPTIONS), thread.runtime.release

    def interrupt(hold: Hold) -> None:
        if hold.lock == "job":
            raise KeyboardInterrupt
        release(hold)

    kept: list[Hold] = []

    @client.lock("job")
    def work() -> None:
        kept.append(client.acquire("of the body"))  # its renewals outlive the body

    monkeypatch.setattr(thread.runtime, "release", interrupt)
    with contextlib.suppress(KeyboardInterrupt):
        work()
    gc.collect()
    with client.lock("another"):  # behind it on the lock thread
        assert "job" not in thread.leased()


def test_a_hold_that_only_the_context_of_an_ended_invocation_had_is_given_back(thread: LockThread) -> None:
    client, kept = LockClient(options=OPTIONS), contextvars.ContextVar[object]("kept")

    def invocation() -> None:
        with Invocation("inv-1", None, "ship"):
            kept.set(client.acquire("job"))

    contextvars.Context().run(invocation)
    gc.collect()
    with client.lock("another"):  # behind it on the lock thread
        assert "job" not in thread.leased()


def test_a_hold_that_is_kept_or_was_released_is_not_touched(
    thread: LockThread, caplog: pytest.LogCaptureFixture
) -> None:
    client = LockClient(options=OPTIONS)
    kept = client.acquire("kept")
    client.release(client.acquire("released"))
    gc.collect()
    assert thread.leased() == {"kept"}
    assert not kept.lost.is_set()
    client.release(kept)
    assert not [record for record in caplog.records if "garbage-collected" in record.getMessage()]


def test_a_hold_that_a_body_runs_under_is_kept_however_little_it_cares_for_it(thread: LockThread) -> None:
    client = LockClient(options=OPTIONS)
    with client.lock("job"):
        gc.collect()
        assert thread.leased() == {"job"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_that_drops_its_copy_gives_nothing_back(thread: LockThread) -> None:
    client = LockClient(options=OPTIONS)
    hold = client.acquire("job")
    child = os.fork()
    if child == 0:
        del hold
        gc.collect()
        os._exit(0)
    os.waitpid(child, 0)
    assert thread.leased() == {"job"}
    client.release(hold)

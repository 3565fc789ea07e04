"""Guarded functions wait in line by rules of their own: who is counted, and when a wait ends."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockNotAcquired
from tests.support.lock_thread import Context, a_job, an_app, call
from tests.support.waiters import CountingStore, begun_outside, eventually, in_line, soon

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.lock_thread import LockThread

pytestmark = pytest.mark.usefixtures("app")
LOCK = "locks/app/job"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    an_app(tmp_path, monkeypatch)
    return tmp_path


def function_timeout(app: Path, limit: str) -> None:
    (app / "host.json").write_text(json.dumps({"version": "2.0", "functionTimeout": limit}))


class Holding:
    """An invocation of a job that is inside until it is told to end, and threads that invoke the job beside it."""

    def __init__(self, thread: LockThread) -> None:
        self.lock_thread = thread
        self.refused: list[LockNotAcquired] = []
        self._inside, self._end = threading.Event(), threading.Event()
        self._threads: list[threading.Thread] = []

    def body(self) -> None:
        self._inside.set()
        assert self._end.wait(20)

    def begin(self, job: Callable[..., Any]) -> None:
        self.beside(job, "holder")
        assert self._inside.wait(10)

    def beside(self, job: Callable[..., Any], owner: str) -> None:
        self._threads.append(threading.Thread(target=self._call, args=(job, owner)))
        self._threads[-1].start()

    def _call(self, job: Callable[..., Any], owner: str) -> None:
        try:
            call(job, owner=owner)
        except LockNotAcquired as error:
            self.refused.append(error)

    def end(self) -> None:
        self._end.set()
        for each in self._threads:
            each.join(10)
            assert not each.is_alive()

    def in_line(self) -> int:
        return in_line(self.lock_thread, LOCK)

    def counted(self) -> int:
        return sum(map(len, self.lock_thread.runtime.registry.waiters._waiting.values()))


@pytest.fixture
def holding(thread: LockThread) -> Holding:
    return Holding(thread)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_invocations_of_one_process_hand_their_lock_on_without_a_request(
    holding: Holding, store: CountingStore, kind: str
) -> None:
    ran: list[str] = []
    holding.begin(a_job("sync", holding.body))
    store.asked.clear()
    for owner in ("inv-2", "inv-3"):
        holding.beside(a_job(kind, lambda: ran.append("body")), owner)
    eventually(lambda: holding.in_line() == 2)
    assert holding.counted() == 2
    holding.end()
    assert (len(ran), store.asked) == (2, ["release"])
    assert holding.counted() == 0


def test_a_wait_ends_before_function_timeout_and_not_sooner(app: Path, holding: Holding) -> None:
    function_timeout(app, "00:00:20")
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync"), "inv-2")
    eventually(lambda: holding.in_line() == 1)
    holding.lock_thread.push_clock(11)
    holding.lock_thread.do(lambda: asyncio.sleep(0.01))
    assert holding.in_line() == 1
    holding.lock_thread.push_clock(5)
    eventually(lambda: bool(holding.refused))
    assert holding.refused[0].reason == "functionTimeout"
    holding.end()


def test_an_invocation_with_a_time_out_stands_in_line_behind_those_who_came_before_it(holding: Holding) -> None:
    served: list[str] = []
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync", lambda: served.append("inv-2")), "inv-2")
    eventually(lambda: holding.counted() == 1)
    holding.beside(a_job("sync", lambda: served.append("inv-3"), timeout=30), "inv-3")
    eventually(lambda: holding.in_line() == 2)
    holding.end()
    assert served == ["inv-2", "inv-3"]


def test_both_lines_of_each_invocation_are_logged_where_the_lock_is_handed_on(
    holding: Holding, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "singleton")
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync"), "inv-2")
    eventually(lambda: holding.in_line() == 1)
    holding.end()
    lines = [record.getMessage() for record in caplog.records]
    assert lines.count(f"lock {LOCK}: acquired") == lines.count(f"lock {LOCK}: released") == 2


def test_an_invocation_that_is_cancelled_while_it_waits_is_counted_out(thread: LockThread, holding: Holding) -> None:
    async def both() -> None:
        go_on = asyncio.Event()
        first = asyncio.create_task(a_job("async", go_on.wait)(context=Context("holder")))
        await soon(lambda: "body_started" in thread.kinds())
        waiting = begun_outside(a_job("async")(context=Context("inv-2")))
        await soon(lambda: holding.in_line() == 1)
        assert holding.counted() == 1
        waiting.cancel()
        await asyncio.wait({waiting})
        await soon(lambda: holding.counted() == 0)
        go_on.set()
        await first

    asyncio.run(both())
    assert thread.leased() == set()
    assert thread.kinds().count("failed:CancelledError") == 1

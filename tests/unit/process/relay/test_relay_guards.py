"""Guarded functions wait as runners do, and keep their own rules there: who is counted, and when a wait ends."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockNotAcquired
from singleton.functions.waiting import GuardAsk
from tests.support.lock_thread import Context, a_job, an_app, call
from tests.support.relays import CountingStore, begun_outside, eventually, in_line, running, soon

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

    def running(self) -> int:
        return running(self.lock_thread, LOCK)

    def in_line(self) -> int:
        return in_line(self.lock_thread, LOCK)

    def counted(self) -> int:
        return sum(map(len, self.lock_thread.runtime.registry.crowd._waiting.values()))


@pytest.fixture
def holding(thread: LockThread) -> Holding:
    return Holding(thread)


@pytest.mark.usefixtures("forever")
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_invocations_of_one_process_hand_their_lock_on_without_a_request(
    holding: Holding, store: CountingStore, kind: str
) -> None:
    ran: list[str] = []
    holding.begin(a_job("sync", holding.body))
    store.asked.clear()
    for owner in ("inv-2", "inv-3"):
        holding.beside(a_job(kind, lambda: ran.append("body")), owner)
    eventually(lambda: holding.running() == 2)
    assert holding.counted() == 2
    holding.end()
    assert (len(ran), store.asked) == (2, ["release"])
    assert holding.counted() == 0


@pytest.mark.usefixtures("forever")
@pytest.mark.parametrize(
    "arguments",
    [{"at_least": 0.01}, {"max_hold": 60}, {"layout": "dequeueable", "scope_id": "one"}, {"timeout": 30}],
    ids=lambda arguments: next(iter(arguments)),
)
def test_those_with_rules_of_the_lock_threads_wait_there(
    holding: Holding, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("Dequeueable__Singleton__MinimumPollingIntervalInSeconds", "1")
    job = a_job("sync", holding.body, **arguments)
    holding.begin(job)
    holding.beside(job, "inv-2")
    eventually(lambda: holding.counted() == 1)
    for relay in [lock.relay for lock in holding.lock_thread.runtime.registry._locks.values()]:
        assert not relay._runners
    holding.end()


def test_a_wait_that_moved_ends_before_function_timeout_and_not_sooner(app: Path, holding: Holding) -> None:
    function_timeout(app, "00:00:20")
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync"), "inv-2")
    eventually(lambda: holding.running() == 1)
    holding.lock_thread.push_clock(6)
    eventually(lambda: holding.in_line() == 1)
    holding.lock_thread.push_clock(5)
    holding.lock_thread.do(lambda: asyncio.sleep(0.01))
    assert holding.in_line() == 1
    holding.lock_thread.push_clock(5)
    eventually(lambda: bool(holding.refused))
    assert holding.refused[0].reason == "functionTimeout"
    holding.end()


def test_an_invocation_that_moved_stands_in_line_before_those_who_came_after_it(holding: Holding) -> None:
    served: list[str] = []
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync", lambda: served.append("inv-2")), "inv-2")
    eventually(lambda: holding.counted() == 1)
    holding.beside(a_job("sync", lambda: served.append("inv-3"), timeout=30), "inv-3")  # it is there from the beginning
    eventually(lambda: holding.in_line() >= 1)
    holding.lock_thread.push_clock(2)
    eventually(lambda: holding.in_line() == 2)
    holding.end()
    assert served == ["inv-2", "inv-3"]


@pytest.mark.usefixtures("forever")
def test_an_invocation_that_may_wait_for_less_than_two_seconds_is_no_runner(app: Path, holding: Holding) -> None:
    function_timeout(app, "00:00:01")
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync"), "inv-2")
    eventually(lambda: bool(holding.refused))
    assert holding.refused[0].reason == "functionTimeout"
    holding.end()


@pytest.mark.usefixtures("forever")
def test_an_invocation_of_which_nobody_could_tell_that_it_got_the_lock_is_counted_out_as_its_call_ends(
    holding: Holding, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever hands on was interrupted as he told so."""
    monkeypatch.setattr(GuardAsk, "got", lambda *_: None)
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync"), "inv-2")
    eventually(lambda: holding.running() == 1)
    holding.end()
    assert holding.counted() == 0


@pytest.mark.usefixtures("forever")
def test_both_lines_of_each_invocation_are_logged_where_the_lock_is_handed_on(
    holding: Holding, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "singleton")
    holding.begin(a_job("sync", holding.body))
    holding.beside(a_job("sync"), "inv-2")
    eventually(lambda: holding.running() == 1)
    holding.end()
    lines = [record.getMessage() for record in caplog.records]
    assert lines.count(f"lock {LOCK}: acquired") == lines.count(f"lock {LOCK}: released") == 2


@pytest.mark.usefixtures("forever")
def test_an_invocation_that_is_cancelled_as_a_runner_is_counted_out(thread: LockThread, holding: Holding) -> None:
    async def both() -> None:
        go_on = asyncio.Event()
        first = asyncio.create_task(a_job("async", go_on.wait)(context=Context("holder")))
        await soon(lambda: "body_started" in thread.kinds())
        waiting = begun_outside(a_job("async")(context=Context("inv-2")))
        await soon(lambda: holding.running() == 1)
        assert holding.counted() == 1
        waiting.cancel()
        await asyncio.wait({waiting})
        assert holding.counted() == 0
        go_on.set()
        await first

    asyncio.run(both())
    assert thread.leased() == set()
    assert thread.kinds().count("failed:CancelledError") == 1

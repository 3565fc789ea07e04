"""A log handler that blocks stops no lock: the concerned are told first, and lines wait on a thread of their own."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

import pytest

from singleton import LockClient
from singleton.base.invocation import log
from singleton.locking.lease import Lease
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.log_thread import LogThread
from singleton.runtime.provided import provide_runtime
from singleton.runtime.registry import Registry
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import Network
from tests.support.world import NAME, foreign_id, now, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handler(logging.Handler):
    """Blocks on each line until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.may_go_on = threading.Event()
        self.lines: list[tuple[str, str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.may_go_on.wait(60)
        self.lines.append((record.getMessage(), record.threadName or "", record.filename))


@pytest.fixture
def handler() -> Iterator[Handler]:
    made = Handler()
    log.logger.addHandler(made)
    yield made
    made.may_go_on.set()
    log.logger.removeHandler(made)


@pytest.fixture
def memory() -> Iterator[MemoryLeaseStore]:
    """The store behind a lock thread as a process has it."""
    store = MemoryLeaseStore()
    runtime = Runtime(Registry(lambda _: store), log=LogThread())
    provide_runtime(lambda: runtime)
    yield store
    provide_runtime(None)
    runtime.close()


def test_a_log_handler_that_blocks_stops_no_lock(memory: MemoryLeaseStore, handler: Handler) -> None:
    locks = LockClient("UseDevelopmentStorage=true")
    dropped = [locks.acquire("dropped")]
    dropped.clear()  # which is worth a line
    with locks.lock("dropped", timeout=5), locks.lock("other", timeout=5):
        assert handler.lines == []
    handler.may_go_on.set()


def test_lines_are_logged_in_order_with_the_place_and_the_thread_that_they_are_from_and_all_before_the_end(
    handler: Handler,
) -> None:
    handler.may_go_on.set()
    runtime = Runtime(Registry(lambda _: MemoryLeaseStore()), log=LogThread())

    async def say(_: Registry) -> None:
        for number in range(100):
            log.warning("line %d", number)
        try:
            int("what")
        except ValueError as error:
            log.exception("that")
            log.error("this", exc_info=error)

    runtime.call(say)
    runtime.close()
    texts = [text for text, _, _ in handler.lines]
    assert texts == [*(f"line {number}" for number in range(100)), "that", "this"]
    assert {(thread, file) for _, thread, file in handler.lines} == {("singleton-locks", "test_logthread.py")}


def test_a_handler_that_never_ends_does_not_keep_the_process_from_its_end(
    handler: Handler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singleton.runtime.lock_thread._LAST_LINES", 0.05)
    monkeypatch.setattr("singleton.runtime.log_thread._MOST", 10)
    runtime = Runtime(Registry(lambda _: MemoryLeaseStore()), log=(thread := LogThread()))

    async def say(__: Registry) -> None:
        for _ in range(100):
            log.warning("line")

    runtime.call(say)
    runtime.close()
    assert handler.lines == []
    handler.may_go_on.set()
    thread.close(20)
    assert 10 <= len(handler.lines) <= 11, "what is beyond is dropped"


@virtual
async def test_who_lost_a_lock_is_told_before_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    await network.service.create(NAME)
    await network.service.acquire(NAME, foreign_id(1), 15)
    lease = Lease(network, NAME, foreign_id(1), sent=now(), period=15.0)
    logged: list[int] = []
    lease.when_lost = lambda _: logged.append(len(caplog.records))
    lease.lose("stolen")
    assert logged == [0]
    assert "hold lost (stolen)" in caplog.text
    await lease.stop()


def test_a_handler_that_raises_costs_its_line_and_no_other() -> None:
    said: list[str] = []

    def fails() -> None:
        raise RuntimeError("disk full")

    lines = LogThread()
    for line in (fails, lambda: said.append("after")):
        lines._put(line)
    lines.close(5.0)
    assert said == ["after"]

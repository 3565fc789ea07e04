"""Code of the app's on the lock thread and the log thread: what only watches changes nothing, whatever it raises."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.metrics import NoOpMeterProvider

from singleton import LockClient, observe, subscribe
from singleton.base import events
from singleton.base.invocation import log
from singleton.observing import observe as observing
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.log_thread import LogThread
from singleton.runtime.provided import provide_runtime
from singleton.runtime.registry import Registry
from singleton.stores.protocol import StoreFailure
from singleton.stores.request_count import count_requests, counted
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import LockThread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from singleton.base.hold import Hold

ERRORS = [ValueError, SystemExit, KeyboardInterrupt, asyncio.CancelledError, GeneratorExit]
every_error = pytest.mark.parametrize("error", ERRORS)


def raising(error: type[BaseException], times: list[int] | None = None) -> Callable[..., Any]:
    def act(*_: object, **__: object) -> Any:
        if times is not None:
            times.append(1)
        raise error("the app's")

    return act


@pytest.fixture
def thread() -> Iterator[LockThread]:
    with LockThread() as running:
        yield running


@contextmanager
def logging_apart(store: MemoryLeaseStore) -> Iterator[Runtime]:
    """A lock thread with a log thread, as a process has them."""
    runtime = Runtime(Registry(lambda _: store), log=LogThread())
    provide_runtime(lambda: runtime)
    yield runtime
    provide_runtime(None)
    runtime.close()


@pytest.fixture
def handled() -> Iterator[list[logging.LogRecord]]:
    lines: list[logging.LogRecord] = []
    handler = SimpleNamespace(level=0, handle=lines.append)
    log.logger.addHandler(handler)  # type: ignore[arg-type]
    yield lines
    log.logger.removeHandler(handler)  # type: ignore[arg-type]


def locks_go_on(locks: LockClient, thread: LockThread) -> None:
    with locks.try_lock("third") as third:
        assert third is not None
    assert thread.runtime._thread.is_alive()


# --- callbacks and listeners ------------------------------------------------------------------------------------------


@every_error
def test_a_callback_on_a_loss_that_raises_is_told_once_and_the_next_callback_is_called(
    thread: LockThread, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    locks, told = LockClient("UseDevelopmentStorage=true"), threading.Event()
    with locks.lock("other") as other:
        first = locks.acquire("first")
        first.lost.add_callback(raising(error))
        first.lost.add_callback(lambda _: told.set())
        thread.deleted("first")
        assert told.wait(60)
        assert other.owned
        locks_go_on(locks, thread)
    assert [record.getMessage() for record in caplog.records].count("a callback on the loss of a lock raised") == 1


@every_error
def test_a_listener_of_events_that_raises_on_the_lock_thread_is_told_of_and_others_hear(
    thread: LockThread, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    locks, told = LockClient("UseDevelopmentStorage=true"), threading.Event()
    end = subscribe(lambda event: raising(error)() if event.kind == "lost" else None)
    hold = locks.acquire("first")
    hold.lost.add_callback(lambda _: told.set())
    thread.deleted("first")
    assert told.wait(60)
    locks_go_on(locks, thread)
    end()
    assert "a listener of lock events raised on lost" in caplog.text
    assert "lost:blob gone" in thread.kinds()


def lost(thread: LockThread) -> Hold:
    hold, told = LockClient("UseDevelopmentStorage=true").acquire("first"), threading.Event()
    hold.lost.add_callback(lambda _: told.set())
    thread.deleted("first")
    assert told.wait(60)
    return hold


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_on_a_thread_of_the_app_s_an_interrupt_is_the_app_s(thread: LockThread, error: type[BaseException]) -> None:
    hold = lost(thread)
    with pytest.raises(error):
        hold.lost.add_callback(raising(error))


def test_on_a_thread_of_the_app_s_an_exception_is_logged(thread: LockThread, caplog: pytest.LogCaptureFixture) -> None:
    lost(thread).lost.add_callback(raising(ValueError))
    assert "a callback on the loss of a lock raised" in caplog.text


# --- meters and counters ----------------------------------------------------------------------------------------------


@every_error
async def test_a_counter_that_raises_leaves_the_answer_of_the_service_as_it_is(error: type[BaseException]) -> None:
    from singleton.base.invocation import catch_by

    catch_by(lambda: BaseException)
    end, calls = count_requests(raising(error)), list[int]()
    also = count_requests(lambda *_: calls.append(1))
    try:
        store = counted(MemoryLeaseStore(), "blob")
        assert await store.create("job") is not None
        with pytest.raises(StoreFailure, match="BlobNotFound"):
            await store.read("other")
        assert len(calls) == 2
    finally:
        catch_by(lambda: Exception)
        end()
        also()


class Meter(NoOpMeterProvider):
    """A provider whose meters count by ``add``, and make a gauge by ``gauge``."""

    def __init__(self, add: Callable[..., Any], gauge: Callable[..., Any] = lambda *_: None) -> None:
        self._add, self._gauge = add, gauge

    def get_meter(self, *_: Any, **__: Any) -> Any:
        meter = super().get_meter("name")
        meter.create_counter = lambda *_, **__: SimpleNamespace(add=self._add)  # type: ignore[method-assign,assignment]
        meter.create_observable_gauge = self._gauge  # type: ignore[method-assign]
        return meter


@every_error
def test_a_meter_that_raises_costs_no_hold(error: type[BaseException]) -> None:
    added = list[int]()

    def add(*_: object) -> None:
        if threading.current_thread().name == "singleton-locks":
            raising(error, added)()

    end = observe(meter_provider=Meter(add))
    store = counted(MemoryLeaseStore(), "blob")
    try:
        with LockThread(store), LockClient("UseDevelopmentStorage=true").lock("job", timeout=3) as hold:
            assert hold.owned
    finally:
        end()
    assert added


def test_a_meter_that_can_not_be_made_costs_no_invocation_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    made = observe
    monkeypatch.setattr(observing, "observe", lambda: made(meter_provider=Meter(raising(ValueError), raising(OSError))))
    before = len(events._listeners)
    observing.observe_by_default()
    assert "a meter or tracer of OpenTelemetry raised" in caplog.text
    assert len(events._listeners) == before


# --- logging ----------------------------------------------------------------------------------------------------------


@every_error
def test_a_handler_that_raises_costs_no_further_line(
    error: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    got: list[str] = []

    def handle(record: logging.LogRecord) -> None:
        got.append(record.getMessage())
        if len(got) == 1:
            raise error("the handler's")

    handler = SimpleNamespace(level=0, handle=handle)
    log.logger.addHandler(handler)  # type: ignore[arg-type]

    async def say(_: Registry) -> None:
        for number in range(5):
            log.warning("line %d", number)

    try:
        with logging_apart(MemoryLeaseStore()) as runtime:
            runtime.call(say)
    finally:
        log.logger.removeHandler(handler)  # type: ignore[arg-type]
    assert got == [f"line {number}" for number in range(5)]
    assert capsys.readouterr().err.count(f"{error.__name__}: the handler's") == 1


@every_error
@pytest.mark.parametrize("apart", [True, False], ids=["log thread", "lock thread"])
def test_a_line_is_logged_without_a_record_factory_that_raises_on_foreign_threads(
    error: type[BaseException], *, apart: bool, handled: list[logging.LogRecord]
) -> None:
    made = logging.getLogRecordFactory()

    def factory(*args: Any, **how: Any) -> logging.LogRecord:
        if threading.current_thread().name.startswith("singleton-"):
            raise error("Working outside of application context.")
        return made(*args, **how)

    async def say(_: Registry) -> str:
        log.warning("line %d", 1, extra={"lock": "job"})
        return threading.current_thread().name

    logging.setLogRecordFactory(factory)
    try:
        runtime = Runtime(Registry(lambda _: MemoryLeaseStore()), log=LogThread() if apart else None)
        name = runtime.call(say)
        runtime.close()
    finally:
        logging.setLogRecordFactory(made)
    assert [(line.getMessage(), line.threadName, vars(line)["lock"]) for line in handled] == [("line 1", name, "job")]


def test_a_record_by_the_app_s_factory_tells_the_lock_thread_and_its_context(handled: list[logging.LogRecord]) -> None:
    made, threads = logging.getLogRecordFactory(), list[str]()

    def factory(*args: Any, **how: Any) -> logging.LogRecord:
        threads.append(threading.current_thread().name)
        record = made(*args, **how)
        record.trace = "its own"
        return record

    async def say(_: Registry) -> None:
        log.warning("line")

    logging.setLogRecordFactory(factory)
    try:
        with logging_apart(MemoryLeaseStore()) as runtime:
            runtime.call(say)
    finally:
        logging.setLogRecordFactory(made)
    assert threads == ["singleton-log"]
    assert [(line.threadName, vars(line)["trace"]) for line in handled] == [("singleton-locks", "its own")]


def test_on_a_thread_of_the_app_s_a_factory_that_raises_is_printed_and_the_line_logged(
    handled: list[logging.LogRecord], capsys: pytest.CaptureFixture[str]
) -> None:
    made = logging.getLogRecordFactory()
    logging.setLogRecordFactory(raising(LookupError))
    try:
        log.warning("line")
    finally:
        logging.setLogRecordFactory(made)
    assert [line.getMessage() for line in handled] == ["line"]
    assert "LookupError: the app's" in capsys.readouterr().err


def test_a_mutex_of_logging_that_is_never_given_back_stops_no_lock() -> None:
    """An interrupt between the mutex and its ``try`` leaves it taken on Python 3.11."""
    taken, may_go = threading.Event(), threading.Event()

    def take() -> None:
        with logging._lock:  # type: ignore[attr-defined]
            log.logger.manager._clear_cache()  # type: ignore[attr-defined]
            taken.set()
            may_go.wait(60)

    with logging_apart(MemoryLeaseStore()) as runtime:
        holding = threading.Thread(target=take)
        holding.start()
        assert taken.wait(60)
        try:
            locks = LockClient("UseDevelopmentStorage=true")
            dropped = [locks.acquire("dropped")]
            dropped.clear()  # which is worth a line
            with locks.lock("dropped", timeout=5) as hold:
                assert hold.owned
        finally:
            may_go.set()
            holding.join()
        assert runtime._thread.is_alive()


async def test_an_error_of_a_callback_of_the_loop_is_logged_on_the_log_thread() -> None:
    lines: list[tuple[str, str]] = []
    handler = SimpleNamespace(
        level=0, handle=lambda line: lines.append((line.getMessage(), threading.current_thread().name))
    )
    logging.getLogger("asyncio").addHandler(handler)  # type: ignore[arg-type]
    try:
        with logging_apart(MemoryLeaseStore()) as runtime:
            runtime._loop.call_soon_threadsafe(raising(ValueError))
            await runtime.call_async(lambda _: asyncio.sleep(0))
    finally:
        logging.getLogger("asyncio").removeHandler(handler)  # type: ignore[arg-type]
    assert len(lines) == 1
    assert lines[0][0].startswith("Exception in callback raising")
    assert lines[0][1] == "singleton-log"


# --- deciders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ERRORS[1:])
def test_a_function_that_makes_clients_fails_the_call_that_asked_and_the_next_call_asks_again(
    error: type[BaseException],
) -> None:
    from singleton.runtime.lock_thread import shutdown

    shutdown()
    asked = list[int]()
    locks = LockClient(raising(error, asked))
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"the function that makes clients raised {error.__name__}"):
            locks.acquire("job", timeout=3)
    assert len(asked) == 2
    shutdown()


async def test_a_client_whose_close_would_end_a_loop_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    from singleton.runtime.registry import closed

    async def aclose() -> None:
        raise SystemExit(1)

    await closed([SimpleNamespace(aclose=aclose)])
    assert "did not close: RuntimeError('the close of a client or credential raised SystemExit:" in caplog.text

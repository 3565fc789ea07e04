"""Lines are logged in the name of the invocation that they are about: the Functions host drops all others."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
import threading
import time
from abc import abstractmethod
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from singleton import LockClient, LockLost, LockNotAcquired, SingletonOptions, current_hold, singleton
from singleton.base.invocation import log
from tests.support.deferrals import LOCK as DEFERRED_LOCK
from tests.support.deferrals import Queue, a_function
from tests.support.lock_thread import LockThread, an_app
from tests.support.network import Network, answered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LOCK = "locks/app/job"
IN_A_TASK = "__azure_function_invocation_id__"


class FakeWorker(logging.Handler):
    """A worker's way to run functions and to find the invocation of a line; subclasses are its two kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.storage = threading.local()
        self.variable: contextvars.ContextVar[str | None] = contextvars.ContextVar("invocation_id", default=None)
        self.lines: list[tuple[str | None, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        try:
            task = asyncio.current_task()
        except RuntimeError:
            task = None
        self.lines.append((getattr(task, IN_A_TASK, None) or self.found(), record.getMessage()))

    @abstractmethod
    def install(self, environment: pytest.MonkeyPatch) -> None:
        """Make it the worker that is loaded."""

    @abstractmethod
    def found(self) -> str | None:
        """Return the invocation of a line that no task of the worker's logs."""

    def run(self, function: Callable[..., Any], name: str, **arguments: Any) -> Any:
        """Run it as an invocation of this name."""
        self.storage.invocation_id = name
        token = self.variable.set(name)
        try:
            result = function(**arguments, context=self.context(name))
        finally:
            self.variable.reset(token)
            self.storage.invocation_id = None
        return asyncio.run(self._awaited(result, name)) if asyncio.iscoroutine(result) else result

    async def _awaited(self, result: Any, name: str) -> Any:
        setattr(asyncio.current_task(), IN_A_TASK, name)
        return await result

    def context(self, name: str) -> Any:
        class Context:
            invocation_id = name
            function_name = "job"
            thread_local_storage = self.storage

        return Context()

    def said(self, words: str) -> list[str | None]:
        return [name for name, line in self.lines if words in line]


class Classic(FakeWorker):
    """The worker up to Python 3.12: a task's attribute, or what is kept for the thread."""

    def install(self, environment: pytest.MonkeyPatch) -> None:
        module = ModuleType("azure_functions_worker.dispatcher")
        module._invocation_id_local = self.storage  # type: ignore[attr-defined]
        environment.setitem(sys.modules, module.__name__, module)
        environment.delitem(sys.modules, "azure_functions_runtime", raising=False)

    def found(self) -> str | None:
        return getattr(self.storage, "invocation_id", None)


class Proxy(FakeWorker):
    """The worker of Python 3.13 and later: a task's attribute, or a context variable."""

    def install(self, environment: pytest.MonkeyPatch) -> None:
        module = ModuleType("azure_functions_runtime")
        module.invocation_id_cv = self.variable  # type: ignore[attr-defined]
        environment.setitem(sys.modules, module.__name__, module)

    def found(self) -> str | None:
        return self.variable.get()


@pytest.fixture(params=[Classic, Proxy])
def worker(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWorker]:
    an_app(tmp_path, monkeypatch)
    made: FakeWorker = request.param()
    made.install(monkeypatch)
    logger = logging.getLogger("singleton")
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(made)
    yield made
    logger.removeHandler(made)
    logger.setLevel(before)


@pytest.fixture
def thread() -> Iterator[LockThread]:
    with LockThread() as made:
        yield made


def a_job(kind: str, body: Callable[[], None], **arguments: Any) -> Callable[..., Any]:
    def job(timer: object) -> None:
        body()

    async def async_job(timer: object) -> None:
        await asyncio.to_thread(body)

    async_job.__name__ = "job"
    return singleton(**arguments)(job if kind == "sync" else async_job)


both_kinds = pytest.mark.parametrize("kind", ["sync", "async"])


@both_kinds
@pytest.mark.parametrize("mode", ["function", "listener"])
def test_a_loss_is_told_in_the_name_of_who_holds_not_of_who_came_first(
    worker: FakeWorker, thread: LockThread, kind: str, mode: str
) -> None:
    def lose() -> None:
        if len(ran) == 2:
            thread.memory.delete(current_hold().lock)
            thread.push_clock(31)  # half of a listener's lease
            current_hold().lost.wait(5)
        ran.append(None)

    ran: list[None] = []
    job = a_job(kind, lose, mode=mode)
    for name in ("first", "second"):
        worker.run(job, name, timer=object())
    with pytest.raises(LockLost):
        worker.run(job, "third", timer=object())
    assert worker.said("hold lost") == ["third"]


@both_kinds
def test_a_message_that_is_put_back_is_told_of_in_the_name_of_its_invocation(
    worker: FakeWorker, thread: LockThread, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("Orders", "UseDevelopmentStorage=true")
    monkeypatch.setenv("QUEUE", "Orders")
    function = a_function(kind)
    thread.taken_by_another_process(DEFERRED_LOCK)
    worker.run(function, "deferred", msg=Queue(thread).message())
    assert worker.said("comes back in") == ["deferred"]


@both_kinds
def test_who_is_handed_the_lease_of_another_invocation_is_told_of_its_loss(
    worker: FakeWorker, thread: LockThread, kind: str
) -> None:
    inside, go_on = threading.Event(), threading.Event()
    failed: list[None] = []

    def body() -> None:
        if not inside.is_set():
            inside.set()
            assert go_on.wait(60)
            return
        thread.deleted(LOCK)
        current_hold().lost.wait(5)

    job = a_job(kind, body)

    def second() -> None:
        try:
            worker.run(job, "second", timer=object())
        except LockLost:
            failed.append(None)

    threads = [
        threading.Thread(target=worker.run, args=(job, "first"), kwargs={"timer": object()}),
        threading.Thread(target=second),
    ]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    while not thread.do(waiting(thread)):
        time.sleep(0.01)
    go_on.set()
    for each in threads:
        each.join(60)
    assert failed == [None]
    assert worker.said("hold lost") == ["second"]


def waiting(thread: LockThread) -> Callable[[], Any]:
    async def count() -> int:
        (lock,) = thread.runtime.registry._locks.values()
        return len([*lock._line])

    return count


@both_kinds
def test_lines_about_the_storage_and_the_way_to_a_lock_have_a_name(
    worker: FakeWorker, thread: LockThread, kind: str
) -> None:
    worker.run(a_job(kind, lambda: None), "first", timer=object())
    assert set(worker.said("acquired")) == {"first"}
    assert set(worker.said("released")) == {"first"}


def test_trouble_with_the_storage_is_told_in_the_name_of_who_still_waits(
    worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one's wait begins the polling, and ends before the trouble does."""
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__lockAcquisitionPollingInterval", "00:00:00.5")
    network = Network()
    with LockThread(network) as thread:
        thread.memory = network.service
        thread.taken_by_another_process(LOCK)
        impatient, job = a_job("sync", lambda: None, timeout=1.0), a_job("sync", lambda: None)
        first = threading.Thread(target=refused, args=(worker, impatient))
        first.start()
        while not thread.runtime.registry._locks or not thread.do(waiting(thread)):
            time.sleep(0.01)
        second = threading.Thread(target=worker.run, args=(job, "second"), kwargs={"timer": object()})
        second.start()
        first.join(60)
        network.plan("acquire", answered(503), answered(503))
        while not worker.said("storage fails"):
            time.sleep(0.01)
        thread.given_back_by_the_other(LOCK)
        second.join(60)
    assert worker.said("storage fails") == worker.said("storage answers again") == ["second"]


def refused(worker: FakeWorker, job: Callable[..., Any]) -> None:
    with pytest.raises(LockNotAcquired):
        worker.run(job, "first", timer=object())


def test_a_lock_client_in_a_function_without_a_guard_has_its_name_too(worker: FakeWorker, thread: LockThread) -> None:
    locks = LockClient("UseDevelopmentStorage=true", options=SingletonOptions())

    def sync_job(context: object) -> None:
        with locks.lock("x"):
            pass

    async def async_job(context: object) -> None:
        sync_job(context)

    for name, job in (("first", sync_job), ("second", async_job)):
        worker.run(job, name)
        assert set(worker.said("lock x: acquired")) == {name}
        worker.lines.clear()


def test_nothing_is_said_in_the_name_of_an_invocation_that_has_ended(worker: FakeWorker, thread: LockThread) -> None:
    left: list[contextvars.Context] = []
    worker.run(a_job("sync", lambda: left.append(contextvars.copy_context())), "first", timer=object())
    left[0].run(log.warning, "late")
    assert worker.said("late") == [None]
    assert getattr(worker.storage, "invocation_id", None) is None


def test_without_a_worker_a_line_is_logged_just_so(caplog: pytest.LogCaptureFixture) -> None:
    log.warning("a lock is %s", "free")
    (record,) = caplog.records
    assert (record.name, record.getMessage()) == ("singleton", "a lock is free")
    assert (record.funcName, record.filename) == ("test_without_a_worker_a_line_is_logged_just_so", "test_log_names.py")

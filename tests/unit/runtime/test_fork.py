"""A fork at a bad moment: the child finds no lock taken by a thread that it doesn't have."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from singleton import LockClient, LockClosed, LockLost
from singleton.base import forks
from singleton.base.forks import importing
from singleton.runtime import lock_thread
from singleton.testing import memory_locks
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import Context, a_job, an_app
from tests.support.waiters import soon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from singleton.base.hold import Hold

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

_SOON = 5


@pytest.fixture(autouse=True)
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockClient]:
    """The lock thread of this process, on a store in memory of which a child has a copy."""
    an_app(tmp_path, monkeypatch)
    store = MemoryLeaseStore()
    monkeypatch.setattr(lock_thread, "_open_store", lambda _: store)
    monkeypatch.setattr(lock_thread, "_load_http", lambda: None)
    lock_thread.shutdown()
    yield LockClient()
    lock_thread.shutdown()


def in_a_child(work: Callable[[], object], *, goes_on: bool = False) -> str:
    """Run ``work`` in a forked child; say how it ended. ``goes_on``: it ends by itself, later."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_SOON)
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told by the exit code
            os._exit(2 if isinstance(error, LockClosed) else 3 if isinstance(error, LockLost) else 1)
        if goes_on:
            return ""
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return {0: "done", 1: "failed", 2: "closed", 3: "lost", -signal.SIGALRM: "hung"}[code]


@contextmanager
def taken_by_another_thread(lock: AbstractContextManager[object]) -> Iterator[None]:
    taken, over = threading.Event(), threading.Event()

    def take() -> None:
        with lock:
            taken.set()
            over.wait(60)

    thread = threading.Thread(target=take)
    thread.start()
    assert taken.wait(60)
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize(
    "use",
    [
        lambda hold: hold.lost.add_callback(print),
        lambda hold: hold.lost.wait(),
        lambda hold: hold.lost.fire("closed"),
        lambda hold: hold.lost.freeze(),
    ],
)
def test_as_a_holds_guard_is_taken(locks: LockClient, use: Callable[[Hold], object]) -> None:
    with locks.lock("job") as hold, taken_by_another_thread(hold.lost._guard):
        assert in_a_child(lambda: use(hold)) == "done"


def test_as_somebody_starts_or_ends_the_lock_thread(locks: LockClient) -> None:
    with locks.lock("job"), taken_by_another_thread(lock_thread._guard):
        assert in_a_child(lambda: locks.lock("other").__enter__()) == "done"


def test_as_somebody_asks_the_lock_thread_which_the_child_can_not_ask(locks: LockClient) -> None:
    async def nothing(_: object) -> None: ...

    with locks.lock("job") as hold:
        runtime = lock_thread._current
        assert runtime is not None
        with taken_by_another_thread(runtime._door):
            assert in_a_child(lambda: runtime.call(nothing)) == "closed"
            assert in_a_child(lambda: runtime.release(hold)) == "done"


def test_threads_that_import_wait_for_no_other_and_a_thread_forks_in_its_own_import() -> None:
    with importing, taken_by_another_thread(importing):
        pass
    with importing:
        assert in_a_child(importing.__enter__) == "done"


def test_a_fork_does_not_wait_for_ever_and_no_child_waits_for_the_threads_that_it_has_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(forks, "_LONGEST", 0.01)
    with taken_by_another_thread(importing):
        assert in_a_child(lambda: importing._threads == [] or os._exit(1)) == "done"


def test_the_child_may_import_and_make_clients_on_another_thread(locks: LockClient) -> None:
    def load() -> None:
        with importing:
            pass

    def on_a_thread() -> None:
        thread = threading.Thread(target=load)
        thread.start()
        thread.join()

    assert in_a_child(on_a_thread) == "done"


def test_the_child_of_a_leader_does_not_lead(locks: LockClient) -> None:
    with locks.leadership("leader") as leadership:
        hold = leadership.wait()
        assert hold is not None
        assert in_a_child(hold.raise_if_lost) == "lost"
        assert hold is leadership.hold, "its parent does"
        with taken_by_another_thread(hold.lost._guard):
            assert in_a_child(hold.lost.wait) == "done"


def test_a_child_has_locks_of_its_own_and_its_children_too(locks: LockClient) -> None:
    def in_turn() -> None:
        with locks.lock("other"):
            assert in_a_child(lambda: locks.lock("third").__enter__()) == "done"

    with locks.lock("job"):
        assert in_a_child(in_turn) == "done"


def test_a_child_of_a_process_with_locks_in_memory_holds_nothing_and_waits_for_nobody() -> None:
    with memory_locks(), LockClient().lock("job") as hold:
        hold.state.write("parent")
        assert in_a_child(lambda: hold.state.write("child")) == "closed"
        assert in_a_child(hold.state.read) == "closed"
        assert in_a_child(hold.raise_if_lost) == "lost"
        assert hold.state.read() == "parent"


def test_the_child_can_cancel_who_waits_on_its_loop_though_another_thread_had_the_mutex(locks: LockClient) -> None:
    loop = asyncio.new_event_loop()

    async def begun() -> asyncio.Task[None]:
        waiting: asyncio.Task[None] = asyncio.create_task(a_job("async")(context=Context("inv-1")))
        await soon(lambda: len(lock._line) == 1)
        return waiting

    def cancel() -> None:
        waiting.cancel()
        loop.run_until_complete(asyncio.wait({waiting}))
        assert waiting.cancelled()

    with locks.lock("locks/app/job"):
        assert lock_thread._current is not None
        (lock,) = lock_thread._current.registry._locks.values()
        waiting = contextvars.Context().run(loop.run_until_complete, begun())
        with taken_by_another_thread(lock_thread._current._door):
            assert in_a_child(cancel) == "done"
        cancel()
    loop.close()


@pytest.mark.process
def test_who_forks_while_another_thread_imports_what_a_request_needs_hears_nothing_of_it() -> None:
    """What is imported there may have hooks for forks of its own, of which only the second half would run."""
    code = """
        import os, threading, warnings
        from singleton.base.forks import importing
        from singleton.runtime import lock_thread
        warnings.simplefilter("ignore", DeprecationWarning)
        taken, forking = threading.Event(), threading.Event()
        def load():
            with importing:
                taken.set()
                forking.wait(60)
                lock_thread._load_http()
        thread = threading.Thread(target=load)
        thread.start()
        taken.wait(60)
        os.register_at_fork(before=forking.set)
        child = os.fork()
        if child == 0: os._exit(0)
        os.waitpid(child, 0)
        thread.join()
    """
    ran = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


@pytest.mark.process
@pytest.mark.parametrize(
    ("module", "use"),
    [
        ("singleton.clients.blocks", "LockClient().lock('job')"),
        ("singleton.locking.semaphore", "AsyncLockClient().semaphore('job', 2)"),
        ("singleton.functions.guard", "job()"),
        ("singleton.patterns.ordered.service", "Inbox('orders').service"),
        ("singleton.settings.options", "package.SingletonOptions"),
    ],
)
def test_a_fork_waits_for_the_imports_of_a_first_use_and_the_child_can_use_the_same(module: str, use: str) -> None:
    """Without the wait the child waits for ever, for the module that no thread of the child imports."""
    code = f"""
        import os, signal, sys, threading, time, warnings
        import singleton as package
        {"" if "package" in use else "from singleton import AsyncLockClient, Inbox, LockClient, singleton"}
        warnings.simplefilter("ignore", DeprecationWarning)
        half, forking = threading.Event(), threading.Event()
        class Finder:
            def find_spec(name, path=None, target=None):
                if name == {module!r} and not half.is_set():
                    half.set()
                    forking.wait(60)
                    time.sleep(0.2)  # a fork that does not wait comes first
        sys.meta_path.insert(0, Finder)
        {"" if "job()" not in use else "@singleton"}
        def job(): pass
        def use(): {use}
        thread = threading.Thread(target=use)
        thread.start()
        assert half.wait(60)
        os.register_at_fork(before=forking.set)
        child = os.fork()
        if child == 0:
            signal.alarm({_SOON})
            use()
            os._exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        thread.join()
    """
    env = {
        **os.environ,
        "AzureFunctionsJobHost__singleton__enabled": "false",
        "AzureWebJobsStorage": "UseDevelopmentStorage=true",
    }
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=env, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.returncode) == ("7\n", 0), ran.stderr

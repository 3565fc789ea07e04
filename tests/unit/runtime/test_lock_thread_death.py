"""A lock thread that dies all the same: holders and waiters are told, and the next call starts another thread."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, cast

import pytest

from singleton import AsyncLockClient, LockClient, SingletonError, holds, singleton
from singleton.base.errors import LockLost, LockNotAcquired
from singleton.runtime import lock_thread
from singleton.runtime.lock_thread import runtime, shutdown
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import Context, an_app

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from singleton.runtime.lock_thread import Runtime

ACCOUNT = "UseDevelopmentStorage=true"
DEATHS: dict[str, Callable[[Any], object]] = {
    "SystemExit": lambda dying: dying._loop.call_soon_threadsafe(_raise, SystemExit(3)),
    "KeyboardInterrupt": lambda dying: dying._loop.call_soon_threadsafe(_raise, KeyboardInterrupt()),
    "thrice": lambda dying: [dying._loop.call_soon_threadsafe(_raise, SystemExit(3)) for _ in range(3)],
    "stopped": lambda dying: dying._loop.call_soon_threadsafe(dying._loop.stop),
}
every_death = pytest.mark.parametrize("death", DEATHS.values(), ids=DEATHS)


def _raise(error: BaseException) -> None:
    raise error


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryLeaseStore]:
    """The process's own lock threads, on one store in memory."""
    shutdown()
    store = MemoryLeaseStore()
    monkeypatch.setattr(lock_thread, "_open_store", lambda _: store)
    monkeypatch.setattr(lock_thread, "_load_http", lambda: None)
    yield store
    shutdown()


def current() -> Runtime:
    found = runtime()
    assert isinstance(found, lock_thread.Runtime)
    return found


def die(death: Callable[[Any], object] = DEATHS["SystemExit"]) -> Runtime:
    dying = current()
    death(dying)
    dying._thread.join(60)
    assert not dying._thread.is_alive()
    return dying


def lapse(memory: MemoryLeaseStore, name: str) -> None:
    """End a lease at the service, as time does."""
    memory._blobs[name].expires = -math.inf


@every_death
def test_every_hold_is_lost_and_every_wait_ends_in_words(
    memory: MemoryLeaseStore, death: Callable[[Any], object], caplog: pytest.LogCaptureFixture
) -> None:
    locks, told = LockClient(ACCOUNT), list[str]()
    hold, other = locks.acquire("job"), locks.acquire("other")
    hold.lost.add_callback(told.append)
    with ThreadPoolExecutor(4) as pool:
        waiting = [pool.submit(locks.acquire, "job", timeout=600), pool.submit(locks.acquire, "job")]
        losing = pool.submit(other.lost.wait, 60)
        awaiting = pool.submit(asyncio.run, AsyncLockClient(ACCOUNT).acquire("job"))
        while len([each for each in holds().waiting if each.lock == "job"]) < 3:
            time.sleep(0.001)
        die(death)
        wait(list[Future[Any]]([*waiting, losing, awaiting]), timeout=60)
        assert (hold.lost.reason, other.lost.reason, told, losing.result()) == ("closed", "closed", ["closed"], True)
        for each in (*waiting, awaiting):
            with pytest.raises(SingletonError, match="the lock thread of this process has ended by"):
                each.result()
    assert "The next call starts another lock thread" in caplog.text
    with pytest.raises(LockLost):
        hold.raise_if_lost()
    locks.release(hold)
    locks.release(other)


@every_death
def test_the_next_call_starts_another_thread_and_stamps_anew(
    memory: MemoryLeaseStore, death: Callable[[Any], object]
) -> None:
    locks = LockClient(ACCOUNT)
    with locks.lock("job") as first:
        pass
    with locks.lock("job") as again:
        assert first.token is not None
        assert again.token == first.token + 1, "the stamp of the first was good for both"
    dead, written = die(death), memory.calls["write"]
    with locks.lock("job", timeout=5) as hold:
        assert hold.token is not None
        assert again.token is not None
        assert hold.token > again.token
        assert hold.owned
    assert current() is not dead
    assert memory.calls["write"] == written + 1


def test_a_body_that_runs_on_under_its_lost_hold_excludes_the_next_one_of_its_process(memory: MemoryLeaseStore) -> None:
    locks, inside, may_end = LockClient(ACCOUNT), threading.Event(), threading.Event()
    order: list[str] = []

    def body() -> None:
        hold = locks.acquire("job")
        inside.set()
        may_end.wait(60)
        order.append(f"first: {hold.lost.reason}")
        locks.release(hold)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(body)
        assert inside.wait(60)
        die()
        lapse(memory, "job")
        with pytest.raises(LockNotAcquired, match="in use by this process"):
            locks.acquire("job", timeout=0.2)
        with locks.try_lock("job") as refused:
            assert refused is None
        with locks.lock("other", timeout=5):
            pass
        second = pool.submit(locks.acquire, "job", timeout=60)
        second.add_done_callback(lambda _: order.append("second"))
        time.sleep(0.05)
        may_end.set()
        first.result(60)
        locks.release(second.result(60))
    assert order == ["first: closed", "second"]


@pytest.mark.parametrize("deaths", [1, 2])
def test_a_guarded_body_excludes_the_next_over_any_number_of_deaths(
    memory: MemoryLeaseStore, deaths: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_app(tmp_path, monkeypatch)
    inside, may_end = threading.Event(), threading.Event()
    running: list[int] = []

    @singleton(timeout=30)
    def job(msg: str = "") -> None:
        running.append(1)
        assert len(running) == 1
        if msg == "first":
            inside.set()
            may_end.wait(60)
        running.pop()

    def invoke(name: str) -> None:
        cast("Any", job)(msg=name, context=Context(name))

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(invoke, "first")
        assert inside.wait(60)
        for _ in range(deaths):
            die()
            lapse(memory, memory.names()[0])
        second = pool.submit(invoke, "second")
        time.sleep(0.05)
        assert not second.done()
        may_end.set()
        with pytest.raises(LockLost, match="closed"):
            first.result(60)
        second.result(60)


def test_a_hold_that_is_dropped_after_the_death_excludes_nobody(memory: MemoryLeaseStore) -> None:
    locks = LockClient(ACCOUNT)
    held = [locks.acquire("job"), locks.acquire("early")]
    die()
    lapse(memory, "job")
    lapse(memory, "early")
    held.pop()
    with locks.lock("early", timeout=5), locks.try_lock("job") as refused:
        assert refused is None
    held.clear()
    gc.collect()
    with locks.lock("job", timeout=5) as hold:
        assert hold.owned


def test_a_lock_that_is_kept_after_its_hold_excludes_as_long_as_its_lease(memory: MemoryLeaseStore) -> None:
    locks = LockClient(ACCOUNT)
    with locks.lock("job", at_least=600):
        pass
    die()
    lapse(memory, "job")
    with locks.lock("job", timeout=5) as hold:
        assert hold.owned


def test_a_leader_leads_no_more_and_its_end_is_no_error(memory: MemoryLeaseStore) -> None:
    locks = LockClient(ACCOUNT)
    with locks.leadership("job") as leadership:
        hold = leadership.wait(60)
        assert hold is not None
        die()
        assert leadership.hold is None
        assert hold.lost.reason == "closed"
        with pytest.raises(SingletonError):
            leadership.wait(60)
        lapse(memory, "job")
        with locks.leadership("job") as next_one:
            assert next_one.wait(60) is not None


def test_a_callback_that_asks_for_a_lock_while_the_thread_dies_is_refused(memory: MemoryLeaseStore) -> None:
    locks, told = LockClient(ACCOUNT), list[str]()

    def ask(_: object) -> None:
        try:
            locks.acquire("other", timeout=1)
        except RuntimeError as error:
            told.append(str(error))

    hold = locks.acquire("job")
    hold.lost.add_callback(ask)
    die()
    assert ["can't acquire on the lock thread" in text for text in told] == [True]
    locks.release(hold)


def test_a_process_whose_lock_thread_died_ends_as_any_other(memory: MemoryLeaseStore) -> None:
    LockClient(ACCOUNT).acquire("job")
    die()
    shutdown()
    with LockClient(ACCOUNT).lock("other", timeout=5):
        pass


def test_a_worker_goes_on_after_the_death(memory: MemoryLeaseStore) -> None:
    worked = threading.Semaphore(0)
    with LockClient(ACCOUNT).periodic("job", lambda _: worked.release(), every=0.05):
        assert worked.acquire(timeout=60)
        die()
        lapse(memory, "job")
        for _ in range(3):
            assert worked.acquire(timeout=60)


def test_a_listener_s_process_listens_again_after_its_lease_although_a_body_of_before_runs_on(
    memory: MemoryLeaseStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after any loss: the bodies were told, and the lease has lapsed."""
    an_app(tmp_path, monkeypatch)
    inside, may_end = threading.Event(), threading.Event()

    @singleton(mode="listener", on_contention="raise")
    def job(msg: str = "") -> str:
        if msg == "first":
            inside.set()
            may_end.wait(60)
        return msg

    def invoke(name: str) -> Any:
        return cast("Any", job)(msg=name, context=Context(name))

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(invoke, "first")
        assert inside.wait(60)
        die()
        lapse(memory, memory.names()[0])
        assert invoke("second") == "second"
        may_end.set()
        with pytest.raises(LockLost, match="closed"):
            first.result(60)
    assert invoke("third") == "third"

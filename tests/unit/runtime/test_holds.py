"""``holds()``: what this process holds and waits for, read at any time without waiting for anything."""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import os
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import azure.functions as func
import pytest

from singleton import (
    AsyncLockClient,
    HeldLock,
    Holds,
    LockClient,
    LockClosed,
    LockNotAcquired,
    SingletonOptions,
    WaitingFor,
    current_hold,
    holds,
    once,
    singleton,
)
from singleton.base.events import _going
from singleton.testing import memory_locks, virtual_time
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.listeners import LOCK, a_timer, end, tick
from tests.support.lock_thread import Context, LockThread, an_app
from tests.support.world import occupy, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    gc.collect()
    _going.clear()  # of processes that other tests pretended to end
    yield
    gc.collect()
    assert holds() == Holds(held=(), waiting=())
    assert not _going


@pytest.fixture
def locks() -> Iterator[LockClient]:
    with memory_locks():
        yield LockClient(options=SingletonOptions(renewal_interval=1))  # so that it hears soon of a loss


def held() -> list[tuple[str, str, str, str]]:
    return [(each.mode, each.lock, each.function, each.owner) for each in holds().held]


def waiting() -> list[tuple[str, str, str, str]]:
    return [(each.mode, each.lock, each.function, each.owner) for each in holds().waiting]


# --- lock clients -----------------------------------------------------------------------------------------------------


def test_a_lock_is_held_for_the_length_of_its_block(locks: LockClient) -> None:
    with locks.lock("job", owner="me") as hold:
        (lock,) = holds().held
        assert (lock.lock, lock.owner, lock.mode, lock.token, lock.lost) == ("job", "me", "lock", hold.token, None)
        assert 0 <= lock.seconds < 60
        assert abs((datetime.now(UTC) - lock.since).total_seconds()) < 60
        assert holds().waiting == ()
    assert holds().held == ()


def test_what_is_told_is_frozen(locks: LockClient) -> None:
    with locks.lock("job"):
        (lock,) = holds().held
    with pytest.raises(dataclasses.FrozenInstanceError):
        lock.lock = "other"  # type: ignore[misc]
    assert lock.lock == "job"
    assert isinstance(lock, HeldLock)


def test_a_hold_without_a_block_is_held_until_its_release(locks: LockClient) -> None:
    hold = locks.acquire("job")
    assert held() == [("lock", "job", "", "")]
    locks.release(hold)
    assert held() == []


def test_one_that_was_dropped_is_held_until_it_is_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)
    with LockThread():
        hold = LockClient().acquire("job")
        assert held() == [("lock", "job", "", "")]
        del hold
        gc.collect()
        deadline = time.monotonic() + 60
        while held() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert held() == []


def test_a_slot_and_a_set_are_held_too(locks: LockClient) -> None:
    with locks.semaphore("pool", 2, owner="a"), locks.lock_all(["x", "y"], owner="b"):
        (slot, *others) = held()
        assert slot[0] == "semaphore"
        assert slot[1].startswith("pool/slot-")
        assert others == [("lock", "x", "", "b"), ("lock", "y", "", "b")]


@virtual_time
async def test_who_waits_is_told_with_its_seconds() -> None:
    locks = AsyncLockClient()

    async def other() -> None:
        async with locks.lock("job", owner="other"):
            pass

    async with locks.lock("job", owner="me"):
        task = asyncio.create_task(other())
        await asyncio.sleep(20)
        (lock,), (wait,) = holds().held, holds().waiting
        assert (wait.lock, wait.owner, wait.mode) == ("job", "other", "lock")
        assert isinstance(wait, WaitingFor)
        assert wait.seconds == pytest.approx(20, abs=1)
        assert lock.seconds == pytest.approx(20, abs=1)
    await task
    assert holds() == Holds(held=(), waiting=())


@virtual_time
async def test_a_wait_in_vain_or_cancelled_is_over() -> None:
    locks = AsyncLockClient()
    async with locks.lock("job"):
        waits = asyncio.create_task(locks.acquire("job", timeout=5)), asyncio.create_task(locks.acquire("job"))
        await asyncio.sleep(1)
        assert len(waiting()) == 2
        waits[1].cancel()
        await asyncio.wait(waits)
        assert waiting() == []
        assert isinstance(waits[0].exception(), LockNotAcquired)


@virtual_time
async def test_a_worker_holds_at_its_tick_and_does_not_wait_between() -> None:
    locks = AsyncLockClient()

    async def work(_: object) -> None:
        assert held() == [("periodic", "job", "", "")]
        await asyncio.sleep(5)

    async with locks.periodic("job", work, every=60):
        await asyncio.sleep(1)
        assert len(held()) == 1
        await asyncio.sleep(20)
        assert holds() == Holds(held=(), waiting=())


@virtual_time
async def test_a_candidate_waits_until_it_leads() -> None:
    locks = AsyncLockClient()
    async with locks.lock("chief") as hold, locks.leadership("chief", owner="me") as leadership:
        await asyncio.sleep(100)
        assert waiting() == [("leadership", "chief", "", "me")]
        await locks.release(hold)
        await leadership
        assert waiting() == []
        assert held() == [("leadership", "chief", "", "me")]
    assert held() == []


@virtual_time
async def test_a_candidate_that_stops_waits_no_more() -> None:
    locks = AsyncLockClient()
    async with locks.lock("chief"):
        for pause in (0, 0.01, 100):
            async with locks.leadership("chief") as leadership:
                await asyncio.sleep(pause)
            assert waiting() == [], f"stopped after {pause} s"
            with pytest.raises(LockClosed):
                await leadership


async def kept_for_ever(locks: AsyncLockClient) -> None:
    async with locks.lock("job"):
        await asyncio.Event().wait()


async def led_for_ever(locks: AsyncLockClient) -> None:
    async with locks.leadership("job") as leadership:
        await leadership
        await asyncio.Event().wait()


@singleton(scope_id="job", level="host")
async def run_for_ever(_: Any, context: Any = None) -> None:
    await asyncio.Event().wait()


async def called_for_ever(locks: AsyncLockClient) -> None:
    await locks.lock("job")(run_for_ever)(locks)


@pytest.mark.parametrize("use", [kept_for_ever, led_for_ever, run_for_ever, called_for_ever])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # as asyncio.run was not used
def test_a_coroutine_whose_loop_was_closed_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, use: Any
) -> None:
    an_app(tmp_path, monkeypatch)
    with LockThread() as thread:
        loop = asyncio.new_event_loop()
        task = loop.create_task(use(AsyncLockClient()))
        while not thread.leased():
            loop.run_until_complete(asyncio.sleep(0.001))
        loop.run_until_complete(asyncio.sleep(0.001))
        loop.close()
        del task, loop
        deadline = time.monotonic() + 60
        while thread.leased() and time.monotonic() < deadline:
            gc.collect()
            time.sleep(0.001)
        assert thread.leased() == set()


@virtual_time
async def test_a_lock_that_is_lost_is_told_so_until_its_block_has_ended() -> None:
    locks = AsyncLockClient()
    async with locks.lock("job", on_loss="tell") as hold:
        await locks.break_("job", notice=0)
        reason = await hold.lost
        assert reason is not None
        assert [lock.lost for lock in holds().held] == [reason]
    assert holds().held == ()


@virtual_time
async def test_a_lock_that_is_kept_for_longer_than_its_block_is_held() -> None:
    locks = AsyncLockClient()
    async with locks.lock("job", at_least=30):
        pass
    assert held() == [("lock", "job", "", "")]
    await asyncio.sleep(31)
    assert held() == []


# --- Functions --------------------------------------------------------------------------------------------------------


@singleton(scope_id="stock", level="host")
def ship(context: Any = None) -> list[tuple[str, str, str, str]]:
    return held()


@once(key="Id")
def charge(msg: str, context: Any = None) -> list[str]:
    assert current_hold().owned
    return [f"{mode} {function} {owner}" for mode, _, function, owner in held()]


@singleton(mode="listener", renewal_interval=1)
def listen(context: Any = None) -> list[tuple[str, str, str, str]]:
    return held()


@pytest.mark.parametrize("limit", [None, 2])
def test_the_lock_of_an_invocation_is_held_until_it_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None
) -> None:
    an_app(tmp_path, monkeypatch)
    with LockThread():

        @singleton(at_least=0.4, limit=limit, name="kept")
        def short(context: Any = None) -> None: ...

        short(context=Context("inv-7"))
        assert [(each.owner, each.lost) for each in holds().held] == [("inv-7", None)]
        time.sleep(0.8)
        assert holds().held == ()


def test_a_guarded_invocation_is_held_with_its_function_and_its_id(locks: LockClient) -> None:
    ((mode, lock, function, owner),) = ship(context=Context("inv-7"))
    assert (mode, function, owner) == ("function", "ship", "inv-7")
    assert lock.endswith("stock")
    assert held() == []


@singleton(scope_id="pool", level="host", limit=2)
def work(context: Any = None) -> list[tuple[str, str, str, str]]:
    return held()


def test_an_invocation_under_a_limit_holds_a_slot(locks: LockClient) -> None:
    ((mode, lock, function, owner),) = work(context=Context("inv-7"))
    assert (mode, function, owner) == ("function", "work", "inv-7")
    assert "/slot-" in lock


def test_so_is_one_of_once(locks: LockClient) -> None:
    assert charge('{"Id": 1}', context=Context("inv-8")) == ["function charge inv-8"]


def test_a_lock_of_a_client_inside_an_invocation_names_the_function(locks: LockClient) -> None:
    @singleton(scope_id="stock", level="host")
    def outer(context: Any = None) -> list[tuple[str, str, str, str]]:
        with locks.lock("job", owner="me"):
            return held()

    assert ("lock", "job", "outer", "me") in outer(context=Context("inv-9"))


def test_a_listeners_lock_is_held_once_by_its_process(locks: LockClient) -> None:
    for name in ("inv-1", "inv-2"):
        ((mode, _, function, owner),) = listen(context=Context(name))
        assert (mode, function, owner) == ("listener", "listen", "")
    assert [each[0] for each in held()] == ["listener"]


def test_a_listeners_lock_that_is_lost_is_held_no_more_when_it_is_given_back(locks: LockClient) -> None:
    ((_, name, *_),) = listen(context=Context("inv-1"))
    locks.break_(name, notice=0)
    deadline = time.monotonic() + 60
    while held() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert held() == []


@virtual
async def test_a_process_that_ends_waits_for_no_listeners_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)
    service = MemoryLeaseStore()
    await occupy(service, LOCK)
    host = InlineHost(service)
    await tick(host, a_timer())
    assert waiting() == [("listener", LOCK, "job", "")]
    await end(host)
    assert waiting() == []


# --- at any time ------------------------------------------------------------------------------------------------------


@pytest.mark.process
def test_before_anything_has_begun_it_starts_no_thread_and_imports_no_sdk() -> None:
    code = (
        "import sys, threading, singleton\n"
        "before = set(sys.modules)\n"
        "assert singleton.holds() == singleton.Holds(held=(), waiting=())\n"
        "new = set(sys.modules) - before\n"
        "assert threading.active_count() == 1\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('azure', 'aiohttp')]\n"
        "assert 'singleton.runtime.lock_thread' not in new, new\n"
        "print('fine')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "fine\n", done.stderr


def test_while_the_lock_thread_is_busy(locks: LockClient) -> None:
    busy, go = threading.Event(), threading.Event()

    def hang(_: object) -> None:
        busy.set()
        go.wait(60)

    with locks.lock("job", on_loss="tell") as hold:
        hold.lost.add_callback(hang)  # it runs on the lock thread
        breaking = threading.Thread(target=locks.break_, args=("job", 0))
        breaking.start()
        try:
            assert busy.wait(60)
            begun = time.monotonic()
            assert [lock.lock for lock in holds().held] == ["job"]
            assert time.monotonic() - begun < 20
        finally:
            go.set()
            breaking.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_holds_nothing_and_its_parent_still_does(locks: LockClient) -> None:
    with locks.lock("job"):
        child = os.fork()
        if child == 0:
            os._exit(0 if holds() == Holds(held=(), waiting=()) else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert held() == [("lock", "job", "", "")]


def test_while_other_threads_acquire_and_release(locks: LockClient) -> None:
    stop = threading.Event()

    def work(number: int) -> None:
        while not stop.is_set():
            with locks.lock(f"job-{number}"):
                pass

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(2000):
            seen = holds()
            assert len(seen.held) + len(seen.waiting) <= 4
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not _going


def test_what_ends_without_an_event_is_forgotten_with_it() -> None:
    from singleton.base.events import Call, tell

    call = Call("job", "", "me", mode="lock")
    tell("waiting", call)
    assert waiting() == [("lock", "job", "", "me")]
    del call
    gc.collect()
    assert not _going


def test_a_functions_app_may_serve_it_as_a_health_probe(locks: LockClient) -> None:
    def health(req: func.HttpRequest) -> func.HttpResponse:
        lost = [lock.lock for lock in holds().held if lock.lost is not None]
        return func.HttpResponse("\n".join(lost), status_code=503 if lost else 200)

    with locks.lock("job"):
        assert health(func.HttpRequest(method="GET", url="/", body=b"")).status_code == 200

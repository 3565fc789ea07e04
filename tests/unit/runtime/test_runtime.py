"""The lock thread: callers of any kind come and go, and what they leave behind is nothing (B9, B16, B21)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

import pytest

from singleton.base.errors import LockClosed, LockNotAcquired, SingletonError
from singleton.runtime import lock_thread
from singleton.runtime.address import Address
from singleton.runtime.call_result import CallResult
from singleton.runtime.calls import Lifetime
from singleton.runtime.lock_loop import LockLoop
from singleton.runtime.lock_thread import Runtime
from singleton.runtime.registry import Registry
from singleton.settings.accounts import LockContainer
from singleton.settings.connection import StorageAccount
from singleton.settings.options import SingletonOptions
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import LockThread
from tests.support.waiters import soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.base.hold import Hold

LOCK = "locks/app/job"
PLACE = LockContainer(StorageAccount("UseDevelopmentStorage=true"), "webjobshost")
QUICK = SingletonOptions(lock_acquisition_min_polling_interval=0.01)


@pytest.fixture
def thread() -> Iterator[LockThread]:
    with LockThread() as running:
        yield running


def address(name: str = LOCK) -> Address:
    return Address.of(PLACE, name, QUICK)


def acquire(thread: LockThread, *, timeout: float | None = None, owner: str = "me", name: str = LOCK) -> Hold:
    return thread.runtime.call(lambda registry: registry.acquire(address(name), timeout=timeout, owner=owner))


async def acquire_async(thread: LockThread, *, timeout: float | None = None) -> Hold:
    return await thread.runtime.call_async(lambda registry: registry.acquire(address(), timeout=timeout, owner="me"))


def interrupt_main() -> None:
    """Do what Ctrl-C does: the system hands it to the main thread."""
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def interrupt_until(came: threading.Event, seconds: float) -> None:
    """Do so after a time, and each second from then on: CPython misses one that comes just before it blocks."""
    while not came.wait(seconds):
        interrupt_main()
        seconds = 1.0


def start_and_acquire(interrupting: threading.Thread, thread: LockThread) -> None:
    interrupting.start()
    acquire(thread)


def until(thread: LockThread, *, free: str) -> None:
    """Wait until nobody holds the lock any more: a caller that went away does not wait for that itself."""
    end = time.monotonic() + 60
    while free in thread.leased():
        assert time.monotonic() < end, f"{free} is still leased"


# --- its clock and its thread ---------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system has no clock that counts suspended time")
def test_its_clock_counts_the_time_that_a_machine_sleeps() -> None:
    loop = LockLoop()
    try:
        assert abs(loop.time() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1
    finally:
        loop.close()


def test_it_looks_up_every_second_for_a_clock_that_jumped() -> None:
    loop = LockLoop()
    jumped = 0.0
    clock = loop.time
    loop.time = lambda: clock() + jumped  # type: ignore[method-assign]

    async def sleep_through_it() -> float:
        nonlocal jumped
        asleep = time.monotonic()
        sleeping = asyncio.create_task(asyncio.sleep(600))
        await asyncio.sleep(0)
        jumped = 600.0
        await sleeping
        return time.monotonic() - asleep

    try:
        assert loop.run_until_complete(sleep_through_it()) < 60
    finally:
        loop.close()


def test_work_that_is_stuck_takes_no_thread_from_other_work_and_does_not_keep_the_process() -> None:
    """As lookups of hosts are, in a resolver that never answers."""
    loop, go = LockLoop(), threading.Event()

    async def main() -> None:
        stuck = [loop.run_in_executor(None, go.wait) for _ in range(100)]
        assert await loop.run_in_executor(None, max, 1, 2) == 2
        threads = [each for each in threading.enumerate() if each.name == "singleton-lookup"]
        assert len(threads) >= 100
        assert all(each.daemon for each in threads)
        stuck.pop().cancel()
        go.set()
        await asyncio.gather(*stuck)
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 1, 0)

    try:
        loop.run_until_complete(main())
    finally:
        go.set()
        loop.close()


@pytest.mark.process
def test_a_process_ends_while_a_lookup_is_stuck() -> None:
    code = (
        "import threading\n"
        "from singleton.runtime.lock_thread import LockLoop\n"
        "loop = LockLoop()\n"
        "loop.run_in_executor(None, threading.Event().wait)\n"
        "loop.close()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_where_no_more_threads_are_started_the_loop_looks_up_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends starts none, and its last requests release leases."""
    loop = LockLoop()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> None:
        assert await loop.run_in_executor(None, threading.get_ident) == threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, divmod, 1, 0)

    monkeypatch.setattr(threading.Thread, "start", start)
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_one_daemon_thread_serves_all(thread: LockThread) -> None:
    holds = [acquire(thread, name=f"lock-{number}") for number in range(50)]
    threads = [each for each in threading.enumerate() if each.name == "singleton-locks"]
    assert thread.runtime._thread in threads
    assert thread.runtime._thread.daemon
    assert len(thread.places) == 1
    for hold in holds:
        thread.runtime.release(hold)


def test_a_hold_of_one_thread_may_be_released_by_another_or_by_a_coroutine(thread: LockThread) -> None:
    with ThreadPoolExecutor(1) as pool:
        thread.runtime.release(pool.submit(acquire, thread).result())
    asyncio.run(thread.runtime.release_async(acquire(thread)))
    thread.runtime.release(asyncio.run(acquire_async(thread)))
    assert thread.leased() == set()


def test_releasing_twice_does_nothing(thread: LockThread) -> None:
    hold = acquire(thread)
    thread.runtime.release(hold)
    other = acquire(thread)
    thread.runtime.release(hold)
    assert thread.leased() == {LOCK}
    thread.runtime.release(other)


def test_locks_that_nobody_uses_are_forgotten_beyond_a_thousand(thread: LockThread) -> None:
    held = acquire(thread, name="held")
    for number in range(1100):
        thread.runtime.release(acquire(thread, name=f"lock-{number}"))
    kept = {each.name for each in thread.runtime.registry._locks}
    assert len(kept) <= 1024
    assert {"held", "lock-1099"} <= kept
    thread.runtime.release(held)


# --- callers who go away --------------------------------------------------------------------------------------------


async def test_a_coroutine_that_is_cancelled_while_it_waits_leaves_nothing(thread: LockThread) -> None:
    thread.taken_by_another_process(LOCK)
    waiting = asyncio.create_task(acquire_async(thread))
    while thread.memory.calls["acquire"] < 2:  # noqa: ASYNC110 - what changes is on another thread
        await asyncio.sleep(0.001)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    asked = thread.memory.calls["acquire"]
    thread.given_back_by_the_other(LOCK)
    await asyncio.sleep(0.1)
    assert thread.memory.calls["acquire"] <= asked + 1
    assert thread.leased() == set()


def test_a_main_thread_that_is_interrupted_while_it_waits_leaves_nothing(thread: LockThread) -> None:
    thread.taken_by_another_process(LOCK)
    timer = threading.Timer(0.1, interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        acquire(thread)
    timer.join()
    thread.given_back_by_the_other(LOCK)
    hold = acquire(thread, timeout=2)
    thread.runtime.release(hold)
    until(thread, free=LOCK)


async def test_a_cancellation_that_crosses_the_grant_on_its_way_gives_the_lock_back(thread: LockThread) -> None:
    caller = asyncio.create_task(acquire_async(thread))
    await asyncio.sleep(0)
    while not thread.runtime.registry.acquired and LOCK not in thread.leased():
        time.sleep(0.001)  # noqa: ASYNC251 - this loop must not hear of the grant
    time.sleep(0.02)  # noqa: ASYNC251
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    until(thread, free=LOCK)


async def test_a_cancellation_that_crosses_an_error_on_its_way_is_not_replaced_by_it(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_its_way, waits = threading.Event(), threading.Event()
    fail, wait = CallResult.fail, CallResult.wait

    def late(self: CallResult[None], error: BaseException) -> None:
        on_its_way.set()
        assert waits.wait(60)
        fail(self, error)

    def noted(self: CallResult[None], timeout: float = -1) -> None:
        waits.set()
        wait(self, timeout)

    async def refused(_: Registry) -> None:
        raise SingletonError("refused")

    with monkeypatch.context() as patch:
        patch.setattr(CallResult, "fail", late)
        patch.setattr(CallResult, "wait", noted)
        calling = asyncio.create_task(thread.runtime.call_async(refused))
        await asyncio.to_thread(on_its_way.wait, 10)
        calling.cancel()
        await asyncio.wait({calling})
    assert calling.cancelled()


async def test_whenever_a_cancellation_comes_no_lease_and_no_waiter_stays(thread: LockThread) -> None:
    rng = random.Random(7)
    for _ in range(150):
        caller = asyncio.create_task(acquire_async(thread))
        await asyncio.sleep(rng.uniform(0, 0.002))
        caller.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await thread.runtime.release_async(await caller)
    until(thread, free=LOCK)
    await thread.runtime.release_async(await acquire_async(thread, timeout=2))


def test_whenever_an_interrupt_comes_to_who_waits_nothing_stays(thread: LockThread) -> None:
    rng = random.Random(7)
    for _ in range(40):
        thread.taken_by_another_process(LOCK)
        came = threading.Event()
        interrupting = threading.Thread(target=interrupt_until, args=(came, rng.uniform(0, 0.004)))
        with pytest.raises(KeyboardInterrupt):
            start_and_acquire(interrupting, thread)
        came.set()
        interrupting.join()
        thread.given_back_by_the_other(LOCK)
        until(thread, free=LOCK)


async def test_a_release_goes_on_when_its_caller_is_cancelled(thread: LockThread) -> None:
    hold = await acquire_async(thread)
    answer, asked, may = thread.memory.release, threading.Event(), threading.Event()

    async def slowly(name: str, lease_id: str) -> None:
        asked.set()
        while not may.is_set():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.001)
        await answer(name, lease_id)

    thread.memory.release = slowly  # type: ignore[method-assign]
    releasing = asyncio.create_task(thread.runtime.release_async(hold))
    await soon(asked.is_set)
    releasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await releasing
    assert thread.leased() == {LOCK}
    may.set()
    await soon(lambda: thread.leased() == set())


def test_a_loop_that_ends_while_its_release_is_under_way_is_no_error(
    thread: LockThread, caplog: pytest.LogCaptureFixture
) -> None:
    answer = thread.memory.release

    async def slowly(name: str, lease_id: str) -> None:
        await asyncio.sleep(0.1)
        await answer(name, lease_id)

    async def hold_and_be_cancelled() -> None:
        hold = await acquire_async(thread)
        thread.memory.release = slowly  # type: ignore[method-assign]
        async with asyncio.timeout(0.02):
            await thread.runtime.release_async(hold)

    with pytest.raises(TimeoutError):
        asyncio.run(hold_and_be_cancelled())
    until(thread, free=LOCK)
    time.sleep(0.05)
    assert caplog.records == []


# --- the end ----------------------------------------------------------------------------------------------------------


def test_closing_refuses_those_who_wait_and_tells_those_who_hold(thread: LockThread) -> None:
    hold = acquire(thread)
    with ThreadPoolExecutor(5) as pool:
        waiting = [pool.submit(acquire, thread) for _ in range(5)]
        while len([*thread.runtime.registry._locks[address()]._line]) < 5:
            time.sleep(0.001)
        thread.runtime.close()
        wait(waiting, timeout=5)
        assert [type(each.exception()) for each in waiting] == [LockClosed] * 5
        assert (
            str(waiting[0].exception())
            == f"lock '{LOCK}': the locks of this process are closed, because the process ends"
        )
    assert hold.lost.reason == "closed"
    thread.runtime.release(hold)
    assert not thread.runtime._thread.is_alive()


def test_a_closed_lock_thread_refuses_and_does_not_hang(thread: LockThread) -> None:
    hold = acquire(thread)
    thread.runtime.close()
    with pytest.raises(LockClosed, match="the locks of this process are closed"):
        acquire(thread)
    with pytest.raises(LockClosed, match="the locks of this process are closed"):
        asyncio.run(acquire_async(thread))
    thread.runtime.release(hold)
    asyncio.run(thread.runtime.release_async(hold))
    thread.runtime.close()


def test_closing_many_locks_takes_no_longer_than_closing_one(thread: LockThread) -> None:
    """Storage that hangs must not delay a process's end by five seconds for each lock."""
    holds = [acquire(thread, name=f"lock-{number}") for number in range(20)]

    async def hang(name: str, lease_id: str) -> None:
        await asyncio.sleep(0.5)

    thread.memory.release = hang  # type: ignore[method-assign]
    with ThreadPoolExecutor(20) as pool:
        releasing = [pool.submit(thread.runtime.release, hold) for hold in holds]
        time.sleep(0.1)
        start = time.monotonic()
        thread.runtime.close()
        assert time.monotonic() - start < 8  # one after the other, they take ten
        wait(releasing, timeout=60)
        assert [each.exception() for each in releasing] == [None] * 20


def test_locks_that_are_asked_for_while_it_closes_end_too(thread: LockThread) -> None:
    stop = threading.Event()
    ended: list[str] = []

    def keep_asking(number: int) -> None:
        try:
            while not stop.is_set():
                thread.runtime.release(acquire(thread, name=f"lock-{number % 3}"))
        except LockClosed:
            ended.append("closed")

    with ThreadPoolExecutor(10) as pool:
        asking = [pool.submit(keep_asking, number) for number in range(10)]
        time.sleep(0.2)
        thread.runtime.close()
        assert not wait(asking, timeout=5).not_done
        stop.set()
        assert [each.exception() for each in asking] == [None] * 10
    assert ended == ["closed"] * 10


def test_what_would_block_the_lock_thread_for_ever_is_refused(thread: LockThread) -> None:
    """A callback on the loss of a hold runs there; acquiring or releasing in it can't ever end."""
    hold = acquire(thread)

    async def acquire_there() -> None:
        with pytest.raises(RuntimeError, match="on the lock thread"):
            acquire(thread, name="other")
        with pytest.raises(RuntimeError, match="on the lock thread"):
            thread.runtime.release(hold)

    thread.do(acquire_there)
    thread.runtime.release(hold)


def test_a_time_out_of_nothing_asks_once(thread: LockThread) -> None:
    thread.taken_by_another_process(LOCK)
    before = thread.memory.calls["acquire"]
    with pytest.raises(LockNotAcquired):
        acquire(thread, timeout=0)
    assert thread.memory.calls["acquire"] == before + 1


def test_where_the_lock_thread_can_not_start_nobody_waits_and_the_cause_is_told() -> None:
    may_go_on = threading.Event()

    def prepare() -> None:
        may_go_on.wait(60)
        raise OSError("half an installation")

    runtime = Runtime(Registry(lambda _: MemoryLeaseStore()), prepare=prepare)
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(runtime.call, lambda registry: registry.acquire(address(), timeout=None, owner="early"))
        time.sleep(0.01)
        may_go_on.set()
        with pytest.raises(SingletonError, match=r"could not start.*half an installation") as told:
            early.result(60)
        assert isinstance(told.value.__cause__, OSError)
    with pytest.raises(SingletonError, match="could not start"):
        runtime.call(lambda registry: registry.acquire(address(), timeout=None, owner="late"))
    runtime.close()


def test_after_a_lock_thread_that_could_not_start_the_next_use_starts_another(monkeypatch: pytest.MonkeyPatch) -> None:
    failing = ["once"]

    def load() -> None:
        if failing:
            raise OSError(failing.pop())

    monkeypatch.setattr(lock_thread, "_load_http", load)
    lock_thread.shutdown()

    async def nothing(_: Registry) -> None: ...

    with pytest.raises(SingletonError, match="once"):
        lock_thread.runtime().call(nothing)
    lock_thread.runtime().call(nothing)
    lock_thread.shutdown()


def test_a_hold_that_is_released_again_after_the_end_has_nothing_to_release(thread: LockThread) -> None:
    hold = acquire(thread)
    thread.runtime.release(hold)
    thread.runtime.close()
    assert thread.runtime.phase is Lifetime.OVER
    thread.runtime.release(hold)


def test_a_lock_thread_that_can_not_start_can_be_closed_meanwhile() -> None:
    may_go_on = threading.Event()

    def prepare() -> None:
        may_go_on.wait(60)
        raise OSError("half an installation")

    runtime = Runtime(Registry(lambda _: MemoryLeaseStore()), prepare=prepare)
    with ThreadPoolExecutor(1) as pool:
        closing = pool.submit(runtime.close)
        while runtime.phase is Lifetime.OPEN:
            time.sleep(0.001)
        may_go_on.set()
        closing.result(60)
    assert runtime.phase is Lifetime.OVER


def test_a_loop_that_always_has_something_to_do_looks_at_its_sockets() -> None:
    loop = LockLoop()
    near, far = socket.socketpair()
    turns = 0

    def again() -> None:
        nonlocal turns
        turns += 1
        loop.call_soon(again if turns < 1000 else loop.stop)

    try:
        loop.add_reader(near, loop.stop)
        far.send(b"x")
        loop.call_soon(again)
        loop.run_forever()
        assert turns < 20
    finally:
        loop.remove_reader(near)
        loop.close()
        near.close()
        far.close()


def test_a_loop_that_was_woken_often_sleeps_again(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = LockLoop()
    selector: Any = vars(loop)["_selector"]
    select, looks = selector.select, 0

    def look(timeout: float | None) -> Any:
        nonlocal looks
        looks += 1
        return select(timeout)

    monkeypatch.setattr(selector, "select", look)
    try:
        for _ in range(100):
            loop.call_soon_threadsafe(lambda: None)
        loop.call_later(0.05, loop.stop)
        loop.run_forever()
        assert looks < 20
    finally:
        loop.close()


def test_an_idle_loop_wakes_once_in_its_time_and_keeps_no_cancelled_timer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singleton.runtime.lock_loop._LOOK_UP", 0.05)
    loop = LockLoop()
    selector: Any = vars(loop)["_selector"]
    select, looks = selector.select, list[float | None]()

    def look(timeout: float | None) -> Any:
        looks.append(timeout)
        return select(timeout)

    monkeypatch.setattr(selector, "select", look)
    try:
        loop.call_later(0.52, loop.stop)
        loop.call_later(600, loop.stop).cancel()
        loop.run_forever()
        assert len([each for each in looks if each]) <= 12
        assert max(each or 0 for each in looks) <= 0.05
        loop.run_until_complete(asyncio.to_thread(time.sleep, 0.12))
        assert not [each for each in vars(loop)["_scheduled"] if each.cancelled()]
    finally:
        loop.close()


def test_a_busy_loop_keeps_no_timer_waiting_and_runs_nothing_that_was_cancelled() -> None:
    loop = LockLoop()
    now, rounds, trouble = [100.0], 0, list[object]()
    loop.set_exception_handler(lambda _, context: trouble.append(context))
    loop.time = lambda: now[0]  # type: ignore[method-assign]
    rounds_at: list[int] = []

    def busy() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 2:
            now[0] += 1.0
        if rounds < 50:
            loop.call_soon(busy)
        loop.call_soon(trouble.append, rounds).cancel()

    loop.call_later(1.0, lambda: rounds_at.append(rounds))
    loop.call_later(1.0, loop.stop)
    loop.call_soon(busy)
    try:
        loop.run_forever()
    finally:
        loop.close()
    assert rounds_at == [3], "the timer runs in the round after it is due"
    assert trouble == []
    assert rounds < 10, "it stops when it is told to"

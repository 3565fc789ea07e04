"""The first caller of a lock that this process used before: what it hears, and what it leaves behind."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, LockClient, SingletonOptions
from singleton.base.errors import (
    LockClosed,
    LockLost,
    LockNotAcquired,
    SingletonError,
    StorageDenied,
    StorageError,
    StorageUnavailable,
)
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.lock_thread import LockThread
from tests.support.waiters import eventually, soon

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton.locking.lock import Lock

LOCK = "first"


class SlowStore(MemoryLeaseStore):
    """Notes what is asked, and answers an acquire when it may, or with what it is told to raise."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, float]] = []
        self.may_answer: asyncio.Event | None = None
        self.may_release: asyncio.Event | None = None
        self.raises: list[BaseException] = []

    async def acquire(self, *args: Any) -> str:
        self.asked.append(("acquire", time.monotonic()))
        if self.may_answer is not None:
            try:
                await self.may_answer.wait()
            except asyncio.CancelledError:
                self.asked.append(("given up", time.monotonic()))
                raise
        if self.raises:
            raise self.raises.pop(0)
        return await super().acquire(*args)

    async def release(self, *args: Any) -> None:
        self.asked.append(("release", time.monotonic()))
        if self.may_release is not None:
            await self.may_release.wait()
        await super().release(*args)

    def count(self, what: str) -> int:
        return [each for each, _ in self.asked].count(what)


class Place:
    """A lock thread with a lock that was used, and idles."""

    def __init__(self, thread: LockThread, store: SlowStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.thread, self.store = thread, store
        self.locks = AsyncLockClient()
        self.begun = 0
        with LockClient().lock(LOCK):
            pass
        eventually(lambda: self.lock.idle)
        store.asked.clear()
        begin = thread.runtime._begun

        def counted(coro: Any) -> asyncio.Task[Any]:
            self.begun += 1
            return begin(coro)

        monkeypatch.setattr(thread.runtime, "_begun", counted)

    @property
    def lock(self) -> Lock:
        return next(each for each in self.thread.runtime.registry._locks.values() if each.name == LOCK)

    @property
    def in_line(self) -> int:
        """How many stand in the lock thread's line."""
        return len([*self.lock._line])

    def hold_up(self) -> None:
        """Have no acquire answered until ``let_go``."""
        self.store.may_answer = asyncio.Event()

    def let_go(self) -> None:
        assert self.store.may_answer is not None
        self.thread.runtime._loop.call_soon_threadsafe(self.store.may_answer.set)
        self.store.may_answer = None

    def let_one_go(self) -> None:
        """Have the request that is under way answered, and none that follows until ``let_go``."""
        answered = self.store.may_answer
        assert answered is not None
        self.hold_up()
        self.thread.runtime._loop.call_soon_threadsafe(answered.set)

    async def asking(self) -> None:
        """Wait until a request is under way."""
        await soon(lambda: self.store.count("acquire") > 0)

    async def answers_too_late(self) -> None:
        """Have somebody wait for an answer that comes after his time-out; all others wait until ``let_go``."""
        self.hold_up()
        waiting = asyncio.create_task(self.locks.acquire(LOCK, timeout=4))
        await self.asking()
        self.thread.push_clock(4.5)
        self.let_one_go()
        with pytest.raises(StorageUnavailable):
            await waiting


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    store = SlowStore()
    with LockThread(store) as thread:
        thread.memory = store
        yield Place(thread, store, monkeypatch)


def test_after_a_no_he_stands_in_line_and_his_next_request_comes_after_the_pause(place: Place) -> None:
    place.thread.taken_by_another_process(LOCK)
    place.store.asked.clear()

    async def main() -> None:
        async def wait() -> None:
            async with place.locks.lock(LOCK):
                pass

        waiting = asyncio.create_task(wait())
        await place.asking()
        await soon(lambda: place.store.count("acquire") >= 2)
        place.thread.given_back_by_the_other(LOCK)
        await waiting

    asyncio.run(main())
    (_, first), (_, second), *_ = place.store.asked
    assert second - first >= 0.5 * place.lock._timing.poll_min
    assert place.thread.leased() == set()


def test_after_a_no_his_time_out_is_told_in_the_words_of_the_line(place: Place) -> None:
    place.thread.taken_by_another_process(LOCK)

    async def main() -> None:
        waiting = asyncio.create_task(place.locks.acquire(LOCK, timeout=30))
        await soon(lambda: place.in_line > 0)
        await asyncio.sleep(0.1)
        assert not waiting.done()
        place.thread.push_clock(31)
        with pytest.raises(LockNotAcquired, match=r"within 0:00:30.*somebody else has it"):
            await waiting

    asyncio.run(main())
    assert place.thread.kinds()[3:] == ["waiting", "contended:timeout"]


def test_a_refusal_of_the_storage_reaches_him_after_one_request(place: Place) -> None:
    place.store.raises = [StoreFailure(403, "AuthorizationFailure")]
    with pytest.raises(StorageDenied), LockClient().lock(LOCK):
        pass
    assert place.store.count("acquire") == 1
    assert place.thread.kinds()[3:] == ["waiting", "failed:StorageDenied"]


def test_a_store_that_raises_what_nobody_expects_ends_his_wait(place: Place) -> None:
    for error in (ValueError("what?"), asyncio.CancelledError()):
        place.store.raises = [error, error]
        with pytest.raises(SingletonError, match="unexpected"), LockClient().lock(LOCK):
            pass
    place.store.raises = []
    with LockClient().lock(LOCK) as hold:
        assert hold.owned


def test_while_the_answer_takes_long_his_time_out_is_kept(place: Place) -> None:
    async def main() -> None:
        place.hold_up()
        waiting = asyncio.create_task(place.locks.acquire(LOCK, timeout=4))
        await place.asking()
        place.thread.push_clock(4.5)
        with pytest.raises(StorageError):
            await waiting
        place.let_go()
        await soon(lambda: place.lock.idle)

    asyncio.run(main())
    assert place.thread.leased() == set()


def test_whoever_is_cancelled_before_the_answer_leaves_nothing_behind(place: Place) -> None:
    async def main() -> None:
        place.hold_up()
        waiting = asyncio.create_task(place.locks.acquire(LOCK))
        await place.asking()
        waiting.cancel()
        await asyncio.wait({waiting})
        assert waiting.cancelled()
        place.let_go()
        await soon(lambda: place.lock.idle)

    asyncio.run(main())
    assert place.thread.kinds()[3:] == ["waiting", "failed:CancelledError"]
    assert place.thread.leased() == set()


def test_whoever_is_cancelled_before_the_lock_thread_hears_of_him_asks_for_nothing(place: Place) -> None:
    async def main() -> None:
        blocked = threading.Event()
        place.thread.runtime._loop.call_soon_threadsafe(blocked.wait)
        waiting = asyncio.create_task(place.locks.acquire(LOCK))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        blocked.set()
        await soon(lambda: place.thread.kinds()[3:] == ["waiting", "failed:CancelledError"])

    asyncio.run(main())
    assert place.store.asked == []


def test_others_who_come_while_he_waits_get_it_after_him(place: Place) -> None:
    order: list[str] = []

    async def use(who: str) -> None:
        async with place.locks.lock(LOCK, owner=who):
            order.append(who)

    async def main() -> None:
        place.hold_up()
        tasks = [asyncio.create_task(use("first"))]
        await place.asking()
        for number in range(3):
            tasks.append(asyncio.create_task(use(f"next {number}")))
            await soon(lambda number=number: place.in_line == number + 2)  # type: ignore[misc]
        place.let_go()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert order == ["first", "next 0", "next 1", "next 2"]
    assert place.store.count("acquire") == 1


def test_who_asks_once_while_he_waits_is_told_that_it_is_in_use_here(place: Place) -> None:
    async def main() -> None:
        place.hold_up()
        waiting = asyncio.create_task(place.locks.acquire(LOCK))
        await place.asking()

        async def once() -> None:
            async with place.locks.try_lock(LOCK) as hold:
                assert hold is None

        trying = asyncio.create_task(once())
        await soon(lambda: place.in_line == 2)
        place.let_go()
        await trying
        await place.locks.release(await waiting)

    asyncio.run(main())
    assert place.thread.leased() == set()


def test_closing_his_client_or_the_process_ends_his_wait(place: Place) -> None:
    async def main() -> None:
        place.hold_up()
        waiting = asyncio.create_task(place.locks.acquire(LOCK))
        await place.asking()
        place.locks.close()
        with pytest.raises(LockClosed, match="its client is closed"):
            await waiting
        place.let_go()
        await soon(lambda: place.lock.idle)
        place.store.asked.clear()
        place.hold_up()
        waiting = asyncio.create_task(AsyncLockClient().acquire(LOCK))
        await place.asking()
        closing = asyncio.create_task(asyncio.to_thread(place.thread.runtime.close))
        with pytest.raises(LockClosed):
            await waiting
        place.let_go()
        await closing

    asyncio.run(main())


def test_his_lock_is_remembered_as_the_one_used_last(place: Place) -> None:
    locks = LockClient()
    for name in ("other", LOCK):
        with locks.lock(name):
            pass
    assert [address.name for address in place.thread.runtime.registry._locks] == ["other", LOCK]


def test_an_answer_that_comes_after_his_time_out_does_not_bring_him_the_lock_and_is_no_contention(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def main() -> None:
        await place.answers_too_late()
        place.let_go()
        await soon(lambda: place.lock.idle)

    asyncio.run(main())
    assert place.thread.leased() == set()


def test_a_lease_that_came_too_late_is_no_contention_either_while_it_is_being_given_back(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:

    async def main() -> None:
        place.store.may_release = asyncio.Event()
        await place.answers_too_late()
        await soon(lambda: place.store.count("release") == 1)

        async def once() -> None:
            async with place.locks.try_lock(LOCK) as hold:
                assert hold is not None

        async def late() -> None:
            with pytest.raises(StorageUnavailable):
                await place.locks.acquire(LOCK, timeout=1)

        trying = [asyncio.create_task(once())]
        await soon(lambda: place.in_line == 1)
        trying.append(asyncio.create_task(late()))
        await soon(lambda: place.in_line == 2)
        place.thread.push_clock(1.5)
        await trying.pop()
        place.thread.runtime._loop.call_soon_threadsafe(place.store.may_release.set)
        place.let_go()
        await trying.pop()
        await soon(lambda: place.lock.idle)

    asyncio.run(main())
    assert place.thread.leased() == set()


def test_whoever_is_cancelled_when_the_lock_thread_is_no_more_hears_only_of_that(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(*_: object, **__: object) -> None:
        raise RuntimeError("Event loop is closed")

    async def main() -> None:
        place.thread.taken_by_another_process(LOCK)
        waiting = asyncio.create_task(place.locks.acquire(LOCK))
        await soon(lambda: place.in_line > 0)
        with monkeypatch.context() as patch:
            patch.setattr(place.thread.runtime._loop, "call_soon_threadsafe", closed)
            waiting.cancel()
            await asyncio.wait({waiting})
        assert waiting.cancelled()

    asyncio.run(main())


def test_his_hold_is_lost_and_dropped_as_any(place: Place) -> None:
    locks = LockClient()
    hold = locks.acquire(LOCK)
    place.thread.deleted(LOCK)
    assert hold.lost.wait(60)
    with pytest.raises(LockLost):
        hold.raise_if_lost()
    locks.release(hold)
    with locks.lock(LOCK):
        pass
    eventually(lambda: place.lock.idle)
    hold = locks.acquire(LOCK)
    del hold
    eventually(lambda: place.lock.idle)
    assert place.thread.leased() == set()


def test_beside_a_section_under_other_options_he_asks_for_nothing(place: Place) -> None:
    others = LockClient(options=SingletonOptions(lock_period=60))
    with others.lock(LOCK):
        pass
    got = threading.Event()

    def use() -> None:
        with LockClient().lock(LOCK):
            got.set()

    using = threading.Thread(target=use)
    with others.lock(LOCK):
        place.store.asked.clear()
        using.start()
        assert not got.wait(0.3)
        assert place.store.asked == []
    using.join()
    assert got.is_set()


def test_inside_a_section_of_his_own_under_other_options_he_is_told_that_he_would_wait_for_himself(
    place: Place,
) -> None:
    others = LockClient(options=SingletonOptions(lock_period=60))
    with others.lock(LOCK), pytest.raises(LockNotAcquired, match="would wait for itself"):
        LockClient().acquire(LOCK, timeout=5)
    assert place.thread.leased() == set()


def test_with_a_window_that_is_over_others_get_their_turn_before_him(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureWebJobsStorage", "UseDevelopmentStorage=true")
    store = SlowStore()
    with LockThread(store) as thread:
        thread.memory = store
        locks = LockClient(options=SingletonOptions(handoff_window=0.001, lock_acquisition_polling_interval=1.0))
        with locks.lock(LOCK):
            time.sleep(0.01)
        with locks.lock(LOCK):
            pass
    acquired = [at for what, at in store.asked if what == "acquire"]
    released = [at for what, at in store.asked if what == "release"]
    assert acquired[-1] - released[0] > 1.0

"""``reentrant=True``: who is inside a lock's block may ask again, and gets the same hold."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack
from typing import TYPE_CHECKING

import pytest

from singleton import (
    AsyncLockClient,
    Hold,
    LockClient,
    LockLost,
    LockNotAcquired,
    SingletonOptions,
    current_hold,
    subscribe,
)
from singleton.runtime.lock_thread import runtime
from singleton.testing import memory_locks, virtual_time
from tests.support.lock_thread import LockThread, an_app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton import LockEvent


@pytest.fixture
def locks() -> Iterator[LockClient]:
    with memory_locks():
        yield LockClient(options=SingletonOptions(renewal_interval=1))  # so that it hears soon of a loss


def test_an_inner_block_gets_the_same_hold_and_the_outermost_gives_it_back(locks: LockClient) -> None:
    with locks.lock("job", reentrant=True) as outer:
        for _ in range(2):
            with locks.lock("job", reentrant=True) as inner, locks.lock("job", reentrant=True) as innermost:
                assert inner is outer
                assert innermost is outer
            assert outer.owned
            assert locks.locked("job")
    assert not outer.owned
    assert not locks.locked("job")


@virtual_time
async def test_so_does_that_of_a_coroutine() -> None:
    locks = AsyncLockClient()
    async with locks.lock("job", reentrant=True) as outer:
        async with locks.lock("job", reentrant=True) as inner:
            assert inner is outer
        assert outer.owned
    assert not await locks.locked("job")


async def test_a_sync_block_in_a_task_is_inside_the_blocks_of_that_task() -> None:
    with memory_locks():
        async with AsyncLockClient().lock("job", reentrant=True) as outer:
            with LockClient().lock("job", reentrant=True) as inner:
                assert inner is outer


def test_a_decorated_function_may_call_itself(locks: LockClient) -> None:
    @locks.lock("job", reentrant=True)
    def count(number: int) -> list[int | None]:
        return [current_hold().token, *(count(number - 1) if number else ())]

    assert len(set(count(3))) == 1
    assert not locks.locked("job")


def test_an_inner_block_is_no_use_of_the_lock_of_its_own(locks: LockClient) -> None:
    events: list[LockEvent] = []
    end = subscribe(events.append)
    try:
        with locks.lock("job", reentrant=True), locks.lock("job", reentrant=True):
            pass
    finally:
        end()
    assert [event.kind for event in events] == ["waiting", "acquired", "released"]


# --- both must say so -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("outer", "inner"), [(True, False), (False, True), (False, False)])
def test_both_blocks_must_ask_for_it(locks: LockClient, *, outer: bool, inner: bool) -> None:
    with (
        locks.lock("job", reentrant=outer),
        pytest.raises(LockNotAcquired, match="ask both times with lock") as told,
        locks.lock("job", reentrant=inner),
    ):
        pass
    assert told.value.reason == "reentry"


def test_another_lock_is_another_lock(locks: LockClient) -> None:
    with (
        locks.lock("job", reentrant=True) as one,
        locks.lock("other", reentrant=True) as other,
        LockClient("Elsewhere").lock("job", reentrant=True) as elsewhere,
        LockClient(options=SingletonOptions(lock_period=30)).lock("job", reentrant=True) as with_other_options,
    ):
        assert len({id(one), id(other), id(elsewhere)}) == 3
        assert with_other_options is one


# --- others are excluded as ever --------------------------------------------------------------------------------------


def test_another_thread_is_excluded(locks: LockClient) -> None:
    def other() -> Hold:
        with locks.lock("job", reentrant=True) as hold:
            return hold

    with ThreadPoolExecutor(1) as pool:
        with locks.lock("job", reentrant=True) as mine, locks.lock("job", reentrant=True):
            waiting = pool.submit(contextvars.copy_context().run, other)
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
        assert waiting.result(60) is not mine


@virtual_time
async def test_a_task_that_was_started_inside_is_excluded() -> None:
    locks = AsyncLockClient()
    order: list[str] = []

    async def child() -> None:
        async with locks.lock("job", reentrant=True):
            order.append("child")

    async with locks.lock("job", reentrant=True):
        started = asyncio.create_task(child())
        await asyncio.sleep(5)
        order.append("parent")
    await started
    assert order == ["parent", "child"]


@virtual_time
async def test_a_task_that_has_its_own_block_in_turn_may_enter_it_again() -> None:
    locks = AsyncLockClient()

    async def child() -> None:
        async with locks.lock("job", reentrant=True) as hold, locks.lock("job", reentrant=True) as again:
            assert hold is again

    async with locks.lock("job", reentrant=True):
        started = asyncio.create_task(child())
        await asyncio.sleep(1)
    await started


# --- at_least ---------------------------------------------------------------------------------------------------------


@virtual_time
async def test_the_longest_at_least_counts_from_where_it_was_asked_for() -> None:
    locks, clock = AsyncLockClient(), asyncio.get_running_loop().time
    for outer, inner, kept in ((0, 30, 35), (60, 30, 60), (10, 60, 65)):
        begun = clock()
        async with locks.lock("job", reentrant=True, at_least=outer):
            await asyncio.sleep(5)
            async with locks.lock("job", reentrant=True, at_least=inner):
                pass
        async with locks.lock("job"):
            assert clock() - begun == pytest.approx(kept, abs=6)
            assert clock() - begun >= kept


@virtual_time
async def test_max_hold_is_that_of_the_outermost_block() -> None:
    locks = AsyncLockClient()
    async with locks.lock("job", reentrant=True, max_hold=60, on_loss="tell") as hold:
        async with locks.lock("job", reentrant=True, max_hold=5):
            await asyncio.sleep(30)
            assert hold.owned
        await asyncio.sleep(60)
        assert hold.lost.reason == "too long"
        with pytest.raises(LockLost):
            async with locks.lock("job", reentrant=True):
                pytest.fail("entered")


# --- a hold that is lost or over --------------------------------------------------------------------------------------


def test_an_inner_block_under_a_lost_hold_is_not_entered(locks: LockClient) -> None:
    with locks.lock("job", reentrant=True, on_loss="tell") as hold:
        locks.break_("job", notice=0)
        assert hold.lost.wait(60)
        with pytest.raises(LockLost, match="'job' is lost"), locks.lock("job", reentrant=True):
            pytest.fail("entered")
    with locks.lock("job", reentrant=True, timeout=5) as next_:
        assert next_ is not hold


@virtual_time
async def test_nor_by_a_coroutine() -> None:
    locks = AsyncLockClient()
    async with locks.lock("job", reentrant=True, on_loss="tell") as hold:
        await locks.break_("job", notice=0)
        await hold.lost
        for at_least in (0, 5):
            with pytest.raises(LockLost):
                async with locks.lock("job", reentrant=True, at_least=at_least):
                    pytest.fail("entered")


def test_a_hold_that_was_released_by_hand_is_not_entered_again_but_acquired_anew(locks: LockClient) -> None:
    with locks.lock("job", reentrant=True) as hold:
        locks.release(hold)
        with locks.lock("job", reentrant=True) as inner:
            assert inner is not hold
            assert inner.owned
        assert not locks.locked("job")


# --- ends in another order --------------------------------------------------------------------------------------------


def test_the_lock_is_given_back_when_the_last_block_has_ended_whichever_that_is(locks: LockClient) -> None:
    outer, inner = locks.lock("job", reentrant=True), locks.lock("job", reentrant=True)
    hold = outer.__enter__()
    inner.__enter__()
    outer.__exit__(None, None, None)
    assert hold.owned
    with locks.lock("job", reentrant=True) as again:
        assert again is hold
    inner.__exit__(None, None, None)
    assert not hold.owned
    assert not locks.locked("job")


def test_also_with_another_lock_between_them(locks: LockClient) -> None:
    first, between = locks.lock("job", reentrant=True), locks.lock("other", reentrant=True)
    second, third = locks.lock("job", reentrant=True), locks.lock("job", reentrant=True)
    hold = first.__enter__()
    between.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert third.__enter__() is hold
    second.__exit__(None, None, None)
    between.__exit__(None, None, None)
    assert hold.owned
    third.__exit__(None, None, None)
    assert not hold.owned


def test_a_statement_inside_a_block_entered_by_hand_leaves_the_lock_to_the_block(locks: LockClient) -> None:
    with ExitStack() as blocks:
        hold = blocks.enter_context(locks.lock("job", reentrant=True))
        with locks.lock("job", reentrant=True):
            pass
        with locks.try_lock("job") as other:  # behind each release
            assert other is None
        assert hold.owned
    assert not locks.locked("job")


def test_a_block_entered_by_hand_outlives_the_statement_around_its_beginning(locks: LockClient) -> None:
    with ExitStack() as blocks:
        with locks.lock("job", reentrant=True):
            hold = blocks.enter_context(locks.lock("job", reentrant=True))
        with locks.try_lock("job") as other:
            assert other is None
        assert hold.owned
    assert not locks.locked("job")


def test_blocks_may_end_on_another_thread(locks: LockClient) -> None:
    with ExitStack() as blocks:
        hold = blocks.enter_context(locks.lock("job", reentrant=True))
        blocks.enter_context(locks.lock("job", reentrant=True))
        ending = threading.Thread(target=blocks.pop_all().close)
        ending.start()
        ending.join(60)
    assert not hold.owned
    with locks.lock("job", reentrant=True, timeout=5) as next_:
        assert next_ is not hold


@virtual_time
async def test_or_in_another_task() -> None:
    locks = AsyncLockClient()
    async with AsyncExitStack() as blocks:
        hold = await blocks.enter_async_context(locks.lock("job", reentrant=True))
        await blocks.enter_async_context(locks.lock("job", reentrant=True))
        await asyncio.create_task(blocks.pop_all().aclose())
    assert not hold.owned


@pytest.mark.parametrize("way", ["in another task", "by hand"])
def test_a_hold_that_was_released_and_whose_lock_is_kept_is_waited_for(way: str) -> None:
    @virtual_time
    async def run() -> None:
        locks = AsyncLockClient()
        async with AsyncExitStack() as blocks:
            hold = await blocks.enter_async_context(locks.lock("job", reentrant=True, at_least=10))
            if way == "by hand":
                await locks.release(hold)
            else:
                await asyncio.create_task(blocks.pop_all().aclose())
            began = asyncio.get_running_loop().time()
            async with locks.lock("job", reentrant=True) as next_:
                assert next_ is not hold
                assert next_.owned
                assert asyncio.get_running_loop().time() - began == pytest.approx(10, abs=1)

    run()


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
async def test_an_inner_block_that_is_not_entered_leaves_nothing_behind(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ``at_least`` is told on the lock thread; a caller that is cancelled there was inside for a moment."""
    an_app(tmp_path, monkeypatch)
    with LockThread() as thread:
        locks = AsyncLockClient()

        async def inner() -> None:
            task = asyncio.current_task()
            assert task is not None
            if moment == "before":
                task.cancel()
            else:
                asyncio.get_running_loop().call_soon(task.cancel)
            async with locks.lock("job", reentrant=True, at_least=0.01):
                pytest.fail("entered")

        async with locks.lock("job", reentrant=True) as hold:
            with pytest.raises(asyncio.CancelledError):
                await inner()
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            assert hold.owned
        assert not hold.owned
        await asyncio.sleep(0.05)
        assert thread.leased() == set()


def test_nor_does_one_of_a_thread(locks: LockClient, monkeypatch: pytest.MonkeyPatch) -> None:
    with locks.lock("job", reentrant=True) as hold:
        inner = locks.lock("job", reentrant=True, at_least=0.01)

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(type(runtime()), "call", interrupted)
            with pytest.raises(KeyboardInterrupt):
                inner.__enter__()
        assert hold.owned
    assert not locks.locked("job")


def test_blocks_that_were_never_ended_do_not_keep_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)
    with LockThread():
        locks = LockClient()
        block = locks.lock("job", reentrant=True)
        known = weakref.ref(block.__enter__())
        del block
        gc.collect()
        assert known() is None
        with locks.lock("job", reentrant=True, timeout=5):
            pass

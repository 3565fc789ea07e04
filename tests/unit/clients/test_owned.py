"""What a client tells without waiting: ``locked``, ``hold.owned``, and ``try_lock`` with a time-out."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, SingletonOptions, subscribe
from singleton.base.hold import Hold
from singleton.testing import memory_locks, virtual_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from singleton import LockEvent


@pytest.fixture
def locks() -> Iterator[LockClient]:
    with memory_locks():
        yield LockClient(options=SingletonOptions(renewal_interval=1))  # so that it hears soon of a loss


# --- locked -----------------------------------------------------------------------------------------------------------


def test_a_lock_is_locked_while_somebody_has_it(locks: LockClient) -> None:
    assert not locks.locked("never")
    with locks.lock("job"):
        assert locks.locked("job")
        assert LockClient().locked("job")
    assert not locks.locked("job")


@virtual_time
async def test_so_it_is_for_coroutines_also_where_another_process_had_it() -> None:
    locks = AsyncLockClient()
    async with locks.semaphore("pool", 2):
        assert await locks.locked("pool/slot-0") or await locks.locked("pool/slot-1")
    assert not await locks.locked("pool/slot-0")


# --- hold.owned -------------------------------------------------------------------------------------------------------


def test_a_hold_is_owned_until_its_block_ends(locks: LockClient) -> None:
    seen: list[bool] = []
    with locks.lock("job") as hold:
        seen.append(hold.owned)
        other = threading.Thread(target=lambda: seen.append(hold.owned))
        other.start()
        other.join()
    assert seen == [True, True]
    assert not hold.owned


def test_a_hold_that_was_released_is_owned_no_more(locks: LockClient) -> None:
    hold = locks.acquire("job")
    assert hold.owned
    locks.release(hold)
    assert not hold.owned


def test_one_whose_lock_is_kept_for_longer_is_not_owned_either(locks: LockClient) -> None:
    with locks.lock("job", at_least=3600) as hold:
        assert hold.owned
    assert not hold.owned
    assert locks.locked("job")


def test_a_hold_that_was_lost_is_not_owned(locks: LockClient) -> None:
    with locks.lock("job", on_loss="tell") as hold:
        locks.break_("job", notice=0)
        assert hold.lost.wait(60)
        assert not hold.owned


def test_a_hold_whose_process_slept_is_not_owned_although_nobody_told_it_yet() -> None:
    class Overdue:
        id = "x"
        deadline = 0.0
        loop: Any = SimpleNamespace(time=lambda: 1.0)

    assert Hold("job").owned
    assert not Hold("job", lease=Overdue()).owned


# --- try_lock with a time-out -----------------------------------------------------------------------------------------


@virtual_time
async def test_a_try_waits_at_most_so_long_and_gives_none() -> None:
    locks, clock = AsyncLockClient(), asyncio.get_running_loop().time
    async with locks.lock("job"):
        begun = clock()
        async with locks.try_lock("job", timeout=0) as hold:
            assert hold is None
        assert clock() == pytest.approx(begun, abs=1)

        async def other() -> float:
            asked = clock()
            async with locks.try_lock("job", timeout=7) as hold:
                assert hold is None
            return clock() - asked

        assert await asyncio.create_task(other()) == pytest.approx(7, abs=1)


@virtual_time
async def test_a_try_gets_a_lock_that_is_given_back_in_time() -> None:
    locks = AsyncLockClient()

    async def other() -> bool:
        async with locks.try_lock("job", timeout=20) as hold:
            return hold is not None

    async with locks.lock("job"):
        trying = asyncio.create_task(other())
        await asyncio.sleep(5)
    assert await trying


@virtual_time
async def test_a_try_for_a_slot_waits_too() -> None:
    locks = AsyncLockClient()
    async with locks.semaphore("pool", 1), locks.try_lock("pool", limit=1, timeout=5) as hold:
        assert hold is None


def test_a_thread_waits_too(locks: LockClient) -> None:
    events: list[LockEvent] = []
    end = subscribe(events.append)
    try:
        with locks.lock("job"):
            other = threading.Thread(target=lambda: locks.try_lock("job", timeout=0.05).__enter__())
            other.start()
            other.join()
    finally:
        end()
    assert [(event.kind, event.reason) for event in events if event.kind == "contended"] == [("contended", "timeout")]


def test_a_try_that_would_wait_for_itself_gives_none(locks: LockClient) -> None:
    with locks.lock("job"), locks.try_lock("job", timeout=60) as hold:
        assert hold is None


def test_a_try_without_an_end_is_refused(locks: LockClient) -> None:
    with pytest.raises(ConfigurationError, match=r"timeout is None: .* use lock"):
        locks.try_lock("job", timeout=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="timeout is -1"):
        locks.try_lock("job", timeout=-1)


# --- refused at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_a_set_of_no_locks_is_refused(kind: type[LockClient | AsyncLockClient]) -> None:
    with pytest.raises(ConfigurationError, match="names is empty: give the name of one lock at least"):
        kind("UseDevelopmentStorage=true").lock_all([])


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
@pytest.mark.parametrize("at_least", [60, 61])
def test_a_worker_that_would_keep_its_own_lock_over_its_next_tick_is_refused(
    kind: type[LockClient | AsyncLockClient], at_least: float
) -> None:
    with pytest.raises(ConfigurationError, match=f"at_least is {at_least} s and every is 60 s: .* below 60 s"):
        kind("UseDevelopmentStorage=true").periodic("job", print, every=60, at_least=at_least)


def takes_nothing() -> None: ...


async def takes_nothing_async() -> None: ...


def takes_two(first: object, second: object) -> None: ...


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
@pytest.mark.parametrize("work", [takes_nothing, takes_nothing_async, takes_two])
def test_work_that_cannot_be_called_with_the_hold_is_refused(
    kind: type[LockClient | AsyncLockClient], work: object
) -> None:
    with pytest.raises(ConfigurationError, match=f"work: {work.__name__} can't be called with the hold alone"):  # type: ignore[attr-defined]
        kind("UseDevelopmentStorage=true").periodic("job", work, every=60)  # type: ignore[arg-type]


@pytest.mark.parametrize("work", [print, lambda hold, more=1: (hold, more), lambda *all_: all_])
def test_work_that_can_is_not(work: object) -> None:
    client = LockClient("UseDevelopmentStorage=true", options=SingletonOptions())
    assert client.periodic("job", work, every=60, at_least=59).name == "job"  # type: ignore[arg-type]

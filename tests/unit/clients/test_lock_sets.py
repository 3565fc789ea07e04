"""Sets of locks: all or none, in one order for everybody, with one time-out."""

from __future__ import annotations

import asyncio
import gc
import itertools
import random
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, LockClosed, LockLost, LockNotAcquired
from singleton.base.errors import StorageDenied, StorageUnavailable
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.inline import InlineHost
from tests.support.lock_thread import LockThread, an_app
from tests.support.network import FINE, Fate, Request, answered
from tests.support.world import eventually, foreign_id, now, occupy, until, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from singleton import Hold

NAMES = ("a", "b", "c")


async def settled(service: MemoryLeaseStore, *hosts: InlineHost) -> None:
    await eventually(lambda: all(lock.idle for host in hosts for lock in host.registry._locks.values()), within=12)
    assert service.leased() == {}


@virtual
async def test_all_are_held_in_the_block_and_come_in_the_order_given() -> None:
    service = MemoryLeaseStore()
    with InlineHost(service).here() as locks:
        async with locks.lock_all(["c", "a", "b"], owner="me") as holds:
            assert [hold.lock for hold in holds] == ["c", "a", "b"]
            assert {hold.owner for hold in holds} == {"me"}
            assert set(service.leased()) == {"a", "b", "c"}
        assert service.leased() == {}


@virtual
async def test_they_are_acquired_one_after_the_other_by_name() -> None:
    host = InlineHost(MemoryLeaseStore())
    with host.here() as locks:
        async with locks.lock_all(["c", "a", "b"]):
            pass
    asked = [request.name for request in host.network.sent("acquire")]
    assert [name for name, _ in itertools.groupby(asked)] == ["a", "b", "c"]


@pytest.mark.parametrize("seed", range(10))
def test_sets_in_any_order_on_any_host_never_wait_for_each_other_for_ever(seed: int) -> None:
    @virtual
    async def run() -> None:
        service, rng = MemoryLeaseStore(), random.Random(seed)
        hosts = [InlineHost(service, number) for number in range(3)]
        inside: set[str] = set()

        async def work(host: InlineHost) -> None:
            for _ in range(5):
                names = rng.sample("abcde", rng.randint(1, 4))
                with host.here() as locks:
                    async with locks.lock_all(names):
                        assert not inside & set(names)
                        inside.update(names)
                        await asyncio.sleep(rng.uniform(0, 0.5))
                        inside.difference_update(names)

        async with asyncio.timeout(600):
            await asyncio.gather(*(work(host) for host in hosts for _ in range(4)))
        await settled(service, *hosts)

    run()


@virtual
async def test_the_time_out_is_for_all_and_what_was_acquired_is_given_back() -> None:
    service = MemoryLeaseStore()
    for name, seconds in (("a", 20), ("c", 60)):
        await occupy(service, name, seconds)
    host = InlineHost(service)
    with host.here() as locks:
        with pytest.raises(LockNotAcquired, match="'c'") as caught:
            async with locks.lock_all(NAMES, timeout=40, owner="me"):
                pytest.fail("the block was entered")
        assert now() == pytest.approx(40, abs=0.2)
        assert caught.value.owner == "me"
        assert set(service.leased()) == {"c"}


@virtual
async def test_whoever_is_silent_the_wait_ends_when_its_time_is_over_and_a_late_lease_is_given_back() -> None:
    service = MemoryLeaseStore()
    host = InlineHost(service)
    slow = {"a": FINE, "b": Fate(up=2.8), "c": Fate(up=2.0)}
    host.network.decide = lambda request: slow[request.name] if request.call == "acquire" else FINE
    with host.here() as locks:
        async with locks.lock_all(NAMES, timeout=0):
            pass
        began = now()
        with pytest.raises(StorageUnavailable) as caught:
            async with locks.lock_all(NAMES, timeout=3, owner="me"):
                pytest.fail("the block was entered")
    assert 3.0 <= now() - began <= 3.5 + 0.01
    why = "the storage gave no full answer in time; the wait for 3 locks was 0:00:03"
    assert (str(caught.value), caught.value.lock, caught.value.owner) == (f"lock 'c': {why}", "c", "me")
    await settled(service, host)


@virtual
async def test_asking_once_asks_for_each_once() -> None:
    service = MemoryLeaseStore()
    await occupy(service, "b")
    host = InlineHost(service)
    with host.here() as locks, pytest.raises(LockNotAcquired, match="'b'"):
        async with locks.lock_all(NAMES, timeout=0):
            pytest.fail("the block was entered")
    assert now() < 1
    assert set(service.leased()) == {"b"}
    assert "c" not in service.names()


@pytest.mark.parametrize("seed", range(20))
def test_whenever_it_is_cancelled_none_is_left(seed: int) -> None:
    @virtual
    async def run() -> None:
        service, rng = MemoryLeaseStore(), random.Random(seed)
        host = InlineHost(service)

        async def work() -> None:
            with host.here() as locks:
                async with locks.lock_all(rng.sample("abc", 3)):
                    await asyncio.sleep(rng.uniform(0, 0.1))

        for _ in range(10):
            task = asyncio.create_task(work())
            await asyncio.sleep(rng.uniform(0, 0.3))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await settled(service, host)

    run()


@virtual
async def test_a_failure_of_one_gives_the_others_back() -> None:
    service = MemoryLeaseStore()
    host = InlineHost(service)

    def refuse_b(request: Request) -> Fate:
        return answered(403, "AuthorizationFailure") if request.name == "b" else FINE

    host.network.decide = refuse_b
    with host.here() as locks, pytest.raises(StorageDenied, match="'b'"):
        async with locks.lock_all(NAMES):
            pytest.fail("the block was entered")
    await settled(service, host)


@virtual
async def test_one_that_is_lost_while_the_others_are_waited_for_fails_all() -> None:
    service = MemoryLeaseStore()
    await occupy(service, "c", 30)
    host = InlineHost(service)

    async def work() -> None:
        with host.here() as locks:
            async with locks.lock_all(NAMES):
                pytest.fail("the block was entered")

    task = asyncio.create_task(work())
    await until(5)
    await service.break_("a")
    await service.acquire("a", foreign_id(1), 15)
    with pytest.raises(LockLost, match="'a'"):
        await task
    await until(45)
    await settled(service, host)


@virtual
async def test_one_that_is_lost_ends_the_wait_for_the_others_and_nobody_is_kept_out() -> None:
    service = MemoryLeaseStore()
    await occupy(service, "b", duration=60)
    host = InlineHost(service)
    with host.here() as locks:
        waiting = asyncio.create_task(_lock_all(locks))
        await until(5.0)
        await service.break_("a")
        await asyncio.wait({waiting}, timeout=8.0)
        assert isinstance(waiting.exception(), LockLost)
        async with locks.lock("a", timeout=1):
            pass
    await service.release("b", foreign_id())
    await settled(service, host)


async def _lock_all(locks: AsyncLockClient) -> None:
    async with locks.lock_all(["a", "b", "c"]):
        raise AssertionError("not reached")


@virtual
async def test_closing_the_client_ends_the_wait() -> None:
    service = MemoryLeaseStore()
    await occupy(service, "c")
    host = InlineHost(service)
    with host.here() as locks:
        asyncio.get_running_loop().call_later(5, locks.close)
        with pytest.raises(LockClosed):
            async with locks.lock_all(NAMES):
                pytest.fail("the block was entered")
        assert now() < 6
    assert set(service.leased()) == {"c"}


# --- on threads, and what is refused ----------------------------------------------------------------------------------


@pytest.fixture
def thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LockThread]:
    an_app(tmp_path, monkeypatch)
    with LockThread() as running:
        yield running


def test_a_thread_holds_all_for_the_length_of_its_block(thread: LockThread) -> None:
    def body(holds: tuple[Hold, ...]) -> None:
        assert [hold.lock for hold in holds] == ["b", "a"]
        assert thread.leased() == {"a", "b"}
        raise KeyError("own")

    with pytest.raises(KeyError, match="own"), LockClient().lock_all(["b", "a"]) as holds:
        body(holds)
    assert thread.leased() == set()


def test_an_interrupt_at_the_end_keeps_no_lock_even_without_a_collection(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, interrupted = thread.runtime.release, ["a", "c"]

    def interrupt(hold: Hold) -> None:
        if hold.lock in interrupted:
            interrupted.remove(hold.lock)
            raise KeyboardInterrupt
        release(hold)

    monkeypatch.setattr(thread.runtime, "release", interrupt)
    locks = LockClient()
    gc.disable()
    try:
        with suppress(KeyboardInterrupt), locks.lock_all(NAMES):
            pass
        assert not interrupted
        with locks.lock_all(NAMES, timeout=10):
            pass
    finally:
        gc.enable()


def test_an_interrupt_of_one_release_is_raised_though_a_later_release_fails(
    thread: LockThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    raised: list[BaseException] = [OSError("of a later release"), KeyboardInterrupt()]

    def fail(_: Hold) -> None:
        raise raised.pop()

    with pytest.raises(KeyboardInterrupt), LockClient().lock_all(["a", "b"]):
        monkeypatch.setattr(thread.runtime, "release", fail)
    assert raised == []


def test_a_set_inside_a_block_of_one_of_its_locks_is_told_what_helps(thread: LockThread) -> None:
    with LockClient().lock("b"), pytest.raises(LockNotAcquired, match=r"reentrant=True") as told:
        LockClient().lock_all(["a", "b"]).__enter__()
    assert told.value.reason == "reentry"
    assert thread.leased() == set()


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
def test_names_that_make_no_set(thread: LockThread, kind: type[LockClient | AsyncLockClient]) -> None:
    for names, said in ((["a", "b", "a"], "'a' twice"), ("ab", "is the text 'ab'"), (["a", ""], "has 0 characters")):
        with pytest.raises(ConfigurationError, match=said):
            kind().lock_all(names)
    assert thread.memory.calls.total() == 0


@virtual
async def test_a_set_with_no_time_left_for_an_answer_is_told_of_others_and_not_of_silent_storage() -> None:
    service = MemoryLeaseStore()
    await occupy(service, "b", 30)
    with InlineHost(service).here() as locks:
        async with locks.lock("a"):
            waits = asyncio.create_task(locks.lock_all(["a", "b"], timeout=3).__aenter__())
            await asyncio.sleep(2.99)  # a request takes longer than what is left
        with pytest.raises(LockNotAcquired, match="2 locks were not acquired within 0:00:03: 'b' is in use"):
            await waits
    assert set(service.leased()) == {"b"}

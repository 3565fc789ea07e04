"""Waiting for a lock: how often it is asked for, and what is said in the end (W-61 to W-65, M-23 to M-26)."""

from __future__ import annotations

import asyncio
import inspect
import itertools

import pytest

from singleton import AsyncLockClient, ConfigurationError, LockClient, SingletonOptions
from singleton.base.errors import LockNotAcquired
from singleton.locking.lock import release
from tests.support.inline import InlineHost
from tests.support.network import Network, answered
from tests.support.world import NAME, foreign_id, held, lock_on, now, occupy, until, virtual


@virtual
async def test_three_refusals_and_a_success_are_four_requests_for_the_lease() -> None:
    """W-63."""
    network = Network()
    await network.service.create(NAME)
    network.plan("acquire", *[answered(409, "LeaseAlreadyPresent")] * 3)
    async with held(lock_on(network)):
        assert network.calls().count("acquire") == 4
        await asyncio.sleep(1.0)
        assert network.calls().count("acquire") == 4


@virtual
async def test_the_first_attempt_is_immediate_and_the_pauses_grow_to_the_polling_interval() -> None:
    """W-61, X-4: each pause is half to all of twice the one before, and never more than the interval."""
    network = Network()
    await occupy(network.service, duration=60)
    lock = lock_on(network, poll_min=0.1, poll_max=5.0)
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=50)
    sent = [request.sent for request in network.requests if request.call == "acquire"]
    assert sent[0] == 0.0
    pauses = [later - earlier for earlier, later in itertools.pairwise(sent)]
    for number, pause in enumerate(pauses[:-1]):  # the last look comes when it must
        longest = min(0.1 * 2**number, 5.0)
        assert longest / 2 <= pause <= longest + 0.1
    assert 49.0 < sent[-1] < 50.0


@pytest.mark.parametrize("poll_max", [0.5, 5.0, 60.0])
@virtual
async def test_a_time_out_shorter_than_an_interval_still_gives_a_second_attempt(poll_max: float) -> None:
    """W-62, but that real time counts and not the number of intervals: the wait ends on time."""
    network = Network()
    await occupy(network.service)
    with pytest.raises(LockNotAcquired):
        await lock_on(network, poll_max=poll_max).acquire(timeout=0.2)
    assert now() == pytest.approx(0.2)
    assert network.calls().count("acquire") >= 2


@virtual
async def test_pauses_longer_than_the_time_out_do_not_delay_the_return() -> None:
    """M-25: pauses of 30 to 60 s, a time-out of 2 s, the lock freed meanwhile."""
    network = Network()
    await occupy(network.service)
    waiting = asyncio.create_task(lock_on(network, poll_min=60.0, poll_max=60.0).acquire(timeout=2.0))
    await until(1.0)
    await network.service.release(NAME, foreign_id())
    hold = await waiting
    assert now() < 2.0
    await release(hold)


@pytest.mark.parametrize(
    ("timeout", "text"),
    [
        (0.2, "lock 'locks/host/job' was not acquired within 0:00:00.2: somebody else has it"),
        (1, "lock 'locks/host/job' was not acquired within 0:00:01: somebody else has it"),
        (90_061.5, "lock 'locks/host/job' was not acquired within 1:1:01:01.5: somebody else has it"),
        (0, "lock 'locks/host/job' was not acquired at once: somebody else has it"),
    ],
)
@virtual
async def test_a_time_out_names_the_lock_and_the_time(timeout: float, text: str) -> None:
    """W-65."""
    network = Network()
    await network.service.create(NAME)
    await network.service.acquire(NAME, foreign_id(), -1)
    with pytest.raises(LockNotAcquired) as caught:
        await lock_on(network, poll_max=600.0).acquire(timeout=timeout)
    assert str(caught.value) == text


@virtual
async def test_a_time_out_of_a_semaphore_says_lock_or_semaphore() -> None:
    """M-26."""
    network = Network()
    host = InlineHost(network.service)
    with host.here() as locks:
        for number in range(2):
            await occupy(network.service, f"reports/slot-{number}")
        with pytest.raises(LockNotAcquired) as caught:
            await locks.acquire("reports", limit=2, timeout=0.2)
    assert str(caught.value) == "semaphore 'reports' was not acquired within 0:00:00.2: all of its 2 slots are taken"


@pytest.mark.parametrize(("timeout", "within"), [(1.5, "within 0:00:01.5"), (0, "at once")])
@virtual
async def test_a_time_out_of_several_locks_names_that_of_all_and_the_one_that_is_in_use(
    timeout: float, within: str
) -> None:
    """W-65: not what was left of it for the last."""
    network = Network()
    host = InlineHost(network.service)
    await occupy(network.service, "b")
    with host.here() as locks, pytest.raises(LockNotAcquired) as caught:
        async with locks.lock_all(["b", "a"], timeout=timeout, owner="me"):
            pytest.fail("entered")
    assert str(caught.value) == f"2 locks were not acquired {within}: 'b' is in use"
    assert (caught.value.lock, caught.value.owner) == ("b", "me")


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
@pytest.mark.parametrize("timeout", [-0.001, -2, 2**31 - 1, 2_147_483.648, float("inf"), float("nan"), "5", True])
def test_a_time_out_that_is_none_is_refused_at_the_call(kind: type[LockClient], timeout: float) -> None:
    """M-6, M-41: by every way to acquire, before anything is awaited or entered."""
    client = kind("UseDevelopmentStorage=true")
    for way in (
        lambda: client.lock("job", timeout=timeout),
        lambda: client.semaphore("job", 2, timeout=timeout),
        lambda: client.lock_all(["job"], timeout=timeout),
    ):
        with pytest.raises(ConfigurationError, match=r"timeout is .*None to wait for as long as it takes"):
            way()


@pytest.mark.parametrize("kind", [LockClient, AsyncLockClient])
@pytest.mark.parametrize("timeout", [None, 0, 0.001, 5, 2_147_483.647])
def test_any_other_time_out_is_taken(kind: type[LockClient], timeout: float | None) -> None:
    """M-6."""
    assert kind("UseDevelopmentStorage=true").lock("job", timeout=timeout) is not None


@pytest.mark.parametrize(
    ("first", "longest", "fine"),
    [(0.25, 1, True), (0.01, 0.5, True), (5, 5, True), (180, 240, True), (0, 0, False), (2, 1, False), (-1, 1, False)],
)
def test_the_range_of_the_pauses(first: float, longest: float, fine: bool) -> None:
    """M-5: both finite, the first not above the longest; no pause of nothing, which would flood the storage (W-20)."""

    def made() -> SingletonOptions:
        return SingletonOptions(lock_acquisition_min_polling_interval=first, lock_acquisition_polling_interval=longest)

    if fine:
        assert made().lock_acquisition_polling_interval == longest
    else:
        with pytest.raises(ConfigurationError):
            made()


def test_the_fewest_arguments_wait_for_ever_or_ask_once() -> None:
    """M-26: what raises waits for as long as it takes, what gives none asks once."""
    for kind in (LockClient, AsyncLockClient):
        for way in (kind.lock, kind.semaphore, kind.acquire, kind.lock_all):
            assert inspect.signature(way).parameters["timeout"].default is None
        assert inspect.signature(kind.try_lock).parameters["timeout"].default == 0


@pytest.mark.parametrize("limit", [None, 2], ids=["lock", "semaphore"])
@virtual
async def test_a_hold_tells_how_long_it_was_waited_for(limit: int | None) -> None:
    """W-93, W-98: also one that was handed on by another of this process."""
    network = Network()
    host = InlineHost(network.service)
    names = ["job"] if limit is None else [f"job/slot-{number}" for number in range(limit)]
    for name in names:
        await occupy(network.service, name)
    with host.here() as locks:
        waiting = asyncio.create_task(locks.acquire("job", limit=limit))
        await until(7.0)
        behind = asyncio.create_task(locks.acquire("job", limit=limit))
        await until(20.0)
        await network.service.release(names[0], foreign_id())
        first = await waiting
        assert first.waited == pytest.approx(now(), abs=0.1)
        await until(30.0)
        await locks.release(first)
        second = await behind
        assert second.waited == pytest.approx(now() - 7.0, abs=0.1)
        await locks.release(second)
        async with locks.lock("free") as free:
            assert 0 <= free.waited < 0.2

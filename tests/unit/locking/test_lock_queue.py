"""Waiting is cheap and quick (guarantee 7): one queue and one poll for a process, and handing on without requests."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from singleton.locking.lock import release
from tests.support.network import Fate, Network, Request, answered
from tests.support.world import NAME, foreign_id, held, lock_on, now, occupy, section, settled, until, virtual


@virtual
async def test_waiters_of_a_process_are_served_in_the_order_in_which_they_came() -> None:
    network = Network()
    lock = lock_on(network)
    served: list[int] = []

    async def one(number: int) -> None:
        async with held(lock, owner=str(number)) as hold:
            assert hold.owner == str(number)
            served.append(number)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(one(number) for number in range(30)))
    assert served == list(range(30))
    await settled(network.service, lock)


@virtual
async def test_sections_of_a_process_never_overlap() -> None:
    network = Network()
    lock = lock_on(network)
    inside: set[int] = set()

    async def one(number: int) -> None:
        await asyncio.sleep(number * 0.013)
        async with held(lock):
            assert not inside
            inside.add(number)
            await asyncio.sleep(0.02)
            inside.remove(number)

    await asyncio.gather(*(one(number) for number in range(50)))


@pytest.mark.parametrize("fencing", [True, False])
@virtual
async def test_a_hundred_waiters_need_at_most_ten_requests(fencing: bool) -> None:
    network = Network()
    lock = lock_on(network, fencing=fencing)
    holds = await asyncio.gather(*(section(lock, 0.05) for _ in range(100)))
    assert len(network.requests) <= 10
    assert len({hold.lease_id for hold in holds}) == 1
    await settled(network.service, lock)


@pytest.mark.parametrize("waiters", [1, 10, 200])
@virtual
async def test_a_process_polls_as_often_for_many_waiters_as_for_one(waiters: int) -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = [asyncio.create_task(lock.acquire()) for _ in range(waiters)]
    await until(55.0)
    # Those of the back-off from 0.1 to 5 s, then one each 2.5 to 5 s.
    assert 15 <= len(network.requests) <= 28
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)


@virtual
async def test_polls_start_quick_and_slow_down_to_the_longest_interval_with_jitter() -> None:
    network = Network()
    await occupy(network.service)
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire())
    await until(58.0)
    gaps = [later.sent - earlier.sent for earlier, later in itertools.pairwise(network.requests)]
    assert gaps[0] <= 0.1 + 0.03
    for number, gap in enumerate(gaps):
        longest = min(0.1 * 2**number, 5.0)
        assert longest / 2 <= gap - 0.02 <= longest + 1e-9
    steady = gaps[7:]
    assert len(set(steady)) == len(steady), "no jitter"
    waiting.cancel()
    await asyncio.wait({waiting})


@virtual
async def test_processes_that_start_together_do_not_poll_in_step() -> None:
    network = Network()
    await occupy(network.service)
    locks = [lock_on(network, seed) for seed in range(5)]
    waiting = [asyncio.create_task(lock.acquire()) for lock in locks]
    await until(30.0)
    times = sorted(request.sent for request in network.requests[5:])
    assert len(times) == len(set(times))
    for one in waiting:
        one.cancel()
    await asyncio.wait(waiting)


@virtual
async def test_the_lock_is_taken_within_one_polling_interval_of_its_release_elsewhere() -> None:
    for seed in range(10):
        network = Network()
        await occupy(network.service)
        lock = lock_on(network, seed)
        freed = now() + 40.0 + seed / 3
        waiting = asyncio.create_task(lock.acquire())
        await until(freed)
        await network.service.release(NAME, foreign_id())
        hold = await waiting
        assert now() - freed <= 5.1
        await release(hold)


@virtual
async def test_the_lease_of_a_holder_that_died_is_taken_within_the_lease_and_one_poll() -> None:
    network = Network()
    await occupy(network.service, duration=15)
    lock = lock_on(network)
    async with held(lock):
        assert 15.0 <= now() <= 15.0 + 5.1
    await settled(network.service, lock)


@virtual
async def test_an_uncontended_lock_is_had_in_the_time_of_its_requests() -> None:
    network = Network()
    lock = lock_on(network)
    await section(lock)
    start = now()
    async with held(lock):
        assert now() - start == pytest.approx(0.02), "20 ms for the acquire"
    assert now() - start == pytest.approx(0.04)


@virtual
async def test_handing_on_takes_no_time_and_no_request() -> None:
    network = Network()
    lock = lock_on(network)
    hold = await lock.acquire()
    waiting = asyncio.create_task(lock.acquire())
    await asyncio.sleep(1.0)
    sent = len(network.requests)
    done, before = asyncio.create_task(release(hold)), now()
    second = await waiting
    await done
    assert now() == before
    assert len(network.requests) == sent
    assert second.token is not None
    assert hold.token is not None
    assert second.token > hold.token
    await release(second)


@virtual
async def test_a_lease_that_goes_from_hand_to_hand_is_renewed_on() -> None:
    network = Network()
    lock = lock_on(network, handoff_window=1000.0)
    await asyncio.gather(*(section(lock, 4.0) for _ in range(50)))
    assert now() == pytest.approx(200.0, abs=1.0)
    assert len(network.sent("acquire")) == 2, "one more for the blob that was missing"
    assert len(network.sent("renew")) == pytest.approx(200 / 7.5, abs=2)


@virtual
async def test_retry_after_slows_polling_down_but_never_below_the_longest_interval() -> None:
    for asked, least, most in ((2.0, 2.0, 2.1), (3600.0, 5.0, 5.1), (0.0, 0.05, 0.2)):
        network = Network()
        await network.service.create(NAME)
        lock = lock_on(network)
        network.plan("acquire", answered(503, "ServerBusy", retry_after=asked))
        await section(lock)
        first, second = network.sent("acquire")[:2]
        assert least <= second.sent - first.sent <= most


@virtual
async def test_a_slow_storage_is_not_asked_again_before_it_answered() -> None:
    network = Network()
    await occupy(network.service)
    network.always("acquire", Fate(up=2.0, down=2.0))
    lock = lock_on(network)
    waiting = asyncio.create_task(lock.acquire())
    await until(50.0)
    for (_, took), gap in zip(
        network.took, (b.sent - a.sent for a, b in itertools.pairwise(network.requests)), strict=False
    ):
        assert gap > took
    waiting.cancel()
    await asyncio.wait({waiting})


@virtual
async def test_locks_of_different_names_do_not_wait_for_each_other() -> None:
    network = Network()
    locks = [lock_on(network, name=f"locks/host/{number}") for number in range(20)]
    await asyncio.gather(*(section(lock, 1.0) for lock in locks))
    assert now() < 1.2


def test_the_same_seed_makes_the_same_requests_at_the_same_times_and_another_seed_others() -> None:
    def history(seed: int) -> list[Request]:
        network = Network()

        @virtual
        async def run() -> None:
            await occupy(network.service, duration=20)
            locks = [lock_on(network, seed + number) for number in range(3)]
            await asyncio.gather(*(section(lock, 0.3) for lock in locks for _ in range(5)))

        run()
        return network.requests

    assert history(1) == history(1)
    assert history(1) != history(2)

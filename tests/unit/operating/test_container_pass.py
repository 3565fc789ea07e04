"""A sweep leaves the storage to those who lock: it rests, and works on fewer blobs where the storage gets slower."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from singleton.operating.container_pass import Lift, Pace, Sweep
from tests.support.network import Fate, Network, answered
from tests.support.world import now, virtual

if TYPE_CHECKING:
    from tests.support.network import Request

BOX = "webjobshost"
LEASE = "00000000-0000-4000-8000-000000000001"


class OneByOne:
    """A storage that does one thing at a time, as the emulator does."""

    def __init__(self, **seconds: float) -> None:
        self.seconds = seconds
        self.free = 0.0

    def __call__(self, request: Request) -> Fate:
        self.free = max(self.free, now()) + self.seconds.get(request.call, 0.001)
        return Fate(up=self.free - now(), down=0.0)


async def a_container(blobs: int) -> Network:
    network = Network()
    for number in range(blobs):
        await network.service.create(f"locks/app/job.{number}")
    await asyncio.sleep(100)
    return network


async def swept(network: Network, *, dry_run: bool = False, fast: bool = False) -> Sweep:
    sweep = Sweep(network, BOX, older_than=60.0, dry_run=dry_run, fast=fast)
    while await sweep.go_on():
        pass
    return sweep


def together(network: Network) -> list[int]:
    """Return how many deletes were sent at the same time, in order."""
    return list(Counter(request.sent for request in network.sent("drop")).values())


@virtual
async def test_it_begins_with_one_delete_at_a_time_and_goes_up_to_sixteen_where_that_slows_nothing() -> None:
    network = await a_container(600)
    await swept(network)
    sizes = together(network)
    assert sizes[:8] == [1] * 8
    assert max(sizes) == 16
    assert sizes[:-1] == sorted(sizes[:-1])


@virtual
async def test_a_storage_that_does_one_thing_at_a_time_gets_two_deletes_at_a_time_at_most() -> None:
    network = await a_container(200)
    network.decide = OneByOne(drop=0.15)
    await swept(network)
    assert max(together(network)) == 2


@virtual
async def test_where_the_storage_gets_slower_there_is_one_at_a_time_in_the_end() -> None:
    network = await a_container(900)
    network.decide = lambda _: Fate(up=0.02 if len(network.sent("drop")) < 450 else 0.2)
    await swept(network)
    sizes = together(network)
    assert max(sizes) == 16
    assert set(sizes[-20:]) == {1}


@pytest.mark.parametrize("trouble", [answered(503, "ServerBusy"), answered(None)], ids=["throttled", "no answer"])
def test_after_an_error_there_is_one_at_a_time(trouble: Fate) -> None:
    @virtual
    async def test() -> None:
        network = await a_container(600)
        sweep = Sweep(network, BOX, older_than=60.0)
        while sweep._pace.at_once < 10:
            await sweep.go_on()
        network.plan("drop", trouble)
        await sweep.go_on()
        assert sweep._pace.at_once == 1
        before = sweep.done
        await sweep.go_on()
        assert sweep.done == before + 1

    test()


@virtual
async def test_it_rests_five_times_as_long_as_it_works() -> None:
    network = await a_container(40)
    network.always("drop", Fate(up=0.1, down=0.1))
    began = now()
    sweep = await swept(network)
    assert sweep.done == 40
    batches = len(together(network))
    assert now() - began == pytest.approx(6 * (0.2 * batches), rel=0.1)


@virtual
async def test_a_fast_sweep_does_not_rest_and_still_gives_way_to_a_storage_that_gets_slower() -> None:
    network = await a_container(40)
    network.always("drop", Fate(up=0.1, down=0.1))
    began = now()
    await swept(network, fast=True)
    assert now() - began == pytest.approx(0.2 * len(together(network)), rel=0.1)
    network = await a_container(200)
    network.decide = OneByOne(drop=0.15)
    await swept(network, fast=True)
    assert max(together(network)) == 2


@virtual
async def test_a_rest_after_a_time_out_is_no_longer_than_half_a_minute() -> None:
    pace = Pace(4.0)
    began = now()
    await asyncio.sleep(60)
    pace.rest_after(began)
    await pace.turn()
    assert now() - began == pytest.approx(90)


@virtual
async def test_what_only_looks_or_runs_while_the_app_is_stopped_does_not_rest() -> None:
    network = await a_container(3000)
    network.always("page", Fate(up=1.0, down=0.0))
    began = now()
    await swept(network, dry_run=True)
    assert now() - began == pytest.approx(3.0, abs=0.1)
    network = await a_container(16)
    began = now()
    lift = Lift(network, BOX)
    while await lift.go_on():
        pass
    assert lift.done == 16
    assert now() - began < 16 * 6 * 0.02 + 1.0


@pytest.mark.parametrize("delete", [0.01, 0.17, 1.0])
def test_lockers_keep_four_fifths_of_a_storage_that_does_one_thing_at_a_time(delete: float) -> None:
    """24 lockers are as many as such a storage can serve. A delete may be as dear as hundreds of their requests."""

    @virtual
    async def test() -> None:
        network = await a_container(2000)
        network.decide = OneByOne(drop=delete, acquire=0.003, release=0.003, page=0.4)
        for number in range(24):
            await network.service.create(f"used-{number}")

        async def locker(number: int, until: float) -> int:
            holds = 0
            while now() < until:
                await network.acquire(f"used-{number}", LEASE, 15)
                await network.release(f"used-{number}", LEASE)
                holds += 1
            return holds

        async def storm() -> int:
            return sum(await asyncio.gather(*(locker(number, now() + 60) for number in range(24))))

        alone = await storm()
        sweeping = asyncio.create_task(swept(network))
        beside = await storm()
        sweeping.cancel()
        await asyncio.wait([sweeping])
        assert len(network.sent("drop")) > 8
        assert beside > 0.8 * alone

    test()

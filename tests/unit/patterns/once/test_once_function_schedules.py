"""``@once`` on functions of several processes at a time, under faults: one result, whatever happens."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singleton import LockLost, SingletonError, StorageUnavailable, current_hold, once
from tests.support.lock_thread import Context, an_app
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate
from tests.support.once_hosts import Host, hosts
from tests.support.virtual import run_virtual
from tests.support.world import until, virtual
from tests.unit.patterns.once.test_once_schedules import FATES, REQUESTS, Resource, cut_off

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCK = "once/app/charge/42"


@pytest.fixture(autouse=True, scope="module")
def _app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as environment:
        an_app(tmp_path_factory.mktemp("app"), environment)
        yield


class Charging:
    """A function that charges once, as the worker of each process calls it; each effect has a result of its own."""

    def __init__(self, **arguments: Any) -> None:
        self.resource = Resource()

        @once(**{"key": "Id", "keep": 1_000, **arguments})
        async def charge(msg: str) -> Any:
            hold, order = current_hold(), json.loads(msg)
            await asyncio.sleep(order["before"])
            hold.raise_if_lost()
            assert hold.token is not None
            self.resource.charge("42", hold.token)
            mine = self.resource.effects
            await asyncio.sleep(order["after"])
            return mine

        self._charge: Any = charge

    def start(self, host: Host, before: float = 0.0, after: float = 0.0) -> asyncio.Task[Any]:
        msg = json.dumps({"Id": 42, "before": before, "after": after})
        return host.start(lambda _: self._charge(msg=msg, context=Context("inv-1")))

    async def on(self, host: Host, before: float = 0.0, after: float = 0.0) -> Any:
        return await self.start(host, before, after)


@virtual
async def test_a_repeat_gets_the_result_for_one_request() -> None:
    charging = Charging()
    async with hosts() as (first, second):
        assert [await charging.on(host) for host in (first, second, first)] == [1, 1, 1]
        assert [host.network.calls()[-1] for host in (first, second)] == ["get", "get"]
        assert second.network.calls() == ["get"]


@virtual
async def test_one_that_comes_meanwhile_waits_and_gets_the_result() -> None:
    charging = Charging()
    async with hosts() as started:
        going = [charging.start(host, after=20) for host in (*started, *started)]
        assert await asyncio.gather(*going) == [1, 1, 1, 1]
        assert charging.resource.effects == 1


@virtual
async def test_a_result_is_kept_for_as_long_as_the_declaration_says() -> None:
    charging = Charging(keep=100)
    async with hosts() as (first, second):
        assert await charging.on(first) == 1
        await until(90)
        assert await charging.on(second) == 1
        await until(110)
        assert [await charging.on(host) for host in (second, first)] == [2, 2]


@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_REPLY], ids=["request lost", "reply lost"])
@pytest.mark.parametrize("number", range(len(REQUESTS)), ids=REQUESTS)
@virtual
async def test_a_process_that_is_cut_off_at_any_request_leaves_one_result(number: int, fate: Fate) -> None:
    charging = Charging()
    async with hosts(3) as (first, *others):
        cut_off(first, number, fate)
        going = charging.start(first)
        await until(120)
        results = [await charging.on(host) for host in others]
        assert results == [charging.resource.effects] * 2
        assert charging.resource.effects == (2 if number == 4 and fate is LOST_REQUEST else 1)
        ended = going.exception() or going.result()
        assert ended == results[0] or isinstance(ended, SingletonError)


@settings(max_examples=40)
@given(st.integers(0, 2**32))
def test_whatever_the_network_does_all_that_return_return_the_same(seed: int) -> None:
    run_virtual(_schedule(random.Random(seed)))


async def _schedule(rng: random.Random) -> None:
    charging = Charging()
    trouble = rng.choice([0.0, 0.05, 0.2, 0.5])
    async with hosts(3, seed=rng.randrange(1_000)) as started:
        for host in started:
            host.network.decide = lambda _: rng.choice(FATES)(rng) if rng.random() < trouble else FINE
        ended = await asyncio.gather(
            *(_attempt(charging, host, rng) for host in started for _ in range(2)), return_exceptions=True
        )
        assert all(isinstance(each, int | SingletonError) for each in ended), ended
        for host in started:
            host.network.decide = None
        await asyncio.sleep(60)
        ended += [await charging.on(host) for host in started]
        failed = [each for each in ended if isinstance(each, SingletonError)]
        assert len({each for each in ended if isinstance(each, int)}) == 1, ended
        assert 1 <= charging.resource.effects <= 1 + len(failed)
        await asyncio.sleep(120)


async def _attempt(charging: Charging, host: Host, rng: random.Random) -> Any:
    await asyncio.sleep(rng.uniform(0, 30))
    return await charging.on(host, rng.uniform(0, 10), rng.choice([0, rng.uniform(0, 20)]))


@virtual
async def test_one_that_believes_in_a_lease_that_is_gone_is_refused_by_the_service_and_returns_nothing() -> None:
    charging = Charging()
    async with hosts() as (first, second):
        believer = charging.start(first, after=5)
        await until(1)
        await first.network.service.break_(LOCK)
        assert await charging.on(second) == 2
        with pytest.raises(LockLost):
            await believer
        assert await charging.on(first) == 2


@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_REPLY], ids=["not kept", "kept"])
@virtual
async def test_a_result_of_which_nobody_knows_whether_it_was_kept_is_not_returned(fate: Fate) -> None:
    charging = Charging()
    async with hosts() as (first, second):
        first.network.decide = lambda request: fate if request.call in ("put", "read") else FINE
        with pytest.raises(StorageUnavailable):
            await charging.on(first)
        first.network.decide = None
        assert [await charging.on(host) for host in (second, first)] == ([2, 2] if fate is LOST_REQUEST else [1, 1])


@pytest.mark.parametrize("fate", [LOST_REPLY, LOST_REQUEST], ids=["kept", "not kept"])
@virtual
async def test_of_a_result_without_an_answer_before_the_loss_no_invocation_says_that_it_does_not_count(
    fate: Fate,
) -> None:
    charging = Charging()
    async with hosts() as (first, second):
        going = charging.start(first, after=5)
        await until(1)
        first.network.fail_all(fate)
        with pytest.raises(StorageUnavailable, match="it is not known whether this was written"):
            await going
        assert await charging.on(second) == (1 if fate is LOST_REPLY else 2)

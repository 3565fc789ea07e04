"""``once`` under faults: whatever happens, nobody returns normally with another result than the rest."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singleton import AsyncLockClient, LockLost, SingletonError, once
from singleton.operating.container_pass import Sweep, Swept
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, answered
from tests.support.once_hosts import Host, hosts
from tests.support.virtual import run_virtual
from tests.support.world import until, virtual

if TYPE_CHECKING:
    from collections.abc import Callable


class Resource:
    """What is written to: it counts effects, and remembers those that came with a key."""

    def __init__(self) -> None:
        self.effects = 0
        self.by_key: dict[str, int] = {}
        self.tokens: list[int] = []

    def charge(self, key: str, token: int) -> int:
        self.effects += 1
        self.tokens.append(token)
        return self.by_key.setdefault(key, len(self.by_key) + 1)


async def charged(locks: AsyncLockClient, resource: Resource, before: float = 0.0, after: float = 0.0) -> Any:
    """Charge once; each effect has a result of its own."""
    async with once(locks, "42", name="charge", keep=1_000) as operation:
        if not operation.done:
            assert operation.token is not None
            await asyncio.sleep(before)
            operation.raise_if_lost()
            resource.charge("42", operation.token)
            mine = resource.effects
            await asyncio.sleep(after)
            await operation.finish(mine)
    return operation.result


# --- one at each request ----------------------------------------------------------------------------------------------

REQUESTS = ("get", "acquire", "create", "acquire again", "put", "release")


@pytest.mark.parametrize("fate", [LOST_REQUEST, LOST_REPLY], ids=["request lost", "reply lost"])
@pytest.mark.parametrize("number", range(len(REQUESTS)), ids=REQUESTS)
@virtual
async def test_a_process_that_is_cut_off_at_any_request_leaves_one_result(number: int, fate: Fate) -> None:
    """It lives on and believes what it believes: it either returns the one result, or fails."""
    resource = Resource()
    async with hosts(3) as (first, second, third):
        cut_off(first, number, fate)
        going = first.start(lambda locks: charged(locks, resource))
        await until(120)
        others = [await host.run(lambda locks: charged(locks, resource)) for host in (second, third)]
        assert resource.effects == (2 if number == 4 and fate is LOST_REQUEST else 1)
        assert len(set(others)) == 1
        assert going.done()
        assert others == [resource.effects] * 2
        if going.exception() is None:
            assert going.result() == others[0]
        else:
            assert isinstance(going.exception(), SingletonError)


def cut_off(host: Host, number: int, fate: Fate) -> None:
    """Have this request of the host, and all that follow, meet this fate."""
    host.network.decide = lambda _: FINE if len(host.network.requests) <= number else fate


# --- by chance --------------------------------------------------------------------------------------------------------

FATES: list[Callable[[random.Random], Fate]] = [
    lambda _: LOST_REQUEST,
    lambda _: LOST_REPLY,
    lambda rng: Fate(up=rng.uniform(0, 40)),
    lambda rng: Fate(down=rng.uniform(0, 40)),
    lambda _: answered(503, "ServerBusy"),
    lambda _: answered(500, "OperationTimedOut", executed=True),
]


@settings(max_examples=60)
@given(st.integers(0, 2**32))
def test_whatever_the_network_does_all_that_return_return_the_same(seed: int) -> None:
    run_virtual(schedule(random.Random(seed)))


async def schedule(rng: random.Random) -> None:
    resource = Resource()
    trouble = rng.choice([0.0, 0.05, 0.2, 0.5])
    async with hosts(3, seed=rng.randrange(1_000)) as started:
        for host in started:
            host.network.decide = lambda _: rng.choice(FATES)(rng) if rng.random() < trouble else FINE
        attempts = [attempt(host, resource, rng) for host in started for _ in range(2)]
        ended = await asyncio.gather(*attempts)
        for host in started:
            host.network.decide = None
        await asyncio.sleep(60)
        ended += [await host.run(lambda locks: charged(locks, resource)) for host in started]
        results = [each for each in ended if not isinstance(each, BaseException)]
        assert len(set(results)) == 1, ended
        failed = sum(isinstance(each, BaseException) for each in ended)
        assert 1 <= resource.effects <= 1 + failed
        assert resource.tokens == sorted(set(resource.tokens))
        assert len(resource.by_key) == 1
        await asyncio.sleep(120)


async def attempt(host: Host, resource: Resource, rng: random.Random) -> Any:
    await asyncio.sleep(rng.uniform(0, 30))
    before, after = rng.uniform(0, 10), rng.choice([0, rng.uniform(0, 20)])
    return await host.run_caught(lambda locks: charged(locks, resource, before, after))


# --- too late ---------------------------------------------------------------------------------------------------------


@virtual
async def test_one_that_believes_in_a_lease_that_is_gone_is_refused_by_the_service_and_returns_nothing() -> None:
    """An operator has ended it, and nothing tells the process before it writes."""
    resource = Resource()
    async with hosts() as (first, second):
        believer = first.start(lambda locks: charged(locks, resource, after=5))
        await until(1)
        await first.network.service.break_("once/charge/42")
        assert await second.run(lambda locks: charged(locks, resource)) == 2
        with pytest.raises(LockLost):
            await believer
        assert [request.call for request in first.network.requests if request.sent > 1] == ["put", "read"]
        assert await first.run(lambda locks: charged(locks, resource)) == 2
        assert resource.tokens[0] < resource.tokens[1]


# --- sweeps -----------------------------------------------------------------------------------------------------------


async def swept(host: Host, older_than: float = 60.0) -> Swept:
    sweep = Sweep(host.network, "webjobshost", older_than=older_than)
    while await sweep.go_on():
        pass
    return sweep.result


@virtual
async def test_a_sweep_deletes_results_that_have_expired_and_no_other_state() -> None:
    async with hosts() as (host, other):

        async def keep_all(locks: AsyncLockClient) -> None:
            await once(locks, "short", keep=100).run(lambda: 1)
            await once(locks, "long", keep=10_000).run(lambda: 2)
            async with locks.lock("cursor") as hold:
                await hold.state.awrite({"at": 7})
            async with locks.lock("noted") as hold:
                await hold.state.awrite(b"")

        await host.run(keep_all)
        assert await swept(host) == Swept(young=0, kept=4)
        await until(90)
        assert await swept(host) == Swept(kept=4)
        await until(200)
        assert await swept(host, older_than=1_000) == Swept(young=1, kept=3)
        assert await swept(host) == Swept(swept=1, kept=3)
        assert sorted(host.network.service.names()) == ["cursor", "noted", "once/long"]
        assert await other.run(lambda locks: once(locks, "short").run(lambda: 3)) == 3
        assert await other.run(lambda locks: once(locks, "long").run(lambda: 3)) == 2


@virtual
async def test_a_sweep_leaves_an_expired_result_that_somebody_is_about_to_replace() -> None:
    async with hosts() as (host, other):
        await host.run(lambda locks: once(locks, "short", keep=100).run(lambda: 1))
        await until(200)
        going = other.start(lambda locks: once(locks, "short").run(asyncio.sleep, 100, result="new"))
        await until(290)
        assert await swept(host) == Swept(in_use=1)
        assert await going == "new"
        assert await host.run(lambda locks: once(locks, "short").run(lambda: 3)) == "new"

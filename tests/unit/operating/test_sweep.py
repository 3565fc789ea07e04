"""A sweep deletes what nobody uses, and whoever locks meanwhile does not notice: no hold lost, no token repeated."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

from singleton.base.errors import StorageDenied, StorageError, StorageUnavailable
from singleton.operating.container_pass import Sweep, Swept, is_sweepable
from singleton.stores.lock_keeping import Listed
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import LOST_REPLY, Fate, Network, answered
from tests.support.world import held, lock_on, now, section, virtual

BOX = "webjobshost"
WEBJOBS = "azure-webjobs-hosts"


def blob(name: str, *, content: bytes = b"", **metadata: str) -> Listed:
    return Listed(name=name, etag='"1"', lease="available", modified=0, metadata=metadata, size=len(content))


STAMP: dict[str, Any] = {"SingletonEpoch": "1", "SingletonHost": "h", "FunctionInstance": "i", "SingletonPid": "7"}


@pytest.mark.parametrize(
    ("found", "container", "ours"),
    [
        (blob("locks/app/job.42", **STAMP), BOX, True),
        (blob("locks/app/job.42"), BOX, True),
        (blob("locks/app/job.42", functioninstance="i"), BOX, True),
        (blob("reports", **STAMP), BOX, True),
        (blob("reports/slot-3", singletonepoch="1"), BOX, True),
        (blob("reports"), BOX, False),
        (blob("reports", FunctionInstance="i"), BOX, False),
        (blob("locks/app/job.42", content=b"x", **STAMP), BOX, False),
        (blob("locks/app/job.42", **STAMP, SingletonState="json"), BOX, False),
        (blob("locks/app/job.42", Team="billing"), BOX, False),
        (blob("deferred/4711", failures="2"), BOX, False),
        (blob("locks/app/Host.Functions.job.42", FunctionInstance="i"), WEBJOBS, True),
        (blob("locks/app/Host.Functions.job"), WEBJOBS, True),
        (blob("locks/app/host"), WEBJOBS, False),
        (blob("locks/app/Contoso.Shop.Orders.Ship.42", FunctionInstance="i"), WEBJOBS, False),
        (blob("ids/usage/app"), WEBJOBS, False),
    ],
)
def test_only_what_is_empty_without_state_and_ours_is_swept(found: Listed, container: str, *, ours: bool) -> None:
    assert is_sweepable(found, container) is ours


def swept(**counts: int) -> Swept:
    return Swept(**counts)


async def a_sweep(network: Network, **options: Any) -> Swept:
    sweep = Sweep(network, BOX, **{"older_than": 60.0, **options})
    while await sweep.go_on():
        pass
    return sweep.result


@virtual
async def test_what_is_old_and_free_is_deleted_and_the_rest_is_counted() -> None:
    network = Network()
    for name in ("old-1", "old-2", "used"):
        await section(lock_on(network, name=name))
    await network.service.note("deferred/1", {"failures": "2"})
    await asyncio.sleep(100)
    await section(lock_on(network, name="young"))
    async with held(lock_on(network, name="used")):
        await asyncio.sleep(90)
        await section(lock_on(network, name="young"))
        assert await a_sweep(network) == swept(swept=2, in_use=1, young=1, kept=1)
    assert sorted(network.service.names()) == ["deferred/1", "used", "young"]


@virtual
async def test_a_dry_run_deletes_nothing_and_counts_the_same() -> None:
    network = Network()
    await section(lock_on(network, name="old"))
    await asyncio.sleep(100)
    assert await a_sweep(network, dry_run=True) == swept(swept=1)
    assert network.service.names() == ["old"]
    assert network.sent("drop") == []


@virtual
async def test_nothing_is_deleted_that_was_modified_less_than_a_minute_ago_whatever_is_asked() -> None:
    network = Network()
    await section(lock_on(network, name="job"))
    await asyncio.sleep(58)
    assert await a_sweep(network, older_than=0.0) == swept(young=1)
    await asyncio.sleep(5)
    assert await a_sweep(network, older_than=0.0) == swept(swept=1)


@virtual
async def test_what_is_locked_between_listing_and_deleting_stays() -> None:
    network = Network()
    for name in ("taken", "stamped"):
        await section(lock_on(network, name=name))
    await asyncio.sleep(100)
    network.always("drop", Fate(up=2.0))
    sweeping = asyncio.create_task(a_sweep(network))
    await asyncio.sleep(0.5)
    async with held(lock_on(network, name="taken", fencing=False)) as hold:
        await section(lock_on(network, name="stamped"))
        assert await sweeping == swept(in_use=1, changed=1)
        await asyncio.sleep(30)
        hold.raise_if_lost()


@virtual
async def test_a_delete_whose_answer_was_lost_counts_as_done() -> None:
    network = Network()
    for name in ("a", "b"):
        await section(lock_on(network, name=name))
    await asyncio.sleep(100)
    network.plan("drop", answered(503), LOST_REPLY)
    assert await a_sweep(network) == swept(swept=2)


@virtual
async def test_a_delete_whose_answer_was_lost_counts_as_done_where_its_repetition_finds_the_blob_changed() -> None:
    network = Network()
    await section(lock_on(network, name="a"))
    await asyncio.sleep(100)
    network.plan("drop", LOST_REPLY, answered(412, "ConditionNotMet"))
    assert await a_sweep(network) == swept(swept=1)


@virtual
async def test_a_blob_that_was_written_before_a_delete_is_repeated_is_not_said_to_be_deleted() -> None:
    network = Network()
    await section(lock_on(network, name="a"))
    await asyncio.sleep(100)
    network.plan("drop", Fate(up=float("inf")))
    sweeping = asyncio.create_task(a_sweep(network))
    await asyncio.sleep(10)
    await section(lock_on(network, 2, name="a"))
    assert await sweeping == swept(changed=1)
    assert network.service.names() == ["a"]


@virtual
async def test_what_somebody_else_deleted_meanwhile_is_told_apart() -> None:
    network = Network()
    await section(lock_on(network, name="a"))
    await asyncio.sleep(100)
    network.always("drop", Fate(up=2.0))
    sweeping = asyncio.create_task(a_sweep(network))
    await asyncio.sleep(0.5)
    network.service.delete("a")
    assert await sweeping == swept(gone=1)


@virtual
async def test_storage_that_denies_ends_the_sweep_with_what_is_wrong() -> None:
    network = Network()
    for number in range(50):
        await section(lock_on(network, name=f"job-{number}"))
    await asyncio.sleep(100)
    network.always("drop", answered(403, "AuthorizationPermissionMismatch"))
    with pytest.raises(StorageDenied):
        await a_sweep(network)
    network.plan("page", answered(404, "ContainerNotFound"))
    with pytest.raises(StorageError, match="there is no container 'webjobshost'"):
        await a_sweep(network)


@virtual
async def test_the_next_user_of_a_swept_lock_pays_two_requests_and_its_token_goes_on() -> None:
    network = Network()
    lock = lock_on(network, name="job")
    before = await section(lock)
    await asyncio.sleep(100)
    assert await a_sweep(network) == swept(swept=1)
    network.requests.clear()
    after = await section(lock)
    assert network.calls() == ["acquire", "create", "acquire", "release"]
    assert (after.token or 0) > (before.token or 0)


@pytest.mark.parametrize("seed", range(6))
def test_sweeps_in_a_storm_cost_nobody_a_hold(seed: int) -> None:
    """Four hosts, five locks used now and then, two without stamps; a sweep a second; slow requests, lost replies."""

    @virtual
    async def storm() -> None:
        rng = random.Random(seed)
        service = MemoryLeaseStore()
        inside: dict[str, int] = {}
        tokens: dict[str, list[int]] = {}
        deleted = 0
        until = 1500.0

        def network() -> Network:
            found = Network(service)
            found.decide = lambda _: Fate(
                up=rng.uniform(0.005, 0.4) if rng.random() < 0.95 else rng.uniform(0.4, 3.0),
                down=rng.uniform(0.005, 0.4) if rng.random() < 0.97 else float("inf"),
            )
            return found

        async def host(number: int) -> None:
            store = network()
            locks = [
                lock_on(store, number * 10 + each, name=f"locks/app/job.{each}", fencing=each < 3) for each in range(5)
            ]
            while now() < until:
                await asyncio.sleep(rng.uniform(0, 240))
                lock = rng.choice(locks)
                async with held(lock) as hold:
                    assert not inside.get(lock.name), f"two in {lock.name} at {now()}"
                    inside[lock.name] = number + 1
                    if hold.token is not None:
                        tokens.setdefault(lock.name, []).append(hold.token)
                    await asyncio.sleep(rng.choice([0.0, 0.2, 9.0, 31.0]))
                    inside[lock.name] = 0
                    assert not hold.lost.is_set(), hold.lost.reason

        async def sweeper() -> None:
            nonlocal deleted
            store = network()
            while now() < until:
                await asyncio.sleep(1)
                with contextlib.suppress(StorageUnavailable):
                    deleted += (await a_sweep(store)).swept

        await asyncio.gather(sweeper(), *(host(number) for number in range(4)))
        assert deleted > 3
        for name, taken in tokens.items():
            assert taken == sorted(set(taken)), name

    storm()

"""All epochs of a container are lifted after its storage went back in time: whoever locks then has greater tokens."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from simulator.pilot.assumed.lease_table import written
from singleton.base.errors import StorageDenied, StorageError, StorageUnavailable
from singleton.operating.container_pass import Lift, Lifted, has_tokens
from singleton.stores.lock_keeping import Listed
from tests.support.network import LOST_REPLY, Fate, Network, answered
from tests.support.world import foreign_id, held, lock_on, section, virtual

BOX = "webjobshost"
WEBJOBS = "azure-webjobs-hosts"


async def a_lift(network: Network, **options: Any) -> Lifted:
    going = Lift(network, BOX, **options)
    while await going.go_on():
        pass
    return going.result


async def used(network: Network, *names: str) -> None:
    for name in names:
        await section(lock_on(network, name=name))


async def rewound(network: Network, name: str) -> None:
    """Put the blob back to an epoch of long ago."""
    await network.service.acquire(name, foreign_id(8), 15)
    await written(network.service, name, foreign_id(8), SingletonEpoch="7")
    await network.service.release(name, foreign_id(8))


@pytest.mark.parametrize(
    ("name", "metadata", "container", "size", "counts"),
    [
        ("locks/app/job.42", {"SingletonEpoch": "1"}, BOX, 0, True),
        ("locks/app/job.42", {}, BOX, 0, True),
        ("locks/app/job.42", {}, BOX, 3, False),
        ("locks/app/job.42", {"SingletonEpoch": "1"}, BOX, 3, True),
        ("reports", {"singletonepoch": "1"}, BOX, 0, True),
        ("reports/slot-3", {"SingletonEpoch": "1", "Team": "billing"}, BOX, 0, True),
        ("reports", {"FunctionInstance": "i"}, BOX, 0, False),
        ("deferred/4711", {"failures": "2"}, BOX, 0, False),
        ("locks/app/Host.Functions.job", {"FunctionInstance": "i"}, WEBJOBS, 0, False),
        ("locks/app/host", {}, WEBJOBS, 0, False),
    ],
)
def test_lifted_is_what_has_an_epoch_or_had_one_that_was_lost(
    name: str, metadata: dict[str, str], container: str, size: int, *, counts: bool
) -> None:
    blob = Listed(name=name, etag='"1"', lease="available", modified=0, metadata=metadata, size=size)
    assert has_tokens(blob, container) is counts


@virtual
async def test_tokens_go_on_above_all_that_were_given_before_and_a_held_lock_stays() -> None:
    network = Network()
    names = [f"locks/app/job.{number}" for number in range(40)]
    last = {name: (await section(lock_on(network, name=name))).token or 0 for name in names}
    await used(network, "held")
    await network.service.note("deferred/1", {"failures": "2"})
    for name in names:
        await rewound(network, name)
    async with held(lock_on(network, name="held")) as hold:
        assert await a_lift(network) == Lifted(lifted=40, held=1, kept=1)
        hold.raise_if_lost()
    for name in names:
        assert ((await section(lock_on(network, 2, name=name))).token or 0) > last[name]
    assert await a_lift(network) == Lifted(lifted=41, kept=1)


@virtual
async def test_a_dry_run_writes_nothing_and_counts_the_same() -> None:
    network = Network()
    await used(network, "a", "locks/app/job")
    network.requests.clear()
    assert await a_lift(network, dry_run=True) == Lifted(lifted=2)
    assert network.calls() == ["page"]


@virtual
async def test_what_is_taken_or_deleted_between_listing_and_lifting_is_told_apart() -> None:
    network = Network()
    await used(network, "taken", "deleted")
    network.always("acquire", Fate(up=2.0))
    lifting = asyncio.create_task(a_lift(network))
    await asyncio.sleep(0.5)
    network.service.delete("deleted")
    await network.service.acquire("taken", foreign_id(), 15)
    assert await lifting == Lifted(held=1, gone=1)


@virtual
async def test_a_page_of_something_in_between_does_not_make_a_lock_one_that_is_gone() -> None:
    network = Network()
    await used(network, "a")
    network.always("acquire", answered(404))
    with pytest.raises(StorageUnavailable):
        await a_lift(network)


@virtual
async def test_an_answer_that_is_missing_costs_no_lock_its_lift() -> None:
    network = Network()
    names = ("a", "b", "c", "d")
    await used(network, *names)
    for call in ("acquire", "read", "write"):
        network.plan(call, answered(503), LOST_REPLY)
    assert await a_lift(network) == Lifted(lifted=4)
    await asyncio.sleep(20)
    assert network.service.leased() == {}


@virtual
async def test_a_lock_that_is_broken_while_it_is_lifted_is_to_be_lifted_again() -> None:
    network = Network()
    await used(network, "a")
    network.plan("write", Fate(up=1.0))
    lifting = asyncio.create_task(a_lift(network))
    await asyncio.sleep(0.5)
    await network.service.break_("a")
    assert await lifting == Lifted(held=1)


@virtual
async def test_storage_that_denies_ends_it_with_what_is_wrong() -> None:
    network = Network()
    await used(network, *(f"job-{number}" for number in range(10)))
    network.always("write", answered(403, "AuthorizationPermissionMismatch"))
    with pytest.raises(StorageDenied):
        await a_lift(network)
    network.plan("page", answered(404, "ContainerNotFound"))
    with pytest.raises(StorageError, match="there is no container 'webjobshost'"):
        await a_lift(network)
    await asyncio.sleep(20)
    assert network.service.leased() == {}

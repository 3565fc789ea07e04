"""The Azure store on Azurite passes the suite that the model passes (tests/conformance), but for what has a name."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import TYPE_CHECKING, Literal

import pytest

from simulator.pilot.assumed.lease_table import A, LeaseCall, ask, request, state_of, written
from singleton.runtime.accounts.stores import open_container, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.conformance.store_suite import StoreConformance

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import TypeAlias

    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.direct_blob import DirectBlobStore
    from singleton.stores.protocol import LeaseStore

    Store: TypeAlias = DirectBlobStore | AzureBlobLeaseStore


@pytest.fixture(params=["direct", "sdk"])
async def stores(
    request: pytest.FixtureRequest, connection_string: str, container_name: str
) -> AsyncIterator[list[Store]]:
    account = StorageAccount(connection_string=connection_string)
    opened = [open_container(account, container_name, request.param) for _ in range(2)]
    yield opened
    for store in opened:
        await store.aclose()


class TestAzurite(StoreConformance):
    http: Literal["direct", "sdk"] = "direct"
    divergences = frozenset({"A-1"})

    @pytest.fixture(autouse=True)
    def account(self, connection_string: str, container_name: str) -> None:
        self.where = StorageAccount(connection_string=connection_string), container_name

    def open_store(self) -> Store:
        return open_container(*self.where, self.http)

    @pytest.mark.slow
    def test_leases_end_and_are_prolonged_as_documented(self) -> None:
        super().test_leases_end_and_are_prolonged_as_documented()


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")  # aiohttp, of what the SDK does
class TestAzuriteThroughTheSdk(TestAzurite):
    http = "sdk"


@pytest.mark.parametrize("seed", range(3))
async def test_random_requests_get_the_same_answers_from_azurite_as_from_the_model(
    seed: int, stores: list[Store]
) -> None:
    rng = random.Random(seed)
    model = MemoryLeaseStore()
    ids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(3)]
    names = [f"locks/{number}" for number in range(4)]
    await stores[0].create("locks/first")
    await model.create("locks/first")
    calls: list[LeaseCall] = ["acquire", "acquire", "renew", "release", "break", "write", "create"]
    for step in range(120):
        name, call, lease_id = rng.choice(names), rng.choice(calls), rng.choice(ids)
        real = await answer(rng.choice(stores), name, call, lease_id), await state_of(stores[0], name)
        modelled = await answer(model, name, call, lease_id), await state_of(model, name)
        assert real == modelled, (step, name, call, lease_id)


async def answer(store: LeaseStore, name: str, call: LeaseCall, lease_id: str) -> str:
    """Return status and code to the letter."""
    try:
        if call == "write":
            await written(store, name, lease_id, Key="value")
        else:
            await request(store, name, call, lease_id)
    except StoreFailure as failure:
        return f"{failure.status} {failure.code}"
    return "ok"


async def test_a_container_that_is_missing_is_made_and_one_that_vanishes_is_told_from_contention(
    stores: list[Store], connection_string: str, container_name: str
) -> None:
    store = stores[0]
    for call in ("acquire", "renew", "release", "break", "write", "read"):
        assert await ask(store, "locks/job", call, A) == "404 missing", call
    await store.create("locks/job")
    await store.acquire("locks/job", A, 15)
    operator = open_through_sdk(StorageAccount(connection_string), container_name)
    await operator.container.delete_container()
    await operator.aclose()
    assert (await ask(store, "locks/job", "renew", A)).endswith(("missing", "deleting"))


async def test_many_hosts_that_find_no_container_make_it_together(stores: list[Store]) -> None:
    await asyncio.gather(*(stores[number % 2].create(f"locks/{number}") for number in range(10)))
    for number in range(10):
        assert await state_of(stores[0], f"locks/{number}") == "available"

"""The Azure store on Azurite passes the suite that the model passes (tests/conformance), but for what has a name."""

from __future__ import annotations

import asyncio
import random
import uuid
from typing import TYPE_CHECKING

import pytest

from singleton.connection import BlobAccount
from singleton.stores.azure_blob import AzureBlobLeaseStore, open_container
from singleton.stores.memory import MemoryLeaseStore
from singleton.stores.protocol import StoreFailure
from tests.conformance.scenarios import QUICK, SLOW, A, Place
from tests.conformance.states import TABLE, Call, Row, ask, bring_about, check, request, state_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

    from singleton.stores.protocol import LeaseStore

DIVERGENCES = {
    "A-1": "renewing an expired lease with any id succeeds, and returns the earlier owner's id (Azurite#2352)"
}


@pytest.fixture
async def stores(connection_string: str, container_name: str) -> AsyncIterator[list[AzureBlobLeaseStore]]:
    account = BlobAccount(connection_string=connection_string)
    opened = [open_container(account, container_name) for _ in range(2)]
    yield opened
    for store in opened:
        await store.aclose()


@pytest.mark.parametrize("scenario", QUICK, ids=lambda scenario: scenario.__name__)
async def test_azurite_keeps_what_a_lock_relies_on(
    scenario: Callable[[Place], Coroutine[object, object, None]], stores: list[AzureBlobLeaseStore]
) -> None:
    await scenario(Place(store=stores[0], other=stores[1], name="locks/job"))


@pytest.mark.parametrize("row", [row for row in TABLE if row.start != "expired"], ids=str)
async def test_azurite_answers_each_request_in_each_state_as_documented(
    row: Row, stores: list[AzureBlobLeaseStore]
) -> None:
    await bring_about(stores[0], "locks/job", row.start, A)
    await check(stores[0], row, "locks/job", A)


@pytest.mark.slow
async def test_azurite_ends_and_prolongs_leases_as_documented(stores: list[AzureBlobLeaseStore]) -> None:
    """All that takes the length of a lease, at once."""
    expired = [row for row in TABLE if row.start == "expired"]
    scenarios = [
        scenario(Place(store=stores[0], other=stores[1], name=f"locks/{scenario.__name__}")) for scenario in SLOW
    ]
    results = await asyncio.gather(
        *scenarios, *(_after_expiry(stores[0], row) for row in expired), return_exceptions=True
    )
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        raise BaseExceptionGroup("Azurite", failures)


async def _after_expiry(store: AzureBlobLeaseStore, row: Row) -> None:
    name = f"locks/{row}"
    await bring_about(store, name, row.start, A)
    await asyncio.sleep(15.5)
    if not row.divergence:
        await check(store, row, name, A)
        return
    assert row.divergence in DIVERGENCES
    with pytest.raises(AssertionError):
        await check(store, row, name, A)


@pytest.mark.parametrize("seed", range(3))
async def test_random_requests_get_the_same_answers_from_azurite_as_from_the_model(
    seed: int, stores: list[AzureBlobLeaseStore]
) -> None:
    rng = random.Random(seed)
    model = MemoryLeaseStore()
    ids = [str(uuid.UUID(int=rng.getrandbits(128), version=4)) for _ in range(3)]
    names = [f"locks/{number}" for number in range(4)]
    await stores[0].create("locks/first")
    await model.create("locks/first")
    calls: list[Call] = ["acquire", "acquire", "renew", "release", "break", "write", "create"]
    for step in range(120):
        name, call, lease_id = rng.choice(names), rng.choice(calls), rng.choice(ids)
        real = await answer(rng.choice(stores), name, call, lease_id), await state_of(stores[0], name)
        modelled = await answer(model, name, call, lease_id), await state_of(model, name)
        assert real == modelled, (step, name, call, lease_id)


async def answer(store: LeaseStore, name: str, call: Call, lease_id: str) -> str:
    """Return status and code to the letter."""
    try:
        await request(store, name, call, lease_id)
    except StoreFailure as failure:
        return f"{failure.status} {failure.code}"
    return "ok"


async def test_a_container_that_is_missing_is_made_and_one_that_vanishes_is_told_from_contention(
    stores: list[AzureBlobLeaseStore],
) -> None:
    store = stores[0]
    for call in ("acquire", "renew", "release", "break", "write", "read"):
        assert await ask(store, "locks/job", call, A) == "404 missing", call
    await store.create("locks/job")
    await store.acquire("locks/job", A, 15)
    await store._container.delete_container()
    assert (await ask(store, "locks/job", "renew", A)).endswith(("missing", "deleting"))


async def test_many_hosts_that_find_no_container_make_it_together(stores: list[AzureBlobLeaseStore]) -> None:
    await asyncio.gather(*(stores[number % 2].create(f"locks/{number}") for number in range(10)))
    for number in range(10):
        assert await state_of(stores[0], f"locks/{number}") == "available"

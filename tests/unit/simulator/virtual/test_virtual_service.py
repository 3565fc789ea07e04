"""The model of the service at its instants, and in the states that no lock of ours brings about."""

from __future__ import annotations

import math

import pytest

from simulator.pilot.assumed.lease_table import written
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.world import NAME, foreign_id, until, virtual

A, B = foreign_id(1), foreign_id(2)


async def leased(seconds: int = 15) -> MemoryLeaseStore:
    service = MemoryLeaseStore()
    await service.create(NAME)
    await service.acquire(NAME, A, seconds)
    return service


async def state(service: MemoryLeaseStore) -> str:
    return (await service.read(NAME)).lease


@virtual
async def test_a_lease_ends_at_the_instant_at_which_its_period_does() -> None:
    service = await leased()
    await until(14.999)
    assert await state(service) == "leased"
    await until(15.0)
    assert await state(service) == "expired"
    await service.acquire(NAME, B, 15)


@virtual
async def test_a_lease_without_end_does_not_end() -> None:
    service = await leased(-1)
    await until(1e6)
    assert await state(service) == "leased"
    with pytest.raises(StoreFailure, match="LeaseAlreadyPresent"):
        await service.acquire(NAME, B, 15)


@pytest.mark.parametrize(
    ("at", "notice", "ends"), [(0.0, 10, 10.0), (10.0, 10, 15.0), (10.0, None, 15.0), (3.0, 0, 3.0)]
)
@virtual
async def test_a_break_only_shortens_a_lease(at: float, notice: int | None, ends: float) -> None:
    service = await leased()
    await until(at)
    await service.break_(NAME, after=notice)
    if ends > at:
        await until(math.nextafter(ends, 0.0))
        assert await state(service) == "breaking"
    await until(ends)
    assert await state(service) == "broken"
    await service.acquire(NAME, B, 15)


@virtual
async def test_a_second_break_does_not_prolong_the_first() -> None:
    service = await leased(60)
    await service.break_(NAME, after=5)
    await service.break_(NAME, after=30)
    await until(5.0)
    assert await state(service) == "broken"


@virtual
async def test_a_breaking_lease_is_neither_renewed_nor_taken_by_anybody_and_is_released_by_its_owner() -> None:
    service = await leased()
    await service.break_(NAME, after=10)
    with pytest.raises(StoreFailure, match="LeaseIsBrokenAndCannotBeRenewed"):
        await service.renew(NAME, A)
    with pytest.raises(StoreFailure, match="LeaseIsBreakingAndCannotBeAcquired"):
        await service.acquire(NAME, A, 15)
    with pytest.raises(StoreFailure, match="LeaseAlreadyPresent"):
        await service.acquire(NAME, B, 15)
    await service.release(NAME, A)
    assert await state(service) == "available"


@virtual
async def test_a_write_changes_when_the_blob_was_modified_and_its_etag_and_a_lease_does_not() -> None:
    service = await leased()
    before = await service.read(NAME)
    await until(7.0)
    await service.renew(NAME, A)
    assert await service.read(NAME) == before
    etag = await service.write(NAME, A, {"k": "v"}, before.etag)
    after = await service.read(NAME)
    assert (after.etag, after.modified, after.metadata) == (etag, 7, {"k": "v"})
    assert etag != before.etag


@virtual
async def test_an_expired_lease_is_renewed_by_its_owner_and_not_by_another() -> None:
    service = await leased()
    await until(20.0)
    with pytest.raises(StoreFailure, match="LeaseIdMismatchWithLeaseOperation"):
        await service.renew(NAME, B)
    with pytest.raises(StoreFailure, match="412"):
        await written(service, NAME, A)
    assert await service.renew(NAME, A) == A
    await until(34.0)
    assert await state(service) == "leased"

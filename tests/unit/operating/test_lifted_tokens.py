"""An epoch that may be older than what was given out is lifted above all that ever was."""

from __future__ import annotations

import pytest

from simulator.pilot.assumed.lease_table import written
from singleton.base.errors import StorageError, StorageUnavailable
from singleton.operating.container_pass import lift_epoch
from singleton.stores.protocol import BlobState
from singleton.stores.stamps import EPOCH_KEY, OWNER_KEY, lifted_epoch
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import LOST_REQUEST, Network
from tests.support.world import NAME, foreign_id, lock_on, now, occupy, section, settled, until, virtual

MINE = foreign_id(9)


async def rewound(service: MemoryLeaseStore, epoch: int, **metadata: str) -> None:
    """Put the blob back to an earlier epoch, as a restore or a failover may."""
    await service.acquire(NAME, foreign_id(8), 15)
    await written(service, NAME, foreign_id(8), **{EPOCH_KEY: str(epoch)}, **metadata)
    await service.release(NAME, foreign_id(8))


async def two_holds_with_a_rewind_between(*, lift: bool) -> tuple[int, int]:
    service = MemoryLeaseStore()
    await until(2.0)
    before, after = lock_on(service, 1), lock_on(service, 2)
    first = await section(before, 0.0)
    rewind_to = int(first.token or 0) // 1000 - 1
    last = first
    for _ in range(5):
        last = await section(before, 1.0)
    await rewound(service, rewind_to)
    if lift:
        assert await lift_epoch(service, NAME, MINE) is not None
    then = await section(after, 0.0)
    await settled(service, before, after)
    assert last.token is not None
    assert then.token is not None
    return last.token, then.token


@virtual
async def test_after_storage_went_back_in_time_tokens_repeat() -> None:
    last, then = await two_holds_with_a_rewind_between(lift=False)
    assert then <= last


@virtual
async def test_a_lifted_lock_gives_tokens_above_all_that_were_given_before() -> None:
    last, then = await two_holds_with_a_rewind_between(lift=True)
    assert then > last


@virtual
async def test_a_lock_that_somebody_has_is_left_alone() -> None:
    service = MemoryLeaseStore()
    await occupy(service)
    assert await lift_epoch(service, NAME, MINE) is None
    assert service.calls["write"] == 0


@virtual
async def test_it_gives_the_lease_back_and_keeps_what_else_stands_there() -> None:
    service = MemoryLeaseStore()
    lock = lock_on(service)
    await section(lock, owner="invocation-1")
    await settled(service, lock)
    await lift_epoch(service, NAME, MINE)
    after = await service.read(NAME)
    assert after.lease == "available"
    assert after.metadata[OWNER_KEY] == "invocation-1"


@virtual
async def test_lifted_in_the_second_of_its_last_stamp_it_still_goes_up() -> None:
    service = MemoryLeaseStore()
    lock, other = lock_on(service, 1), lock_on(service, 2)
    tokens = [(await section(lock)).token]
    for number in range(3):
        await lift_epoch(service, NAME, foreign_id(20 + number))
        tokens.append((await section(other)).token)
    numbers = [token or 0 for token in tokens]
    assert sorted(set(numbers)) == numbers
    await settled(service, lock, other)


@virtual
async def test_a_lock_without_a_blob_is_said_to_be_missing_and_gets_none() -> None:
    service = MemoryLeaseStore()
    with pytest.raises(StorageError, match="BlobNotFound"):
        await lift_epoch(service, NAME, MINE)
    assert service.calls["create"] == 0


@virtual
async def test_storage_that_does_not_answer_is_an_error_and_the_lease_lapses() -> None:
    service = MemoryLeaseStore()
    await service.create(NAME)
    network = Network(service)
    network.always("read", LOST_REQUEST)
    network.always("release", LOST_REQUEST)
    with pytest.raises(StorageUnavailable):
        await lift_epoch(network, NAME, MINE)
    await until(now() + 15)
    assert service.leased() == {}


@pytest.mark.parametrize(
    ("written", "lifted"),
    [(None, 1_001_000), ("1000999", 1_001_000), ("1001000", 1_001_001), ("5", 1_001_000), ("mine", 1_001_000)],
)
def test_an_epoch_is_lifted_above_the_clock_and_above_itself(written: str | None, lifted: int) -> None:
    metadata = {} if written is None else {"SINGLETONepoch": written}
    assert lifted_epoch(BlobState(etag="1", lease="available", modified=1_000, metadata=metadata)) == lifted

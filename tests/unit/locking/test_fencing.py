"""Fencing tokens strictly increase per lock (guarantee 6), over handoffs, processes, crashes and meddling."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
from typing import TYPE_CHECKING

import pytest

from simulator.pilot.assumed.lease_table import written
from singleton.base.errors import LockNotAcquired, StorageError, StorageUnavailable
from singleton.locking.fencing import SECTIONS, FencingCounter
from singleton.locking.lock import Lock, release
from singleton.stores.protocol import StoreFailure
from singleton.stores.stamps import EPOCH_KEY, HELD_KEY, HOST_KEY, OWNER_KEY, PID_KEY, this_host
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.network import FINE, LOST_REPLY, LOST_REQUEST, Fate, Network, answered
from tests.support.world import NAME, foreign_id, held, lock_on, section, settled, until, virtual

if TYPE_CHECKING:
    from collections.abc import Iterator

BIGGEST_IN_JSON = 2**53


async def metadata_of(service: MemoryLeaseStore, name: str = NAME) -> dict[str, str]:
    return dict((await service.read(name)).metadata)


async def put_metadata(service: MemoryLeaseStore, **metadata: str) -> None:
    """Write metadata as somebody else would."""
    await service.create(NAME)
    await service.acquire(NAME, foreign_id(7), 15)
    await written(service, NAME, foreign_id(7), **metadata)
    await service.release(NAME, foreign_id(7))


def assert_increasing(tokens: list[int | None]) -> None:
    numbers = [token for token in tokens if token is not None]
    assert len(numbers) == len(tokens)
    assert all(later > earlier for earlier, later in itertools.pairwise(numbers)), numbers


def tokens_left(counter: FencingCounter) -> Iterator[int]:
    """Use up the tokens that need no further stamp."""
    while not counter.spent:
        yield counter.next_token()


@virtual
async def test_tokens_increase_over_handoffs_releases_and_processes() -> None:
    service = MemoryLeaseStore()
    locks = [lock_on(Network(service), seed) for seed in range(4)]
    rng = random.Random(5)
    tokens: list[int | None] = []

    async def one(lock: Lock) -> None:
        for _ in range(10):
            async with held(lock) as hold:
                tokens.append(hold.token)
                await asyncio.sleep(rng.random())

    await asyncio.gather(*(one(lock) for lock in locks for _ in range(3)))
    assert_increasing(tokens)
    await settled(service, *locks)


@virtual
async def test_tokens_increase_over_a_crash() -> None:
    service = MemoryLeaseStore()
    dead = await lock_of_a_process_that_dies(service)
    alive = lock_on(Network(service), 2)
    async with held(alive) as hold:
        assert hold.token is not None
        assert hold.token > dead


async def lock_of_a_process_that_dies(service: MemoryLeaseStore) -> int:
    """Hold the lock in a network from which nothing gets out any more, and return the last token."""
    network = Network(service)
    lock = lock_on(network, 1)
    hold = await lock.acquire()
    following = asyncio.create_task(lock.acquire())
    await asyncio.sleep(0.1)
    await release(hold)
    last = await following
    network.fail_all(LOST_REQUEST)
    assert last.token is not None
    closing = asyncio.create_task(lock.aclose())
    await closing
    return last.token


@virtual
async def test_tokens_increase_when_the_blob_was_deleted_and_made_again() -> None:
    service = MemoryLeaseStore()
    tokens: list[int | None] = []
    for round_ in range(5):
        for number in range(3):
            # Each a process of its own that remembers nothing.
            hold = await section(lock_on(Network(service), 10 * round_ + number), 0.1)
            tokens.append(hold.token)
        await asyncio.sleep(1.0)
        service.delete(NAME)
    assert_increasing(tokens)


@virtual
async def test_tokens_of_one_process_increase_even_when_the_blob_is_deleted_within_a_second() -> None:
    network = Network()
    lock = lock_on(network)
    tokens: list[int | None] = []
    for _ in range(10):
        tokens.append((await section(lock)).token)
        network.service.delete(NAME)
    assert_increasing(tokens)


@pytest.mark.parametrize("call", ["read", "write"])
@pytest.mark.parametrize(
    "fate",
    [LOST_REPLY, answered(executed=True), answered(500), LOST_REQUEST, Fate(up=4.9), Fate(up=6.0), Fate(up=20.0)],
)
@virtual
async def test_tokens_increase_whatever_happens_to_a_stamp(call: str, fate: Fate) -> None:
    service = MemoryLeaseStore()
    networks = [Network(service), Network(service)]
    locks = [lock_on(network, seed) for seed, network in enumerate(networks)]
    tokens: list[int | None] = []
    for turn in range(12):
        if turn % 3:
            networks[turn % 2].plan(call, fate)
        tokens.append((await section(locks[turn % 2], 0.5)).token)
    assert_increasing(tokens)
    await settled(service, *locks)


@virtual
async def test_a_stamp_that_arrives_after_its_lease_changes_nothing() -> None:
    """It is stuck on its way, its sender gave up and released, another holder has stamped since."""
    service = MemoryLeaseStore()
    slow, quick = Network(service), Network(service)
    slow_lock, quick_lock = lock_on(slow, 1), lock_on(quick, 2)
    await section(quick_lock)
    slow.plan("write", Fate(up=30.0))
    with pytest.raises(StorageUnavailable):
        await slow_lock.acquire(timeout=4.0)
    await settled(service, slow_lock)
    before = await section(lock_on(quick, 4), 1.0, owner="quick")
    assert before.token is not None
    await until(40.0)
    assert (await metadata_of(service))[OWNER_KEY] == "quick"
    after = await section(lock_on(Network(service), 3))
    assert after.token is not None
    assert after.token > before.token


@virtual
async def test_a_late_stamp_under_a_late_lease_of_its_own_does_not_put_the_epoch_back() -> None:
    """An attempt that was given up: its first acquire arrives when the lock is free again, and then its stamp."""
    service = MemoryLeaseStore()
    slow, quick = Network(service), Network(service)
    slow_lock, quick_lock = lock_on(slow, 1), lock_on(quick, 2)
    await section(quick_lock)
    slow.plan("acquire", Fate(up=30.0), FINE)
    slow.plan("write", Fate(up=30.0))
    with pytest.raises(StorageUnavailable):
        await slow_lock.acquire(timeout=8.0)
    before = [(await section(lock_on(Network(service), 10 + number), 0.1)).token for number in range(4)]
    await settled(service, slow_lock, quick_lock)
    await until(36.0)
    assert service.leased(), "the late acquire took the lease, and its stamp has arrived"
    assert service.calls["write"] == 5
    after = await section(lock_on(Network(service), 3), timeout=30.0)
    assert_increasing([*before, after.token])


@virtual
async def test_a_stamp_that_arrived_twice_is_read_and_counts_on() -> None:
    """The first copy is carried out; the reply that comes is that to the second, whose condition does not hold."""
    network = Network()
    lock = lock_on(network)
    await section(lock)
    before = await section(lock_on(Network(network.service), 2))
    network.plan("write", answered(412, "ConditionNotMet", executed=True))
    network.requests.clear()
    after = await section(lock, owner="me")
    assert network.calls() == ["acquire", "read", "write", "read", "write", "release"]
    assert_increasing([before.token, after.token])
    assert (await metadata_of(network.service))[OWNER_KEY] == "me"
    network.requests.clear()
    await section(lock)
    assert network.calls() == ["acquire", "release"], "it knows the blob again"
    await settled(network.service, lock)


@pytest.mark.parametrize("code", ["LeaseLost", "LeaseIdMismatchWithBlobOperation", "LeaseNotPresentWithBlobOperation"])
@virtual
async def test_a_stamp_that_is_told_that_the_lease_is_gone_ends_the_attempt(code: str) -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.plan("write", answered(412, code))
    with pytest.raises(LockNotAcquired):
        await lock.acquire(timeout=0)
    assert network.calls()[-3:] == ["read", "write", "release"]
    await settled(network.service, lock)


@virtual
async def test_a_store_that_never_agrees_to_a_condition_is_asked_as_one_that_fails() -> None:
    network = Network()
    await network.service.create(NAME)
    lock = lock_on(network)
    network.always("write", answered(412, "ConditionNotMet"))
    with pytest.raises(StorageUnavailable, match="ConditionNotMet"):
        await lock.acquire(timeout=20.0)
    assert len(network.sent("write")) < 40, "a storm"
    await settled(network.service, lock)


@virtual
async def test_tokens_fit_into_a_json_number_for_two_centuries() -> None:
    service = MemoryLeaseStore()
    counter = FencingCounter(service, NAME)
    await service.create(NAME)
    await service.acquire(NAME, foreign_id(), 60)
    year_2200 = 7_258_118_400
    service._blobs[NAME].modified = year_2200
    await counter.stamp(foreign_id(), "", "")
    *_, last = tokens_left(counter)
    assert last < BIGGEST_IN_JSON


@virtual
async def test_sections_under_one_lease_never_reach_the_tokens_of_the_next() -> None:
    service = MemoryLeaseStore()
    counter = FencingCounter(service, NAME)
    await service.create(NAME)
    etag = await service.acquire(NAME, foreign_id(), 60)
    await counter.stamp(foreign_id(), etag, "")
    tokens: list[int | None] = [*tokens_left(counter)]
    assert len(tokens) == SECTIONS - 1
    await counter.stamp(foreign_id(), (await service.read(NAME)).etag, "")
    assert_increasing([*tokens, *tokens_left(counter)])


@virtual
async def test_owner_and_epoch_are_on_the_blob_for_whoever_looks() -> None:
    network = Network()
    await network.service.create(NAME)
    async with held(lock_on(network), owner="invocation-1") as hold:
        metadata = await metadata_of(network.service)
        assert metadata[OWNER_KEY] == "invocation-1"
        assert hold.token == int(metadata[EPOCH_KEY]) * SECTIONS + 1
    await section(lock_on(network, 2))
    assert OWNER_KEY not in await metadata_of(network.service), "the owner before is the owner no more"


@pytest.mark.parametrize("owner", ["käthe\r\nx-ms-evil: 1", "x" * 5000, "\x00", "😀", " ", " a  b ", "a b"])
@virtual
async def test_an_owner_of_any_text_is_safe_in_a_header(owner: str) -> None:
    network = Network()
    await section(lock_on(network), owner=owner)
    kept = (await metadata_of(network.service))[OWNER_KEY]
    assert kept.isascii()
    assert kept.isprintable()
    assert 0 < len(kept) <= 200
    assert "  " not in kept
    assert kept == kept.strip(), "a space at an edge gets lost on the way"


@virtual
async def test_metadata_of_others_is_kept() -> None:
    network = Network()
    await put_metadata(
        network.service,
        Team="billing",
        functioninstance="webjobs",
        singletonepoch="41",
        singletonhost="vm",
        singletonfunction="x",
    )
    async with held(lock_on(network), owner="me"):
        metadata = await metadata_of(network.service)
    stamp = {OWNER_KEY: "me", EPOCH_KEY: "42", HOST_KEY: this_host(), PID_KEY: str(os.getpid()), HELD_KEY: "0"}
    assert metadata == {"Team": "billing", **stamp}


@virtual
async def test_each_long_section_under_one_lease_has_its_owner_written() -> None:
    network = Network()
    lock = lock_on(network)
    tasks = [asyncio.create_task(section(lock, 9.0, owner=owner)) for owner in ("first", "second", "third")]
    written = []
    for at in (8.9, 17.9, 26.9):
        await until(at)
        written.append((await metadata_of(network.service))[OWNER_KEY])
    assert written == ["first", "second", "third"]
    assert len(network.sent("release")) == 0
    await asyncio.wait(tasks)


@virtual
async def test_where_the_next_tokens_can_not_be_written_none_is_given_twice() -> None:
    network = Network()
    lock = lock_on(network)
    tokens: list[int] = []

    async def use() -> None:
        while len(tokens) < SECTIONS + 20:
            if len(tokens) == SECTIONS - 20:
                network.plan("write", answered(500), answered(500))
            tokens.append((await section(lock, 0.001)).token or 0)

    await asyncio.gather(*(use() for _ in range(3)))
    assert tokens == sorted(set(tokens))
    assert not network._planned["write"], "no write failed"


@virtual
async def test_metadata_of_a_blob_that_was_deleted_is_not_written_on_the_one_that_follows_it() -> None:
    network = Network()
    await put_metadata(network.service, Team="billing")
    lock = lock_on(network)
    await section(lock)
    network.service.delete(NAME)
    async with held(lock):
        await asyncio.sleep(8.0)  # past the first renewal, which signs
        assert "Team" not in await metadata_of(network.service)


@virtual
async def test_a_blob_that_is_missing_again_and_again_is_made_once_for_each_attempt() -> None:
    network = Network()
    network.always("acquire", answered(404, "BlobNotFound"))
    waiting = asyncio.create_task(section(lock_on(network)))
    await asyncio.sleep(2.0)
    waiting.cancel()
    attempts = len(network.sent("acquire"))
    assert len(network.sent("create")) <= attempts // 2 + 1
    assert attempts < 30


@virtual
async def test_metadata_that_changed_since_our_last_stamp_is_read_again() -> None:
    network = Network()
    lock = lock_on(network)
    await section(lock)
    await put_metadata(network.service, Team="billing", SingletonEpoch="5000")
    network.requests.clear()
    hold = await section(lock)
    assert network.calls() == ["acquire", "read", "write", "release"]
    assert hold.token is not None
    assert hold.token > 5000 * SECTIONS
    assert (await metadata_of(network.service))["Team"] == "billing"


@virtual
async def test_an_epoch_that_went_back_does_not_take_our_tokens_back() -> None:
    network = Network()
    await put_metadata(network.service, SingletonEpoch="1000")
    lock = lock_on(network)
    before = await section(lock)
    await put_metadata(network.service, SingletonEpoch="3")
    after = await section(lock)
    assert_increasing([before.token, after.token])


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "1e3", "٣", " 7", "9" * 16, "9" * 5000])
@virtual
async def test_an_epoch_that_is_no_number_of_ours_is_an_error_that_says_what_to_do(text: str) -> None:
    network = Network()
    await put_metadata(network.service, SingletonEpoch=text)
    lock = lock_on(network)
    waiting = [asyncio.create_task(lock.acquire()) for _ in range(2)]
    await asyncio.wait(waiting)
    for one in waiting:
        error = one.exception()
        assert isinstance(error, StorageError)
        assert EPOCH_KEY in str(error)
        assert len(str(error)) < 400
    await settled(network.service, lock)
    assert (await metadata_of(network.service))[EPOCH_KEY] == text, "overwritten"


@virtual
async def test_without_tokens_the_blob_is_not_written() -> None:
    network = Network()
    lock = lock_on(network, fencing=False)
    hold = await section(lock, owner="me")
    assert hold.token is None
    assert await metadata_of(network.service) == {}


@virtual
async def test_a_stamp_without_the_lease_is_refused() -> None:
    service = MemoryLeaseStore()
    counter = FencingCounter(service, NAME)
    await service.create(NAME)
    with pytest.raises(StoreFailure):
        await counter.stamp(foreign_id(), "", "me")

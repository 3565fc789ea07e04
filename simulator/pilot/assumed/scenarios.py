"""The promises of a store to locks, to inboxes, and to state in a lock's blob.

A scenario shows a promise, and has the promise as its name.
"""
# ruff: noqa: D103 - see there

from __future__ import annotations

import asyncio
import functools
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from simulator.pilot.assumed.lease_table import (
    CONTENT,
    A,
    B,
    bring_about,
    check,
    content_store,
    loss,
    outcome,
    state_of,
    written,
)
from singleton.locking.lock import Lock, release
from singleton.locking.phase import Timing
from singleton.stores.log_store import LogStore
from singleton.stores.protocol import ContentStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from simulator.pilot.assumed.lease_table import LeaseRow, Start
    from singleton.stores.protocol import LeaseStore


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixture:
    """A store, a second client of the same blobs, the name of a blob that nobody else uses, and a way to wait."""

    store: LeaseStore
    other: LeaseStore
    name: str
    wait: Callable[[float], Coroutine[Any, Any, None]]

    def beside(self, name: str) -> Fixture:
        """Return this fixture for another blob."""
        return replace(self, name=f"locks/{name}")


StoreScenario: TypeAlias = "Callable[[Fixture], Coroutine[Any, Any, None]]"

QUICK: list[StoreScenario] = []
SLOW: list[StoreScenario] = []
"""Scenarios that wait for leases to end. On a real service all of them run at once."""


async def on_state(row: LeaseRow, fixture: Fixture) -> None:
    """Make a row's request on a blob in its state. A store without content has no such rows."""
    if row.call in CONTENT and not isinstance(fixture.store, ContentStore):
        return
    await bring_about(fixture.store, fixture.name, row.start)
    if row.start == "expired":
        await fixture.wait(15.5)
    await check(fixture.store, row, fixture.name)


def begins(start: Start | None, scenarios: list[StoreScenario]) -> Callable[[StoreScenario], StoreScenario]:
    """List a scenario that begins with a blob in this state, leased under ``A``; None: with an empty container."""

    def enlist(scenario: StoreScenario) -> StoreScenario:
        @functools.wraps(scenario)
        async def begun(fixture: Fixture) -> None:
            if start is not None:
                await bring_about(fixture.store, fixture.name, start)
            await scenario(fixture)

        scenarios.append(begun)
        return begun

    return enlist


@begins("available", QUICK)
async def acquiring_returns_the_etag_that_readers_see(fixture: Fixture) -> None:
    etag = await fixture.store.acquire(fixture.name, A, 15)
    assert etag == (await fixture.other.read(fixture.name)).etag


@begins("available", QUICK)
async def lease_requests_leave_the_etag_alone(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    etag = (await store.read(name)).etag
    assert await store.acquire(name, A, 15) == etag
    await store.renew(name, A)
    await store.release(name, A)
    assert await store.acquire(name, B, 15) == etag
    await store.break_(name)
    assert (await store.read(name)).etag == etag


@begins("available", QUICK)
async def a_write_changes_the_etag_and_returns_the_new_one(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    before = await store.acquire(name, A, 15)
    etag = await store.write(name, A, {"One": "1"}, before)
    assert etag != before
    assert etag == (await store.read(name)).etag
    await store.release(name, A)
    assert await fixture.other.acquire(name, B, 15) == etag
    assert await fixture.other.write(name, B, {"One": "1"}, etag) != etag, "also when nothing is different"


@begins("available", QUICK)
async def a_write_of_a_blob_that_has_changed_since_is_refused_and_changes_nothing(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    first = await store.acquire(name, A, 15)
    second = await store.write(name, A, {"One": "1"}, first)
    assert await outcome(store.write(name, A, {"One": "2"}, first)) == "412 changed"
    state = await fixture.other.read(name)
    assert (state.etag, state.metadata) == (second, {"One": "1"})
    await store.write(name, A, {"One": "3"}, second)
    assert await outcome(store.write(name, A, {"One": "2"}, second)) == "412 changed"


@begins("available", QUICK)
async def metadata_is_replaced_as_a_whole_and_read_back_as_written(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    assert (await store.read(name)).metadata == {}
    await store.acquire(name, A, 15)
    await written(store, name, A, SingletonEpoch="41", Team="billing")
    assert (await fixture.other.read(name)).metadata == {"SingletonEpoch": "41", "Team": "billing"}
    await written(store, name, A, SingletonEpoch="42")
    assert (await fixture.other.read(name)).metadata == {"SingletonEpoch": "42"}
    await written(store, name, A)
    assert (await fixture.other.read(name)).metadata == {}


@begins("available", QUICK)
async def last_modified_is_seconds_since_1970_and_lease_requests_leave_it_alone(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    made = (await store.read(name)).modified
    await store.acquire(name, A, 15)
    await store.renew(name, A)
    assert (await store.read(name)).modified == made
    await written(store, name, A, One="1")
    assert made <= (await store.read(name)).modified <= made + 5


@begins("leased", QUICK)
async def making_a_blob_again_keeps_its_lease_and_metadata(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    etag = await written(store, name, A, One="1")
    await fixture.other.create(name)
    await store.create(name)
    state = await store.read(name)
    assert (state.etag, state.lease, state.metadata) == (etag, "leased", {"One": "1"})


@begins(None, QUICK)
async def leases_of_different_blobs_are_independent(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    for suffix in ("", "/below", ".beside"):
        await store.create(name + suffix)
        await store.acquire(name + suffix, A, 15)
    await store.release(name, A)
    assert await state_of(store, f"{name}/below") == "leased"
    assert await state_of(store, f"{name}.beside") == "leased"


@begins("available", QUICK)
async def asking_again_with_the_same_id_succeeds(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    for client in (store, fixture.other, store):
        assert await outcome(client.acquire(name, A, 15)) == "ok"
    assert await outcome(fixture.other.acquire(name, B, 15)) == "409 held"


@begins("leased", QUICK)
async def a_broken_lease_can_be_taken_by_anybody_and_its_owner_hears_of_it(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await fixture.other.break_(name)
    assert await loss(store.renew(name, A)) == "broken"
    await fixture.other.acquire(name, B, 15)
    assert await loss(store.renew(name, A)) == "stolen"
    assert await loss(written(store, name, A)) == "stolen"


@begins("leased", QUICK)
async def a_break_on_condition_of_an_etag_ends_no_lease_of_a_blob_that_has_changed_since(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    before = (await store.read(name)).etag
    etag = await written(store, name, A, One="1")
    assert await outcome(fixture.other.break_(name, before)) == "412 changed"
    assert await state_of(store, name) == "leased"
    await fixture.other.break_(name, etag)
    assert await state_of(store, name) == "broken"
    await store.acquire(name, B, 15)
    assert await loss(store.write(name, A, {"One": "2"}, etag)) == "stolen"


@begins("leased", QUICK)
async def a_released_lease_is_not_the_owners_any_more(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await store.release(name, A)
    for request in (store.renew(name, A), store.release(name, A), written(store, name, A)):
        assert (await outcome(request)).endswith("lost")


@begins("available", QUICK)
async def durations_out_of_range_are_refused(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    for duration in (0, 14, 61, 3600):
        assert await outcome(store.acquire(name, A, duration)) == "400 refused", duration
    for duration in (15, 60):
        assert await outcome(store.acquire(name, A, duration)) == "ok", duration


@begins(None, QUICK)
async def of_many_who_race_to_make_and_take_a_blob_one_wins(fixture: Fixture) -> None:
    async def one(number: int) -> str:
        client = (fixture.store, fixture.other)[number % 2]
        lease_id = f"00000000-0000-4000-8000-{number:012x}"
        if await outcome(client.acquire(fixture.name, lease_id, 15)) == "404 missing":
            await client.create(fixture.name)
        return await outcome(client.acquire(fixture.name, lease_id, 15))

    results = await asyncio.gather(*(one(number) for number in range(20)))
    assert sorted(results) == ["409 held"] * 19 + ["ok"]


@begins(None, QUICK)
async def names_of_all_kinds_make_blobs_of_their_own(fixture: Fixture) -> None:
    names = [
        f"{fixture.name}/{tail}" for tail in ("a b", "a%20b", "a+b", "ä", "A", "a", "~x", "x'y", "q?z", "h#z", "a&b=c")
    ]
    for number, name in enumerate(names):
        await fixture.store.create(name)
        lease_id = f"00000000-0000-4000-8000-{number:012x}"
        assert await outcome(fixture.store.acquire(name, lease_id, 15)) == "ok", name
    for name in names:
        assert await state_of(fixture.other, name) == "leased", name


@begins(None, QUICK)
async def locks_of_two_hosts_exclude_each_other_and_count_tokens_up(fixture: Fixture) -> None:
    timing = Timing(poll_min=0.01, poll_max=0.05, handoff_window=0.1)
    locks = [
        Lock(store, fixture.name, timing=timing, rng=random.Random(seed))
        for seed, store in enumerate([fixture.store, fixture.other, fixture.store])
    ]
    inside: list[int] = []
    tokens: list[int] = []

    async def one(lock: Lock) -> None:
        for _ in range(4):
            hold = await lock.acquire(timeout=30.0)
            assert not inside
            inside.append(1)
            tokens.append(hold.token or 0)
            await asyncio.sleep(0.005)
            inside.clear()
            await release(hold)

    await asyncio.gather(*(one(lock) for lock in locks for _ in range(2)))
    assert tokens == sorted(set(tokens))
    assert len(tokens) == 24
    assert await state_of(fixture.store, fixture.name) == "available"


@begins("leased", SLOW)
async def a_lease_lasts_as_long_as_it_was_asked_for(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await fixture.wait(14.5)
    assert await outcome(fixture.other.acquire(name, B, 15)) == "409 held"
    await fixture.wait(0.7)
    assert await state_of(fixture.other, name) == "expired"
    assert await outcome(fixture.other.acquire(name, B, 15)) == "ok"
    assert (await outcome(store.renew(name, A))).endswith("lost")


@begins("available", SLOW)
async def a_longer_lease_lasts_longer(fixture: Fixture) -> None:
    await fixture.store.acquire(fixture.name, A, 20)
    await fixture.wait(16.0)
    assert await outcome(fixture.other.acquire(fixture.name, B, 15)) == "409 held"


@begins("leased", SLOW)
async def a_renewal_restarts_the_clock(fixture: Fixture) -> None:
    await fixture.wait(5.0)
    assert await fixture.store.renew(fixture.name, A) == A
    await fixture.wait(11.0)
    assert await state_of(fixture.other, fixture.name) == "leased"


@begins("leased", SLOW)
async def asking_again_with_the_same_id_restarts_the_clock(fixture: Fixture) -> None:
    await fixture.wait(5.0)
    await fixture.store.acquire(fixture.name, A, 15)
    await fixture.wait(11.0)
    assert await state_of(fixture.other, fixture.name) == "leased"


@begins("leased", SLOW)
async def a_write_does_not_restart_the_clock(fixture: Fixture) -> None:
    await fixture.wait(5.0)
    await written(fixture.store, fixture.name, A, One="1")
    await fixture.wait(10.5)
    assert await state_of(fixture.other, fixture.name) == "expired"


@begins("leased", SLOW)
async def an_expired_lease_can_be_renewed_by_its_owner_only_while_nobody_had_it(fixture: Fixture) -> None:
    store, name = fixture.store, fixture.name
    await fixture.wait(15.5)
    await fixture.other.acquire(name, B, 15)
    await fixture.other.release(name, B)
    assert (await outcome(store.renew(name, A))).endswith("lost")


def _where(ability: type[Any], start: Start | None) -> Callable[[StoreScenario], StoreScenario]:
    """List a scenario that begins as ``begins`` has it. It is left out if the store has not this ability."""

    def enlist(scenario: StoreScenario) -> StoreScenario:
        @functools.wraps(scenario)
        async def if_it_can(fixture: Fixture) -> None:
            if isinstance(fixture.store, ability):
                await scenario(fixture)

        return begins(start, QUICK)(if_it_can)

    return enlist


_content = _where(ContentStore, "leased")
_logs = _where(LogStore, None)


@_content
async def content_is_replaced_with_its_metadata_and_read_back_as_written(fixture: Fixture) -> None:
    store, name = content_store(fixture.store), fixture.name
    etag = (await fixture.store.read(name)).etag
    for body in (b"", b"{}", bytes(range(256)) * 4_097, b"short"):
        before, metadata = etag, {"Length": str(len(body))}
        etag = await store.put(name, A, metadata, etag, body)
        assert etag != before, "content that was replaced has another ETag"
        for lease_id in (A, None):
            blob, read, _ = await store.get(name, lease_id, 2**21)
            assert read == body, f"{len(body)} bytes are read back as {len(read)}"
            told = blob.etag, blob.lease, dict(blob.metadata), blob.size
            assert told == (etag, "leased", metadata, len(body)), "content: the rest"
        seen = (await fixture.store.read(name)).size
        assert seen == len(body), f"{len(body)} bytes are told as {seen}"
    await fixture.store.renew(name, A)


@_content
async def metadata_that_is_replaced_leaves_content_as_it_was(fixture: Fixture) -> None:
    store, name = content_store(fixture.store), fixture.name
    await store.put(name, A, {}, (await fixture.store.read(name)).etag, b"kept")
    await written(fixture.store, name, A, Key="value")
    blob, read, _ = await store.get(name, None, 10)
    assert (dict(blob.metadata), read) == ({"Key": "value"}, b"kept")


@_content
async def content_of_a_blob_that_has_changed_since_is_refused_and_changes_nothing(fixture: Fixture) -> None:
    store, name = content_store(fixture.store), fixture.name
    before = (await fixture.store.read(name)).etag
    await store.put(name, A, {"Key": "first"}, before, b"first")
    for lease_id in (A, B):
        refused = await outcome(store.put(name, lease_id, {"Key": "late"}, before, b"late"))
        assert refused == "412 changed", f"a put on an ETag of before: {refused}"
    blob, read, _ = await store.get(name, A, 10)
    assert (dict(blob.metadata), read) == ({"Key": "first"}, b"first")


@_content
async def of_more_content_than_was_asked_for_the_size_is_told(fixture: Fixture) -> None:
    store, name = content_store(fixture.store), fixture.name
    await store.put(name, A, {}, (await fixture.store.read(name)).etag, bytes(101))
    assert len((await store.get(name, A, 101)).body) == 101
    more = await store.get(name, A, 100)
    assert (more.blob.size, more.body) == (101, b""), "the size without the content"


@_content
async def content_is_refused_to_a_lease_that_is_gone(fixture: Fixture) -> None:
    store, name = content_store(fixture.store), fixture.name
    await store.put(name, A, {}, (await fixture.store.read(name)).etag, b"kept")
    assert await outcome(store.get(name, B, 10)) == "412 lost", "a get under another's lease"
    await fixture.store.release(name, A)
    assert await outcome(store.get(name, A, 10)) == "412 lost", "a get under a lease that was given back"
    assert (await store.get(name, None, 10)).body == b"kept"


def keeping_logs(store: LeaseStore) -> LogStore:
    """Return the store, which must be able to keep logs."""
    assert isinstance(store, LogStore)
    return store


async def refusal(pending: Awaitable[object]) -> str | None:
    """Return the error code of a refused request. None: it was not refused."""
    try:
        await pending
    except StoreFailure as failure:
        return failure.code
    return None


@_logs
async def a_log_is_made_once_with_its_metadata_and_is_empty(fixture: Fixture) -> None:
    store, other = keeping_logs(fixture.store), keeping_logs(fixture.other)
    made = await asyncio.gather(*(each.start_log(fixture.name, {"Log": "1"}) for each in (store, other, store)))
    assert sorted(made) == [False, False, True]
    found = await store.tail(fixture.name, 0, 100)
    assert (dict(found.metadata), found.blocks, found.full, found.body) == ({"Log": "1"}, 0, False, b"")
    assert not await store.start_log(fixture.name, {"Log": "2"})
    assert (await store.tail(fixture.name, 0, 100)).etag == found.etag, "one that is there is left as it is"


@_logs
async def blocks_are_added_whole_and_read_from_anywhere(fixture: Fixture) -> None:
    store, name = keeping_logs(fixture.store), fixture.name
    await store.start_log(name, {})
    blocks = [b"first\n", bytes(range(256)) * 1_000, b"x"]
    ends, etags = [0], [(await store.tail(name, 0, 1)).etag]
    for block in blocks:
        assert await store.append(name, block) == ends[-1], "a block begins where the log ended"
        ends.append(ends[-1] + len(block))
        etags.append((await store.tail(name, 0, 1)).etag)
    assert len({*etags}) == len(etags), "each block changes the ETag"
    whole = b"".join(blocks)
    for start, most in ((0, 10**6), (0, len(whole)), (3, 10), (ends[1] - 1, 50), (len(whole) - 1, 9)):
        found = await store.tail(name, start, most)
        assert found.body == whole[start : start + most], f"{most} bytes from {start}"
        assert (found.etag, found.blocks) == (etags[-1], 3)
    assert await refusal(store.tail(name, len(whole) + 5, 10)) == "InvalidRange"


@_logs
async def blocks_added_at_once_are_all_there_one_after_the_other(fixture: Fixture) -> None:
    store, other, name = keeping_logs(fixture.store), keeping_logs(fixture.other), fixture.name
    await store.start_log(name, {})
    await asyncio.gather(*(each.append(name, b"%03d\n" % n) for n in range(20) for each in (store, other)))
    found = await store.tail(name, 0, 1_000)
    assert (sorted(found.body.split()), found.blocks) == (sorted(b"%03d" % (n // 2) for n in range(40)), 40)


@_logs
async def nothing_is_added_to_what_is_missing_or_no_log(fixture: Fixture) -> None:
    store = keeping_logs(fixture.store)
    await fixture.store.create(fixture.name)
    assert await refusal(store.append(f"{fixture.name}/missing", b"x")) == "BlobNotFound"
    assert await refusal(store.append(fixture.name, b"x")) == "InvalidBlobType"
    assert await refusal(store.tail(f"{fixture.name}/missing", 0, 1)) == "BlobNotFound"
    assert not await store.start_log(fixture.name, {}), "what is no log stays what it is"
    found = await store.tail(fixture.name, 0, 10)
    assert (found.body, found.blocks) == (b"", 0)


@_logs
async def a_log_is_deleted_only_as_it_was_seen(fixture: Fixture) -> None:
    store, name = keeping_logs(fixture.store), fixture.name
    await store.start_log(name, {})
    await store.append(name, b"read")
    seen = (await store.tail(name, 0, 10)).etag
    await store.append(name, b"not read")
    assert await refusal(store.drop(name, seen)) == "ConditionNotMet"
    await store.drop(name, (await store.tail(name, 0, 10)).etag)
    assert await refusal(store.append(name, b"late")) == "BlobNotFound"
    assert await refusal(store.drop(name, seen)) in ("BlobNotFound", "ConditionNotMet")
    await store.start_log(name, {"Log": "another"})
    assert await refusal(store.drop(name, seen)) == "ConditionNotMet", "another log has another ETag"


@_logs
async def a_block_of_the_greatest_length_is_added(fixture: Fixture) -> None:
    store, name = keeping_logs(fixture.store), fixture.name
    await store.start_log(name, {})
    assert await store.append(name, bytes(4 * 2**20)) == 0
    assert len((await store.tail(name, 0, 5 * 2**20)).body) == 4 * 2**20


@_logs
async def a_label_is_put_on_a_log_only_as_it_was_seen_and_stays(fixture: Fixture) -> None:
    store, name = keeping_logs(fixture.store), fixture.name
    await store.start_log(name, {"Log": "new"})
    await store.append(name, b"one")
    seen = (await store.tail(name, 0, 10)).etag
    labelled = await store.label(name, {"Log": "read"}, seen)
    assert labelled != seen
    assert await refusal(store.label(name, {"Log": "late"}, seen)) == "ConditionNotMet"
    assert await refusal(store.drop(name, seen)) == "ConditionNotMet"
    assert await store.append(name, b"two") == 3
    found = await store.tail(name, 0, 10)
    assert (dict(found.metadata), found.body, found.blocks) == ({"Log": "read"}, b"onetwo", 2)
    assert await refusal(store.label(name, {"Log": "late"}, labelled)) == "ConditionNotMet"

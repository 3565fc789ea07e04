"""What a store promises to inboxes, and to state in the blob of a lock."""
# ruff: noqa: D103 - the name of a scenario is its promise

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from simulator.pilot.assumed.lease_table import (
    A,
    B,
    content_store,
    outcome,
    written,
)
from simulator.pilot.assumed.store_scenario import Fixture, where
from singleton.stores.log_store import LogStore
from singleton.stores.protocol import ContentStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from singleton.stores.protocol import LeaseStore


_content = where(ContentStore, "leased")
_logs = where(LogStore, None)


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

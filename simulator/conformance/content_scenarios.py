"""What state in a lock's blob relies on in its store: scenarios beside those of `scenarios.py`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from simulator.conformance.lease_table import A, B, content_store, outcome, written
from simulator.conformance.scenarios import QUICK, begins
from singleton.stores.protocol import ContentStore

if TYPE_CHECKING:
    from simulator.conformance.scenarios import Fixture, Scenario


def _content(scenario: Scenario) -> Scenario:
    """List a scenario that begins with a lease under ``A``. It is left out if the store keeps no content."""

    @functools.wraps(scenario)
    async def if_it_can(fixture: Fixture) -> None:
        if isinstance(fixture.store, ContentStore):
            await scenario(fixture)

    return begins("leased", QUICK)(if_it_can)


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
            assert (blob.etag, blob.lease, dict(blob.metadata)) == (etag, "leased", metadata), "content: the rest"
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
async def more_content_than_was_asked_for_is_no_answer(fixture: Fixture) -> None:
    store, name = content_store(fixture.store), fixture.name
    await store.put(name, A, {}, (await fixture.store.read(name)).etag, bytes(101))
    assert len((await store.get(name, A, 101)).body) == 101
    assert await outcome(store.get(name, A, 100)) == "None transient"


@_content
async def content_is_refused_to_a_lease_that_is_gone(fixture: Fixture) -> None:
    store, name = content_store(fixture.store), fixture.name
    await store.put(name, A, {}, (await fixture.store.read(name)).etag, b"kept")
    assert await outcome(store.get(name, B, 10)) == "412 lost", "a get under another's lease"
    await fixture.store.release(name, A)
    assert await outcome(store.get(name, A, 10)) == "412 lost", "a get under a lease that was given back"
    assert (await store.get(name, None, 10)).body == b"kept"

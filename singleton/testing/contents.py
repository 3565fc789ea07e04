"""What state in a lock's blob relies on in its store: scenarios beside those of ``scenarios.py``."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from singleton.stores.protocol import ContentStore
from singleton.testing.scenarios import QUICK, begins
from singleton.testing.states import A, B, holding, outcome, written

if TYPE_CHECKING:
    from singleton.testing.scenarios import Place, Scenario


def _content(scenario: Scenario) -> Scenario:
    """List a scenario that begins with a lease under ``A``. It is left out if the store keeps no content."""

    @functools.wraps(scenario)
    async def if_it_can(place: Place) -> None:
        if isinstance(place.store, ContentStore):
            await scenario(place)

    return begins("leased", QUICK)(if_it_can)


@_content
async def content_is_replaced_with_its_metadata_and_read_back_as_written(place: Place) -> None:
    store, name = holding(place.store), place.name
    etag = (await place.store.read(name)).etag
    for body in (b"", b"{}", bytes(range(256)) * 4_097, b"short"):
        before, metadata = etag, {"Length": str(len(body))}
        etag = await store.put(name, A, metadata, etag, body)
        assert etag != before, "content that was replaced has another ETag"
        for lease_id in (A, None):
            blob, read, _ = await store.get(name, lease_id, 2**21)
            assert read == body, f"{len(body)} bytes are read back as {len(read)}"
            assert (blob.etag, blob.lease, dict(blob.metadata)) == (etag, "leased", metadata), "content: the rest"
    await place.store.renew(name, A)


@_content
async def metadata_that_is_replaced_leaves_content_as_it_was(place: Place) -> None:
    store, name = holding(place.store), place.name
    await store.put(name, A, {}, (await place.store.read(name)).etag, b"kept")
    await written(place.store, name, A, Key="value")
    blob, read, _ = await store.get(name, None, 10)
    assert (dict(blob.metadata), read) == ({"Key": "value"}, b"kept")


@_content
async def content_of_a_blob_that_has_changed_since_is_refused_and_changes_nothing(place: Place) -> None:
    store, name = holding(place.store), place.name
    before = (await place.store.read(name)).etag
    await store.put(name, A, {"Key": "first"}, before, b"first")
    for lease_id in (A, B):
        refused = await outcome(store.put(name, lease_id, {"Key": "late"}, before, b"late"))
        assert refused == "412 changed", f"a put on an ETag of before: {refused}"
    blob, read, _ = await store.get(name, A, 10)
    assert (dict(blob.metadata), read) == ({"Key": "first"}, b"first")


@_content
async def more_content_than_was_asked_for_is_no_answer(place: Place) -> None:
    store, name = holding(place.store), place.name
    await store.put(name, A, {}, (await place.store.read(name)).etag, bytes(101))
    assert len((await store.get(name, A, 101)).body) == 101
    assert await outcome(store.get(name, A, 100)) == "None transient"


@_content
async def content_is_refused_to_a_lease_that_is_gone(place: Place) -> None:
    store, name = holding(place.store), place.name
    await store.put(name, A, {}, (await place.store.read(name)).etag, b"kept")
    assert await outcome(store.get(name, B, 10)) == "412 lost", "a get under another's lease"
    await place.store.release(name, A)
    assert await outcome(store.get(name, A, 10)) == "412 lost", "a get under a lease that was given back"
    assert (await store.get(name, None, 10)).body == b"kept"

"""Each refusal of a real emulator has an error code, for each request: without one, an answer is nobody's word."""

from __future__ import annotations

import uuid
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Literal

import pytest

from singleton import AsyncLockClient, SingletonOptions
from singleton.runtime.accounts.stores import open_container, open_queue, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from singleton.stores.request_count import count_requests

if TYPE_CHECKING:
    from collections.abc import Awaitable

MINE: Final = str(uuid.uuid4())
OTHER: Final = str(uuid.uuid4())
ETAG: Final = '"0x1"'


async def code_of(request: Awaitable[object]) -> str | None:
    """Return the error code of a refusal; None: the answer has no error code."""
    try:
        await request
    except StoreFailure as failure:
        return failure.code
    return "carried out"


def requests_to(store: Any, name: str) -> dict[str, Awaitable[object]]:
    """Return each request to a blob, under the lease ``OTHER``."""
    return {
        "acquire": store.acquire(name, OTHER, 15),
        "renew": store.renew(name, OTHER),
        "release": store.release(name, OTHER),
        "evict": store.evict(name, OTHER, ETAG),
        "break": store.break_(name, ETAG),
        "read": store.read(name),
        "write": store.write(name, OTHER, {}, ETAG),
        "put": store.put(name, OTHER, {}, ETAG, b"state"),
        "get": store.get(name, OTHER, 100),
        "append": store.append(name, b"1"),
        "tail": store.tail(name, 0, 100),
        "label": store.label(name, {}, ETAG),
        "drop": store.drop(name, ETAG),
        "noted": store.noted(name),
        "remove": store.remove(name),
    }


NO_BLOB: Final = dict.fromkeys(("acquire", "renew", "release", "read", "get", "noted", "remove"), "BlobNotFound")
LEASED: Final = {
    "acquire": "LeaseAlreadyPresent",
    "renew": "LeaseIdMismatchWithLeaseOperation",
    "release": "LeaseIdMismatchWithLeaseOperation",
    "evict": "ConditionNotMet",
    "break": "ConditionNotMet",
    "read": "carried out",
    "write": "ConditionNotMet",
    "put": "ConditionNotMet",
    "get": "LeaseIdMismatchWithBlobOperation",
    "append": "InvalidBlobType",
    "tail": "carried out",
    "label": "ConditionNotMet",
    "drop": "ConditionNotMet",
    "noted": "carried out",
    "remove": "LeaseIdMissing",
}


@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_each_refusal_of_a_blob_request_has_its_error_code(
    connection_string: str, container_name: str, http: str
) -> None:
    account = StorageAccount(connection_string)
    store: Any = (open_container if http == "direct" else open_through_sdk)(account, container_name)
    async with aclosing(store):
        no_container = {call: await code_of(request) for call, request in requests_to(store, "job").items()}
        assert no_container == dict.fromkeys(no_container, "ContainerNotFound")
        await store.create("job")
        no_blob = {call: await code_of(request) for call, request in requests_to(store, "none").items()}
        assert no_blob == {
            **dict.fromkeys(no_blob, "ConditionNotMet"),
            **NO_BLOB,
            **dict.fromkeys(("append", "tail"), "BlobNotFound"),
        }
        await store.acquire("job", MINE, 15)
        leased = {call: await code_of(request) for call, request in requests_to(store, "job").items()}
        assert leased == LEASED
        assert await code_of(store.note("job", {})) == "LeaseIdMissing"
        await store.break_("job")
        assert await code_of(store.renew("job", MINE)) == "LeaseIsBrokenAndCannotBeRenewed"
        assert await code_of(store.acquire("job", MINE, 5)) == "InvalidHeaderValue"


async def test_each_refusal_of_a_queue_request_has_its_error_code(connection_string: str, container_name: str) -> None:
    async with aclosing(open_queue(StorageAccount(connection_string), container_name)) as queue:
        for refused in (
            queue.now(),
            queue.hide("m-1", "receipt", 60),
            queue.send("text", delay=0, life=100),
            queue.delete("m-1", "receipt"),
            queue.take(1, 60),
        ):
            assert await code_of(refused) == "QueueNotFound"
        await queue.create()
        await queue.create()
        assert await code_of(queue.hide("m-1", "receipt", 60)) == "MessageNotFound"
        assert await code_of(queue.delete("m-1", "receipt")) == "MessageNotFound"
        sent = await queue.send("text", delay=0, life=100)
        (taken,) = await queue.take(1, 60)
        assert await code_of(queue.delete(taken.id, sent.receipt)) == "PopReceiptMismatch"
        assert await code_of(queue.hide(taken.id, sent.receipt, 60)) == "PopReceiptMismatch"


@pytest.mark.parametrize("failover", [None, 2.0])
@pytest.mark.parametrize("http", ["direct", "sdk"])
async def test_the_first_lock_of_an_empty_account_repeats_no_request(
    connection_string: str, container_name: str, http: Literal["direct", "sdk"], failover: float | None
) -> None:
    """A repeated request would take a second: the missing container must be known by the first answer."""
    sent: list[tuple[str, str]] = []
    end = count_requests(lambda operation, status: sent.append((operation, status)))
    try:
        options = SingletonOptions(container=container_name, http=http)
        client = AsyncLockClient(connection_string, options=options, failover=failover)
        async with client, client.try_lock("job") as hold:
            assert hold is not None
    finally:
        end()
    refused = [(operation, status) for operation, status in sent if status != "ok"]
    assert refused == [("blob.acquire", "404")]
    assert [operation for operation, _ in sent].count("blob.acquire") == 2

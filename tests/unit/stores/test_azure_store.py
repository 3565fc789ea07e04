"""Both Azure stores, against a server that answers as told: one request a call, judged by its code."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal

import pytest
from azure.core.credentials import AzureNamedKeyCredential

from simulator.pilot.assumed.lease_table import LeaseCall, request
from singleton.runtime.accounts import credentials
from singleton.runtime.accounts.stores import open_container, open_queue
from singleton.settings.accounts import GivenAccount
from singleton.settings.connection import CredentialSpec, StorageAccount
from singleton.stores.protocol import StoreFailure
from tests.support.scripted_server import DATE, LEASED, Answer, ScriptedServer, error, made_account
from tests.unit.stores.test_store_protocol import TABLE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from typing import TypeAlias

    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.direct_blob import DirectBlobStore

    Store: TypeAlias = DirectBlobStore | AzureBlobLeaseStore
    Http: TypeAlias = Literal["direct", "sdk"]

MINE = LEASED["x-ms-lease-id"]
CALLS: list[LeaseCall] = ["acquire", "renew", "release", "break", "write", "read"]


_HTTP: ContextVar[Http] = ContextVar("http")


@pytest.fixture(autouse=True, params=["direct", "sdk"])
def http(request: pytest.FixtureRequest) -> Iterator[Http]:
    """How requests travel, in each of these tests."""
    token = _HTTP.set(request.param)
    yield request.param
    _HTTP.reset(token)


def opened(connection_string: str) -> Store:
    return open_container(StorageAccount(connection_string=connection_string), "locks", _HTTP.get())


@asynccontextmanager
async def answering(*answers: Answer) -> AsyncIterator[tuple[Store, ScriptedServer]]:
    async with ScriptedServer(*answers) as server:
        store = opened(server.connection_string)
        try:
            yield store, server
        finally:
            await store.aclose()


async def failure_of(store: Store, call: LeaseCall) -> StoreFailure:
    with pytest.raises(StoreFailure) as caught:
        async with asyncio.timeout(5.0):
            await request(store, "job", call, MINE)
    return caught.value


ANSWERS = [(status, code) for status, code, _, _ in TABLE if status is not None and status >= 400]


@pytest.mark.parametrize(("status", "code"), ANSWERS)
async def test_each_error_answer_is_one_request_and_one_failure_with_its_status_and_code(
    status: int, code: str | None
) -> None:
    """The SDK's own retries would outlive a lease; its exception classes mislead (facts §2, §4)."""
    async with answering(error(status, code)) as (store, server):
        for number, call in enumerate(CALLS, 1):
            failure = await failure_of(store, call)
            assert (failure.status, failure.code) == (status, code), call
            assert len(server.requests) == number, call


@pytest.mark.parametrize("call", CALLS)
async def test_retry_after_is_read_where_it_is_a_number_of_seconds(call: LeaseCall) -> None:
    read = {"7": 7.0, "0": 0.0, "1.5": 1.5, "-3": None, "soon": None, "inf": None, "nan": None, DATE: None}
    for text, seconds in read.items():
        async with answering(error(503, "ServerBusy", **{"Retry-After": text})) as (store, server):
            failure = await failure_of(store, call)
            assert failure.retry_after == seconds
            assert len(server.requests) == 1


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("instead", ["reset", "garbage"])
async def test_a_connection_that_breaks_says_nothing_about_the_lease(call: LeaseCall, instead: str) -> None:
    async with answering(Answer(instead=instead)) as (store, _):
        failure = await failure_of(store, call)
        assert failure.status is None
        assert failure.meaning == "transient"


@pytest.mark.parametrize("call", CALLS)
async def test_nobody_there_says_nothing_about_the_lease(call: LeaseCall) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # and never listens: the port is taken, so that no other test serves it
        store = opened(made_account(silent.getsockname()[1]))
        failure = await failure_of(store, call)
    assert failure.status is None
    assert failure.meaning == "transient"
    if _HTTP.get() == "direct":
        assert str(failure).startswith("can't connect (Connection refused): 127.0.0.1:")
    else:
        assert "ServiceRequestError: 127.0.0.1:" in str(failure)
        assert "Connection refused" in str(failure) or "Connect call failed" in str(failure)
    assert "AccountKey" not in str(failure)
    await store.aclose()


@pytest.mark.parametrize("call", [*CALLS, "create"])
@pytest.mark.parametrize("instead", ["hang", "drip"])
async def test_a_call_ends_as_soon_as_its_caller_wants(call: LeaseCall, instead: str) -> None:
    """``read_timeout`` is no deadline: a slowly dripping server holds a call as long as it likes (facts §4)."""
    async with answering(Answer(instead=instead)) as (store, _):
        loop = asyncio.get_running_loop()
        start = loop.time()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await request(store, "job", call, MINE)
        assert loop.time() - start < 1.0


async def test_a_renewal_returns_the_id_in_the_reply_whosever_it_is() -> None:
    other = "00000000-0000-4000-8000-000000000002"
    async with answering(Answer(200, {**LEASED, "x-ms-lease-id": other})) as (store, _):
        assert await store.renew("job", MINE) == other


async def test_what_is_sent_names_our_lease_id_and_nothing_of_the_sdks() -> None:
    async with answering(Answer(201, LEASED), Answer(200, LEASED)) as (store, server):
        await store.acquire("job", MINE, 15)
        method, headers = server.requests[0]
        assert method == "PUT"
        assert headers["x-ms-lease-action"] == "acquire"
        assert headers["x-ms-proposed-lease-id"] == MINE
        assert headers["x-ms-lease-duration"] == "15"
        await store.renew("job", MINE)
        await store.write("job", MINE, {"SingletonEpoch": "42"}, '"0x1"')
        assert [headers["x-ms-lease-id"] for _, headers in server.requests[1:]] == [MINE, MINE]
        assert server.requests[2][1]["x-ms-meta-singletonepoch"] == "42"
        assert server.requests[2][1]["if-match"] == '"0x1"'


async def test_creating_is_one_request_and_three_when_the_container_is_missing() -> None:
    async with answering(Answer(201, LEASED)) as (store, server):
        await store.create("job")
        assert len(server.requests) == 1
        assert server.requests[0][1]["if-none-match"] == "*"
    async with answering(error(404, "ContainerNotFound"), Answer(201, LEASED), Answer(201, LEASED)) as (store, server):
        await store.create("job")
        assert len(server.requests) == 3


@pytest.mark.parametrize(
    "answers",
    [
        [error(409, "BlobAlreadyExists")],
        [error(412, "LeaseIdMissing")],
        [error(404, "ContainerNotFound"), error(409, "ContainerAlreadyExists"), error(409, "BlobAlreadyExists")],
    ],
)
async def test_what_is_there_already_needs_no_creating(answers: list[Answer]) -> None:
    async with answering(*answers) as (store, server):
        await store.create("job")
        assert len(server.requests) == len(answers)


@pytest.mark.parametrize(
    ("answers", "meaning"),
    [
        ([error(403, "AuthorizationFailure")], "denied"),
        ([error(404, "ContainerNotFound"), error(403, "AuthorizationFailure")], "denied"),
        ([error(404, "ContainerNotFound"), error(409, "ContainerBeingDeleted")], "deleting"),
        ([error(409, "ContainerBeingDeleted")], "deleting"),
        ([error(503, "ServerBusy")], "transient"),
        ([error(404, "ContainerNotFound"), Answer(201, LEASED), error(404, "ContainerNotFound")], "missing"),
    ],
)
async def test_what_can_not_be_created_is_told(answers: list[Answer], meaning: str) -> None:
    async with answering(*answers) as (store, server):
        assert (await failure_of(store, "create")).meaning == meaning
        assert len(server.requests) == len(answers)


@pytest.mark.parametrize("call", CALLS)
async def test_an_answer_that_makes_no_sense_is_no_reason_to_lose_a_lease(call: LeaseCall) -> None:
    """A proxy's login page, a header that is no date: whatever is raised, it is not definitive."""
    nonsense = {**LEASED, "Last-Modified": "yesterday", "Content-Type": "text/html"}
    status = {"acquire": 201, "break": 202}.get(call, 200)
    async with answering(Answer(status, nonsense, "<html>Please log in")) as (store, _):
        failure = await failure_of(store, call)
        assert failure.meaning == "transient"


async def test_the_age_of_a_blob_is_told_by_the_clock_of_the_service() -> None:
    said = {**LEASED, "x-ms-lease-state": "leased", "Date": DATE.replace(":00 ", ":07 ")}
    async with answering(Answer(200, said)) as (store, _):
        assert (await store.read("job")).age == 7


async def test_contention_is_not_logged_as_an_incident(caplog: pytest.LogCaptureFixture) -> None:
    """B14."""
    with caplog.at_level(logging.INFO):
        async with answering(error(409, "LeaseAlreadyPresent")) as (store, _):
            for _ in range(3):
                await failure_of(store, "acquire")
    assert caplog.records == []


# --- however the account was given, the SDK asks once: the lock asks again, sooner ------------------------------------

NAME, KEY = "made", "a2V5"


class Identity(AzureNamedKeyCredential):
    """Stands for one of azure-identity, which goes over https only."""

    async def close(self) -> None: ...


@pytest.fixture
def identity(monkeypatch: pytest.MonkeyPatch) -> CredentialSpec:
    monkeypatch.setattr(credentials, "open_credential", lambda _: Identity(NAME, KEY))
    return CredentialSpec("DefaultAzureCredential")


@pytest.mark.parametrize("way", ["string", "identity", "credential"])
async def test_of_locks_it_asks_once(way: str, identity: CredentialSpec, http: Http) -> None:
    if (http, way) == ("direct", "identity"):
        return  # this identity has no token: see test_access.py
    async with ScriptedServer(error(503, "ServerBusy")) as server:
        url = StorageAccount(server.connection_string).endpoint
        accounts: dict[str, StorageAccount | GivenAccount] = {
            "string": StorageAccount(server.connection_string),
            "identity": StorageAccount(account_url=url, credential=identity),
            "credential": GivenAccount(url, AzureNamedKeyCredential(NAME, KEY)),
        }
        store = open_container(accounts[way], "locks", http)
        await failure_of(store, "acquire")
        await store.aclose()
        assert len(server.requests) == 1


@pytest.mark.parametrize("way", ["string", "identity"])
async def test_of_messages_it_asks_once(way: str, identity: CredentialSpec) -> None:
    async with ScriptedServer(error(503, "ServerBusy")) as server:
        url = StorageAccount(server.connection_string).endpoint
        string = f"DefaultEndpointsProtocol=http;AccountName={NAME};AccountKey={KEY};QueueEndpoint={url};"
        account = {
            "string": StorageAccount(string),
            "identity": StorageAccount(account_url=url, credential=identity),
        }[way]
        queue = open_queue(account, "orders")
        with pytest.raises(StoreFailure):
            async with asyncio.timeout(5.0):
                await queue.delete("message", "receipt")
        await queue.aclose()
        assert len(server.requests) == 1

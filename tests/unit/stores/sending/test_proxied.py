"""Requests through a proxy, over aiohttp: each is sent once, as without a proxy."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from singleton.process.opening.stores import open_container
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from singleton.stores.sending import proxied
from tests.support.raw_server import RawServer
from tests.support.scripted_server import LEASED, Answer, ScriptedServer, error
from tests.unit.stores.sending.test_connections import saying

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.direct_blob import DirectBlobStore

    Store = DirectBlobStore | AzureBlobLeaseStore

ACCOUNT = "DefaultEndpointsProtocol=http;AccountName=orders;AccountKey=a2V5;EndpointSuffix=storage.example"
MINE = LEASED["x-ms-lease-id"]
ACQUIRED = Answer(201, LEASED)
RELEASED = Answer(200, LEASED)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@asynccontextmanager
async def through(port: int, environment: pytest.MonkeyPatch) -> AsyncIterator[Store]:
    environment.setenv("http_proxy", f"http://127.0.0.1:{port}")
    store = open_container(StorageAccount(ACCOUNT), "locks")
    try:
        yield store
    finally:
        await store.aclose()


@asynccontextmanager
async def answering(environment: pytest.MonkeyPatch, *answers: Answer) -> AsyncIterator[tuple[Store, ScriptedServer]]:
    async with ScriptedServer(*answers) as server:
        assert server._server is not None
        async with through(server._server.sockets[0].getsockname()[1], environment) as store:
            yield store, server


async def test_a_netrc_file_changes_nothing(tmp_path: Path, environment: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("default login somebody password something\n")
    environment.setenv("NETRC", str(tmp_path / "netrc"))
    async with answering(environment, ACQUIRED) as (store, server):
        await store.acquire("job", MINE, 15)
        assert server.requests[0][1]["authorization"].startswith("SharedKey orders:")


async def test_a_request_that_got_no_answer_on_a_connection_used_before_is_not_sent_again(
    environment: pytest.MonkeyPatch,
) -> None:
    answers = ACQUIRED, Answer(instead="reset"), RELEASED
    async with answering(environment, *answers) as (store, server):
        await store.acquire("job", MINE, 15)
        with pytest.raises(StoreFailure, match=r"(ServerDisconnected|ClientOS)Error: orders.blob.storage.example"):
            await store.release("job", MINE)
        assert len(server.requests) == 2
        await store.release("job", MINE)
        assert [target.partition("?")[0] for target in server.targets] == [
            "http://orders.blob.storage.example/locks/job"
        ] * 3


async def test_aiohttp_would_have_sent_it_again(environment: pytest.MonkeyPatch) -> None:
    """Otherwise the test above proves nothing."""

    async def as_aiohttp_does(request: Any, send: Any) -> Any:
        return await send(request)

    environment.setattr(proxied, "_once", as_aiohttp_does)
    answers = ACQUIRED, Answer(instead="reset"), RELEASED
    async with answering(environment, *answers) as (store, server):
        await store.acquire("job", MINE, 15)
        await store.release("job", MINE)
        assert len(server.requests) == 3


async def test_a_connection_is_used_again_after_an_answer_and_after_a_refusal(environment: pytest.MonkeyPatch) -> None:
    answers = ACQUIRED, error(409, "LeaseAlreadyPresent"), RELEASED
    async with answering(environment, *answers) as (store, server):
        await store.acquire("job", MINE, 15)
        with pytest.raises(StoreFailure, match="409 LeaseAlreadyPresent"):
            await store.acquire("job", MINE, 15)
        await store.release("job", MINE)
        assert len(server._open) == 1


async def test_nor_is_it_after_an_answer_to_another_request(environment: pytest.MonkeyPatch) -> None:
    other = Answer(201, {**LEASED, "x-ms-client-request-id": "another"})
    async with answering(environment, ACQUIRED, other, RELEASED) as (store, server):
        await store.acquire("job", MINE, 15)
        with pytest.raises(StoreFailure, match="an answer to another request: orders"):
            await store.acquire("job", MINE, 15)
        await store.release("job", MINE)
        assert len(server._open) == 2


async def test_a_body_travels_both_ways(environment: pytest.MonkeyPatch) -> None:
    there = Answer(200, {**LEASED, "x-ms-lease-state": "available"}, "x" * 50)
    async with answering(environment, ACQUIRED, there) as (store, server):
        await store.put("job", MINE, {"Kept": "1"}, '"0x1"', b"abc")
        assert server.requests[0][1]["content-length"] == "3"
        assert (await store.get("job", None, 50)).body == b"x" * 50
        with pytest.raises(StoreFailure, match="an answer longer than 49 bytes: orders"):
            await store.get("job", None, 49)


@pytest.mark.parametrize("status", [302, 503])
async def test_neither_a_redirect_is_followed_nor_an_endless_page_read(
    environment: pytest.MonkeyPatch, status: int
) -> None:
    page = Answer(status, {"Location": "http://elsewhere.example/"}, "x" * 200_000)
    async with answering(environment, page) as (store, server):
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
        assert (caught.value.status, caught.value.meaning) == (status, "transient")
        assert len(server.requests) == 1


async def test_an_answer_that_breaks_off_is_none(environment: pytest.MonkeyPatch) -> None:
    async with answering(environment, Answer(200, LEASED, instead="half")) as (store, _):
        with pytest.raises(StoreFailure, match="ClientPayloadError: orders") as caught:
            await store.release("job", MINE)
        assert caught.value.status is None


async def test_who_gives_up_closes_the_connection(environment: pytest.MonkeyPatch) -> None:
    async with answering(environment, Answer(instead="hang"), RELEASED) as (store, server):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await store.release("job", MINE)
        await store.release("job", MINE)
        assert len(server._open) == 2


async def test_a_proxy_that_is_not_there_is_named_and_its_password_is_not(environment: pytest.MonkeyPatch) -> None:
    async with RawServer(saying()) as server:
        pass
    async with through(server.port, environment) as store:
        environment.setenv("http_proxy", f"http://user:word@127.0.0.1:{server.port}")
        with pytest.raises(StoreFailure, match=r"can't connect to 127.0.0.1:\d+ \(.*\): orders") as caught:
            await store.acquire("job", MINE, 15)
        assert "word" not in str(caught.value)


async def test_a_store_that_is_closed_asks_nothing(environment: pytest.MonkeyPatch) -> None:
    async with answering(environment, ACQUIRED) as (store, server):
        await store.acquire("job", MINE, 15)
        await store.aclose()
        with pytest.raises(StoreFailure, match="closed: orders"):
            await store.acquire("job", MINE, 15)
        assert len(server.requests) == 1


async def test_what_can_not_be_sent_is_a_failure(environment: pytest.MonkeyPatch) -> None:
    async with answering(environment, ACQUIRED) as (store, server):
        with pytest.raises(StoreFailure) as caught:
            await store.release("job", "a\r\nb: c")
        assert caught.value.meaning == "transient"
        assert server.requests == []

"""Requests of our own, on real sockets: each is sent once, to nobody else, and no error shows where a signature is."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from contextlib import asynccontextmanager
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest

from singleton.runtime.accounts.stores import open_container, open_through_sdk, way_to
from singleton.settings.accounts import GivenAccount
from singleton.settings.connection import StorageAccount
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.http.connections import Unanswered
from singleton.stores.protocol import StoreFailure
from singleton.stores.wire import proxy_for
from tests.support.scripted_server import LEASED, Answer, ScriptedServer, error
from tests.unit.stores.test_access import Credential

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from singleton.stores.azure_blob import AzureBlobLeaseStore

MINE = LEASED["x-ms-lease-id"]
SIGNED = "sv=2021-12-02&sig=c2VjcmV0LXNpZ25hdHVyZQ%3D%3D"
ACQUIRED = Answer(201, LEASED)
RELEASED = Answer(200, LEASED)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def url_of(server: ScriptedServer) -> str:
    return StorageAccount(server.connection_string).endpoint


@asynccontextmanager
async def answering(
    *answers: Answer, signed: bool = False
) -> AsyncIterator[tuple[DirectBlobStore | AzureBlobLeaseStore, ScriptedServer]]:
    async with ScriptedServer(*answers) as server:
        account = StorageAccount(server.connection_string)
        if signed:
            account = StorageAccount(account_url=f"{url_of(server)}?{SIGNED}")
        store = open_container(account, "locks")
        try:
            yield store, server
        finally:
            await store.aclose()


# --- sent once --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["release", "create", "read", "remove"])
async def test_a_request_that_got_no_answer_on_a_connection_used_before_is_not_sent_again(call: str) -> None:
    """A release that worked would then be answered 409."""
    async with answering(ACQUIRED, Answer(instead="reset"), RELEASED) as (store, server):
        await store.acquire("job", MINE, 15)
        with pytest.raises(StoreFailure) as caught:
            await (store.release("job", MINE) if call == "release" else getattr(store, call)("job"))
        assert caught.value.meaning == "transient"
        assert len(server.requests) == 2
        await store.release("job", MINE)
        assert len(server.requests) == 3


async def test_a_connection_is_used_again_after_an_answer_and_after_a_refusal() -> None:
    async with answering(ACQUIRED, error(409, "LeaseAlreadyPresent"), RELEASED) as (store, server):
        await store.acquire("job", MINE, 15)
        with pytest.raises(StoreFailure):
            await store.acquire("job", MINE, 15)
        await store.release("job", MINE)
        assert len(server.requests) == 3
        assert len(server._open) == 1


@pytest.mark.parametrize("instead", ["hang", "drip"])
async def test_a_connection_is_not_used_again_after_a_request_that_was_given_up(instead: str) -> None:
    async with answering(ACQUIRED, Answer(instead=instead), RELEASED) as (store, server):
        await store.acquire("job", MINE, 15)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await store.release("job", MINE)
        await store.release("job", MINE)
        assert len(server._open) == 2


async def test_an_error_s_endless_page_is_not_read_to_its_end_nor_its_connection_used_again() -> None:
    page = Answer(503, {"Content-Type": "text/html"}, "<html>" + "x" * 200_000)
    async with answering(page, RELEASED) as (store, server):
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
        assert (caught.value.status, caught.value.meaning) == (503, "transient")
        await store.release("job", MINE)
        assert len(server._open) == 2


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_and_means_nothing(status: int) -> None:
    async with ScriptedServer(ACQUIRED) as elsewhere:
        answer = Answer(status, {"Location": f"{url_of(elsewhere)}/locks/job?comp=lease"})
        async with answering(answer) as (store, server):
            with pytest.raises(StoreFailure, match="redirect, which is not followed") as caught:
                await store.acquire("job", MINE, 15)
            assert (caught.value.status, caught.value.meaning) == (status, "transient")
            assert (len(server.requests), elsewhere.requests) == (1, [])


@pytest.mark.parametrize("status", [200, 503])
async def test_an_answer_that_breaks_off_means_nothing(status: int) -> None:
    async with answering(ACQUIRED, Answer(status, LEASED, instead="half"), RELEASED) as (store, server):
        await store.acquire("job", MINE, 15)
        with pytest.raises(StoreFailure) as caught:
            await store.release("job", MINE)
        assert (caught.value.status, caught.value.meaning) == (None, "transient")
        await store.release("job", MINE)
        assert len(server._open) == 2


async def test_another_success_than_the_expected_one_is_none() -> None:
    async with answering(Answer(200, LEASED)) as (store, _):
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
        assert caught.value.meaning == "transient"


async def test_a_store_that_is_closed_asks_nothing() -> None:
    async with answering(ACQUIRED) as (store, server):
        await store.acquire("job", MINE, 15)
        await store.aclose()
        with pytest.raises(StoreFailure):
            await store.acquire("job", MINE, 15)
        assert len(server.requests) == 1


# --- secrets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        Answer(instead="reset"),
        Answer(instead="garbage"),
        error(403, "AuthenticationFailed"),
        Answer(302, {"Location": f"http://elsewhere.example/?{SIGNED}"}),
        Answer(201, {"ETag": "nonsense"}),
        None,
    ],
    ids=["reset", "garbage", "refused", "redirect", "nonsense", "nobody there"],
)
async def test_no_error_and_no_log_line_shows_a_signature(
    answer: Answer | None, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with answering(answer or ACQUIRED, signed=True) as (store, server):
        if answer is None:
            await server.__aexit__()
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
    failure = caught.value
    beneath = [failure.__cause__, failure.__context__]
    assert not any(isinstance(each, Unanswered) for each in beneath), "its frames have the request"
    shown = [*traceback.format_exception(failure), repr(failure), repr(vars(failure)), repr(beneath), caplog.text]
    assert not [text for text in shown if "c2VjcmV0" in text]


# --- the clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("http", ["direct", "sdk"])
@pytest.mark.parametrize(
    ("off", "told"),
    [(-1300, "22 minutes ahead of the service's"), (1300, "22 minutes behind the service's"), (60, None)],
)
async def test_a_refusal_says_if_this_machine_s_clock_can_be_the_reason(
    http: Any, off: float, told: str | None
) -> None:
    refusal = error(403, "AuthenticationFailed", Date=formatdate(time.time() + off, usegmt=True))
    async with ScriptedServer(refusal) as server:
        store = open_container(StorageAccount(server.connection_string), "locks", http)
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
        await store.aclose()
    assert caught.value.meaning == "denied"
    said = str(caught.value)
    assert told in said if told else "clock" not in said


async def test_after_a_token_was_not_known_the_next_request_has_another() -> None:
    in_an_hour = time.time() + 3600
    async with ScriptedServer(error(401, "InvalidAuthenticationInfo"), ACQUIRED) as server:
        endpoint = StorageAccount(server.connection_string).endpoint
        store = DirectBlobStore(way_to(GivenAccount(endpoint, Credential(in_an_hour, in_an_hour))), "locks")
        with pytest.raises(StoreFailure) as caught:
            await store.acquire("job", MINE, 15)
        assert caught.value.meaning == "denied"
        await store.acquire("job", MINE, 15)
        await store.acquire("job", MINE, 15)
        await store.aclose()
    assert [headers["authorization"] for _, headers in server.requests] == [
        "Bearer token 1",
        "Bearer token 2",
        "Bearer token 2",
    ]


# --- the environment --------------------------------------------------------------------------------------------------


async def test_a_netrc_file_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """aiohttp would send what it says there in place of our signature, or refuse both."""
    (tmp_path / "netrc").write_text("default login somebody password something\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with answering(ACQUIRED) as (store, server):
        await store.acquire("job", MINE, 15)
        assert server.requests[0][1]["authorization"].startswith("SharedKey made:")


async def test_where_the_sdk_reads_a_netrc_file_its_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login somebody password something\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    async with ScriptedServer(ACQUIRED) as server:
        store = open_through_sdk(StorageAccount(server.connection_string), "locks")
        with pytest.raises(StoreFailure, match=r"~/\.netrc has an entry .* set http to 'direct'") as caught:
            await store.acquire("job", MINE, 15)
        assert caught.value.meaning == "denied", "it would be tried again for ever"
        await store.aclose()


async def test_requests_go_through_the_proxy_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ScriptedServer(ACQUIRED) as proxy:
        host = url_of(proxy).split("/")[2]
        monkeypatch.setenv("http_proxy", f"http://user:word@{host}")
        account = "DefaultEndpointsProtocol=http;AccountName=orders;AccountKey=a2V5;EndpointSuffix=storage.example"
        store = open_container(StorageAccount(account), "locks")
        await store.acquire("job", MINE, 15)
        await store.aclose()
        _, headers = proxy.requests[0]
        assert headers["host"] == "orders.blob.storage.example"
        assert headers["proxy-authorization"].startswith("Basic ")
        assert headers["authorization"].startswith("SharedKey orders:")


@pytest.mark.parametrize(
    ("environment", "scheme", "host", "expected"),
    [
        ({}, "https", "a.blob.core.windows.net", None),
        ({"https_proxy": "http://p:1"}, "https", "a.blob.core.windows.net", "http://p:1"),
        ({"https_proxy": "p:1"}, "https", "a.blob.core.windows.net", "http://p:1"),
        ({"https_proxy": "http://p:1"}, "http", "127.0.0.1:10000", None),
        ({"https_proxy": "http://p:1", "no_proxy": ".windows.net"}, "https", "a.blob.core.windows.net", None),
        ({"http_proxy": "http://p:1", "no_proxy": "127.0.0.1"}, "http", "127.0.0.1:10000", None),
        ({"http_proxy": "http://p:1", "no_proxy": "127.0.0.1:9"}, "http", "127.0.0.1:10000", "http://p:1"),
        ({"http_proxy": "http://p:1", "no_proxy": "*"}, "http", "a.example", None),
    ],
)
def test_proxies_are_those_of_the_environment(
    environment: dict[str, str], scheme: str, host: str, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert proxy_for(scheme, host) == expected


async def test_a_renewal_does_not_wait_for_requests_that_hang() -> None:
    """They would have all connections, and the hold would be lost though its blob is well."""
    came, over = asyncio.Event(), asyncio.Event()
    answering: list[asyncio.Task[None] | None] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answering.append(asyncio.current_task())
        if b"/mine" in await reader.readuntil(b"\r\n\r\n"):
            came.set()
        await over.wait()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    account = StorageAccount(
        f"DefaultEndpointsProtocol=http;AccountName=a;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:{port}/a;"
    )
    store = open_container(account, "locks")
    polls = [asyncio.create_task(store.acquire(f"poll-{number}", MINE, 15)) for number in range(120)]
    renewal = asyncio.create_task(store.renew("mine", MINE))
    try:
        await asyncio.wait_for(came.wait(), 20)
    finally:
        over.set()
        server.close()
        await asyncio.gather(*polls, renewal, *filter(None, answering), return_exceptions=True)
        await store.aclose()

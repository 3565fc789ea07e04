"""Requests through a proxy: each is sent once, as without one; over TLS through a tunnel, which ends at the origin."""

from __future__ import annotations

import asyncio
import base64
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from singleton.stores.http.connections import Connections, Unanswered
from singleton.stores.protocol import StoreFailure
from tests.support.raw_server import OK, Peer, RawServer
from tests.support.scripted_server import LEASED, Answer, ScriptedServer, error
from tests.unit.stores.http.test_connections import ask, saying, settled
from tests.unit.stores.http.test_connections_tls import HOST, Authority, authority, trusted

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator
    from pathlib import Path

    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.direct_blob import DirectBlobStore
    from tests.unit.stores.http.test_connections import Script

    Store = DirectBlobStore | AzureBlobLeaseStore

__all__ = ["authority", "trusted"]  # fixtures
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
        with pytest.raises(
            StoreFailure, match=r"the connection was closed before the answer's end.*: orders.blob.storage.example"
        ):
            await store.release("job", MINE)
        assert len(server.requests) == 2
        await store.release("job", MINE)
        assert [target.partition("?")[0] for target in server.targets] == [
            "http://orders.blob.storage.example/locks/job"
        ] * 3


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
        longer = await store.get("job", None, 49)
        assert (longer.body, longer.blob.size) == (b"", 50)


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
        with pytest.raises(StoreFailure, match="the connection was closed before the answer's end: orders") as caught:
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


# --- tunnels ----------------------------------------------------------------------------------------------------------


class Tunnel:
    """A proxy's script: it answers CONNECT, and then hands everything on to a server."""

    def __init__(self, port: int, answer: bytes = b"HTTP/1.0 200 Connection established\r\n\r\n") -> None:
        self._port = port
        self._answer = answer

    async def __call__(self, peer: Peer) -> None:
        await peer.answer(self._answer)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        back = asyncio.create_task(self._pump(reader, peer._writer))
        try:
            await self._pump(peer._reader, writer)
        finally:
            writer.transport.abort()
            peer._writer.transport.abort()
            await asyncio.wait({back})

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
        writer.transport.abort()


@asynccontextmanager
async def tunnelled(
    authority: Authority,
    *scripts: Script,
    name: str = HOST,
    answer: bytes = b"HTTP/1.0 200 Connection established\r\n\r\n",
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[tuple[Connections, RawServer, RawServer]]:
    """Yield a client, its proxy, and the server that the proxy leads to."""
    async with (
        RawServer(*scripts, tls=authority.server(name)) as server,
        RawServer(Tunnel(server.port, answer), tls=tls) as proxy,
    ):
        url = f"{'https' if tls else 'http'}://a%40b:c%3Ad@127.0.0.1:{proxy.port}"
        async with aclosing(Connections("https", HOST, url)) as client:
            yield client, proxy, server


@pytest.mark.parametrize("over_tls", [False, True])
async def test_tls_goes_through_a_tunnel_and_its_connection_is_used_again(trusted: Authority, over_tls: bool) -> None:
    """Only the origin sees the request, and only the proxy the password for it."""
    tls = trusted.server("127.0.0.1") if over_tls else None
    async with tunnelled(trusted, Peer.serve, tls=tls) as (client, proxy, server):
        for size in (0, 3_000_000, 1):
            assert (await ask(client, body=b"x" * size)).status == 200
        host = f"Host: {HOST}:443\r\nUser-Agent: azure-functions-singleton\r\n"
        word = base64.b64encode(b"a@b:c:d").decode()
        assert proxy.requests == [
            f"CONNECT {HOST}:443 HTTP/1.1\r\n{host}Proxy-Authorization: Basic {word}\r\n\r\n".encode()
        ]
        assert len(server.peers) == 1
        assert server.requests[0].startswith(b"PUT /a HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\nUser-Agent")
        assert all(b"Proxy-Auth" not in head for head in server.requests)
        assert len(client._open) == 1


@pytest.mark.parametrize("name", ["other.example", "127.0.0.1"])
async def test_whoever_is_at_the_tunnel_s_end_has_to_be_the_origin(
    trusted: Authority, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with tunnelled(trusted, Peer.serve, name=name) as (client, _, server):
        with pytest.raises(Unanswered, match=r"can't connect through the proxy \(certificate verify failed: .*ismatch"):
            await ask(client)
        await client.aclose()
        assert (server.requests, client._open) == ([], set())
        await settled()
        assert not caplog.records, "asyncio tells of an error in a callback"


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 407 X\r\nConnection: keep-alive\r\nContent-Length: 9\r\n\r\n",
        b"HTTP/1.1 502 X\r\n\r\n<html>",
        b"HTTP/1.1 302 X\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_a_proxy_that_opens_no_tunnel_is_named_and_sent_nothing(trusted: Authority, answer: bytes) -> None:
    async with tunnelled(trusted, Peer.serve, answer=answer) as (client, proxy, server):
        told = rf"the proxy 127.0.0.1:\d+ opens no tunnel \({answer[9:12].decode()}\)"
        with pytest.raises(Unanswered, match=told):
            await ask(client)
        await proxy.peers[0].over.wait()
        assert (server.requests, client._open) == ([], set())


@pytest.mark.parametrize("answer", [b"SSH-2.0-OpenSSH_9.6\r\n\r\n", b"HTTP/1.1 101 X\r\n\r\n"])
async def test_nor_is_one_that_speaks_another_protocol(trusted: Authority, answer: bytes) -> None:
    async with tunnelled(trusted, Peer.serve, answer=answer) as (client, _, server):
        with pytest.raises(Unanswered, match=r"no head of an HTTP answer|another protocol"):
            await ask(client)
        assert server.requests == []


async def test_what_a_proxy_says_after_its_answer_is_not_taken_for_the_origin_s(trusted: Authority) -> None:
    async def hearing(peer: Peer) -> None:
        await peer.read()
        await peer.until_closed()

    answer = b"HTTP/1.1 200 X\r\n\r\n" + OK
    async with tunnelled(trusted, hearing, answer=answer) as (client, _, server):
        asking = asyncio.create_task(ask(client))
        await asyncio.wait({asking}, timeout=0.2)
        assert (asking.done(), len(server.requests)) == (False, 1)
        await client.aclose()
        with pytest.raises(Unanswered):
            await asking


@pytest.mark.parametrize("how", [Peer.close, Peer.half_close, Peer.reset])
async def test_a_tunnel_that_is_closed_before_the_handshake_leaves_nothing_behind(trusted: Authority, how: Any) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 X\r\n\r\n")
        how(peer)
        await peer.until_closed()

    del trusted
    async with (
        RawServer(script) as proxy,
        aclosing(Connections("https", HOST, f"http://127.0.0.1:{proxy.port}")) as client,
    ):
        with pytest.raises(Unanswered, match=r"can't connect through the proxy|closed before"):
            await ask(client)
        await client.aclose()
        assert client._open == set()


async def test_giving_up_at_any_time_leaves_nothing_behind(trusted: Authority) -> None:
    async with tunnelled(trusted, Peer.serve) as (_, proxy, _):
        for turns in range(24):
            for closing in (False, True):
                client = Connections("https", HOST, f"http://127.0.0.1:{proxy.port}")
                task = asyncio.create_task(ask(client))
                for _ in range(turns):
                    await asyncio.sleep(0.0005)
                if not closing:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                await client.aclose()
                assert client._open == set()
                await asyncio.gather(task, return_exceptions=True)


async def test_a_tunnel_that_breaks_is_not_asked_again(trusted: Authority) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer()
        await peer.read()
        peer.reset()

    async with tunnelled(trusted, script, Peer.serve) as (client, _, server):
        await ask(client)
        with pytest.raises(Unanswered, match="closed before the answer's end"):
            await ask(client)
        assert len(server.requests) == 2
        await ask(client)
        assert [len(peer.requests) for peer in server.peers] == [2, 1]


@pytest.mark.parametrize("proxy", ["socks5://user:word@127.0.0.1:1", "ftp://127.0.0.1"])
async def test_a_proxy_of_another_kind_is_refused_and_its_password_is_not_told(proxy: str) -> None:
    async with aclosing(Connections("https", HOST, proxy)) as client:
        with pytest.raises(Unanswered, match="a proxy is asked over http or https, not") as caught:
            await ask(client)
        assert "word" not in str(caught.value)

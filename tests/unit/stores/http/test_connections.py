"""Connections to a server: which are used again, and which must not be."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from singleton.stores.http.answers import Reader
from singleton.stores.http.connections import Connections, Unanswered
from tests.support.raw_server import OK, Peer, RawServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from singleton.stores.http.answers import Answer

    Script = Callable[[Peer], Awaitable[object]]


async def ask(client: Connections, method: str = "PUT", target: str = "/a", **more: Any) -> Answer:
    given = {"headers": {}, "body": b"", "most": 1000, "echoed": "x-id", **more}
    return await client.send(method, target, given["headers"], given["body"], given["most"], given["echoed"])


@asynccontextmanager
async def served(*scripts: Script) -> AsyncIterator[tuple[Connections, RawServer]]:
    async with RawServer(*scripts) as server, aclosing(Connections("http", f"127.0.0.1:{server.port}")) as client:
        yield client, server


def saying(*answers: bytes) -> Script:
    """Give these answers, and then hear whatever comes."""

    async def script(peer: Peer) -> None:
        for data in answers:
            await peer.answer(data)
        await peer.until_closed()

    return script


async def settled() -> None:
    """Let what was sent arrive."""
    for _ in range(20):
        await asyncio.sleep(0)


# --- what is sent -----------------------------------------------------------------------------------------------------


async def test_a_request_is_sent_as_it_is_meant() -> None:
    async with served(Peer.serve) as (client, server):
        await ask(
            client, target="/a/b?c=d&e=%20", headers={"x-ms-meta-Some": "caf\xe9 \t\xa0", "Empty": ""}, body=b"12"
        )
        for method in ("GET", "HEAD", "DELETE", "PUT"):
            await ask(client, method)
    host = f"Host: 127.0.0.1:{server.port}\r\nUser-Agent: azure-functions-singleton\r\n".encode()
    assert server.requests == [
        b"PUT /a/b?c=d&e=%20 HTTP/1.1\r\n" + host + b"x-ms-meta-Some: caf\xc3\xa9 \t\xc2\xa0\r\nEmpty: \r\n"
        b"Content-Length: 2\r\n\r\n",
        b"GET /a HTTP/1.1\r\n" + host + b"\r\n",
        b"HEAD /a HTTP/1.1\r\n" + host + b"\r\n",
        b"DELETE /a HTTP/1.1\r\n" + host + b"Content-Length: 0\r\n\r\n",
        b"PUT /a HTTP/1.1\r\n" + host + b"Content-Length: 0\r\n\r\n",
    ]


@pytest.mark.parametrize(
    ("scheme", "netloc", "place", "named"),
    [
        ("https", "a.blob.core.windows.net", ("a.blob.core.windows.net", 443), "a.blob.core.windows.net"),
        ("https", "A.Example:443", ("a.example", 443), "a.example"),
        ("https", "a.example:80", ("a.example", 80), "a.example:80"),
        ("http", "a.example", ("a.example", 80), "a.example"),
        ("http", "[::1]:10000", ("::1", 10000), "[::1]:10000"),
        ("http", "[::1]", ("::1", 80), "[::1]"),
        ("https", "käse.example", ("xn--kse-qla.example", 443), "xn--kse-qla.example"),
    ],
)
def test_a_host_is_named_as_it_is_asked_for(scheme: str, netloc: str, place: tuple[str, int], named: str) -> None:
    client = Connections(scheme, netloc)
    assert client._place == place
    assert f"\r\nHost: {named}\r\n".encode() in client._written("PUT", "/", {}, b"")


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\nb", "a\rb", "\0", "a\r", "\n", "\x7f", "\x1b", "\udc80"])
async def test_no_header_can_bring_another_along(value: str) -> None:
    async with served(Peer.serve) as (client, server):
        with pytest.raises(Unanswered, match="a header can't be sent") as caught:
            await ask(client, headers={"x-ms-lease-id": "1", "Authorization": f"Bearer {value}"})
        assert "Bearer" not in str(caught.value)
        for name in (f"x-ms-meta-{value}", "a b", "a:", "\xe9"):
            with pytest.raises(Unanswered, match="a name can't be sent"):
                await ask(client, headers={name: "1"})
        for target in (f"/a{value}", "/a b", "/\xe9", "/a HTTP/1.1\r\nHost: b"):
            with pytest.raises(Unanswered, match="a name can't be sent"):
                await ask(client, target=target)
    assert server.requests == []


@pytest.mark.parametrize("size", [1, 70_000, 5_000_000])
async def test_a_body_is_sent_with_its_head(size: int) -> None:
    bodies: list[bytes] = []

    async def script(peer: Peer) -> None:
        for _ in range(2):
            bodies.append(await peer.read())
            await peer.say(OK)

    async with served(script) as (client, server):
        for _ in range(2):
            await ask(client, body=b"x" * size)
        assert bodies == [b"x" * size] * 2
        assert len(server.peers) == 1


async def test_nothing_waits_for_more_to_send() -> None:
    async with served(Peer.serve) as (client, _):
        await ask(client)
        ((_, connection),) = client._idle
        found = connection._transport.get_extra_info("socket")
        assert found.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0


# --- used again -------------------------------------------------------------------------------------------------------


async def test_the_connection_that_was_used_last_is_used_first() -> None:
    gates = [asyncio.Event() for _ in range(3)]

    async def script(peer: Peer) -> None:
        await peer.read()
        await gates[len(server.peers) - 1].wait()
        await peer.say(OK)
        await peer.serve()

    async with served(script) as (client, server):
        asking = []
        for _ in gates:
            asking.append(asyncio.create_task(ask(client)))
            await settled()
        for number in (1, 2, 0):
            gates[number].set()
            await asking[number]
        for _ in range(3):
            await ask(client)
        assert [len(peer.requests) for peer in server.peers] == [4, 1, 1]


@pytest.fixture
async def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], Awaitable[None]]:
    """Let so many seconds pass for the loop, and what is due by then happen."""
    loop = asyncio.get_running_loop()
    real, passed = loop.time, 0.0
    monkeypatch.setattr(loop, "time", lambda: real() + passed)

    async def wait(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        await settled()

    return wait


async def test_a_thousand_requests_at_once_are_a_thousand_connections_which_are_closed_when_idle(
    later: Callable[[float], Awaitable[None]],
) -> None:
    all_there = asyncio.Event()
    there = 0

    async def script(peer: Peer) -> None:
        nonlocal there
        await peer.read()
        there += 1
        if there == 1000:
            all_there.set()
        await all_there.wait()
        await peer.say(OK)
        await peer.until_closed()

    async with served(script) as (client, server):
        answers = await asyncio.gather(*(ask(client) for _ in range(1000)))
        assert {answer.status for answer in answers} == {200}
        assert len(server.peers) == len(client._open) == len(client._idle) == 1000
        await later(16)
        assert (len(client._open), len(client._idle), client._timer) == (0, 0, None)


async def test_a_connection_is_closed_some_seconds_after_its_last_use(
    later: Callable[[float], Awaitable[None]],
) -> None:
    async with served(Peer.serve) as (client, server):
        await asyncio.gather(ask(client), ask(client))
        for left in (2, 1, 1, 1):
            await later(8)
            assert len(client._open) == left
            await ask(client)
        assert sorted(len(peer.requests) for peer in server.peers) == [1, 5]


async def test_one_timer_closes_those_that_are_idle(later: Callable[[float], Awaitable[None]]) -> None:
    async with served(Peer.serve) as (client, _):
        await asyncio.gather(ask(client), ask(client))
        timer = client._timer
        await later(8)
        await ask(client)
        assert client._timer is timer
        for left in (1, 0):
            await later(8)
            assert len(client._open) == left


async def test_one_that_was_idle_for_long_is_not_used_even_if_no_timer_ran_meanwhile() -> None:
    """As of a machine that slept."""
    async with served(Peer.serve) as (client, server):
        await ask(client)
        ((since, connection),) = client._idle
        client._idle[0] = since - 15, connection
        await ask(client)
        assert len(server.peers) == 2
        assert not connection.usable


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"x",
        OK + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n" + b"x" * 5000,
    ],
    ids=["close", "HTTP/1.0", "a byte more", "an answer more", "too long"],
)
async def test_a_connection_is_not_used_again_after_an_answer_that_was_its_last(data: bytes) -> None:
    async with served(saying(data, OK)) as (client, server):
        for _ in range(2):
            assert (await ask(client, "GET")).status == 200
            await settled()
            assert client._open == set()
        assert [len(peer.requests) for peer in server.peers] == [1, 1]


async def test_nor_after_an_answer_to_another_request() -> None:
    first = OK.replace(b"\r\n\r\n", b"\r\nX-Id: 1\r\n\r\n")
    async with served(saying(first, first), Peer.serve) as (client, server):
        await ask(client, headers={"x-id": "1"})
        with pytest.raises(Unanswered, match="an answer to another request"):
            await ask(client, headers={"x-id": "2"})
        await ask(client, headers={"x-id": "3"})
        assert [len(peer.requests) for peer in server.peers] == [2, 1]


@pytest.mark.parametrize("status", [200, 413])
async def test_nor_if_the_answer_came_before_the_request_was_sent(status: int) -> None:
    """What is left of the request would be taken for the next one."""

    async def script(peer: Peer) -> None:
        await peer.say(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
        await peer.until_closed()

    async def waiting(peer: Peer) -> None:
        peer._writer.transport.pause_reading()  # type: ignore[attr-defined]
        await asyncio.sleep(0.05)  # the client has connected, and sends
        await script(peer)

    async with served(waiting, Peer.serve) as (client, server):
        assert (await ask(client, body=b"x" * 20_000_000)).status == status
        assert not client._idle
        assert (await ask(client)).status == 200
        assert len(server.peers) == 2


@pytest.mark.parametrize("how", [Peer.close, Peer.half_close, Peer.reset, lambda peer: peer._writer.write(b"x")])
async def test_nor_if_it_was_closed_or_something_came_while_it_was_idle(how: Callable[[Peer], None]) -> None:
    async with served(Peer.serve) as (client, server):
        await ask(client)
        how(server.peers[0])
        await settled()
        await ask(client)
        assert [len(peer.requests) for peer in server.peers] == [1, 1]


async def test_nor_if_it_is_about_to_be_closed() -> None:
    async with served(Peer.serve) as (client, server):
        await ask(client)
        ((_, connection),) = client._idle
        connection._transport.close()  # as a write does that fails; the connection hears of it later
        await ask(client)
        assert len(server.requests) == len(server.peers) == 2


async def test_bytes_before_any_request_are_nobody_s() -> None:
    async def script(peer: Peer) -> None:
        await peer.say(OK)
        await peer.serve()

    async with served(script) as (client, server):
        connection = await client._connected()
        while connection.usable:
            await settled()
        with pytest.raises(Unanswered, match="closed before the request"):
            await connection.ask(b"PUT / HTTP/1.1\r\n\r\n", Reader("PUT", 0))
        assert server.requests == []


# --- closed -----------------------------------------------------------------------------------------------------------


async def test_who_waits_for_an_answer_when_all_is_closed_gets_none() -> None:
    async with served(saying(OK), saying()) as (client, server):
        await ask(client)
        asking = [asyncio.create_task(ask(client)) for _ in range(3)]
        await settled()
        await client.aclose()
        assert client._timer is not None
        assert client._timer.cancelled()
        for task in asking:
            with pytest.raises(Unanswered, match="closed"):
                await task
        assert (client._open, len(server.peers)) == (set(), 3)
        for _ in range(2):
            with pytest.raises(Unanswered, match="closed"):
                await ask(client)
        await client.aclose()
        await settled()
        assert len(server.peers) == 3


async def test_nor_does_who_is_just_connecting(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect, go = loop.create_connection, asyncio.Event()

    async def slowly(*args: Any, **more: Any) -> Any:
        await go.wait()
        return await connect(*args, **more)

    monkeypatch.setattr(loop, "create_connection", slowly)
    async with served(Peer.serve) as (client, server):
        asking = asyncio.create_task(ask(client))
        await settled()
        await client.aclose()
        go.set()
        with pytest.raises(Unanswered, match="closed"):
            await asking
        await settled()
        assert (client._open, server.requests) == (set(), [])


async def test_nor_does_who_is_just_looking_the_host_up(monkeypatch: pytest.MonkeyPatch) -> None:
    go = asyncio.Event()

    async def slowly(*_: object, **__: object) -> Any:
        await go.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", slowly)
    async with RawServer(Peer.serve) as server:
        client = Connections("http", f"blob.example:{server.port}")
        asking = asyncio.create_task(ask(client))
        await settled()
        await client.aclose()
        go.set()
        with pytest.raises(Unanswered, match="closed"):
            await asking
        while client._open:
            await settled()
        assert server.requests == []


def test_a_loop_may_be_closed_right_after_its_connections() -> None:
    async def main() -> None:
        async with RawServer(Peer.serve) as server:
            client = Connections("http", f"127.0.0.1:{server.port}")
            await asyncio.gather(ask(client), ask(client))
            await client.aclose()

    asyncio.run(main())  # a socket that is left open is an error of this test

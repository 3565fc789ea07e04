"""Servers that misbehave, and callers that give up: a request is sent once, and gets its own answer or none."""

from __future__ import annotations

import asyncio
import socket
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Self

import pytest

from singleton.stores.http import connections
from singleton.stores.http.connections import Connections, Unanswered
from tests.support.raw_server import OK, Peer, RawServer
from tests.unit.stores.http.test_connections import ask, later, saying, served, settled

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["later"]  # a fixture
BODY = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nab\r\n1\r\nc\r\n0\r\nA: b\r\n\r\n"
ENDS: list[Callable[[Peer], None]] = [Peer.close, Peer.half_close, Peer.reset]


@pytest.mark.parametrize("data", [BODY, b"HTTP/1.1 100 Continue\r\n\r\n" + BODY, CHUNKS])
async def test_an_answer_may_come_byte_for_byte(data: bytes) -> None:
    async def script(peer: Peer) -> None:
        for _ in range(3):
            await peer.read()
            await peer.say(data, slowly=True)
        await peer.until_closed()

    async with served(script) as (client, server):
        for _ in range(3):
            assert (await ask(client, "GET")).body == b"abc"
        assert len(server.peers) == 1


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("used", [False, True], ids=["new", "used before"])
@pytest.mark.parametrize("data", [BODY, CHUNKS])
async def test_an_answer_that_breaks_off_is_none_wherever_it_does(
    data: bytes, used: bool, end: Callable[[Peer], None]
) -> None:
    """Nor is its request sent again, on whatever connection it was sent."""
    async with Breaking(data, end, used=used) as breaking:
        for stop in range(0, len(data), 3):
            breaking.stop = stop
            before = len(breaking.server.requests)
            if used:
                await ask(breaking.client, "GET")
            with pytest.raises(Unanswered, match="closed before the answer's end"):
                await ask(breaking.client, "GET")
            assert len(breaking.server.requests) - before == 1 + used
        assert breaking.client._idle == type(breaking.client._idle)()


class Breaking:
    """A client and a server that breaks its answers off; a connection is ``used`` before it is."""

    stop = 0

    def __init__(self, data: bytes, end: Callable[[Peer], None], *, used: bool) -> None:
        async def script(peer: Peer) -> None:
            if used:
                await peer.answer()
            await peer.answer(data[: self.stop])
            await settled()
            end(peer)
            await peer.until_closed()

        self.server = RawServer(script)

    async def __aenter__(self) -> Self:
        await self.server.__aenter__()
        self.client = Connections("http", f"127.0.0.1:{self.server.port}")
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.aclose()
        await self.server.__aexit__()


@pytest.mark.parametrize("end", [Peer.close, Peer.half_close])
async def test_a_body_without_a_length_ends_with_its_connection(end: Callable[[Peer], None]) -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 503 X\r\n\r\nabc")
        await settled()
        end(peer)
        await peer.until_closed()

    async with served(script) as (client, server):
        for _ in range(2):
            answer = await ask(client)
            assert (answer.status, answer.body) == (503, b"abc")
        assert len(server.peers) == 2


@pytest.mark.parametrize("end", ENDS)
async def test_but_not_where_it_is_what_was_asked_for(end: Callable[[Peer], None]) -> None:
    """Half of it would be taken for the whole."""

    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 200 X\r\n\r\nabc")
        await settled()
        end(peer)
        await peer.until_closed()

    async with served(script) as (client, _):
        with pytest.raises(Unanswered, match="a body whose end can't be told"):
            await ask(client, "GET")


async def test_nor_with_a_connection_that_is_reset() -> None:
    async def script(peer: Peer) -> None:
        await peer.answer(b"HTTP/1.1 503 X\r\n\r\nabc")
        await settled()
        peer.reset()

    async with served(script) as (client, _):
        with pytest.raises(Unanswered, match="closed before the answer's end"):
            await ask(client)


@pytest.mark.parametrize(
    "data",
    [b"\x15\x03\x01\x00\x02\x02\x28", b"SSH-2.0", b"HTTP/1.1 200 OK\nETag", b"HTTP/1.1 200 OK\r\nA\r\n\r\n", b"\0"],
)
async def test_nonsense_is_a_failure_at_once_and_closes_the_connection(data: bytes) -> None:
    if data.endswith(b"ETag"):
        data += b"\r\n\r\n"
    async with served(saying(data), saying(OK)) as (client, server):
        with pytest.raises(Unanswered, match=r"no (HTTP answer|head of)"):
            await ask(client)
        assert (await ask(client)).status == 200
        assert len(server.requests) == 2
        await asyncio.wait_for(server.peers[0].over.wait(), 5)


async def test_a_server_that_answers_and_stops_listening_is_heard() -> None:
    """It may say 503 and close without a look at the body."""

    async def script(peer: Peer) -> None:
        await peer._reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
        await settled()
        peer.half_close()
        await peer.until_closed()

    async with served(script) as (client, _):
        assert (await ask(client, body=b"x" * 100_000)).status == 503


# --- giving up --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", BODY[:10], BODY[:-1], CHUNKS[:-1]])
async def test_who_gives_up_closes_the_connection(data: bytes) -> None:
    async with served(saying(data), saying(OK)) as (client, server):
        task = asyncio.create_task(ask(client))
        await settled()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.peers[0].over.wait(), 5)
        assert (await ask(client)).status == 200
        assert [len(peer.requests) for peer in server.peers] == [1, 1]


async def test_wherever_it_is_given_up_no_connection_is_left_that_is_not_idle_and_no_answer_goes_astray() -> None:
    async def serve(peer: Peer) -> None:
        while True:
            await peer.read()
            target = peer.requests[-1].split(b" ")[1]
            await peer.say(b"HTTP/1.1 200 OK\r\nETag: %s\r\nContent-Length: 2\r\n\r\nok" % target)

    async with served(serve) as (client, _):
        for turns in range(40):
            tasks = [asyncio.create_task(ask(client, "GET", f"/{turns}-{number}")) for number in range(3)]
            for _ in range(turns % 20):
                await asyncio.sleep(0)
            tasks[turns % 3].cancel()
            for number, task in enumerate(tasks):
                try:
                    assert (await task).headers["etag"] == f"/{turns}-{number}"
                except asyncio.CancelledError:
                    assert number == turns % 3
        await settled()
        assert {connection for _, connection in client._idle} == client._open
        assert all(connection._reader is None for connection in client._open)


async def test_who_is_cancelled_as_the_answer_comes_leaves_nothing_behind() -> None:
    async with served(saying(OK, OK), saying(OK)) as (client, server):
        await ask(client)
        ((_, connection),) = client._idle
        task = asyncio.create_task(ask(client))
        await asyncio.sleep(0)
        connection.get_buffer(-1)[: len(OK)] = OK
        connection.buffer_updated(len(OK))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await ask(client)).status == 200
        assert len(server.peers) == 2


async def test_giving_up_while_connecting_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    async with RawServer(Peer.serve) as server:
        for turns in range(12):
            client = Connections("http", f"127.0.0.1:{server.port}")
            task = asyncio.create_task(ask(client))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.aclose()
            assert client._open == set()


# --- connecting -------------------------------------------------------------------------------------------------------


async def test_nobody_there() -> None:
    async with RawServer() as server:
        pass
    async with aclosing(Connections("http", f"127.0.0.1:{server.port}")) as client:
        with pytest.raises(Unanswered, match=r"^can't connect \(Connection refused\)$") as caught:
            await ask(client)
        assert caught.value.__cause__ is None


async def test_a_host_that_has_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object, **__: object) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    async with aclosing(Connections("http", "nobody.invalid")) as client:
        with pytest.raises(Unanswered, match=r"^can't connect \(Name or service not known\)$"):
            await ask(client)


async def test_a_host_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(connections, "CONNECTING", 0.02)
    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    async with aclosing(Connections("http", "127.0.0.1:1")) as client:
        with pytest.raises(Unanswered, match=r"^can't connect \(TimeoutError\)$"):
            await ask(client)


@pytest.mark.parametrize("netloc", ["127.0.0.1:99999", f"{'x' * 64}.example", "a..example"])
async def test_a_host_that_is_none(netloc: str) -> None:
    async with aclosing(Connections("http", netloc)) as client:
        with pytest.raises(ValueError, match=r"Port out of range|label"):
            await ask(client)


@pytest.mark.parametrize("refused", [False, True], ids=["does not answer", "refuses"])
async def test_the_next_address_is_tried_if_one(refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network may have IPv6 addresses and no way there."""
    loop: Any = asyncio.get_running_loop()
    async with RawServer(Peer.serve) as server:

        async def addresses(*_: object, **__: object) -> Any:
            tcp = socket.SOCK_STREAM, socket.IPPROTO_TCP, ""
            return [
                (socket.AF_INET6, *tcp, ("::1", server.port, 0, 0)),
                (socket.AF_INET, *tcp, ("127.0.0.1", server.port)),
            ]

        async def connect(sock: socket.socket, address: Any) -> None:
            if sock.family == socket.AF_INET6:
                if refused:
                    raise ConnectionRefusedError
                await asyncio.Event().wait()
            await type(loop).sock_connect(loop, sock, address)

        monkeypatch.setattr(loop, "getaddrinfo", addresses)
        monkeypatch.setattr(loop, "sock_connect", connect)
        async with aclosing(Connections("http", f"two.example:{server.port}")) as client:
            async with asyncio.timeout(5):
                assert (await ask(client)).status == 200
            await settled()
            assert (client._connecting, len(client._open)) == (set(), 1)


async def test_addresses_of_both_kinds_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET6, f"::{number}") for number in range(3)] + [(socket.AF_INET, "10.0.0.1")] * 2
    found.append((socket.AF_INET, "10.0.0.2"))

    async def addresses(*_: object, **__: object) -> Any:
        return [(kind, 0, 0, "", (address, 80)) for kind, address in dict.fromkeys(found)]

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", addresses)
    assert await connections._addresses(loop, "a.example", 80) == ["::0", "10.0.0.1", "::1", "10.0.0.2", "::2"]
    for literal in ("127.0.0.1", "::1"):
        assert await connections._addresses(loop, literal, 80) == [literal]


async def test_a_host_is_looked_up_once_for_all_who_ask_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lookup takes a thread of few. Who gives up does not end it for the others, and the next one looks again."""
    go, lookups = asyncio.Event(), 0

    async def slowly(*_: object, **__: object) -> Any:
        nonlocal lookups
        lookups += 1
        await go.wait()
        if lookups == 1:
            raise socket.gaierror(socket.EAI_AGAIN, "try again")
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", slowly)
    monkeypatch.setattr(connections, "_SLOW", 60.0)  # no further lookup beside a first that a busy machine delays
    async with RawServer(Peer.serve) as server, aclosing(Connections("http", f"blob.example:{server.port}")) as client:
        for failing in (True, False):
            go.clear()
            asking = [asyncio.create_task(ask(client)) for _ in range(20)]
            await settled()
            asking[0].cancel()
            await settled()
            go.set()
            results = await asyncio.gather(*asking, return_exceptions=True)
            assert isinstance(results[0], asyncio.CancelledError)
            for result in results[1:]:
                assert str(result) == "can't connect (try again)" if failing else not isinstance(result, BaseException)
        assert lookups == 2


async def test_a_lookup_for_which_nobody_waits_any_more_is_ended_with_all(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object, **__: object) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    client = Connections("http", "blob.example:1")
    asking = asyncio.create_task(ask(client))
    await settled()
    asking.cancel()
    await asyncio.wait({asking})
    await client.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_lookup_that_is_stuck_holds_up_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """A further lookup begins beside it."""
    lookups = 0

    async def stuck_once(*_: object, **__: object) -> Any:
        nonlocal lookups
        lookups += 1
        if lookups == 1:
            await asyncio.Event().wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(connections, "_SLOW", 0.01)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", stuck_once)
    async with RawServer(Peer.serve) as server, aclosing(Connections("http", f"blob.example:{server.port}")) as client:
        answers = await asyncio.gather(*(ask(client) for _ in range(20)))
        assert {answer.status for answer in answers} == {200}
        assert lookups >= 2
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_the_more_lookups_are_stuck_the_later_the_next_one_begins(
    monkeypatch: pytest.MonkeyPatch, later: Callable[[float], Awaitable[None]]
) -> None:
    lookups = 0

    async def stuck(*_: object, **__: object) -> Any:
        nonlocal lookups
        lookups += 1
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", stuck)
    async with aclosing(Connections("http", "blob.example:1")) as client:
        asking = [asyncio.create_task(ask(client)) for _ in range(20)]
        await settled()
        begun = []
        for _ in range(20):
            await later(0.5)
            begun.append(lookups)
        assert begun == [2, 2, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6]
        for task in asking:
            task.cancel()
        await asyncio.wait(asking)


@pytest.mark.parametrize("recent", [True, False])
async def test_while_lookups_are_stuck_addresses_serve_that_answered_of_late(
    recent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept connections go to the same addresses all the while."""
    lookups = 0

    async def once(*_: object, **__: object) -> Any:
        nonlocal lookups
        lookups += 1
        if lookups > 1:
            await asyncio.Event().wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", server.port))]

    monkeypatch.setattr(connections, "_SLOW", 0.01)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", once)
    async with RawServer(Peer.serve) as server, aclosing(Connections("http", f"blob.example:{server.port}")) as client:
        await ask(client)
        client._idle.pop()[1].abort()
        if recent:
            assert (await ask(client)).status == 200
            return
        client._answered -= 60
        asking = asyncio.create_task(ask(client))
        await asyncio.wait({asking}, timeout=0.1)
        assert not asking.done()
        asking.cancel()
        await asyncio.wait({asking})

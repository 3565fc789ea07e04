"""Wires: each host has its own, through real sockets; cutting one leaves the others alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from simulator.nemesis.wires import Wire, WireError, Wires, services_of
from simulator.proxy.actions import DelayReply, Hang, Twice, everything
from tests.support.scripted_server import Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator

GET = b"GET /made/container/blob HTTP/1.1\r\nhost: made\r\n\r\n"


@pytest.fixture
def wires() -> Iterator[Wires]:
    running = Wires()
    running.start()
    yield running
    running.stop()
    assert not running._thread.is_alive()


def storage(server: ScriptedServer) -> str:
    blobs = server.connection_string
    return blobs + blobs[blobs.index("BlobEndpoint") :].replace("Blob", "Queue")


class Client:
    """One kept-alive connection to the blobs."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def connect(self) -> None:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._wire.blobs.port)

    async def ask(self) -> bytes:
        """Send a request and return the first line of the reply; nothing if the connection was reset."""
        try:
            self._writer.write(GET)
            return await self._reader.readline()
        except ConnectionError:
            return b""

    async def rest(self) -> None:
        """Read the reply to its end."""
        while (await self._reader.readline()).strip():
            pass

    def close(self) -> None:
        self._writer.transport.abort()


async def connected(wire: Wire) -> Client:
    client = Client(wire)
    await client.connect()
    return client


async def test_a_cut_wire_loses_its_connections_and_no_other_does(wires: Wires) -> None:
    async with ScriptedServer(Answer(200)) as server:
        first, second = [await asyncio.to_thread(wires.open, storage(server)) for _ in range(2)]
        clients = [await connected(first), await connected(second)]
        for client in clients:
            assert b"200" in await client.ask()
            await client.rest()
        rules = first.add(everything, Hang())
        hanging = asyncio.ensure_future(clients[0].ask())
        await asyncio.sleep(0.02)
        assert not hanging.done()
        assert b"200" in await clients[1].ask()
        await clients[1].rest()
        first.remove(rules)
        first.cut()
        assert await asyncio.wait_for(hanging, 60) == b""
        assert b"200" in await clients[1].ask()  # its kept-alive connection is still there
        again = await connected(first)
        assert b"200" in await again.ask()
        for client in (*clients, again):
            client.close()


async def test_an_idle_connection_that_was_forgotten_loses_requests_without_a_word_and_new_connections_work(
    wires: Wires,
) -> None:
    async with ScriptedServer(Answer(200)) as server:
        wire, other = [await asyncio.to_thread(wires.open, storage(server)) for _ in range(2)]
        slow = wire.add(everything, DelayReply(0.1))
        clients = [await connected(wire), await connected(other)]
        busy = asyncio.ensure_future(clients[0].ask())
        while not server.requests:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.001)
        wire.forget()
        assert b"200" in await busy, "a connection with a request under way is not idle"
        await clients[0].rest()
        assert b"200" in await clients[0].ask()
        await clients[0].rest()
        wire.remove(slow)
        wire.forget()
        before = len(server.requests)
        lost = asyncio.ensure_future(clients[0].ask())
        for client in (clients[1], await connected(wire)):
            assert b"200" in await client.ask()
            await client.rest()
            client.close()
        await asyncio.sleep(0.02)
        assert (lost.done(), len(server.requests)) == (False, before + 2)
        clients[0].close()
        await asyncio.gather(lost, return_exceptions=True)


async def test_a_doubled_request_arrives_twice_and_is_answered_once(wires: Wires) -> None:
    async with ScriptedServer(Answer(200)) as server:
        wire = await asyncio.to_thread(wires.open, storage(server))
        wire.add(everything, Twice(0.0))
        client = await connected(wire)
        assert b"200" in await client.ask()
        async with asyncio.timeout(60):
            while len(server.requests) < 2:  # noqa: ASYNC110 - the server has no event for it
                await asyncio.sleep(0.005)
        client.close()


async def test_a_wire_that_is_closed_takes_no_connection(wires: Wires) -> None:
    async with ScriptedServer(Answer(200)) as server:
        wire = await asyncio.to_thread(wires.open, storage(server))
        await asyncio.to_thread(wires.close, wire)
        with pytest.raises(OSError, match=r"."):
            await connected(wire)


def test_the_connection_string_leads_through_the_wire(wires: Wires) -> None:
    text = "AccountName=a;BlobEndpoint=http://127.0.0.1:71/a;QueueEndpoint=http://127.0.0.1:72/a;"
    wire = wires.open(text)
    through = services_of(wire.connection_string)
    assert through["blob"] == wire.blobs.port
    assert not set(through.values()) & {71, 72}
    assert wire.connection_string.startswith("AccountName=a;")


@pytest.mark.parametrize(
    "text",
    [
        "DefaultEndpointsProtocol=https;AccountName=a;AccountKey=secret;EndpointSuffix=core.windows.net",
        "BlobEndpoint=https://127.0.0.1:1/a;QueueEndpoint=https://127.0.0.1:2/a;AccountKey=secret",
        "BlobEndpoint=http://127.0.0.1:1/a;AccountKey=secret",
        "BlobEndpoint=http://127.0.0.1/a;QueueEndpoint=http://127.0.0.1/a;AccountKey=secret",
    ],
)
def test_a_storage_behind_which_no_proxy_can_stand_is_refused_without_its_key(text: str) -> None:
    with pytest.raises(WireError, match="does not read HTTPS") as caught:
        services_of(text)
    assert "secret" not in str(caught.value)


def test_wires_that_never_ran_can_be_stopped() -> None:
    Wires().stop()

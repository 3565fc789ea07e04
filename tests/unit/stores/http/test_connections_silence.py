"""Idle connections that die without a word: after one request without an answer the next request dials."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from singleton.locking.renewals import AT_A_TIME
from singleton.stores.http.connections import Connections, Unanswered
from tests.support.raw_server import OK, Peer, RawServer
from tests.unit.stores.http.test_connections import ask, served, settled
from tests.unit.stores.http.test_connections_tls import Authority, authority, trusted
from tests.unit.stores.http.test_proxy import tunnelled

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.stores.http.test_connections import Script

__all__ = ["authority", "trusted"]  # fixtures
IDLE = 4
LOST = "/lost"
"""The target of a request that gets no answer from the scripts below."""


async def dying(peer: Peer) -> None:
    """Answer once, and then hear requests without a word."""
    await peer.answer()
    while True:
        await peer.read()


async def up_to_the_lost(peer: Peer) -> None:
    while True:
        await peer.read()
        if peer.requests[-1].startswith(b"PUT /lost "):
            return
        await peer.say(OK)


async def losing(peer: Peer) -> None:
    await up_to_the_lost(peer)
    await peer.until_closed()


async def resetting(peer: Peer) -> None:
    await up_to_the_lost(peer)
    peer.reset()


class Asking:
    """A request with a time limit, on its way."""

    def __init__(self, client: Connections, target: str = "/a") -> None:
        self._limit = asyncio.timeout(None)
        self.task = asyncio.create_task(self._ask(client, target))

    async def _ask(self, client: Connections, target: str) -> None:
        async with self._limit:
            await ask(client, target=target)

    async def times_out(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time())
        with pytest.raises(TimeoutError):
            await self.task

    async def is_cancelled(self) -> None:
        self.task.cancel()
        await asyncio.wait({self.task})
        assert self.task.cancelled()


async def asking(client: Connections, server: RawServer, target: str = "/a") -> Asking:
    """Return a request that the server has got."""
    before = len(server.requests)
    request = Asking(client, target)
    for _ in range(1000):
        if len(server.requests) > before:
            break
        await asyncio.sleep(0)
    return request


async def idle(client: Connections, number: int = IDLE) -> None:
    """Leave so many connections idle."""
    await asyncio.gather(*(ask(client) for _ in range(number)))
    assert len(client._idle) == number


async def test_after_a_request_that_got_no_answer_in_time_no_older_connection_is_used() -> None:
    async with served(*[dying] * IDLE, Peer.serve) as (client, server):
        await idle(client)
        await (await asking(client, server)).times_out()
        for _ in range(3):
            assert (await ask(client)).status == 200
        assert sorted(len(peer.requests) for peer in server.peers) == [1, 1, 1, 2, 3]
        assert len(client._open) == 1


@pytest.mark.parametrize("how", [Peer.reset, Peer.close, Peer.half_close])
async def test_nor_after_one_whose_connection_was_cut_off(how: Callable[[Peer], None]) -> None:
    async def cut_off(peer: Peer) -> None:
        await peer.answer()
        await peer.read()
        how(peer)
        await peer.until_closed()

    async with served(*[cut_off] * IDLE, Peer.serve) as (client, server):
        await idle(client)
        with pytest.raises(Unanswered, match="closed before the answer's end"):
            await ask(client)
        assert (await ask(client)).status == 200
        assert (len(server.peers), len(client._open)) == (IDLE + 1, 1)


async def test_requests_that_were_under_way_as_the_connections_died_are_lost_once_each() -> None:
    async with served(*[dying] * IDLE, Peer.serve) as (client, server):
        await idle(client)
        requests = [await asking(client, server) for _ in range(IDLE // 2)]
        for request in requests:
            await request.times_out()
        assert (await ask(client)).status == 200
        assert len(server.peers) == IDLE + 1


async def test_a_caller_that_goes_away_says_nothing_about_connections() -> None:
    async with served(*[dying] * IDLE, Peer.serve) as (client, server):
        await idle(client)
        older = [connection for _, connection in client._idle][:-1]
        await (await asking(client, server)).is_cancelled()
        await settled()
        assert not client._cancelled, "the caller's task, and its context, is not kept"
        assert client._kept() is older[-1]
        assert len(server.peers) == IDLE


async def test_a_caller_that_goes_away_after_the_limit_does() -> None:
    async with served(*[dying] * IDLE, Peer.serve) as (client, server):
        await idle(client)
        request = await asking(client, server)
        request._limit.reschedule(asyncio.get_running_loop().time())
        asyncio.get_running_loop().call_soon(request.task.cancel)
        await asyncio.wait({request.task})
        await ask(client)
        assert len(server.peers) == IDLE + 1


async def test_a_new_connection_without_an_answer_says_nothing_about_older_ones() -> None:
    async with served(Peer.serve, losing) as (client, server):
        await ask(client)
        kept = client._idle.pop()
        await (await asking(client, server, LOST)).times_out()
        client._idle.append(kept)
        await ask(client)
        assert [len(peer.requests) for peer in server.peers] == [2, 1]


async def test_a_connection_that_was_answered_since_the_lost_request_was_sent_is_used() -> None:
    async with served(losing) as (client, server):
        await idle(client, 3)
        lost = await asking(client, server, LOST)
        await ask(client)
        await lost.times_out()
        await ask(client)
        assert len(server.peers) == 3
        await asyncio.gather(ask(client), ask(client))
        assert len(server.peers) == 4


async def test_so_it_is_through_a_proxy() -> None:
    async with (
        RawServer(*[dying] * IDLE, Peer.serve) as proxy,
        aclosing(Connections("http", "orders.example", f"http://127.0.0.1:{proxy.port}")) as client,
    ):
        await idle(client)
        await (await asking(client, proxy)).times_out()
        assert (await ask(client)).status == 200
        assert (len(proxy.peers), len(client._open)) == (IDLE + 1, 1)


async def test_and_through_tunnels_of_a_proxy(trusted: Authority) -> None:
    async with tunnelled(trusted, *[dying] * IDLE, Peer.serve) as (client, proxy, server):
        await idle(client)
        await (await asking(client, server)).times_out()
        assert (await ask(client)).status == 200
        assert (len(proxy.peers), len(server.peers), len(client._open)) == (IDLE + 1, IDLE + 1, 1)


@pytest.mark.parametrize("script", [losing, resetting])
async def test_one_lost_request_of_ten_thousand_leases_opens_a_handful_of_connections(script: Script) -> None:
    """As many requests are under way at a time as renewals of a process may be."""
    turns = 10_000 // AT_A_TIME
    late = asyncio.Event()

    async def renew(client: Connections, number: int) -> None:
        for turn in range(turns):
            if (number, turn) != (0, turns // 2):
                await ask(client)
                if turn > 0.9 * turns:
                    late.set()
                continue
            request = Asking(client, LOST)
            if script is losing:
                await late.wait()
                await request.times_out()
            else:
                with pytest.raises(Unanswered):
                    await request.task

    async with served(script) as (client, server):
        await asyncio.gather(*(renew(client, number) for number in range(AT_A_TIME)))
        assert AT_A_TIME <= len(server.peers) <= AT_A_TIME + 5

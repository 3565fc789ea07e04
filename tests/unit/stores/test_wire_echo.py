"""An answer counts only for the request that it names: others, unasked or late, would be taken for the next one's."""

from __future__ import annotations

import asyncio
import base64
import hmac
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

import pytest

from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from singleton.stores.access import Request, text_to_sign
from singleton.stores.protocol import StoreFailure
from tests.support.scripted_server import DATE, LEASED, Answer, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.direct_blob import DirectBlobStore

    Store = DirectBlobStore | AzureBlobLeaseStore

MINE = LEASED["x-ms-lease-id"]
ID = "x-ms-client-request-id"
KEY = "bm90IGEgc2VjcmV0"


class Asked(NamedTuple):
    """A request as the server saw it: the last part of its path, and its id."""

    name: str
    id: str


def granted(to: Asked, *, named: bool = True) -> bytes:
    """Grant a lease. The ETag tells which blob it is of."""
    echo = f"{ID}: {to.id}\r\n" if named else ""
    return (
        f'HTTP/1.1 201 X\r\nContent-Length: 0\r\nETag: "{to.name}"\r\nLast-Modified: {DATE}\r\n'
        f"x-ms-lease-id: {MINE}\r\n{echo}\r\n"
    ).encode()


def refused(to: Asked) -> bytes:
    """Say that somebody else has the lease, with a body."""
    return (
        f"HTTP/1.1 409 X\r\nContent-Length: 4\r\nx-ms-error-code: LeaseAlreadyPresent\r\n{ID}: {to.id}\r\n\r\n<a/>"
    ).encode()


class Echoing:
    """A server that answers each request with what ``says`` makes of all that it was asked."""

    def __init__(self, says: Callable[[list[Asked]], bytes]) -> None:
        self.asked: list[Asked] = []
        self.connections: list[asyncio.StreamWriter] = []
        self._says = says
        self._tasks: list[asyncio.Task[None] | None] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections.append(writer)
        self._tasks.append(asyncio.current_task())
        try:
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = dict(line.partition(": ")[::2] for line in lines[1:])
                self.asked.append(Asked(lines[0].split(" ")[1].partition("?")[0].rpartition("/")[2], headers[ID]))
                writer.write(self._says(self.asked))
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    async def ended(self) -> None:
        for writer in self.connections:
            writer.transport.abort()
        await asyncio.gather(*filter(None, self._tasks))


@asynccontextmanager
async def answering(says: Callable[[list[Asked]], bytes]) -> AsyncIterator[tuple[Store, Echoing]]:
    echoing = Echoing(says)
    server = await asyncio.start_server(echoing.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    account = StorageAccount(
        f"DefaultEndpointsProtocol=http;AccountName=made;AccountKey={KEY};BlobEndpoint=http://127.0.0.1:{port}/made"
    )
    try:
        async with aclosing(open_container(account, "locks")) as store:
            yield store, echoing
    finally:
        server.close()
        await echoing.ended()


@pytest.mark.parametrize("late", [granted, refused])
async def test_a_late_answer_is_not_taken_for_that_to_the_next_request(late: Callable[[Asked], bytes]) -> None:
    """It would grant a lock that somebody else has, and all that follow on this connection would be one behind."""

    def says(asked: list[Asked]) -> bytes:
        return (late(asked[0]) if len(asked) == 2 else b"") + granted(asked[-1])

    async with answering(says) as (store, server):
        assert await store.acquire("a", MINE, 15) == '"a"'
        with pytest.raises(StoreFailure, match="an answer to another request") as caught:
            await store.acquire("b", MINE, 15)
        assert (caught.value.status, caught.value.meaning) == (None, "transient")
        assert [await store.acquire(name, MINE, 15) for name in "bcd"] == ['"b"', '"c"', '"d"']
        assert len(server.connections) == 2, "only the connection that it came on is closed"


async def test_an_answer_that_came_while_nothing_was_asked_is_not_taken_for_that_to_the_next_request() -> None:
    async with answering(lambda asked: granted(asked[-1])) as (store, server):
        await store.acquire("a", MINE, 15)
        server.connections[0].write(granted(server.asked[0]))
        for _ in range(10):  # it comes before the next request
            await asyncio.sleep(0)
        assert await store.acquire("b", MINE, 15) == '"b"'
        assert len(server.connections) == 2


async def test_of_two_answers_at_once_the_second_is_nobody_s() -> None:
    async with answering(lambda asked: granted(asked[-1]) * 2) as (store, server):
        assert [await store.acquire(name, MINE, 15) for name in "abc"] == ['"a"', '"b"', '"c"']
        assert len(server.asked) == 3


async def test_an_answer_that_names_no_request_is_judged_by_what_it_says() -> None:
    """A proxy's own errors name none."""
    async with answering(lambda asked: granted(asked[-1], named=False)) as (store, server):
        assert [await store.acquire(name, MINE, 15) for name in "ab"] == ['"a"', '"b"']
        assert len(server.connections) == 1


async def test_each_request_has_an_id_of_its_own_which_is_signed() -> None:
    async with ScriptedServer(Answer(201, LEASED)) as server:
        for _ in range(2):
            async with aclosing(open_container(StorageAccount(server.connection_string), "locks")) as store:
                await store.acquire("job", MINE, 15)
                await store.acquire("job", MINE, 15)
    ids = [headers[ID] for _, headers in server.requests]
    assert len(set(ids)) == 4
    assert all(each.isascii() and each.isprintable() and len(each) < 40 for each in ids)
    for _, headers in server.requests:
        own = {name: value for name, value in headers.items() if name.startswith("x-ms-")}
        signed = text_to_sign(Request("PUT", "/made/locks/job", "comp=lease", own), "made")
        assert headers[ID] in signed
        signature = base64.b64encode(hmac.digest(b"not a secret", signed.encode(), "sha256")).decode()
        assert headers["authorization"] == f"SharedKey made:{signature}"

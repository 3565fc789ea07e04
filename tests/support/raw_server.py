"""A server on a real socket that does with each connection what the test says."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class Peer:
    """The server's end of a connection.

    Attributes:
        requests: the heads of the requests that came on it.
        over: set when its script has ended: it failed, or the client closed the connection, or all was said.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.requests: list[bytes] = []
        self.over = asyncio.Event()

    async def read(self) -> bytes:
        """Read a request; return its body.

        Raises:
            EOFError: the client has closed the connection.
        """
        head = await self._reader.readuntil(b"\r\n\r\n")
        self.requests.append(head)
        length = [line[16:] for line in head.split(b"\r\n") if line.startswith(b"Content-Length: ")]
        return await self._reader.readexactly(int(length[0])) if length else b""

    async def say(self, data: bytes, *, slowly: bool = False) -> None:
        """Send bytes; slowly: one for one, each in a packet of its own."""
        for piece in [data[number : number + 1] for number in range(len(data))] if slowly else [data]:
            self._writer.write(piece)
            await self._writer.drain()
            await asyncio.sleep(0)

    async def answer(self, data: bytes = OK) -> None:
        """Answer the next request."""
        await self.read()
        await self.say(data)

    async def serve(self) -> None:
        """Answer all requests, to the end of the connection."""
        while True:
            await self.answer()

    async def until_closed(self) -> bytes:
        """Return what else comes before the client closes the connection."""
        return await self._reader.read()

    def half_close(self) -> None:
        """Say that nothing more comes."""
        self._writer.write_eof()

    def reset(self) -> None:
        """Cut the connection off, so that the client's end learns of it by an error."""
        found = self._writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self._writer.transport.abort()

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


class RawServer:
    """Does to the first connection what the first script says, and so on; to the last ones what the last one says.

    Attributes:
        port: where it listens.
        peers: its ends of all connections.
    """

    def __init__(self, *scripts: Callable[[Peer], Awaitable[object]], tls: ssl.SSLContext | None = None) -> None:
        self._scripts = scripts
        self._tls = tls
        self.peers: list[Peer] = []
        self._tasks: list[asyncio.Task[object] | None] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls, backlog=2048)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in filter(None, self._tasks):
            task.cancel()
        await asyncio.gather(*filter(None, self._tasks), return_exceptions=True)

    @property
    def requests(self) -> list[bytes]:
        """The heads of all requests, by their connections."""
        return [head for peer in self.peers for head in peer.requests]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        self.peers.append(peer)
        self._tasks.append(asyncio.current_task())
        try:
            with suppress(EOFError, ConnectionError, asyncio.CancelledError):
                await self._scripts[min(len(self.peers), len(self._scripts)) - 1](peer)
        finally:
            writer.transport.abort()
            peer.over.set()
            with suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()

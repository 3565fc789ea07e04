"""One request and the two connections that it goes through, as an action sees them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simulator.proxy import wire

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

_GRANTED = 201
# Linger is on with time 0: the socket is closed by a reset, and no port stays in a waiting state.
RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyRequest:
    """One request through the proxy."""

    number: int
    """0 for the proxy's first."""
    method: str
    path: str
    """Decoded, with the account and without the query: `/devstoreaccount1/webjobshost/locks/...`."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By lower-case name."""

    @property
    def operation(self) -> str:
        """One word: the lease action, else `comp` (`metadata`...), else the method (`put`, `get`, `delete`...).

        Operations on a container or queue service resource have its type before them: `container put`.
        """
        word = self.headers.get("x-ms-lease-action") or self.query.get("comp") or self.method.lower()
        kind = self.query.get("restype")
        return f"{kind} {word}" if kind else word


class Exchange:
    """What an action can do with a request; the requests of a connection come one after the other."""

    def __init__(
        self,
        target: tuple[str, int],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        later: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """Serve a client's connection; `later` gets the tasks that outlive the connection."""
        self._later = later
        self._target = target
        self._reader = reader
        self._writer = writer
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.forgotten = False
        """Whether the network has forgotten the client's connection: all later requests on it are lost."""
        self.when_granted: Callable[[ProxyRequest], None] = lambda _: None
        """Is called with each request by which the server granted a lease, whether the client hears of it or not."""
        self.message: wire.HttpMessage
        self.request: ProxyRequest

    async def forward(self) -> wire.HttpMessage:
        """Send the request to the server and return its reply; the client knows nothing of it yet."""
        if self._server is None or self._server[0].at_eof():
            if self._server is not None:
                self._server[1].close()
            self._server = await asyncio.open_connection(*self._target, limit=wire.LIMIT)
        reader, writer = self._server
        writer.write(self.message.raw)
        answer = await wire.read_response(reader, method=self.request.method)
        if answer.status == _GRANTED and self.request.operation == "acquire":
            self.when_granted(self.request)
        return answer

    def repeat(self, seconds: float) -> None:
        """Send the request to the server once more, `seconds` from now, and drop the reply."""
        self._later(_sent(self._target, self.message.raw, self.request.method, seconds))

    async def reply(self, message: wire.HttpMessage) -> None:
        """Send a complete reply to the client."""
        await self.send(message.raw)

    async def send(self, raw: bytes) -> None:
        """Send part of a reply to the client."""
        self._writer.write(raw)
        await self._writer.drain()

    def reset(self) -> None:
        """Reset the client's connection (RST)."""
        reset(self._writer)

    async def hung_up(self) -> None:
        """Wait until the client closes its connection, or the proxy is closed."""
        await self._reader.read(-1)

    async def close(self, *, abort: bool) -> None:
        """Close both connections; with `abort` nothing more is sent."""
        writers = [self._writer, *([self._server[1]] if self._server else [])]
        for writer in writers:
            if abort:
                writer.transport.abort()
            writer.close()
        for writer in writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def _sent(target: tuple[str, int], raw: bytes, method: str, seconds: float) -> None:
    await asyncio.sleep(seconds)
    with contextlib.suppress(OSError, EOFError):
        reader, writer = await asyncio.open_connection(*target, limit=wire.LIMIT)
        try:
            writer.write(raw)
            await wire.read_response(reader, method=method)
        finally:
            writer.transport.abort()


def reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection (RST), unless it is closing."""
    sock = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()

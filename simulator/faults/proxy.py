"""A proxy between storage clients and Azurite that counts every request and breaks those that it is told to.

    async with FaultProxy(azurite.blob_port) as proxy:
        client = BlobServiceClient.from_connection_string(proxy.connection_string(azurite.connection_string))
        proxy.add(on("renew"), Answer(503, "ServerBusy", {"Retry-After": "1"}), uses=2)
        ...
        assert proxy.operations() == ["acquire", "renew", "renew", "renew", "release"]

SharedKey still verifies, because the signature covers the path and not the port. One proxy stands before one port; for
queues use a second one. Requests of one connection go one after another, connections are kept alive on both sides, and
bytes are passed on as they came.

`FaultProxy` lives in the event loop that enters it. Where that loop may be blocked, or there is none, `ProxyThread` has
the same methods, a thread and a loop of its own, and `with` instead of `async with`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
import time
from dataclasses import replace
from typing import Self

from simulator.faults import wire
from simulator.faults.board import HOST, Board
from simulator.faults.rules import Match, PassOn, Request, everything

# Linger on, for no time: the socket is closed by a reset and leaves no port waiting behind.
RESET = struct.pack("ii", 1, 0)


class FaultProxy(Board):
    """The proxy, in the running event loop, while its `async with` block lasts."""

    def __init__(self, target_port: int, *, target_host: str = HOST) -> None:
        """Prepare a proxy before this port; `port` is its own, once it is entered."""
        super().__init__(target_port, target_host=target_host)
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._connected, HOST, self.port, limit=wire.LIMIT)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is None:
            return
        self._server.close()
        tasks = list(self._connections)
        for task, writer in self._connections.items():
            # One that had no turn yet can't close its connection itself.
            writer.transport.abort()
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._server.wait_closed()

    async def seen(self, match: Match = everything, *, count: int = 1, timeout: float = 30.0) -> None:
        """Wait until so many matching requests have arrived since the start or the last `forget`.

        Raises:
            TimeoutError: they did not, within `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            await asyncio.wrap_future(self.expect(match, count))

    def reset_connections(self) -> None:
        """Reset all connections of clients, idle ones too, as a network that comes and goes would."""
        for writer in self._connections.values():
            _reset(writer)

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._connections[task] = writer
        task.add_done_callback(self._connections.pop)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(self, reader, writer)
        try:
            # A client that goes away, or a server that is gone, ends the connection and nothing else.
            with contextlib.suppress(OSError, EOFError):
                while not writer.is_closing() and (message := await wire.read_request(reader)):
                    await connection.handle(message)
        except asyncio.CancelledError:
            connection.abort()
            raise
        finally:
            await connection.close()


class _Connection:
    """One client's connection and the one to the server behind it. The `Exchange` of one request after the other."""

    def __init__(self, board: Board, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._board = board
        self._reader = reader
        self._writer = writer
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._message: wire.Message
        self.request: Request

    async def handle(self, message: wire.Message) -> None:
        """Do with one request what the rules say."""
        self._message = message
        self.request = self._board.arrived(message)
        rule = self._board.rule_for(self.request)
        try:
            if rule is None:
                await PassOn()(self)
            else:
                self._note(fault=rule.name)
                await rule.action(self)
        finally:
            self._end()

    async def forward(self) -> wire.Message:
        """Send the request to the server, over the connection that is there or a new one, and return its reply."""
        if self._server is None or self._server[0].at_eof():
            if self._server is not None:
                self._server[1].close()
            self._server = await asyncio.open_connection(*self._board.target, limit=wire.LIMIT)
        reader, writer = self._server
        writer.write(self._message.raw)
        self._note(forwarded=True)
        reply = await wire.read_response(reader, method=self.request.method)
        self._note(server_status=reply.status, error_code=reply.headers.get("x-ms-error-code"))
        return reply

    async def reply(self, message: wire.Message) -> None:
        """Send a whole reply to the client. The record is there before the client has it."""
        self._note(status=message.status, error_code=message.headers.get("x-ms-error-code"))
        self._end()
        await self.send(message.raw)

    async def send(self, raw: bytes) -> None:
        """Send part of a reply to the client."""
        self._writer.write(raw)
        await self._writer.drain()

    def reset(self) -> None:
        """Reset the client's connection."""
        self._end()
        _reset(self._writer)

    async def hung_up(self) -> None:
        """Wait until the client closes its connection."""
        await self._reader.read(-1)

    def abort(self) -> None:
        """Close both connections without sending what is left to send."""
        for writer in self._writers():
            writer.transport.abort()

    async def close(self) -> None:
        """Close both connections."""
        for writer in self._writers():
            writer.close()
        for writer in self._writers():
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def _writers(self) -> list[asyncio.StreamWriter]:
        return [self._writer, *([self._server[1]] if self._server else [])]

    def _end(self) -> None:
        if self.request.ended is None:
            self._note(ended=time.monotonic())

    def _note(self, **changes: object) -> None:
        self.request = replace(self.request, **changes)  # type: ignore[arg-type] # fields of one dataclass, by name
        self._board.changed(self.request)


class ProxyThread(FaultProxy):
    """The proxy with a thread and an event loop of its own, while its `with` block lasts."""

    def __init__(self, target_port: int, *, target_host: str = HOST) -> None:
        """Prepare a proxy before this port; `port` is its own, once it is entered."""
        super().__init__(target_port, target_host=target_host)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault-proxy", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.__aenter__(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self.__aexit__(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def wait(self, match: Match = everything, *, count: int = 1, timeout: float = 30.0) -> None:
        """Wait, blocking, until so many matching requests have arrived since the start or the last `forget`.

        Raises:
            TimeoutError: they did not, within `timeout` seconds.
        """
        future = self.expect(match, count)
        try:
            future.result(timeout)
        finally:
            future.cancel()

    def reset_connections(self) -> None:
        """Reset all connections of clients, idle ones too, as a network that comes and goes would."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(super().reset_connections)


def _reset(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    if sock is not None and not writer.is_closing():
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        writer.transport.abort()

"""The shipped HTTP client in virtual worlds: its connections, which a network may forget without a word.

``singleton/stores/direct_blob.py``, ``wire.py`` and ``stores/http`` run as shipped, but for the dialling. There are no
sockets: the bytes of a request are parsed, travel over the network of the world under all its faults (``sdk.py``), and
come back as the bytes of an answer.

A request that is sent on a forgotten connection is lost, and counts as a fault of the network. As soon as a host has
waited in vain on a forgotten connection, it should use no other: what it sends there later is its own fault, and no
check is told of a request.
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from azure.core.exceptions import AzureError
from azure.core.pipeline.transport import HttpRequest

from simulator.virtual.worlds.sdk import Containers, VirtualTransport
from singleton.stores.access import AccountKey
from singleton.stores.direct_blob import DirectBlobStore
from singleton.stores.http.connections import Connections, _Connection
from singleton.stores.wire import Wire

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from simulator.virtual.storage.network import NetworkRequest, Passage
    from simulator.virtual.time.machine import Machine
    from simulator.virtual.worlds.world import World
    from singleton.settings.accounts import LockContainer
    from singleton.stores.protocol import LeaseStore

_ENDPOINT: Final = "http://explored.blob.localhost"
_DIALLING: Final = 0.01
"""Seconds until a new connection is there."""
_IN_VAIN: Final = 0.5
"""Seconds without an answer after which a host knows: no request has a shorter time limit."""
_ID: Final = "x-ms-client-request-id"
_forgotten: ContextVar[bool] = ContextVar("forgotten", default=False)
"""Whether the running request is on a forgotten connection."""


def wire_up(world: World) -> None:
    """Give the hosts of a world the shipped HTTP client, before their work starts."""
    hosts: dict[Machine, HostConnections] = {}
    for machine in world.machines:
        hosts[machine] = HostConnections()
        world.forgets[machine] = hosts[machine].forget
    world.openings.open_by(partial(_open_store, world, hosts, Containers(world.service)))
    world.network.rules.append(_lose)


def _lose(_: NetworkRequest, passage: Passage) -> None:
    passage.lost |= _forgotten.get()


def _open_store(
    world: World,
    hosts: dict[Machine, HostConnections],
    containers: Containers,
    machine: Machine,
    place: LockContainer,
    closed: Callable[[], None],
) -> LeaseStore:
    wire = Wire(_ENDPOINT, AccountKey(lambda: ("explored", "c2ltdWxhdGVk")))
    transport = VirtualTransport(world.network, containers, machine)
    wire._way = _VirtualConnections(hosts[machine], transport)  # noqa: SLF001 - the only part that is not as shipped
    return _WiredStore(wire, place.container, closed)


class _WiredStore(DirectBlobStore):
    def __init__(self, wire: Wire, container: str, closed: Callable[[], None]) -> None:
        super().__init__(wire, container)
        self._closed = closed

    async def aclose(self) -> None:
        self._closed()
        await super().aclose()


class HostConnections:
    """The connections of a host."""

    def __init__(self) -> None:
        self.open: set[VirtualConnection] = set()
        self.knows = False
        """Whether the host has waited in vain on a connection since the last strike."""

    def forget(self) -> int:
        """Forget the idle connections; return how many there are."""
        idle = [each for each in self.open if each.idle]
        for each in idle:
            each.forgotten = True
        self.knows = False
        return len(idle)


class _VirtualConnections(Connections):
    def __init__(self, connections: HostConnections, transport: VirtualTransport) -> None:
        super().__init__("http", _ENDPOINT.partition("//")[2])
        self._connections = connections
        self._transport = transport

    async def _first(self, host: str, port: int, tls: ssl.SSLContext | None) -> _Connection:
        del host, port, tls
        await asyncio.sleep(_DIALLING)
        connection = _Connection(self._open, asyncio.get_running_loop(), self._buffer)
        connection.connection_made(VirtualConnection(self._connections, self._transport, connection))
        return connection


class VirtualConnection(asyncio.Transport):
    """A connection of a host. A request is written at once, and the next one after the answer."""

    def __init__(self, of_host: HostConnections, transport: VirtualTransport, protocol: _Connection) -> None:
        super().__init__()
        self.forgotten = False
        self._of_host = of_host
        self._transport = transport
        self._protocol = protocol
        self._answering: asyncio.Task[None] | None = None
        self._sent = 0.0
        self._closing = False
        of_host.open.add(self)

    @property
    def idle(self) -> bool:
        """Whether no request is on its way."""
        return self._answering is None

    def write(self, data: Any) -> None:
        """Send a request."""
        loop = self._protocol.loop
        self._sent = loop.time()
        if self.forgotten and self._of_host.knows:
            return
        context = copy_context()
        context.run(_forgotten.set, self.forgotten)
        self._answering = loop.create_task(self._answer(_request(bytes(data))), context=context)

    def get_write_buffer_size(self) -> int:
        """Return 0: all has been sent."""
        return 0

    def is_closing(self) -> bool:
        """Tell whether the connection was closed."""
        return self._closing

    def abort(self) -> None:
        """Close at once; a request on its way gets no answer."""
        self._lose(None)

    async def _answer(self, request: HttpRequest) -> None:
        try:
            answer: Any = await self._transport.send(request)
        except AzureError:
            self._lose(ConnectionResetError())
            return
        self._answering = None
        data = _bytes(request, answer.status_code, dict(answer.headers), answer.body())
        size = len(self._protocol.get_buffer(-1))
        while data and not self._closing:
            part, data = data[:size], data[size:]
            self._protocol.get_buffer(-1)[: len(part)] = part
            self._protocol.buffer_updated(len(part))

    def _lose(self, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        loop = self._protocol.loop
        if self.forgotten and not self.idle and loop.time() - self._sent >= _IN_VAIN:
            self._of_host.knows = True
        self._of_host.open.discard(self)
        if self._answering is not None:
            self._answering.cancel()
        loop.call_soon(self._protocol.connection_lost, error)


def _request(data: bytes) -> HttpRequest:
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    method, target, _ = first.split(" ")
    return HttpRequest(method, f"{_ENDPOINT}{target}", dict(line.split(": ", 1) for line in lines), data=body)


def _bytes(request: HttpRequest, status: int, headers: dict[str, str], body: bytes) -> bytes:
    headers = {"content-length": str(len(body)), **headers, _ID: request.headers[_ID]}
    lines = [f"HTTP/1.1 {status} simulated", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if request.method == "HEAD" else body)

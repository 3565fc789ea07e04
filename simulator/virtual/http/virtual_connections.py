"""Connections of a host to the service, without sockets: bytes in, bytes out, in pieces of any size.

A connection may be closed by the service while it is idle, be forgotten by the network, or get what nobody asked for.
As soon as a host has waited in vain on a forgotten connection, the host should use no other that was idle by then:
later requests there are the host's own fault, and no check is told of them.
"""

from __future__ import annotations

import asyncio
import math
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from simulator.virtual.http.account import VirtualAccount, untimely
from simulator.virtual.http.blob_api import (
    CONTAINER,
    ID,
    AskedCall,
    Containers,
    HeardRequest,
    HttpAnswer,
    answer_of,
    asked_by,
    differences,
    read_bytes,
    refusal_of,
    same_call,
    success_of,
)
from simulator.virtual.http.spoilt import pieces, spoilt, written
from simulator.virtual.storage.network import NetworkRequest, Spoilt
from singleton.stores.http.connections import Connections, _Connection
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    import random
    import ssl
    from collections.abc import Callable, Sequence

    from simulator.virtual.storage.network import Network, Passage
    from simulator.virtual.storage.service import Service
    from simulator.virtual.time.loop import VirtualLoop
    from simulator.virtual.time.machine import Machine
    from singleton.settings.accounts import LockContainer


UNDER_LEASE: Final = frozenset({"acquire", "renew", "release", "write", "put", "get"})
"""Calls whose first argument is the id of a lease."""
ENDPOINT: Final = "http://explored.blob.localhost"
_DIALLING: Final = 0.01
"""Seconds until a new connection is there."""
_IN_VAIN: Final = 0.5
"""Seconds without an answer after which a host knows: no request has a shorter time limit."""
_KEPT: Final = (None, None, 2.0, 6.0, 14.0)
"""Seconds after which the service closes an idle connection."""
_EARLY: Final = 0.5
"""The part of a proxy's pages that come before the proxy has read the request's body."""
_WAYS: Final = ("key", "sas", "token")
_AGAIN: Final = ("ContainerNotFound", "InvalidRange")
"""Codes after which a call of a store goes on with another request."""
_UNASKED: Final = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


@dataclass(slots=True, eq=False)
class HttpExchange:
    """A request and its answer. ``coming``: the answer that its host has begun to read; ``got``: to the end.

    Or what came in place of an answer.
    """

    heard: AskedCall
    as_asked: bool
    """Whether it is a request that the call needs."""
    coming: HttpAnswer | Spoilt | None = None
    got: HttpAnswer | Spoilt | None = None
    refused: str = ""
    """The token that the answer refuses."""


@dataclass(slots=True, eq=False)
class WatchedCall:
    """A call of a store, and its requests so far."""

    asked: AskedCall
    place: LockContainer | None
    since: float
    """When it began, by the clock of its host."""
    exchanges: list[HttpExchange] = field(default_factory=list)


ASKING: Final[ContextVar[WatchedCall | None]] = ContextVar("simulated_asking", default=None)
"""The call of the running code."""


@dataclass(slots=True, eq=False)
class WireRequest(NetworkRequest):
    """A request on a connection. ``refusal``: of who has no key or a void token; ``forgotten``: with its connection."""

    refusal: StoreFailure | None = None
    forgotten: bool = False


class HostConnections:
    """The connections of a host."""

    def __init__(self) -> None:
        self.open: set[VirtualConnection] = set()
        self.silence = -math.inf
        """When the last request was sent on which the host has waited in vain, by its clock."""
        self.refused: dict[str, float] = {}
        """When the host was told of tokens that the service refuses them, by its clock."""

    def forget(self) -> int:
        """Forget the idle connections; return how many there are."""
        idle = [each for each in self.open if each.idle]
        for each in idle:
            each.forgotten = True
        return len(idle)


class WireServer:
    """The service's end of the connections of a world."""

    def __init__(
        self,
        loop: VirtualLoop,
        network: Network,
        service: Service,
        blame: Callable[[str, str], None],
        rng: random.Random,
        machines: Sequence[Machine],
    ) -> None:
        self.loop = loop
        self.network = network
        self.blame = blame
        self._service = service
        self.rng = rng
        self.hosts = {machine: HostConnections() for machine in machines}
        self.account = VirtualAccount(rng)
        self._containers = Containers(service.execute)
        self.ways = {machine: rng.choice(_WAYS) for machine in machines}
        network.rules.append(_befall)

    def refusal(self, request: HeardRequest) -> StoreFailure | None:
        """Return the refusal of a request without a valid key, signature or token."""
        return self.account.refusal(request) or untimely(request, self.loop.now)

    def executing(self, machine: Machine, asking: WatchedCall, exchange: HttpExchange) -> Callable[[], Any]:
        """Return what carries a request out."""
        asked = asking.asked if exchange.as_asked else exchange.heard
        container = asking.place.container if asking.place is not None else ""
        return partial(self._containers.execute, machine, container, exchange.heard, asked)

    def check_request(
        self,
        machine: Machine,
        request: HeardRequest,
        asking: WatchedCall,
        exchange: HttpExchange,
        refusal: StoreFailure | None,
    ) -> None:
        """Blame a host for a request that it may not send."""
        asked, heard, before = asking.asked, exchange.heard, asking.exchanges
        if not exchange.as_asked:
            what = ", ".join(differences(asked, heard))
            self.blame("another request", f"{machine} asks for {asked}, and the service hears another: {what}"[:400])
        if before and not _goes_on(before[-1]):
            self.blame("request sent twice", f"{machine} sends {shown(asked)} again, unasked")
        if refusal is not None and refusal.status == 403:
            self.blame("wrong signature", f"{machine} sends {shown(asked)}, and is refused: {refusal}")
        refused = self.hosts[machine].refused.get(request.headers.get("authorization", ""))
        if refused is not None and refused < asking.since:
            self.blame("refused token", f"{machine} sends {shown(asked)} with a token that the service has refused")


def _befall(request: NetworkRequest, passage: Passage) -> None:
    """Let a request meet what its connection and its sender's way in are worth."""
    if isinstance(request, WireRequest):
        passage.lost |= request.forgotten
        passage.answer = request.refusal


def _goes_on(exchange: HttpExchange) -> bool:
    got = exchange.got or exchange.coming
    if exchange.heard.call == "container":
        return isinstance(got, HttpAnswer)
    code = getattr(got.means, "code", None) if isinstance(got, HttpAnswer) else None
    return code in _AGAIN


def shown(call: AskedCall) -> str:
    """Return a call in words."""
    return f"{call} {call.args}"[:200]


class VirtualConnections(Connections):
    """The shipped connections of a store, but for the dialling."""

    def __init__(self, wire: WireServer, machine: Machine) -> None:
        super().__init__("http", ENDPOINT.partition("//")[2])
        self._wire = wire
        self._machine = machine

    async def _first(self, host: str, port: int, tls: ssl.SSLContext | None) -> _Connection:
        del host, port, tls
        await asyncio.sleep(_DIALLING)
        connection = _Connection(self._open, asyncio.get_running_loop(), self._buffer)
        connection.connection_made(VirtualConnection(self._wire, self._machine, connection))
        return connection


class VirtualConnection(asyncio.Transport):
    """A connection of a host. A request is written at once, and the next one after the answer."""

    def __init__(self, wire: WireServer, machine: Machine, protocol: _Connection) -> None:
        super().__init__()
        self.forgotten = False
        self._wire = wire
        self._machine = machine
        self._of_host = wire.hosts[machine]
        self._protocol = protocol
        self._context = copy_context()
        self._answering: asyncio.Future[Any] | None = None
        self._sent = 0.0
        self._idle_since = protocol.loop.time()
        self._uses = 0
        self._ended = ""
        """Why the host may not use it again; empty: it may."""
        self._closing = False
        self._unsent = 0
        self._of_host.open.add(self)

    @property
    def idle(self) -> bool:
        """Whether no request is on its way."""
        return self._answering is None

    def write(self, data: Any) -> None:
        """Send a request."""
        if self._ended or not self.idle:
            self._wire.blame(
                "dead connection", f"{self._machine} sends a request on a connection: {self._ended or 'it is in use'}"
            )
        self._sent = self._protocol.loop.time()
        self._uses += 1
        if self.forgotten and self._idle_since <= self._of_host.silence:
            return
        request, asking = read_bytes(bytes(data)), ASKING.get()
        assert asking is not None
        self._send(request, asking)

    def _send(self, request: HeardRequest, asking: WatchedCall) -> None:
        wire, machine, asked = self._wire, self._machine, asking.asked
        try:
            heard = asked_by(request)
        except (StoreFailure, KeyError, ValueError) as error:
            heard = AskedCall(f"{request.method} ({error})", asked.name)
        exchange, refusal = HttpExchange(heard, same_call(asked, heard)), wire.refusal(request)
        wire.check_request(machine, request, asking, exchange, refusal)
        asking.exchanges.append(exchange)
        call, name, args = asked if exchange.as_asked else heard
        lease = args[0] if args and call in UNDER_LEASE else None
        execute = wire.executing(machine, asking, exchange)
        sent = WireRequest(machine, call, name, execute, lease, asking.place, args=args, sent=asking.since)
        sent.refusal, sent.forgotten = refusal, self.forgotten
        self._answering = answering = wire.network.send(sent)
        answering.add_done_callback(partial(self._answered, request, asking, exchange))

    def get_write_buffer_size(self) -> int:
        """Return how many bytes could not be sent: a proxy may answer before the end of a body, and read no more."""
        return self._unsent

    def is_closing(self) -> bool:
        """Tell whether the connection was closed."""
        return self._closing

    def abort(self) -> None:
        """Close at once; a request on its way gets no answer."""
        self._lose(None)

    def _answered(
        self, request: HeardRequest, asking: WatchedCall, exchange: HttpExchange, future: asyncio.Future[Any]
    ) -> None:
        if self._closing or future.cancelled():
            return
        error, rng = future.exception(), self._wire.rng
        named = {ID: request.headers[ID]} if ID in request.headers else {}
        got: HttpAnswer | Spoilt
        if isinstance(error, Spoilt):
            got, close = error, rng.random() < 0.7  # else what is missing never comes
            if "x-ms-lease-id" in request.headers:
                named["x-ms-lease-id"] = request.headers["x-ms-lease-id"]
            data = spoilt(error.how, success_of(exchange.heard.call), named, rng, request.method)
        elif error is None or (isinstance(error, StoreFailure) and error.status is not None):
            now = self._wire.loop.now
            if isinstance(error, StoreFailure):
                got = refusal_of(error, now)
            else:
                heard = exchange.heard
                asked = asking.asked if exchange.as_asked and heard.call != CONTAINER else heard
                got = answer_of(asked, future.result(), now, ranged=heard.call == "tail")
            close = rng.random() < 0.03
            named |= {"Connection": "close"} if close else {}
            data = written(got, named, rng, head_only=request.method == "HEAD")
        else:  # whatever a fault lets a store raise comes from its connection here
            self._lose(ConnectionResetError())
            return
        exchange.coming = got
        self._feed(request, exchange, got, pieces(data, rng), close=close)

    def _feed(
        self, request: HeardRequest, exchange: HttpExchange, got: HttpAnswer | Spoilt, left: list[bytes], *, close: bool
    ) -> None:
        """Let the host read the pieces that are left, one after the other."""
        if self._closing:
            return
        part, *left = left or [b""]
        if not left:
            self._answering, self._idle_since = None, self._protocol.loop.time()
            exchange.got = got
            self._note_end(request, exchange, got, close=close)
        self._read(part)
        if left:
            self._protocol.loop.call_soon(partial(self._feed, request, exchange, got, left, close=close))
        elif close:
            delay = self._wire.rng.choice((0.0, 3.0))
            self._protocol.loop.call_later(delay, partial(self._end_by_service, self._uses, idle=False))
        elif not isinstance(got, Spoilt) and (kept := self._wire.rng.choice(_KEPT)) is not None:
            self._protocol.loop.call_later(kept, self._end_by_service, self._uses)

    def _note_end(
        self, request: HeardRequest, exchange: HttpExchange, got: HttpAnswer | Spoilt, *, close: bool
    ) -> None:
        """Note why a host may not use the connection again, which has read the whole answer."""
        if isinstance(got, Spoilt):
            self._ended = "its last answer was none" if got.how != "page" else ""
            if got.how == "page" and request.body and self._wire.rng.random() < _EARLY:
                self._unsent = self._wire.rng.randint(1, len(request.body))
                self._ended = "the body of its last request is not read to the end"
            return
        if got.status == 401 and "authorization" in request.headers:
            exchange.refused = request.headers.get("authorization", "")
            self._of_host.refused.setdefault(exchange.refused, self._protocol.loop.time())
        if close:
            self._ended = "the service has said that it closes it"
        elif request.body and got.status >= 300:
            self._ended = "the body of its last request was refused"

    def _read(self, data: bytes) -> None:
        size = len(self._protocol.get_buffer(-1))
        while data and not self._closing:
            part, data = data[:size], data[size:]
            self._protocol.get_buffer(-1)[: len(part)] = part
            self._protocol.buffer_updated(len(part))

    def _end_by_service(self, uses: int, *, idle: bool = True) -> None:
        """Close a connection, idle, or after an answer; a request that was sent since is quicker."""
        if self._closing or uses != self._uses:
            return
        self._ended = "the service has closed it"
        match self._wire.rng.randrange(3):
            case 0 if idle:
                self._read(_UNASKED)
            case 1:
                self._lose(ConnectionResetError())
                return
        self._protocol.eof_received()
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        self._ended = self._ended or "it was closed"
        loop = self._protocol.loop
        if self.forgotten and not self.idle and loop.time() - self._sent >= _IN_VAIN:
            self._of_host.silence = max(self._of_host.silence, self._sent)
        self._of_host.open.discard(self)
        if self._answering is not None:
            self._answering.cancel()
        loop.call_soon(self._protocol.connection_lost, error)

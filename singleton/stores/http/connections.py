"""Connections to one origin, perhaps through an HTTP proxy, each for one request at a time.

A request is sent once, on an idle connection or on a new connection. A connection is used again only after the answer
to our request was read to the end. The number of connections has no limit: with a limit, a renewal would wait behind
requests that hang.

Networks drop idle connections without a word. After a request without an answer on a kept connection, no connection is
used whose last answer is older than the request.
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
import re
import socket
import ssl
from collections import Counter, deque
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from singleton.stores.http import NOT_SENT
from singleton.stores.http.answers import Nonsense, Reader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.stores.http.answers import Answer

    Connecting = asyncio.Task[tuple[asyncio.BaseTransport, "_Connection"]]

AGENT: Final = "azure-functions-singleton"
CONNECTING: Final = 20.0
"""Seconds to connect, at most, as in azure-storage-blob. Locks give a whole request less time."""
UNSENDABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")
"""Characters that no header can have: a line break would end the header and begin the next header."""
_IDLE: Final = 15.0
"""Seconds for which an idle connection is kept. Services and firewalls close idle connections later, silently."""
_SLOW: Final = 0.5
"""Seconds after which a further lookup of the host begins; with each lookup that is stuck so many more."""
_RECENT: Final = 60.0
"""Seconds from the last answer for which the host's known addresses serve while its lookups are stuck."""
_HEAD_START: Final = 0.25
"""Seconds after which a host's next address is tried beside the address before, as in aiohttp."""
_BUFFER: Final = 65_536
"""Bytes of one read, at most."""
_ADDRESS: Final = re.compile(r"[0-9.]+|.*:.*")
"""A host that is an address."""
_NAMES: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]*")
_CUT_OFF: Final = "the connection was closed before the answer's end"
_BODILESS: Final = frozenset({"GET", "HEAD"})
"""Methods that send no Content-Length without a body."""


class Unanswered(Exception):
    """A request got no answer, or was not sent. The text shows nothing of the request."""

    sent = True
    """Whether the request may have left this process."""


class _Proxy(NamedTuple):
    """An HTTP proxy. ``authorization``: a header line with its end, or nothing."""

    host: str
    port: int
    tls: ssl.SSLContext | None
    authorization: str


class Connections:
    """Sends requests to one origin, on one event loop."""

    def __init__(self, scheme: str, netloc: str, proxy: str | None = None) -> None:
        """``proxy``: the URL of an HTTP proxy. It gets plain requests with the whole URL; TLS goes through a tunnel."""
        self._netloc = netloc
        self._tls = _tls() if scheme == "https" else None
        self._proxy_url = proxy
        self._lookups: dict[asyncio.Task[list[str]], float] = {}  # since when
        self._known: list[str] = []  # the addresses that the last lookup found
        self._answered = -math.inf  # when the last answer came
        self._connecting: set[Connecting] = set()
        self._open: set[_Connection] = set()
        self._idle: deque[tuple[float, _Connection]] = deque()  # since when; the last was used last
        self._silence = -math.inf  # when the last request was sent that got no answer on a kept connection
        self._cancelled: list[tuple[float, asyncio.Task[Any], int]] = []  # sent when; by which task; its cancellations
        self._timer: asyncio.TimerHandle | None = None
        self._buffer = memoryview(bytearray(_BUFFER))
        self._closed = False

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        most: int,
        echoed: str,
    ) -> Answer:
        """Send a request once and return its answer.

        ``most``: bytes of the body after which reading stops. ``echoed``: the header, in lower case, which an answer
        repeats, if the answer has it.

        Raises:
            Unanswered: no answer came, or what came is no HTTP answer.
        """
        try:
            data = self._written(method, target, headers, body)
            kept = self._kept()
            connection = kept or await self._connected()
        except Unanswered as error:
            error.sent = False
            raise
        except asyncio.CancelledError as error:
            error.add_note(NOT_SENT)
            raise
        sent = connection.loop.time()
        reader = Reader(method, most)
        try:
            if trouble := await connection.ask(data, reader):
                raise Unanswered(trouble)  # noqa: TRY301 - the connection is closed below
            answer = reader.answer()
            if answer.headers.lowered.get(echoed, headers.get(echoed)) != headers.get(echoed):
                raise Unanswered("an answer to another request")  # noqa: TRY301
        except BaseException as error:
            connection.abort()
            if kept is not None:
                self._note_silence(error, sent, connection.loop)
            raise
        refused = body and answer.status >= 300  # perhaps before the whole body was sent: over TLS nothing tells
        if reader.lasts and connection.usable and not refused:
            loop = connection.loop
            self._answered = loop.time()
            self._idle.append((self._answered, connection))
            if self._timer is None:
                self._tidy(loop, self._answered)
        else:
            connection.abort()
        return answer

    async def aclose(self) -> None:
        """Close all connections: open requests get no answer, later requests are not sent."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        tasks = [*self._connecting, *self._lookups]
        ends: list[asyncio.Future[Any]] = [*tasks, *(connection.lost for connection in self._open)]
        for each in tasks:
            each.cancel()
        for connection in [*self._open]:
            connection.abort()
        if ends:
            await asyncio.wait(ends)

    @property
    def _place(self) -> tuple[str, int]:
        return _place(f"//{self._netloc}", self._tls)

    @property
    def _proxy(self) -> _Proxy | None:
        return None if self._proxy_url is None else _proxy_at(self._proxy_url)

    @property
    def _always(self) -> tuple[str, str]:
        """The text before the target of a request (the origin, for a proxy), and the first headers of a request."""
        host, port = self._place
        named = _bracketed(host)
        named += "" if port == (443 if self._tls else 80) else f":{port}"
        headers = f"Host: {named}\r\nUser-Agent: {AGENT}\r\n"
        if self._proxy is None or self._tls is not None:
            return "", headers
        return f"http://{named}", headers + self._proxy.authorization

    def _written(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> bytes:
        """Return the bytes of a request. No part of a request can be read as another request."""
        values = "".join(headers.values())
        if not values.isprintable() and UNSENDABLE.search(values):
            raise Unanswered("a header can't be sent")
        if not (_NAMES.fullmatch("".join(headers)) and target.isascii() and target.isprintable()) or " " in target:
            raise Unanswered("a name can't be sent")
        fields = "".join(map("{}: {}\r\n".format, headers, headers.values()))
        length = "" if not body and method in _BODILESS else f"Content-Length: {len(body)}\r\n"
        origin, always = self._always
        return f"{method} {origin}{target} HTTP/1.1\r\n{always}{fields}{length}\r\n".encode() + body

    def _kept(self) -> _Connection | None:
        """Return an idle connection whose last use was not long ago, and after the last silence."""
        if self._closed:
            raise Unanswered("closed")
        if self._cancelled:
            self._judge_cancellations()
        while self._idle:
            since, connection = self._idle.pop()
            if connection.usable and since > self._silence and connection.loop.time() - since < _IDLE:
                return connection
            connection.abort()
        return None

    def _note_silence(self, error: BaseException, sent: float, loop: asyncio.AbstractEventLoop) -> None:
        """Note a request that got no answer on a kept connection. A caller that went away is no silence."""
        task = asyncio.current_task() if isinstance(error, asyncio.CancelledError) else None
        if task is None:
            self._silence = max(self._silence, sent)
        else:
            self._cancelled.append((sent, task, task.cancelling()))
            loop.call_soon(self._judge_cancellations)

    def _judge_cancellations(self) -> None:
        """Tell time-outs from callers that went away: ``asyncio.timeout`` has taken its cancellation back by now."""
        for sent, task, cancellations in self._cancelled:
            if task.cancelling() < cancellations:
                self._silence = max(self._silence, sent)
        self._cancelled.clear()

    def _tidy(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        now = max(loop.time(), due)  # asyncio's timers may come a hair too early
        while self._idle and self._idle[0][0] + _IDLE <= now:
            self._idle.popleft()[1].abort()
        ends = self._idle[0][0] + _IDLE if self._idle else 0.0
        self._timer = loop.call_at(ends, self._tidy, loop, ends) if self._idle else None

    async def _connected(self) -> _Connection:
        proxy = self._proxy
        host, port, tls = (*self._place, self._tls) if proxy is None else proxy[:3]
        where = "" if proxy is None else f" to {host}:{port}"
        try:
            async with asyncio.timeout(CONNECTING):
                connection = await self._first(host, port, tls)
                if proxy is not None and self._tls is not None:
                    where = " through the proxy"
                    try:
                        await self._tunnel(connection, proxy, self._tls)
                    except BaseException:
                        connection.abort()
                        raise
        except OSError as error:
            raise Unanswered(f"can't connect{where} ({_why(error)})") from None
        if self._closed:
            connection.abort()
            raise Unanswered("closed")
        return connection

    async def _tunnel(self, connection: _Connection, proxy: _Proxy, tls: ssl.SSLContext) -> None:
        """Have a connection to the proxy lead to the origin, over TLS."""
        host, port = self._place
        place = f"{_bracketed(host)}:{port}"
        head = f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\nUser-Agent: {AGENT}\r\n{proxy.authorization}\r\n"
        reader = Reader("CONNECT", 0)
        if trouble := await connection.ask(head.encode(), reader):
            raise Unanswered(trouble)
        if (status := reader.answer().status) >= 300:
            raise Unanswered(f"the proxy {proxy.host}:{proxy.port} opens no tunnel ({status})")
        await connection.start_tls(tls, host.rstrip("."))

    async def _first(self, host: str, port: int, tls: ssl.SSLContext | None) -> _Connection:
        """Connect to the first of the host's addresses that answers; an address gets a head start before the next.

        asyncio's own race is not used: a cancelled race may leave a socket open, and uvloop has no race.
        """
        loop = asyncio.get_running_loop()
        addresses = deque(await self._looked_up(loop, host, port))
        name = host.rstrip(".") if tls else None
        under_way: set[Connecting] = set()
        trouble: OSError | None = None
        try:
            while addresses or under_way:
                if addresses:
                    connecting = loop.create_connection(
                        lambda: _Connection(self._open, loop, self._buffer),
                        *(addresses.popleft(), port),
                        ssl=tls,
                        server_hostname=name,
                    )
                    under_way.add(self._attended(loop.create_task(connecting)))
                wait = _HEAD_START if addresses else None
                done, _ = await asyncio.wait(under_way, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
                for attempt in done:
                    under_way.discard(attempt)
                    if attempt.cancelled():
                        raise Unanswered("closed")
                    if (error := attempt.exception()) is None:
                        return attempt.result()[1]
                    if not isinstance(error, OSError):
                        raise error
                    trouble = trouble or error
            raise trouble or OSError("no address")
        finally:
            for attempt in under_way:
                attempt.add_done_callback(_unwanted)
                attempt.cancel()

    async def _looked_up(self, loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
        """Look the host up, once for all requests that wait. A further lookup begins beside a lookup that is stuck.

        A request that gives up does not end a lookup for other requests. While lookups are stuck, addresses serve from
        which answers came of late, as they do on kept connections.
        """
        while True:
            wait = max(self._lookups.values(), default=-math.inf) + _SLOW * len(self._lookups) - loop.time()
            if wait <= 0:
                lookup = loop.create_task(_addresses(loop, host, port))
                self._lookups[lookup] = loop.time()
                lookup.add_done_callback(self._looked)
                continue
            done, _ = await asyncio.wait(self._lookups, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for lookup in done:
                if lookup.cancelled():
                    raise Unanswered("closed")
                return lookup.result()
            if self._known and loop.time() - self._answered < _RECENT:
                return self._known

    def _looked(self, lookup: asyncio.Task[list[str]]) -> None:
        del self._lookups[lookup]
        if not lookup.cancelled() and lookup.exception() is None:  # the look marks an error as seen
            self._known = lookup.result()

    def _attended(self, attempt: Connecting) -> Connecting:
        """Have ``aclose`` cancel this attempt and wait for its end."""
        self._connecting.add(attempt)
        attempt.add_done_callback(self._connecting.discard)
        return attempt


class _Connection(asyncio.BufferedProtocol):
    """A connection.

    Reads go into a buffer that is made once. asyncio's own would take 256 kB for each read, perhaps by mapping memory.

    Attributes:
        usable: nothing is known that speaks against a next request.
        lost: done when the connection is closed.
    """

    _transport: asyncio.Transport
    _waiting: asyncio.Future[str]

    def __init__(self, every: set[_Connection], loop: asyncio.AbstractEventLoop, buffer: memoryview) -> None:
        """``buffer`` serves all connections: bytes are copied out at once."""
        self.loop = loop
        self._buffer = buffer
        self.lost = loop.create_future()
        self._every = every
        self._reader: Reader | None = None
        self._ended = False

    @property
    def usable(self) -> bool:
        return not (self._ended or self._transport.is_closing() or self._transport.get_write_buffer_size())

    def ask(self, data: bytes, reader: Reader) -> asyncio.Future[str]:
        """Send a request and read the answer to its end. A caller that gives up must abort the connection.

        Returns:
            done at the answer's end, with the empty text; or with the trouble, if no answer came.
        """
        if self._ended:
            raise Unanswered("the connection was closed before the request")
        self._waiting = self.loop.create_future()
        self._reader = reader
        self._transport.write(data)
        return self._waiting

    async def start_tls(self, tls: ssl.SSLContext, name: str) -> None:
        """Speak TLS from now on, with a server of this name. A caller that gives up must abort the connection."""
        if not self.usable:
            raise Unanswered(_CUT_OFF)
        transport = None
        try:
            transport = await self.loop.start_tls(self._transport, self, tls, server_hostname=name)
        finally:
            if transport is None:
                self.connection_lost(None)  # asyncio does not report every handshake that was cut off
            else:
                self._transport = transport

    def abort(self) -> None:
        """Close at once. A request that waits for an answer gets ``Unanswered``."""
        self._ended = True
        self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._every.add(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        del sizehint
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        if self._reader is None:
            self.abort()  # nobody asked
            return
        try:
            if self._reader.feed(bytes(self._buffer[:nbytes])):
                self._settle()
        except Nonsense as nonsense:
            self._settle(str(nonsense))

    def eof_received(self) -> None:
        self._ended = True
        if self._reader is not None:
            self._settle("" if self._reader.end() else _CUT_OFF)

    def connection_lost(self, error: Exception | None) -> None:
        if self.lost.done():
            return  # told already, by ``start_tls``
        self._ended = True
        self._every.discard(self)
        self.lost.set_result(None)
        if self._reader is not None:
            self._settle(f"{_CUT_OFF} ({_why(error)})" if isinstance(error, OSError) else _CUT_OFF)

    def _settle(self, trouble: str = "") -> None:
        self._reader = None
        if not self._waiting.done():
            self._waiting.set_result(trouble)


async def _addresses(loop: asyncio.AbstractEventLoop, host: str, port: int) -> list[str]:
    """Look a host up. IPv4 and IPv6 addresses alternate: a network may have no route for one kind."""
    if _ADDRESS.fullmatch(host):
        return [host]
    place: dict[str, int] = {}
    of_kind: Counter[int] = Counter()
    for kind, _, _, _, (address, *_) in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        place[str(address)] = of_kind[kind]
        of_kind[kind] += 1
    return sorted(place, key=place.__getitem__)


@lru_cache(64)  # a cached property of Python 3.11 has a mutex, which a fork leaves taken in the child
def _place(url: str, tls: ssl.SSLContext | None) -> tuple[str, int]:
    parts = urlsplit(url)
    return (parts.hostname or "").encode("idna").decode(), parts.port or (443 if tls else 80)


@lru_cache(64)
def _proxy_at(url: str) -> _Proxy:
    """Return a proxy, read at the first request: a wrong URL fails the request, not the making of the store."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise Unanswered(f"a proxy is asked over http or https, not {parts.scheme}")
    tls = _tls() if parts.scheme == "https" else None
    authorization = ""
    if parts.username is not None:
        named = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Proxy-Authorization: Basic {base64.b64encode(named.encode('latin-1')).decode()}\r\n"
    return _Proxy(*_place(url, tls), tls, authorization)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _unwanted(attempt: Connecting) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result()[1].abort()


@lru_cache(1)
def _tls() -> ssl.SSLContext:
    """Return the TLS context, which checks certificates: made once, as reading the machine's certificates is slow."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, (ssl.SSLError, socket.gaierror)):
        return error.strerror or type(error).__name__
    return os.strerror(error.errno) if error.errno else str(error) or type(error).__name__

"""Requests to a storage account over one aiohttp session, each sent once.

What aiohttp would do by itself, and a lock must not have, is off: it does not send a request again that got no answer
on a connection used before, does not follow redirects, reads no ``~/.netrc``, keeps no cookies. Proxies are taken from
the environment here, and for that reason.

An answer counts only for the request that it names: each request has an id of its own, which the service repeats. One
that nobody asked for, or that comes late, would else be taken for the answer to the next request on its connection.

An error says which host was asked and never the URL, which may hold a signature. None of the frames in its traceback
has the request as it was sent.
"""

from __future__ import annotations

import io
import os
import re
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from singleton.stores.access import Request
from singleton.stores.protocol import StoreFailure
from singleton.stores.replies import clock, clock_trouble, seconds

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Mapping

    from aiohttp.connector import Connection

    from singleton.stores.access import Access

VERSION: Final = "2021-12-02"
"""Version of the service's interface: all that locks ask is older."""
_CONNECTING: Final = 20.0
"""Seconds to connect, at most, as azure-storage-blob has it. Who asks gives each request less, as a whole."""
_NO_BODY: Final = 16_384
"""Bytes of a body that are read where none was asked for: an error's has its code."""
_CODE: Final = re.compile(rb"<Code>(\w{1,80})</Code>")
_ID: Final = "x-ms-client-request-id"
"""The header by which a request is named, and its answer."""
_SKIPPED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp would add, and no request needs."""


class Reply(NamedTuple):
    """An answer with the status that was expected."""

    headers: Mapping[str, str]
    body: bytes


class Unanswered(Exception):
    """A request was sent, and no answer came."""


class Wire:
    """A storage account as requests reach it. Use it on one loop."""

    def __init__(self, endpoint: str, access: Access) -> None:
        """``endpoint``: the blob service's URL, perhaps with a path, without a query."""
        parts = urlsplit(endpoint)
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._host = parts.netloc
        self._scheme = parts.scheme
        self.root = parts.path.rstrip("/")
        self._access = access
        self._open: aiohttp.ClientSession | None = None
        self._closed = False
        self._prefix = f"{os.urandom(6).hex()}-"
        self._numbers = count(1)

    async def ask(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        status: int,
        *,
        most: int = 0,
        body: bytes = b"",
    ) -> Reply:
        """Send a request once, with this body; return the answer if it has this status.

        ``most``: bytes of the body that is asked for, at most. A longer one is no answer.

        Raises:
            StoreFailure: another status, or no answer; or it was not sent, for want of a way in.
        """
        try:
            answer = await self._exchange(method, path, query, headers, status, most, body)
        except BaseException as error:
            error.__traceback__ = None  # of who gives up: the frames beneath have what signs
            raise
        if isinstance(answer, StoreFailure):
            raise answer
        return answer

    async def aclose(self) -> None:
        """Close connections. Nothing can be asked afterwards."""
        self._closed = True
        await self._access.aclose()
        if self._open is not None:
            await self._open.close()

    async def _exchange(
        self, method: str, path: str, query: str, headers: Mapping[str, str], expected: int, most: int, sent: bytes
    ) -> Reply | StoreFailure:
        """Send a request and read its answer; return a failure, which would keep this frame and what signs if raised.

        A connection is used again only if its answer was read to the end.
        """
        named = f"{self._prefix}{next(self._numbers)}"
        request = Request(method, path, query, {**headers, _ID: named, "x-ms-version": VERSION}, len(sent))
        try:
            await self._access.grant(request)
        except StoreFailure as failure:
            return failure.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - from the caller's credential, and it may show what is secret
            return StoreFailure(detail=f"{type(error).__name__} from the account's credential")
        try:
            url = _url(f"{self._origin}{path}?{request.query}" if request.query else self._origin + path)
            session = self._open or self._opened()
            data = io.BytesIO(sent) if sent else None
            response = await session.request(method, url, headers=request.headers, data=data, allow_redirects=False)
            try:
                _check(response, named)
                body = await _read(response, most or _NO_BODY)
            finally:
                response.close()  # its connection is not closed, but was given back, if it was read to the end
            return self._judged(response, body, expected, most)
        except Exception as error:  # noqa: BLE001 - whatever it is: it may show the URL, so it is told and not chained
            return StoreFailure(detail=_unanswered(error, self._host))

    def _judged(self, response: aiohttp.ClientResponse, body: bytes, expected: int, most: int) -> Reply | StoreFailure:
        status = response.status
        if status == expected:
            if most and len(body) > most:
                raise aiohttp.ClientPayloadError  # half of what was asked for is nothing
            return Reply(response.headers, body)
        if status == 401:
            self._access.refused()
        return _refusal(status, response.headers, body)

    def _opened(self) -> aiohttp.ClientSession:
        """Open the session at the first request: then its loop runs."""
        if self._closed:
            raise RuntimeError("closed")
        self._open = aiohttp.ClientSession(
            headers={"User-Agent": "azure-functions-singleton"},
            skip_auto_headers=_SKIPPED,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0),  # with a limit, a renewal would wait behind requests that hang
            trust_env=False,
            proxy=proxy_for(self._scheme, self._host),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECTING),
            middlewares=(_once,),
            response_class=_Answer,
        )
        return self._open


class _Answer(aiohttp.ClientResponse):
    """An answer that remembers its transport: one without a body gives its connection back before it can be judged."""

    transport: asyncio.Transport | None = None

    def start(self, connection: Connection) -> Coroutine[Any, Any, aiohttp.ClientResponse]:
        """Read status and headers. It is no coroutine of its own, to save the time that one takes."""
        self.transport = connection.transport
        return aiohttp.ClientResponse.start(self, connection)


def _check(response: aiohttp.ClientResponse, asked: str) -> None:
    """Close the connection if this answer is to another request: then the next on it may be one, too."""
    named = response.headers.get(_ID)
    if named is None or named == asked:
        return
    if isinstance(response, _Answer) and response.transport is not None:
        response.transport.abort()
    raise Unanswered("an answer to another request")


async def _once(request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keep aiohttp from sending a request again: it does so where one got no answer on a connection used before."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:  # it was not sent, and aiohttp does not try again
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise Unanswered(type(error).__name__) from None


async def _read(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read a body to its end, or until it is longer than the limit."""
    content = response.content
    if content.at_eof():
        return b""
    parts: list[bytes] = []
    length = 0
    while length <= limit and (part := await content.readany()):
        parts.append(part)
        length += len(part)
    return b"".join(parts)


@lru_cache(1024)
def _url(text: str) -> URL:
    return URL(text, encoded=True)


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host (``HTTPS_PROXY``, ``NO_PROXY`` and their like)."""
    found = getproxies().get(scheme)
    return None if not found or proxy_bypass(host) else found


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> StoreFailure:
    code = headers.get("x-ms-error-code")
    if not code and (found := _CODE.search(body)) is not None:
        code = found[1].decode()
    at = clock(headers)
    detail = clock_trouble(status, at)
    if 300 <= status < 400:
        detail = "a redirect, which is not followed"
    return StoreFailure(status, code, detail, seconds(headers.get("Retry-After")), at)


def _unanswered(error: Exception, host: str) -> str:
    """Say what kept a request from its answer, without the URL that it was sent to."""
    if isinstance(error, Unanswered):
        return f"{error}: {host}"
    there: Any = error
    if isinstance(error, aiohttp.ClientConnectorError):
        why = getattr(error.os_error, "strerror", None)
        return f"{type(error).__name__}: {there.host}:{there.port}" + (f", {why}" if isinstance(why, str) else "")
    return f"{type(error).__name__}: {host}"

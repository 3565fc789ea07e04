"""Requests through a proxy of the environment, over one aiohttp session, each sent once.

What aiohttp would do by itself, and a lock must not have, is off: it does not send a request again that got no answer
on a connection used before, does not follow redirects, reads no ``~/.netrc``, keeps no cookies.
"""

from __future__ import annotations

import io
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import aiohttp
from yarl import URL

from singleton.stores.sending.answers import Answer
from singleton.stores.sending.connections import AGENT, CONNECTING, Unanswered

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine, Mapping

    from aiohttp.connector import Connection

_SKIPPED: Final = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")
"""Headers that aiohttp would add, and no request needs."""


class Proxied:
    """Sends requests to one origin through a proxy. Use it on one loop."""

    def __init__(self, scheme: str, netloc: str, proxy: str) -> None:
        self._origin = f"{scheme}://{netloc}"
        self._proxy = proxy
        self._open: aiohttp.ClientSession | None = None
        self._closed = False

    async def send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        body: bytes,
        most: int,
        check: Callable[[Mapping[str, str]], None],
    ) -> Answer:
        """See ``Connections.send``."""
        try:
            session = self._open or self._opened()
            url, data = _url(self._origin + target), io.BytesIO(body) if body else None
            response = await session.request(method, url, headers=headers, data=data, allow_redirects=False)
            try:
                _checked(response, check)
                return Answer(response.status, response.headers, await _read(response, most))
            finally:
                response.close()  # its connection is not closed, but was given back, if it was read to the end
        except aiohttp.ClientConnectorError as error:
            why = getattr(error.os_error, "strerror", None)
            said = f" ({why})" if isinstance(why, str) else ""
            raise Unanswered(f"can't connect to {error.host}:{error.port}{said}") from None

    async def aclose(self) -> None:
        """See ``Connections.aclose``."""
        self._closed = True
        session, self._open = self._open, None
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        """Open the session at the first request: then its loop runs."""
        if self._closed:
            raise Unanswered("closed")
        self._open = aiohttp.ClientSession(
            headers={"User-Agent": AGENT},
            skip_auto_headers=_SKIPPED,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            connector=aiohttp.TCPConnector(limit=0),  # with a limit, a renewal would wait behind requests that hang
            trust_env=False,
            proxy=self._proxy,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECTING),
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


def _checked(response: aiohttp.ClientResponse, check: Callable[[Mapping[str, str]], None]) -> None:
    """Close the connection if this answer is to another request: then the next on it may be one, too."""
    try:
        check(response.headers)
    except Unanswered:
        if isinstance(response, _Answer) and response.transport is not None:
            response.transport.abort()
        raise


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

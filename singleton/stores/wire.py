"""Requests to a storage account, each sent once.

They go over connections of our own, through the proxy that the environment names, if any: ``sending/``. No redirect is
followed, no ``~/.netrc`` is read, no cookies are kept.

An answer counts only for the request that it names: each request has an id of its own, which the service repeats. One
that nobody asked for, or that comes late, would else be taken for the answer to the next request on its connection.

An error says which host was asked and never the URL, which may hold a signature. None of the frames in its traceback
has the request as it was sent.
"""

from __future__ import annotations

import functools
import os
import re
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from singleton.stores.access import Request
from singleton.stores.http.connections import Connections, Unanswered
from singleton.stores.protocol import StoreFailure
from singleton.stores.reply_headers import clock, seconds, trouble

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.stores.access import Access
    from singleton.stores.http.answers import Answer

VERSION: Final = "2021-12-02"
"""Version of the service's interface: all that locks ask is older."""
_NO_BODY: Final = 16_384
"""Bytes of a body that are read where none was asked for: an error's has its code."""
_CODE: Final = re.compile(rb"<Code>(\w{1,80})</Code>")
_ID: Final = "x-ms-client-request-id"
"""The header by which a request is named, and its answer."""


class Reply(NamedTuple):
    """An answer with the status that was expected."""

    headers: Mapping[str, str]
    body: bytes


class Wire:
    """A storage account as requests reach it. Use it on one loop."""

    def __init__(self, endpoint: str, access: Access) -> None:
        """``endpoint``: the blob service's URL, perhaps with a path, without a query."""
        parts = urlsplit(endpoint)
        self._host = parts.netloc.rpartition("@")[2]  # errors show it, and before the sign may be a password
        self.root = parts.path.rstrip("/")
        self._access = access
        self._way = Connections(parts.scheme, self._host, proxy_for(parts.scheme, self._host))
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
        try:
            await self._access.aclose()  # of the caller's credential, which may fail
        finally:
            await self._way.aclose()

    async def _exchange(
        self, method: str, path: str, query: str, headers: Mapping[str, str], expected: int, most: int, sent: bytes
    ) -> Reply | StoreFailure:
        """Send a request, read its answer; return a failure, which would keep this frame and what signs if raised."""
        named = f"{self._prefix}{next(self._numbers)}"
        request = Request(method, path, query, {**headers, _ID: named, "x-ms-version": VERSION}, len(sent))
        try:
            await self._access.grant(request)
        except StoreFailure as failure:
            return failure.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - from the caller's credential, and it may show what is secret
            return StoreFailure(detail=f"{type(error).__name__} from the account's credential")
        target = f"{path}?{request.query}" if request.query else path
        check = functools.partial(_check, asked=named)
        try:
            answer = await self._way.send(method, target, request.headers, sent, most or _NO_BODY, check)
        except Unanswered as error:
            return StoreFailure(detail=f"{error}: {self._host}")
        except Exception as error:  # noqa: BLE001 - whatever it is: it may show the URL, so it is told and not chained
            return StoreFailure(detail=f"{type(error).__name__}: {self._host}")
        return self._judged(answer, expected, most)

    def _judged(self, answer: Answer, expected: int, most: int) -> Reply | StoreFailure:
        status, headers, body = answer
        if status == expected:
            if most and len(body) > most:
                return StoreFailure(detail=f"an answer longer than {most} bytes: {self._host}")  # half of it is nothing
            return Reply(headers, body)
        if status == 401:
            self._access.refused()
        return _refusal(status, headers, body)


def _check(headers: Mapping[str, str], asked: str) -> None:
    """Raise if these are the headers of an answer to another request."""
    named = headers.get(_ID)
    if named is not None and named != asked:
        raise Unanswered("an answer to another request")


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the proxy that the environment names for a host (``HTTPS_PROXY``, ``NO_PROXY`` and their like).

    One without a scheme is asked over HTTP, as curl and requests do.
    """
    found = getproxies().get(scheme)
    if not found or proxy_bypass(host):
        return None
    return found if "://" in found else f"http://{found}"


def _refusal(status: int, headers: Mapping[str, str], body: bytes) -> StoreFailure:
    code = headers.get("x-ms-error-code")
    if not code and (found := _CODE.search(body)) is not None:
        code = found[1].decode()
    at = clock(headers)
    return StoreFailure(status, code, trouble(status, at), seconds(headers.get("Retry-After")), at)

"""See the lease requests that really go over the network, where HTTP clients get them: aiohttp, and those named.

So a verdict need not believe a lock's report of its leases. The record of a lease request has the operation, the blob,
a number by which lease ids are told apart, the seconds of a new lease, the status of the answer, and for how long the
answer was waited for. Requests to the storage are counted by kind, and for each leased blob.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
import time
from collections import Counter, defaultdict
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qs, unquote, urlsplit
from zlib import crc32

from aiohttp import ClientError, ClientSession

from simulator.history.journal import clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from simulator.history.journal import Write

_STEP: Final = 1.0
"""Seconds for which a count may be told late."""
_QUEUE: Final = {
    "GET": "receive messages",
    "POST": "send a message",
    "PUT": "update a message",
    "DELETE": "delete a message",
}
_UNTIL: Final = "x-ms-meta-SingletonUntil"
"""The header of the end of a kept result, in seconds since 1970. A write of metadata alone, as with a renewal, passes
the end of an earlier result on."""
_MADE: Final = 201
_FAILED: Final = 300
_OURS: Final = frozenset({"x-ms-lease-id", "If-None-Match", "If-Match"})
_REPLACES: Final = {"PUT": "replaced", "DELETE": "deleted"}
_ANEW: Final = re.compile(r"\A&(?!.*\b(comp|restype)=(?!blocklist|metadata))")
"""Queries of requests that replace a blob's content or metadata, or delete the blob."""
_MESSAGE: Final = re.compile(rb"<MessageId>([^<]+)</MessageId>")
STATE: Final = "write content under a lease"
_BLOB: Final = {"GET": "read a blob", "HEAD": "look at a blob", "PUT": "write a blob", "DELETE": "delete a blob"}


class Client(Protocol):
    """An HTTP client with one method for all requests."""

    def send(self, method: str, target: str, headers: Mapping[str, str], /, *more: Any) -> Awaitable[Any]:
        """Send a request; what comes in the end has a ``status`` and ``headers``."""


def _action(headers: Mapping[str, str]) -> str | None:
    """Return what is asked of a lease; a waiter that releases the lease of a silent holder breaks it."""
    action = headers.get("x-ms-lease-action")
    return "break" if action == "release" and "If-Match" in headers else action


def tap_leases(write: Write, *clients: type[Client]) -> None:
    """Write ``lease_request`` for each request of this process for a lease, its renewal or its end, by a delete too.

    It is written when the request is answered. ``blob`` is the path, with the account of an emulator. ``status`` is
    None if no answer came. ``code``: the error code of a refusal, if the answer has one. ``took``: seconds from the
    sending. Now and then ``storage_calls`` says how many requests of each kind were sent so far, in all and for each
    leased blob with new requests. ``blob_made`` is written of a request to make a blob, ``result_kept`` tells for
    how many seconds a result of ``once`` is written, ``message_put`` the id of a message that a queue took, and for
    how many seconds it is hidden, and lives. ``clients``: HTTP clients beside aiohttp.
    """
    calls = _Calls(write)

    async def told(action: str, path: str, about: dict[str, object], answering: Awaitable[Any]) -> Any:
        status, sent = None, clock()
        try:
            response = await answering
            status = response.status
            if code := response.headers.get("x-ms-error-code"):
                about["code"] = code
            return response
        finally:
            took = round(clock() - sent, 4)
            event = "blob_made" if action == "make" else "lease_request"
            write(event, action=action, blob=path, status=status, took=took, **about)

    async def put(url: str, answering: Awaitable[Any]) -> Any:
        response = await answering
        with suppress(ClientError, TimeoutError):  # who reads the answer next meets the same error
            if response.status == _MADE and (found := _MESSAGE.search(await response.read())):
                asked = parse_qs(urlsplit(url).query)
                delay, life = (int(asked.get(name, ["0"])[0]) for name in ("visibilitytimeout", "messagettl"))
                write("message_put", id=found[1].decode(), delay=delay, life=life)
        return response

    def seen(method: str, url: str, headers: Mapping[str, str], answering: Awaitable[Any]) -> Awaitable[Any]:
        action = _action(headers)
        leasing = action is not None and "comp=lease" in url
        calls.count(method, url, headers, action if leasing else None)
        if method == "PUT" and "comp=metadata" not in url and (end := headers.get(_UNTIL)):
            write("result_kept", blob=unquote(urlsplit(url).path), seconds=round(float(end) - time.time(), 1))
        if method == "DELETE" and "x-ms-version" in headers and "/messages" not in url:
            action, leasing = "delete", True
        if method == "POST" and "x-ms-version" in headers and "/messages" in url:
            return put(url, answering)
        if method == "PUT" and headers.get("If-None-Match") == "*":
            action, leasing = "make", True
        if not leasing or action is None:
            return answering
        lease = headers.get("x-ms-proposed-lease-id" if action == "acquire" else "x-ms-lease-id") or ""
        about: dict[str, object] = {"lease": f"{crc32(lease.encode()):08x}"}
        if period := headers.get("x-ms-lease-duration"):
            about["period"] = int(period)
        return told(action, unquote(urlsplit(url).path), about, answering)

    def tapped(send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        def sending(client: Client, method: str, target: str, headers: Mapping[str, str], *more: Any) -> Awaitable[Any]:
            return seen(method, target, headers, send(client, method, target, headers, *more))

        return sending

    request = ClientSession._request  # noqa: SLF001 - the one place that all requests of aiohttp go through

    def requesting(session: Any, method: str, url: Any, **more: Any) -> Awaitable[Any]:
        asked = method, str(url), more.get("headers") or {}
        return _replacing(write, *asked, seen(*asked, request(session, method, url, **more)))

    ClientSession._request = requesting  # type: ignore[method-assign,assignment]  # noqa: SLF001
    for client in clients:
        client.send = tapped(client.send)  # type: ignore[method-assign]


async def _replacing(write: Write, method: str, url: str, headers: Mapping[str, str], answering: Awaitable[Any]) -> Any:
    """Return the answer; tell of a blob that an app's client has replaced: the product has a lease, or a condition."""
    response = await answering
    action = "" if _OURS & {*headers} else _replaces(method, url, headers)
    if action and response.status < _FAILED:
        write("blob_replaced", blob=unquote(urlsplit(url).path), action=action)
    return response


def tap_user_code(write: Write) -> None:
    """Write ``blob_replaced`` for each blob that a client on ``requests`` overwrites or deletes: only apps have one.

    `tap_leases` writes it of clients on aiohttp, which replace a blob without a lease. Call after the import of the
    app, which imports ``requests`` if it needs that.
    """
    if (requests := sys.modules.get("requests")) is None:
        return
    send = requests.Session.send

    def sending(session: Any, request: Any, **more: Any) -> Any:
        answer = send(session, request, **more)
        if answer.ok and (action := _replaces(request.method, str(request.url), request.headers)):
            write("blob_replaced", blob=unquote(urlsplit(str(request.url)).path), action=action)
        return answer

    requests.Session.send = sending


def _replaces(method: str, url: str, headers: Mapping[str, str]) -> str:
    """Say what a request does to the blob that it replaces; the empty text if it replaces none."""
    path, _, query = url.partition("?")
    anew = "x-ms-version" in headers and "/messages" not in path and _ANEW.search(f"&{query}")
    return _REPLACES.get(method, "") if anew else ""


class _Calls:
    """Counts requests to the storage by kind, and tells the counts about a second after a change."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._counts: Counter[str] = Counter()
        self._of_blobs: dict[str, Counter[str]] = defaultdict(Counter)  # by path
        self._leased: set[str] = set()
        self._changed: set[str] = set()
        self._turn = threading.Lock()
        self._teller: asyncio.AbstractEventLoop | None = None  # which will tell

    def count(self, method: str, url: Any, headers: Mapping[str, str], action: str | None) -> None:
        if "x-ms-version" not in headers:
            return  # the app's own business, with somebody else
        kind, path = _kind(method, str(url), action), urlsplit(str(url)).path
        with self._turn:  # loops of several threads send requests
            self._counts[kind] += 1
            self._of_blobs[path][STATE if kind == _BLOB["PUT"] and "x-ms-lease-id" in headers else kind] += 1
            self._changed.add(path)
            if action is not None:
                self._leased.add(path)
            if self._teller is None or self._teller.is_closed():
                self._teller = asyncio.get_running_loop()
                self._teller.call_later(_STEP, self._tell)

    def _tell(self) -> None:
        with self._turn:
            self._teller = None
            calls = dict(self._counts)
            blobs = {unquote(path): dict(self._of_blobs[path]) for path in self._leased & self._changed}
            self._changed.clear()
        self._write("storage_calls", pid=os.getpid(), calls=calls, blobs=blobs)


def _kind(method: str, url: str, action: str | None) -> str:
    """Name a request's kind.

    >>> _kind("PUT", "http://host/a/locks/name?comp=lease", "renew"), _kind("GET", "http://host/a/locks/name", None)
    ('renew a lease', 'read a blob')
    >>> _kind("PUT", "http://host/a/locks?restype=container", None), _kind("POST", "http://host/a/q/messages", None)
    ('make a container', 'send a message')
    """
    if action is not None:
        return f"{action} a lease"
    path, _, query = url.partition("?")
    if "/messages" in path:
        return _QUEUE.get(method, method)
    if "restype=container" in query:
        return "list blobs" if "comp=list" in query else "make a container"
    if "comp=metadata" in query:
        return "write a blob's metadata"
    return _BLOB.get(method, method)

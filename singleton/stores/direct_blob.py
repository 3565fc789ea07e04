"""Leases on Azure blobs, asked of the service directly: a call is one HTTP request, without an SDK in between."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import quote

from singleton.base.forks import importing
from singleton.stores.http.connections import UNSENDABLE
from singleton.stores.protocol import MOST_LISTED, NOTHING, BlobState, Content, LeaseState, StoreFailure, within
from singleton.stores.refusals import clock, date

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from singleton.stores.http.answers import Headers
    from singleton.stores.lock_keeping import Page
    from singleton.stores.log_store import Tail
    from singleton.stores.wire import Wire

_PATHS: Final = 1024
"""Names with a cached path."""
_META: Final = "x-ms-meta-"
_PATIENCE: Final = 60.0
"""Seconds for an operator's request, which comes without a time limit. Locks set limits."""
_LONGEST_PAGE: Final = 64 * 2**20
"""Bytes of a page of a listing, at most: 5,000 blobs with 8 kB of metadata each are 40 MB."""


class DirectBlobStore:
    """A ``BlobStore`` on blobs of one container.

    Every method runs on one event loop. The protocols tell the contract of each request.
    """

    def __init__(self, wire: Wire, container: str) -> None:
        self._wire = wire
        self._container = f"{wire.root}/{quote(container, safe='~')}"
        self._path = lru_cache(_PATHS)(lambda name: f"{self._container}/{_quoted(name, '~/')}")

    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        headers = {"x-ms-lease-duration": str(duration), "x-ms-proposed-lease-id": lease_id}
        return _etag(await self._ask_of_lease(name, "acquire", headers, 201))

    async def renew(self, name: str, lease_id: str) -> str:
        return _needed(await self._ask_of_lease(name, "renew", {"x-ms-lease-id": lease_id}, 200), "x-ms-lease-id")

    async def release(self, name: str, lease_id: str) -> None:
        await self._ask_of_lease(name, "release", {"x-ms-lease-id": lease_id}, 200)

    async def evict(self, name: str, whose: str, etag: str) -> None:
        await self._ask_of_lease(name, "release", {"x-ms-lease-id": whose, "If-Match": etag}, 200)

    async def break_(self, name: str, etag: str | None = None, after: int | None = 0) -> int:
        headers = {} if after is None else {"x-ms-lease-break-period": str(after)}
        if etag is not None:
            headers["If-Match"] = etag
        replied = await within(_PATIENCE, self._ask_of_lease(name, "break", headers, 202))
        return _number(replied, "x-ms-lease-time")

    async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:
        return await self._with_container(lambda: self._make(name, metadata))

    async def read(self, name: str) -> BlobState:
        return _seen((await self._wire.ask("HEAD", self._path(name), "", {}, 200)).headers)

    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        headers = {"x-ms-lease-id": lease_id, "If-Match": etag, **_as_headers(metadata)}
        return _etag((await self._wire.ask("PUT", self._path(name), "comp=metadata", headers, 200)).headers)

    async def aclose(self) -> None:
        await self._wire.aclose()

    async def put(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str, body: bytes) -> str:
        headers = {"x-ms-blob-type": "BlockBlob", "x-ms-lease-id": lease_id, "If-Match": etag, **_as_headers(metadata)}
        return _etag((await self._wire.ask("PUT", self._path(name), "", headers, 201, body=body)).headers)

    async def get(self, name: str, lease_id: str | None, most: int) -> Content:
        headers = {} if lease_id is None else {"x-ms-lease-id": lease_id}
        reply = await self._wire.ask("GET", self._path(name), "", headers, 200, most=most, whole=False)
        return Content(_seen(reply.headers), reply.body if len(reply.body) <= most else b"", clock(reply.headers))

    async def start_log(self, name: str, metadata: Mapping[str, str]) -> bool:
        return await self._with_container(lambda: self._make(name, metadata, "AppendBlob")) is not None

    async def append(self, name: str, block: bytes) -> int:
        reply = await self._wire.ask("PUT", self._path(name), "comp=appendblock", {}, 201, body=block)
        return _number(reply.headers, "x-ms-blob-append-offset")

    async def tail(self, name: str, start: int, most: int) -> Tail:
        with importing:
            from singleton.stores.log_store import BEYOND, MOST_BLOCKS, Tail

        headers = {"x-ms-range": f"bytes={start}-{start + most - 1}"}
        try:
            reply = await self._wire.ask("GET", self._path(name), "", headers, 206, most=most)
        except StoreFailure as failure:
            if failure.code != BEYOND or start:
                raise
            reply = await self._wire.ask("GET", self._path(name), "", {}, 200, most=most)
        told = reply.headers
        blocks = _number(told, "x-ms-blob-committed-block-count") if told.get("x-ms-blob-type") == "AppendBlob" else 0
        return Tail(_etag(told), _metadata(told), blocks, blocks >= MOST_BLOCKS, reply.body)

    async def label(self, name: str, metadata: Mapping[str, str], etag: str) -> str:
        headers = {"If-Match": etag, **_as_headers(metadata)}
        return _etag((await self._wire.ask("PUT", self._path(name), "comp=metadata", headers, 200)).headers)

    async def drop(self, name: str, etag: str) -> None:
        await self._wire.ask("DELETE", self._path(name), "", {"If-Match": etag}, 202)

    async def note(self, name: str, metadata: Mapping[str, str]) -> None:
        headers = {"x-ms-blob-type": "BlockBlob", **_as_headers(metadata)}
        _etag((await self._wire.ask("PUT", self._path(name), "", headers, 201)).headers)

    async def noted(self, name: str) -> Mapping[str, str]:
        told = (await self._wire.ask("HEAD", self._path(name), "", {}, 200)).headers
        _etag(told)
        return _metadata(told)

    async def remove(self, name: str) -> None:
        await self._wire.ask("DELETE", self._path(name), "", {}, 202)

    async def page(self, prefix: str, marker: str | None = None, most: int = MOST_LISTED) -> Page:
        with importing:
            from singleton.stores.listing_page import read_page

        asked = {"include": "metadata", "prefix": prefix, "marker": marker or "", "maxresults": str(most)}
        query = "restype=container&comp=list" + "".join(
            f"&{key}={_quoted(text, '')}" for key, text in asked.items() if text
        )
        asking = self._wire.ask("GET", self._container, query, {}, 200, most=_LONGEST_PAGE)
        reply = await within(_PATIENCE, asking)
        return read_page(reply.body, reply.headers)

    async def _ask_of_lease(self, name: str, action: str, headers: Mapping[str, str], status: int) -> Headers:
        asked = {"x-ms-lease-action": action, **headers}
        replied = (await self._wire.ask("PUT", self._path(name), "comp=lease", asked, status)).headers
        _etag(replied)
        return replied

    async def _with_container(self, make: Callable[[], Awaitable[BlobState | None]]) -> BlobState | None:
        try:
            return await make()
        except StoreFailure as failure:
            if failure.code != "ContainerNotFound":
                raise
        try:
            await self._wire.ask("PUT", self._container, "restype=container", {}, 201)
        except StoreFailure as failure:
            if failure.code != "ContainerAlreadyExists":
                raise
        return await make()

    async def _make(self, name: str, metadata: Mapping[str, str], kind: str = "BlockBlob") -> BlobState | None:
        headers = {"x-ms-blob-type": kind, "If-None-Match": "*", **_as_headers(metadata)}
        try:
            replied = (await self._wire.ask("PUT", self._path(name), "", headers, 201)).headers
        except StoreFailure as failure:
            if failure.code in ("BlobAlreadyExists", "LeaseIdMissing"):
                return None
            raise
        etag, modified = _etag(replied), int(date(replied["Last-Modified"]))
        return BlobState(etag=etag, lease="available", modified=modified, metadata=metadata)


def _seen(headers: Headers) -> BlobState:
    etag, modified, at = _etag(headers), int(date(headers["Last-Modified"])), clock(headers)
    return BlobState(
        etag=etag,
        lease=cast("LeaseState", _needed(headers, "x-ms-lease-state")),
        modified=modified,
        metadata=_metadata(headers),
        endless=headers.get("x-ms-lease-duration") == "infinite",
        size=int(headers.lowered.get("content-length", 0)),
        age=math.inf if at is None else at - modified,
    )


def _quoted(text: str, safe: str) -> str:
    try:
        return quote(text, safe)
    except UnicodeEncodeError:
        raise _unsendable(f"{text!a}") from None


def _etag(headers: Headers) -> str:
    """Return the ETag. An answer without ETag or Last-Modified is not the service's, whatever its status."""
    try:
        date(headers.lowered.get("last-modified", ""))
    except ValueError:
        raise _nonsense("Last-Modified") from None
    return _needed(headers, "ETag")


def _needed(headers: Headers, name: str) -> str:
    value = headers.lowered.get(name.lower())
    if not value or not value.isascii():
        raise _nonsense(name)
    return value


def _number(headers: Headers, name: str) -> int:
    try:
        return int(_needed(headers, name))
    except ValueError:
        raise _nonsense(name) from None


def _nonsense(name: str) -> StoreFailure:
    return StoreFailure(detail=f"an answer without {name}: it is not from the storage service")


def _metadata(headers: Headers) -> dict[str, str]:
    return {key[len(_META) :]: value for key, value in headers.items() if key[: len(_META)].lower() == _META}


def _as_headers(metadata: Mapping[str, str]) -> dict[str, str]:
    for key, value in metadata.items():
        if UNSENDABLE.search(value):  # metadata that is not UTF-8 is read with surrogates
            raise _unsendable(f"metadata {key!a}")
    return {f"{_META}{key.strip()}": value.strip() for key, value in metadata.items()}


def _unsendable(what: str) -> StoreFailure:
    return StoreFailure(400, None, f"{what} can't be sent: it has a control character, or half of a surrogate pair")

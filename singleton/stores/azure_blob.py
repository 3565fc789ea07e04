"""Leases on Azure blobs, through azure-storage-blob's asyncio client. One HTTP request a call, no retries."""

from __future__ import annotations

import logging
import math
import re
import time
import traceback
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from singleton.base.errors import text_of
from singleton.base.forks import importing
from singleton.base.tasks import from_outside
from singleton.stores.access import TOLERATED
from singleton.stores.http import NOT_SENT
from singleton.stores.listing_page import in_quotes
from singleton.stores.lock_keeping import Listed, Page
from singleton.stores.log_store import BEYOND, MOST_BLOCKS, Tail
from singleton.stores.protocol import MOST_LISTED, NOTHING, BlobState, Content, LeaseState, StoreFailure
from singleton.stores.refusals import NOWHERE, clock, reason, refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from azure.core.exceptions import AzureError
    from azure.core.pipeline import PipelineResponse
    from azure.storage.blob import BlobProperties
    from azure.storage.blob.aio import BlobClient, ContainerClient

    from singleton.stores.access import Access
    from singleton.stores.protocol import Source
    from singleton.stores.refusals import Destination

_T = TypeVar("_T")

_CLIENTS = 256
"""Blob clients kept: making one takes half a millisecond, keeping one 35 kB."""
_QUERY = re.compile(r"\?[^\s'\"<>]*|\bsig=[^\s'\"<>&]*", re.IGNORECASE)
"""The query of a URL, and a signature anywhere in a text."""
_WHY: Final = "authenticationerrordetail"
_SIGNED = re.compile(rf"{_WHY}.*", re.IGNORECASE | re.DOTALL)
"""The service's reason, with signature and what was signed, and the body of the answer behind the reason."""
_TOKEN: Final = frozenset({"get_token", "get_token_info"})
"""Functions of a credential: an error that came through them left the storage unasked."""
_CONNECTOR: Final = "aiohttp.connector"
"""The module that opens connections, through a proxy too; requests are sent elsewhere."""
_TWO_SIGNATURES = "AUTHORIZATION header"
"""Part of aiohttp's error for a signed request where aiohttp finds other credentials, as in ``~/.netrc``."""
_NETRC = ": ~/.netrc has an entry for the storage's host, and the SDK reads it; remove that, or set http to 'direct'"


class Said(Exception):
    """What an error of azure-core said, without what a request's URL has behind its path: a signature may be in it."""

    def __init__(self, error: AzureError) -> None:
        super().__init__(f"{type(error).__name__}: {_SIGNED.sub('', _QUERY.sub('', text_of(error)))}")


class AzureBlobLeaseStore:
    """A ``BlobStore`` on the blobs of one container.

    Use the store on the loop of its making. The protocols tell the contract of each request. ``container`` is the
    SDK's client, also for requests that no lock makes.
    """

    def __init__(
        self, container: ContainerClient, *, close_with: tuple[Any, ...] = (), judged: Judging | None = None
    ) -> None:
        self.container = container
        self.judged = judged or Judging()
        self._close_with = (container, *close_with)
        self._client: Callable[[str], BlobClient] = lru_cache(_CLIENTS)(container.get_blob_client)

    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        lease = self._lease(name, lease_id)
        await self.judged(lease.acquire(lease_duration=duration))
        return _etag(lease.etag)

    async def renew(self, name: str, lease_id: str) -> str:
        """See ``LeaseStore.renew``. The SDK takes over the id in the reply, whosever it is (A-1): we return it."""
        lease = self._lease(name, lease_id)
        await self.judged(lease.renew())
        _etag(lease.etag)
        return str(lease.id)

    async def release(self, name: str, lease_id: str) -> None:
        lease = self._lease(name, lease_id)
        await self.judged(lease.release())
        _etag(lease.etag)

    async def evict(self, name: str, whose: str, etag: str) -> None:
        lease = self._lease(name, whose)
        await self.judged(lease.release(**if_it_is(etag)))
        _etag(lease.etag)

    async def break_(self, name: str, etag: str | None = None, after: int | None = 0) -> int:
        return int(await self.judged(self._lease(name, None).break_lease(lease_break_period=after, **if_it_is(etag))))

    async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:
        return await self._with_container(lambda: self._upload(name, metadata))

    async def read(self, name: str) -> BlobState:
        noted = _Clock()
        properties = await self.judged(self._client(name).get_blob_properties(raw_response_hook=noted))
        return _seen(properties, noted)

    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        request = self._client(name).set_blob_metadata(dict(metadata), lease=lease_id, **if_it_is(etag))
        reply = await self.judged(request)
        return _etag(reply["etag"])

    async def put(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str, body: bytes) -> str:
        lease = self._lease(name, lease_id)
        request = self._client(name).upload_blob(
            body, overwrite=True, metadata=dict(metadata), lease=lease, **if_it_is(etag)
        )
        return _etag((await self.judged(request))["etag"])

    async def get(self, name: str, lease_id: str | None, most: int) -> Content:
        noted = _Clock()
        reply = await self.judged(self._client(name).download_blob(lease=lease_id, raw_response_hook=noted))
        body = await self.judged(reply.readall()) if reply.size <= most else b""
        return Content(_seen(reply.properties, noted), body, noted.at)

    async def start_log(self, name: str, metadata: Mapping[str, str]) -> bool:
        with importing:
            from azure.core import MatchConditions

        def made() -> Awaitable[object]:
            asking = self._client(name).create_append_blob(
                metadata=dict(metadata), match_condition=MatchConditions.IfMissing
            )
            return self.judged(asking)

        try:
            await self._with_container(made)
        except StoreFailure as failure:
            if failure.code != "BlobAlreadyExists":
                raise
            return False
        return True

    async def append(self, name: str, block: bytes) -> int:
        return int(str((await self.judged(self._client(name).append_block(block)))["blob_append_offset"]))

    async def tail(self, name: str, start: int, most: int) -> Tail:
        try:
            reply = await self.judged(self._client(name).download_blob(start, most))
        except StoreFailure as failure:
            if failure.code != BEYOND or start:
                raise
            reply = await self.judged(self._client(name).download_blob())
        if reply.size > most:
            raise StoreFailure(detail=f"more than {most} bytes")
        told, body = reply.properties, await self.judged(reply.readall())
        blocks = int(told.append_blob_committed_block_count or 0)
        return Tail(str(told.etag), dict(told.metadata or {}), blocks, blocks >= MOST_BLOCKS, body)

    async def label(self, name: str, metadata: Mapping[str, str], etag: str) -> str:
        return _etag(
            (await self.judged(self._client(name).set_blob_metadata(dict(metadata), **if_it_is(etag))))["etag"]
        )

    async def drop(self, name: str, etag: str) -> None:
        await self.judged(self._client(name).delete_blob(**if_it_is(etag)))

    async def note(self, name: str, metadata: Mapping[str, str]) -> None:
        await self.judged(
            self.container.get_blob_client(name).upload_blob(b"", overwrite=True, metadata=dict(metadata))
        )

    async def noted(self, name: str) -> Mapping[str, str]:
        properties = await self.judged(self.container.get_blob_client(name).get_blob_properties())
        return dict(properties.metadata or {})

    async def remove(self, name: str) -> None:
        await self.judged(self.container.get_blob_client(name).delete_blob())

    async def page(self, prefix: str, marker: str | None = None, most: int = MOST_LISTED) -> Page:
        noted = _Clock()
        pages = self.container.list_blobs(
            name_starts_with=prefix, include=["metadata"], results_per_page=most, raw_response_hook=noted
        ).by_page(marker)
        found = await self.judged(anext(pages))
        entries = [_listed(blob) async for blob in found]
        token: str | None = getattr(pages, "continuation_token", None)
        return Page(entries=tuple(entries), marker=token or None, at=time.time() if noted.at is None else noted.at)

    async def aclose(self) -> None:
        for closable in self._close_with:
            await closable.close()

    async def _with_container(self, make: Callable[[], Awaitable[_T]]) -> _T:
        try:
            return await make()
        except StoreFailure as failure:
            if failure.code != "ContainerNotFound":
                raise
        await done(self.judged(self.container.create_container()), "ContainerAlreadyExists")
        return await make()

    async def _upload(self, name: str, metadata: Mapping[str, str]) -> BlobState | None:
        try:
            reply = await self.judged(self._client(name).upload_blob(b"", overwrite=False, metadata=dict(metadata)))
        except StoreFailure as failure:
            if failure.code in ("BlobAlreadyExists", "LeaseIdMissing"):
                return None
            raise
        etag, modified = _etag(reply["etag"]), int(reply["last_modified"].timestamp())
        return BlobState(etag=etag, lease="available", modified=modified, metadata=metadata)

    def _lease(self, name: str, lease_id: str | None) -> Any:
        """Make a lease client per request: after a release, the SDK's forgets its id."""
        with importing:
            from azure.storage.blob.aio import BlobLeaseClient

        return BlobLeaseClient(self._client(name), lease_id=lease_id)


class _Clock:
    """The service's clock in the last answer that had it, as the ``raw_response_hook`` of a request of the SDK."""

    at: float | None = None

    def __call__(self, response: PipelineResponse[Any, Any]) -> None:
        if (at := clock(response.http_response.headers)) is not None:
            self.at = at


def _etag(told: object) -> str:
    """Return the ETag. An answer without an ETag is not the service's, whatever its status."""
    if not told:
        raise StoreFailure(detail="an answer without ETag: it is not from the storage service")
    return str(told)


def _seen(properties: BlobProperties, noted: _Clock) -> BlobState:
    etag, modified = _etag(properties.etag), int(properties.last_modified.timestamp())
    return BlobState(
        etag=etag,
        lease=cast("LeaseState", str(properties.lease.state)),
        modified=modified,
        metadata=dict(properties.metadata or {}),
        endless=properties.lease.duration == "infinite",
        size=properties.size,
        age=(math.inf if noted.at is None else noted.at) - modified,
    )


def _listed(blob: BlobProperties) -> Listed:
    return Listed(
        name=str(blob.name),
        etag=in_quotes(str(blob.etag)),
        lease=cast("LeaseState", str(blob.lease.state)),
        modified=int(blob.last_modified.timestamp()),
        metadata=dict(blob.metadata or {}),
        size=int(blob.size or 0),
        endless=blob.lease.duration == "infinite",
    )


def if_it_is(etag: str | None) -> dict[str, Any]:
    """Return the SDK's arguments for a request that is carried out only if the blob has this ETag."""
    with importing:
        from azure.core import MatchConditions

    return {} if etag is None else {"etag": etag, "match_condition": MatchConditions.IfNotModified}


class Judging:
    """Awaits the SDK's requests to one container or queue; turns errors into a ``StoreFailure``.

    The cause is a ``Said``, without secrets: printing an error prints its causes and contexts, too.
    """

    def __init__(self, to: Destination = NOWHERE, signature: Access | None = None) -> None:
        """``signature``: the SAS of the requests, if they have one."""
        self._to = to
        self._signature = signature
        self._answered = False  # and perhaps sent: aiohttp connects anew and sends a request again, unasked

    async def __call__(self, request: Awaitable[_T]) -> _T:
        """Await a request of the SDK. A SAS that is of another time is not sent."""
        with importing:
            from azure.core.exceptions import AzureError

        if self._signature is not None and (late := self._signature.untimely(TOLERATED)):
            request.close()  # type: ignore[attr-defined] # it is a coroutine
            raise StoreFailure(401, None, f"{late}, {self._to.name}", source="unsent")
        unsent = False
        try:
            return await request
        except BaseException as error:  # of the SDK an OSError, a ValueError; of the app's credential or transport any
            places = _places(error)
            if isinstance(error, AzureError):  # the SDK makes it of another error
                places |= _places(error.__context__)
            no_token = not places.isdisjoint(_TOKEN)
            unsent = no_token or (_CONNECTOR in places and not self._answered)
            if from_outside(error):
                if unsent:
                    error.add_note(NOT_SENT)
                raise
            failure = self._failure(error, "unsent" if unsent else "unknown")
            if no_token:
                denied = failure.meaning in ("denied", "refused") or failure.status == 404
                what = ", ".join(filter(None, (f"the credential gave no token: {_named(error)}", self._to.name)))
                failure = StoreFailure(401 if denied else None, None, what, source="unsent")
            failure.__cause__ = Said(error) if isinstance(error, AzureError) else None
        finally:
            self._answered = self._answered or not unsent
        raise failure

    def _failure(self, error: BaseException, source: Source) -> StoreFailure:
        with importing:
            from azure.core.exceptions import AzureError, ClientAuthenticationError

        if isinstance(error, StoreFailure):  # of who looks at the answers of the SDK
            return error
        if not isinstance(error, AzureError):
            what = type(error).__name__
            twice = _TWO_SIGNATURES in text_of(error)  # and does not end by itself, as an answer that never came might
            return StoreFailure(401, None, what + _NETRC) if twice else StoreFailure(detail=what)
        response = getattr(error, "response", None)
        status = getattr(error, "status_code", None)
        if status is None:
            denied = isinstance(error, ClientAuthenticationError)  # by a policy of the SDK, before the sending
            return StoreFailure(401 if denied else None, None, _named(error), source="unsent" if denied else source)
        headers: Mapping[str, str] = getattr(response, "headers", None) or {}
        code = getattr(error, "error_code", None) or headers.get("x-ms-error-code")
        code = str(getattr(code, "value", code)) if code else None
        told = getattr(error, "additional_info", None) or {}
        reasons = [reason(str(text)) for key, text in told.items() if key.lower() == _WHY]
        if self._signature is not None and status in (401, 403):
            reasons.append(self._signature.untimely())
        return refusal(status, code, headers, self._to, *reasons)


judged: Final = Judging()
"""For requests of no store."""


async def done(judged: Awaitable[object], *codes: str) -> None:
    """Await a request that is judged; an answer with one of the codes means that there was nothing to do."""
    try:
        await judged
    except StoreFailure as failure:
        if failure.code not in codes:
            raise


def _places(error: BaseException | None) -> set[str]:
    frames = [frame for frame, _ in traceback.walk_tb(None if error is None else error.__traceback__)]
    return {name for frame in frames for name in (str(frame.f_globals.get("__name__")), frame.f_code.co_name)}


def _named(error: BaseException) -> str:
    """Name the error that kept a request from its answer, and the host where known."""
    if isinstance(error, StoreFailure):
        return error.detail
    cause = getattr(error, "inner_exception", None)
    host, port = getattr(cause, "host", None), getattr(cause, "port", None)
    why = getattr(getattr(cause, "os_error", None), "strerror", None)
    if not isinstance(host, str):
        return type(error).__name__
    return f"{type(error).__name__}: {host}:{port}" + (f", {why}" if isinstance(why, str) else "")


def quiet_logger() -> logging.Logger:
    """Return a logger for the SDK's request log: 409 is how a lock hears "not yours", not an incident (B14)."""
    logger = logging.getLogger("singleton.http")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    return logger

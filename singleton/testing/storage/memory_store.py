"""The blob service's documented lease behaviour, in memory, on the running loop's clock.

Not a stub: every state, conflict and error code of the service that a lock can meet, so a proof on this store holds on
the service. Known differences of the Azurite emulator (facts A-1…A-4) are the emulator's, not copied.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from singleton.stores.lock_keeping import IN_USE, LONGEST_BREAK, Listed, Page
from singleton.stores.log_store import BEYOND, FULL, LONGEST_BLOCK, MOST_BLOCKS, NO_LOG, Tail
from singleton.stores.protocol import HELD, MOST_LISTED, NOTHING, BlobState, Content, LeaseState, StoreFailure
from singleton.stores.stamps import without_content

if TYPE_CHECKING:
    from collections.abc import Mapping

_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_as_guid = functools.lru_cache(maxsize=4096)(_GUID.fullmatch)
"""Cached: a waiter asks again and again with the same id."""


@dataclass(slots=True)
class _Blob:
    etag: str
    modified: int
    metadata: dict[str, str] = field(default_factory=dict)
    lease_id: str | None = None
    duration: float = 0.0
    expires: float = -math.inf
    breaks: float | None = None
    body: bytes = b""
    blocks: int | None = None
    """Of a log."""

    def state(self, now: float) -> LeaseState:
        if self.lease_id is None:
            return "available"
        if self.breaks is not None:
            return "breaking" if now < self.breaks else "broken"
        return "leased" if now < self.expires else "expired"


def _refuse_held(blob: _Blob, now: float) -> None:
    if blob.state(now) in HELD:
        raise StoreFailure(412, IN_USE)


def _check_lease(blob: _Blob, lease_id: str, now: float) -> None:
    state = blob.state(now)
    if blob.lease_id is None or state == "broken":
        raise StoreFailure(412, "LeaseNotPresentWithBlobOperation")
    if blob.lease_id != lease_id:
        raise StoreFailure(412, "LeaseIdMismatchWithBlobOperation")
    if state == "expired":
        raise StoreFailure(412, "LeaseLost")


class MemoryLeaseStore:
    """A ``BlobStore`` without a network.

    Several locks, clients or simulated hosts may share a store. The protocols tell the contract of each request.

    ``calls`` counts requests by name, for tests that hold a lock to its number of requests. ``most_blocks``: of a log.
    """

    most_blocks = MOST_BLOCKS

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self._blobs: dict[str, _Blob] = {}
        self._etags = itertools.count(1)

    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        now = self._begin("acquire")
        if not (15 <= duration <= 60 or duration == -1):
            raise StoreFailure(400, "InvalidHeaderValue", f"lease duration {duration}: 15 to 60 s, or -1 without end")
        if not _as_guid(lease_id):
            raise StoreFailure(400, "InvalidHeaderValue", f"lease id {lease_id[:40]!r} is no GUID")
        blob = self._blob(name)
        state = blob.state(now)
        if state == "leased" and blob.lease_id != lease_id:
            raise StoreFailure(409, "LeaseAlreadyPresent")
        if state == "breaking":
            same = blob.lease_id == lease_id
            raise StoreFailure(409, "LeaseIsBreakingAndCannotBeAcquired" if same else "LeaseAlreadyPresent")
        blob.duration = math.inf if duration == -1 else duration
        blob.lease_id, blob.expires, blob.breaks = lease_id, now + blob.duration, None
        return blob.etag

    async def renew(self, name: str, lease_id: str) -> str:
        now = self._begin("renew")
        blob = self._owned(name, lease_id)
        if blob.state(now) in ("breaking", "broken"):
            raise StoreFailure(409, "LeaseIsBrokenAndCannotBeRenewed")
        blob.expires = now + blob.duration
        return lease_id

    async def release(self, name: str, lease_id: str) -> None:
        self._begin("release")
        blob = self._owned(name, lease_id)
        blob.lease_id, blob.breaks = None, None

    async def evict(self, name: str, whose: str, etag: str) -> None:
        self._begin("evict")
        self._as_known(name, etag)
        blob = self._owned(name, whose)
        blob.lease_id, blob.breaks = None, None

    async def break_(self, name: str, etag: str | None = None, after: int | None = 0) -> int:
        now = self._begin("break")
        if after is not None and not 0 <= after <= LONGEST_BREAK:
            raise StoreFailure(400, "InvalidHeaderValue", f"break period {after}: 0 to {LONGEST_BREAK} s")
        blob = self._blob(name)
        if etag not in (None, blob.etag):
            raise StoreFailure(412, "ConditionNotMet")
        if blob.lease_id is None:
            raise StoreFailure(409, "LeaseNotPresentWithLeaseOperation")
        if after is None and blob.expires == math.inf:
            after = 0
        ends = blob.expires if after is None else min(blob.expires, now + after)
        blob.breaks = max(now, ends) if blob.breaks is None else min(blob.breaks, ends)
        return math.ceil(max(0.0, blob.breaks - now))

    async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:
        now = self._begin("create")
        if name in self._blobs:
            return None
        self._blobs[name] = _Blob(self._etag(), int(now), dict(metadata))
        return self._seen(name, now)

    async def read(self, name: str) -> BlobState:
        now = self._begin("read")
        return self._seen(name, now)

    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        """See ``LeaseStore.write``. The condition is judged before the blob's lease, and before a missing blob."""
        now = self._begin("write")
        blob = self._as_known(name, etag)
        _check_lease(blob, lease_id, now)
        return self._write(blob, metadata, now)

    async def put(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str, body: bytes) -> str:
        now = self._begin("put")
        blob = self._as_known(name, etag)
        _check_lease(blob, lease_id, now)
        blob.body = body
        return self._write(blob, metadata, now)

    async def get(self, name: str, lease_id: str | None, most: int) -> Content:
        now = self._begin("get")
        blob = self._blob(name)
        if lease_id is not None:
            _check_lease(blob, lease_id, now)
        return Content(self._seen(name, now), blob.body if len(blob.body) <= most else b"", now)

    async def start_log(self, name: str, metadata: Mapping[str, str]) -> bool:
        now = self._begin("start_log")
        if name in self._blobs:
            return False
        self._blobs[name] = _Blob(self._etag(), int(now), dict(metadata), blocks=0)
        return True

    async def append(self, name: str, block: bytes) -> int:
        now = self._begin("append")
        blob = self._blob(name)
        _refuse_held(blob, now)
        if blob.blocks is None:
            raise StoreFailure(409, NO_LOG)
        if not 0 < len(block) <= LONGEST_BLOCK:
            raise StoreFailure(413, "RequestBodyTooLarge")
        if blob.blocks >= self.most_blocks:
            raise StoreFailure(409, FULL)
        at = len(blob.body)
        blob.body, blob.blocks = blob.body + block, blob.blocks + 1
        self._write(blob, blob.metadata, now)
        return at

    async def tail(self, name: str, start: int, most: int) -> Tail:
        self._begin("tail")
        blob = self._blob(name)
        if start and start >= len(blob.body):
            raise StoreFailure(416, BEYOND)
        blocks = blob.blocks or 0
        full = blocks >= self.most_blocks
        return Tail(blob.etag, dict(blob.metadata), blocks, full, blob.body[start : start + most])

    async def label(self, name: str, metadata: Mapping[str, str], etag: str) -> str:
        now = self._begin("label")
        blob = self._as_known(name, etag)
        _refuse_held(blob, now)
        return self._write(blob, metadata, now)

    async def drop(self, name: str, etag: str) -> None:
        now = self._begin("drop")
        blob = self._blob(name)
        if blob.etag != etag:
            raise StoreFailure(412, "ConditionNotMet")
        _refuse_held(blob, now)
        self.delete(name)

    async def page(self, prefix: str, marker: str | None = None, most: int = MOST_LISTED) -> Page:
        """See ``BlobStore.page``; the marker is the name of the last entry before."""
        now = self._begin("page")
        names = sorted(name for name in self._blobs if name.startswith(prefix) and name > (marker or ""))
        entries = tuple(self._seen(name, now) for name in names[:most])
        return Page(entries=entries, marker=entries[-1].name if len(names) > most else None, at=now)

    async def aclose(self) -> None:
        """See ``LeaseStore.aclose``."""

    def edit(self, name: str, metadata: Mapping[str, str]) -> str:
        """Replace the metadata without a lease, as an operator would; a lease that has ended is gone then."""
        now = self._begin("edit")
        blob = self._blob(name)
        _refuse_held(blob, now)
        blob.lease_id, blob.breaks = None, None
        return self._write(blob, metadata, now)

    def fill(self, name: str, marks: Mapping[str, str], body: bytes) -> None:
        """Make the blob, or replace its content and the marks of that, whoever has the lease."""
        now = self._begin("fill")
        blob = self._blobs.setdefault(name, _Blob("", 0))
        blob.body = body
        self._write(blob, {**without_content(blob.metadata), **marks}, now)

    async def note(self, name: str, metadata: Mapping[str, str]) -> None:
        now = self._begin("note")
        self._blobs[name] = _Blob(self._etag(), int(now), dict(metadata))

    async def noted(self, name: str) -> Mapping[str, str]:
        self._begin("noted")
        return dict(self._blob(name).metadata)

    async def remove(self, name: str) -> None:
        self._begin("remove")
        self._blob(name)
        self.delete(name)

    def delete(self, name: str) -> None:
        """Delete the blob as an operator would who breaks its lease first."""
        self._blobs.pop(name, None)

    def names(self) -> list[str]:
        """Return the names of all blobs."""
        return list(self._blobs)

    def leased(self) -> dict[str, str]:
        """Return the names and ids of all leases that are active now."""
        now = asyncio.get_running_loop().time()
        return {name: blob.lease_id or "" for name, blob in self._blobs.items() if blob.state(now) in HELD}

    def _seen(self, name: str, now: float) -> Listed:
        blob = self._blob(name)
        return Listed(
            name=name,
            etag=blob.etag,
            lease=blob.state(now),
            modified=blob.modified,
            metadata=dict(blob.metadata),
            endless=blob.state(now) == "leased" and blob.expires == math.inf,
            size=len(blob.body),
            age=int(now) - blob.modified,
        )

    def _begin(self, call: str) -> float:
        self.calls[call] += 1
        return asyncio.get_running_loop().time()

    def _blob(self, name: str) -> _Blob:
        if name not in self._blobs:
            raise StoreFailure(404, "BlobNotFound", at=asyncio.get_running_loop().time())
        return self._blobs[name]

    def _as_known(self, name: str, etag: str) -> _Blob:
        if name not in self._blobs or self._blobs[name].etag != etag:
            raise StoreFailure(412, "ConditionNotMet")
        return self._blobs[name]

    def _write(self, blob: _Blob, metadata: Mapping[str, str], now: float) -> str:
        blob.metadata, blob.etag, blob.modified = dict(metadata), self._etag(), int(now)
        return blob.etag

    def _owned(self, name: str, lease_id: str) -> _Blob:
        blob = self._blob(name)
        if blob.lease_id != lease_id:
            raise StoreFailure(409, "LeaseIdMismatchWithLeaseOperation")
        return blob

    def _etag(self) -> str:
        return f'"{next(self._etags):#x}"'

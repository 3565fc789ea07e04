"""The answer to each request on a blob in each state of its lease: the table of the service's documentation.

Sources: "Lease Blob" and "Specifying conditional headers" of the Blob service REST API. If the documentation has a
status but no code, the meaning counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from singleton.stores.protocol import ContentStore, LeaseState, LeaseStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable

Start = Literal["missing", "available", "leased", "broken", "expired"]
LeaseCall = Literal["acquire", "renew", "release", "evict", "break", "write", "read", "create", "put", "get", "peek"]
IdOwner = Literal["mine", "other"]

A, B = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
"""The id of the lease, and the id of another lease."""


@dataclass(frozen=True, slots=True)
class LeaseRow:
    """A request on a state of the lease, and the outcome: ok, or status and meaning."""

    start: Start
    call: LeaseCall
    who: IdOwner
    outcome: str

    def __str__(self) -> str:
        return f"{self.call}-{self.who}-on-{self.start}"

    @property
    def after(self) -> LeaseState | None:
        """The state after the request. It differs from the state before only if the request succeeded."""
        if self.start == "missing":
            return "available" if self.call == "create" else None
        return _LEAVES.get(self.call, self.start) if self.outcome == "ok" else self.start

    @property
    def divergence(self) -> str:
        """Name of a known difference of Azurite: A-1, renewing an expired lease works with any id (Azurite#2352)."""
        return "A-1" if str(self) == "renew-other-on-expired" else ""


_LEAVES: dict[LeaseCall, LeaseState] = {
    "acquire": "leased",
    "renew": "leased",
    "release": "available",
    "evict": "available",
    "break": "broken",
}
_STARTS: tuple[Start, ...] = ("missing", "available", "leased", "broken", "expired")
_OUTCOMES: dict[tuple[LeaseCall, IdOwner], tuple[str, ...]] = {
    ("acquire", "mine"): ("404 missing", "ok", "ok", "ok", "ok"),
    ("acquire", "other"): ("404 missing", "ok", "409 held", "ok", "ok"),
    ("renew", "mine"): ("404 missing", "409 lost", "ok", "409 lost", "ok"),
    ("renew", "other"): ("404 missing", "409 lost", "409 lost", "409 lost", "409 lost"),
    ("release", "mine"): ("404 missing", "409 lost", "ok", "ok", "ok"),
    ("release", "other"): ("404 missing", "409 lost", "409 lost", "409 lost", "409 lost"),
    ("evict", "mine"): ("404 missing", "409 lost", "ok", "ok", "ok"),
    ("evict", "other"): ("404 missing", "409 lost", "409 lost", "409 lost", "409 lost"),
    ("break", "other"): ("404 missing", "409 lost", "ok", "ok", "ok"),
    ("write", "mine"): ("404 missing", "412 lost", "ok", "412 lost", "412 lost"),
    ("write", "other"): ("404 missing", "412 lost", "412 lost", "412 lost", "412 lost"),
    ("read", "other"): ("404 missing", "ok", "ok", "ok", "ok"),
    ("create", "other"): ("ok", "ok", "ok", "ok", "ok"),
    ("put", "mine"): ("404 missing", "412 lost", "ok", "412 lost", "412 lost"),
    ("put", "other"): ("404 missing", "412 lost", "412 lost", "412 lost", "412 lost"),
    ("get", "mine"): ("404 missing", "412 lost", "ok", "412 lost", "412 lost"),
    ("get", "other"): ("404 missing", "412 lost", "412 lost", "412 lost", "412 lost"),
    ("peek", "other"): ("404 missing", "ok", "ok", "ok", "ok"),
}
CONTENT: frozenset[LeaseCall] = frozenset({"put", "get", "peek"})
"""Requests that only a ``ContentStore`` has."""
TABLE = [
    LeaseRow(start, call, who, outcome)
    for (call, who), outcomes in _OUTCOMES.items()
    for start, outcome in zip(_STARTS, outcomes, strict=True)
]


async def bring_about(store: LeaseStore, name: str, start: Start) -> None:
    """Make a blob in this state; "expired" is "leased" until somebody has waited 15 s."""
    if start == "missing":
        await store.create(f"{name}-beside-it")
        return
    await store.create(name)
    if start in ("leased", "broken", "expired"):
        await store.acquire(name, A, 15)
    if start == "broken":
        await store.break_(name)


async def ask(store: LeaseStore, name: str, call: LeaseCall, lease_id: str) -> str:
    """Make the request; return "ok", or status and meaning of the answer."""

    async def asked() -> None:
        etag = (await store.read(name)).etag if call in ("write", "put", "evict") else ""
        await request(store, name, call, lease_id, etag)

    return await outcome(asked())


async def written(store: LeaseStore, name: str, lease_id: str, **metadata: str) -> str:
    """Read the blob, then write this metadata on condition that the blob has not changed; return the new ETag."""
    return await store.write(name, lease_id, metadata, (await store.read(name)).etag)


def request(store: LeaseStore, name: str, call: LeaseCall, lease_id: str, etag: str = '"0x0"') -> Awaitable[object]:
    """Return the request, to be awaited. A write has this ETag as its condition."""
    match call:
        case "acquire":
            return store.acquire(name, lease_id, 15)
        case "renew":
            return _renewed(store, name, lease_id)
        case "release":
            return store.release(name, lease_id)
        case "evict":
            return store.evict(name, lease_id, etag)
        case "break":
            return store.break_(name)
        case "write":
            return store.write(name, lease_id, {"Key": "value"}, etag)
        case "read":
            return store.read(name)
        case "create":
            return store.create(name)
        case "put":
            return content_store(store).put(name, lease_id, {"Key": "value"}, etag, b"content")
        case "get":
            return content_store(store).get(name, lease_id, 100)
        case "peek":
            return content_store(store).get(name, None, 100)


def content_store(store: LeaseStore) -> ContentStore:
    """Return the store, which must be able to keep content."""
    assert isinstance(store, ContentStore)
    return store


async def outcome(pending: Awaitable[object]) -> str:
    """Return "ok", or status and meaning of the answer."""
    try:
        await pending
    except StoreFailure as failure:
        return f"{failure.status} {failure.meaning}"
    return "ok"


async def loss(pending: Awaitable[object]) -> str | None:
    """Return why a hold is lost, by this answer. None: it may still be held, or nothing was refused."""
    try:
        await pending
    except StoreFailure as failure:
        return failure.loss
    return None


async def state_of(store: LeaseStore, name: str) -> LeaseState | None:
    """Return the lease's state, or None if there is no blob."""
    try:
        return (await store.read(name)).lease
    except StoreFailure:
        return None


class OtherLeaseError(AssertionError):
    """A renewal returned the id of another lease: the difference A-1, which locks notice."""


async def _renewed(store: LeaseStore, name: str, lease_id: str) -> None:
    if (renewed := await store.renew(name, lease_id)) != lease_id:
        raise OtherLeaseError(f"renewed for somebody else: {renewed}")


async def check(store: LeaseStore, row: LeaseRow, name: str) -> None:
    """Make the row's request on a blob that is in its state."""
    lease_id = A if row.who == "mine" else B
    assert await ask(store, name, row.call, lease_id) == row.outcome, f"{row}: outcome"
    assert await state_of(store, name) == row.after, f"{row}: state after"

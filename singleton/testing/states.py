"""What each request gets from a blob in each state of its lease: the table of the service's documentation.

Sources: "Lease Blob" and "Specifying conditional headers" of the Blob service REST API. Where the
documentation gives a status but no code, the meaning counts.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from singleton.stores.protocol import LeaseState, LeaseStore, StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable

Start = Literal["missing", "available", "leased", "broken", "expired"]
Call = Literal["acquire", "renew", "release", "break", "write", "read", "create"]
Who = Literal["mine", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request on one state. ``outcome``: ok, or status and meaning; ``after``: the state that it leaves."""

    start: Start
    call: Call
    who: Who = "mine"
    outcome: str
    after: LeaseState | None
    divergence: str = ""
    """Name of a known difference of Azurite: A-1, renewing an expired lease succeeds with any id (Azurite#2352)."""

    def __str__(self) -> str:
        return f"{self.call}-{self.who}-on-{self.start}"


def _row(start: Start, call: Call, who: Who, outcome: str, after: LeaseState | None, divergence: str = "") -> Row:
    return Row(start=start, call=call, who=who, outcome=outcome, after=after, divergence=divergence)


TABLE = [
    _row("missing", "acquire", "mine", "404 missing", None),
    _row("missing", "renew", "mine", "404 missing", None),
    _row("missing", "release", "mine", "404 missing", None),
    _row("missing", "break", "mine", "404 missing", None),
    _row("missing", "write", "mine", "404 missing", None),
    _row("missing", "read", "mine", "404 missing", None),
    _row("missing", "create", "mine", "ok", "available"),
    _row("available", "acquire", "mine", "ok", "leased"),
    _row("available", "renew", "mine", "409 lost", "available"),
    _row("available", "release", "mine", "409 lost", "available"),
    _row("available", "break", "mine", "409 lost", "available"),
    _row("available", "write", "mine", "412 lost", "available"),
    _row("available", "read", "mine", "ok", "available"),
    _row("available", "create", "mine", "ok", "available"),
    _row("leased", "acquire", "mine", "ok", "leased"),
    _row("leased", "acquire", "other", "409 held", "leased"),
    _row("leased", "renew", "mine", "ok", "leased"),
    _row("leased", "renew", "other", "409 lost", "leased"),
    _row("leased", "release", "mine", "ok", "available"),
    _row("leased", "release", "other", "409 lost", "leased"),
    _row("leased", "break", "other", "ok", "broken"),
    _row("leased", "write", "mine", "ok", "leased"),
    _row("leased", "write", "other", "412 lost", "leased"),
    _row("leased", "read", "other", "ok", "leased"),
    _row("leased", "create", "other", "ok", "leased"),
    _row("broken", "acquire", "mine", "ok", "leased"),
    _row("broken", "acquire", "other", "ok", "leased"),
    _row("broken", "renew", "mine", "409 lost", "broken"),
    _row("broken", "renew", "other", "409 lost", "broken"),
    _row("broken", "release", "mine", "ok", "available"),
    _row("broken", "release", "other", "409 lost", "broken"),
    _row("broken", "break", "other", "ok", "broken"),
    _row("broken", "write", "mine", "412 lost", "broken"),
    _row("broken", "write", "other", "412 lost", "broken"),
    _row("broken", "read", "other", "ok", "broken"),
    _row("broken", "create", "other", "ok", "broken"),
    _row("expired", "acquire", "mine", "ok", "leased"),
    _row("expired", "acquire", "other", "ok", "leased"),
    _row("expired", "renew", "mine", "ok", "leased"),
    _row("expired", "renew", "other", "409 lost", "expired", "A-1"),
    _row("expired", "release", "mine", "ok", "available"),
    _row("expired", "release", "other", "409 lost", "expired"),
    _row("expired", "break", "other", "ok", "broken"),
    _row("expired", "write", "mine", "412 lost", "expired"),
    _row("expired", "write", "other", "412 lost", "expired"),
    _row("expired", "read", "other", "ok", "expired"),
    _row("expired", "create", "other", "ok", "expired"),
]


async def bring_about(store: LeaseStore, name: str, start: Start, lease_id: str) -> None:
    """Make a blob in this state; "expired" is "leased" until somebody has waited 15 s."""
    if start == "missing":
        await store.create(f"{name}-beside-it")
        return
    await store.create(name)
    if start in ("leased", "broken", "expired"):
        await store.acquire(name, lease_id, 15)
    if start == "broken":
        await store.break_(name)


async def ask(store: LeaseStore, name: str, call: Call, lease_id: str) -> str:
    """Make the request; return "ok", or status and meaning of the answer."""
    return await outcome(request(store, name, call, lease_id))


def request(store: LeaseStore, name: str, call: Call, lease_id: str) -> Awaitable[object]:
    """Return the request, yet to be awaited."""
    match call:
        case "acquire":
            return store.acquire(name, lease_id, 15)
        case "renew":
            return _renewed(store, name, lease_id)
        case "release":
            return store.release(name, lease_id)
        case "break":
            return store.break_(name)
        case "write":
            return store.write(name, lease_id, {"Key": "value"})
        case "read":
            return store.read(name)
        case "create":
            return store.create(name)


async def outcome(pending: Awaitable[object]) -> str:
    """Return "ok", or status and meaning of the answer."""
    try:
        await pending
    except StoreFailure as failure:
        return f"{failure.status} {failure.meaning}"
    return "ok"


async def loss(pending: Awaitable[object]) -> str | None:
    """Return what the answer says of a hold: why it is lost; None if it may still be ours, or nothing was refused."""
    try:
        await pending
    except StoreFailure as failure:
        return failure.loss
    return None


async def state_of(store: LeaseStore, name: str) -> LeaseState | None:
    """Return the lease's state, or None where there is no blob."""
    try:
        return (await store.read(name)).lease
    except StoreFailure:
        return None


async def _renewed(store: LeaseStore, name: str, lease_id: str) -> None:
    assert await store.renew(name, lease_id) == lease_id, "renewed for somebody else"


async def check(store: LeaseStore, row: Row, name: str, mine: str) -> None:
    """Make the row's request on a blob that is in its state."""
    lease_id = mine if row.who == "mine" else str(uuid.UUID(int=uuid.UUID(mine).int ^ 1))
    assert await ask(store, name, row.call, lease_id) == row.outcome, f"{row}: outcome"
    assert await state_of(store, name) == row.after, f"{row}: state after"

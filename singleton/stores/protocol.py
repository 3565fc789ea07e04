"""The few requests that a lock makes of its storage, and what the answers mean.

A method is one request (``create`` may need three, once). A store keeps no state about holds and never retries: the
lock decides. Every failure is a ``StoreFailure``. The *error code* says what a failure means: exception classes of the
SDK and bare status codes mislead (all lease conflicts are 409).
"""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from singleton.stores.http import NOT_SENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Mapping

    from singleton.base.kinds import LossReason

_T = TypeVar("_T")

Meaning = Literal["held", "lost", "changed", "missing", "deleting", "denied", "refused", "transient"]
Source = Literal["service", "between", "unsent", "unknown"]
LeaseState = Literal["available", "leased", "expired", "breaking", "broken"]
"""The state of a blob's lease, in the service's words."""
HELD: Final[frozenset[LeaseState]] = frozenset({"leased", "breaking"})
"""States of a lease that has a holder."""

MOST_LISTED: Final = 5000
"""Entries on a page, at most: the service gives no more."""

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
"""No metadata."""

_IN_BETWEEN: Final = (
    "(without an error code: something in between answered, as a proxy, an ingress or a firewall; or the address is "
    "not that of the service)"
)
_LOST: Mapping[str, LossReason] = {
    "LeaseIdMismatchWithLeaseOperation": "stolen",
    "LeaseIdMismatchWithBlobOperation": "stolen",
    "LeaseIsBrokenAndCannotBeRenewed": "broken",
    "LeaseIsBreakingAndCannotBeChanged": "broken",
    "LeaseLost": "expired",
    "LeaseNotPresentWithBlobOperation": "expired",
    "LeaseNotPresentWithLeaseOperation": "expired",
}


class StoreFailure(Exception):
    """A request that failed.

    Attributes:
        status: HTTP status, or None when no answer came.
        code: the service's error code, or None.
        meaning: what the answer says about the lease. held: another holder has the lease. lost: the lease is not ours.
            changed: the blob has another ETag than was asked for. missing, deleting: of the blob or its container.
            denied: credentials or permissions. refused: the request can't ever work. transient: unknown; ask again.
        source: service: it answered. between: the answer has no error code, and something between us and the service
            answered; 404 and 409 are transient. unsent: the request certainly did not leave this process.
        retry_after: seconds to wait, as the service asks, or None.
        at: the service's clock in the answer, seconds since 1970, or None.
    """

    def __init__(
        self,
        status: int | None = None,
        code: str | None = None,
        detail: str = "",
        retry_after: float | None = None,
        at: float | None = None,
        source: Source = "unknown",
    ) -> None:
        super().__init__(status, code, detail, retry_after, at, source)
        self.status = status
        self.code = code
        self.detail = detail
        self.retry_after = retry_after
        self.at = at
        self.source: Source = "service" if code else source
        self.meaning: Meaning = _BY_CODE.get(code) or _by_status(status, code, self.source)

    def __str__(self) -> str:
        if self.status is None or self.source == "unsent":
            return self.detail or "no answer"
        between = _IN_BETWEEN if self.source == "between" else ""
        return " ".join(part for part in (str(self.status), self.code, between, self.detail) if part)

    @property
    def leaves_doubt(self) -> bool:
        """Whether the request may have been carried out, or may still be: the service has not answered."""
        return self.source == "between" or (self.meaning == "transient" and self.source != "unsent")

    @property
    def loss(self) -> LossReason | None:
        """Why a hold that gets this answer is over, or None when the hold may go on."""
        match self.meaning:
            case "lost":
                return _LOST[self.code or ""]
            case "missing" | "deleting":
                return "blob gone"
            case _:
                return None


async def within(seconds: float, request: Awaitable[_T]) -> _T:
    """Await a request for so many seconds; a later answer is a failure."""
    try:
        async with asyncio.timeout(seconds):
            return await request
    except TimeoutError as late:
        unsent = NOT_SENT in getattr(late.__cause__, "__notes__", ())
        source: Source = "unsent" if unsent else "unknown"
        raise StoreFailure(detail=f"no answer within {seconds:g} s", source=source) from None


def _by_status(status: int | None, code: str | None, source: Source) -> Meaning:
    """Return the meaning of an answer without a known code."""
    if status in (401, 403):
        return "denied"
    if status in (404, 409) and source != "service":
        return "transient"
    if status == 404:
        return "missing"
    if status == 409 and not code:
        return "held"
    if status is not None and 400 <= status < 500 and status not in (408, 429):
        return "refused"
    return "transient"


_BY_CODE: Final[Mapping[str | None, Meaning]] = {
    **dict.fromkeys(("LeaseAlreadyPresent", "LeaseIsBreakingAndCannotBeAcquired"), "held"),
    **dict.fromkeys(_LOST, "lost"),
    "ConditionNotMet": "changed",
    **dict.fromkeys(("BlobNotFound", "ContainerNotFound", "ResourceNotFound"), "missing"),
    **dict.fromkeys(("ContainerBeingDeleted", "BlobBeingDeleted"), "deleting"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobState:
    """The state of a lock's blob.

    Attributes:
        etag: changes with content and metadata only.
        modified: Last-Modified, whole seconds since 1970. Leases don't change Last-Modified.
        endless: whether the lease never expires.
        size: bytes of content.
        age: seconds since Last-Modified, by the service's clock; infinite: not known.
    """

    etag: str
    lease: LeaseState
    modified: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False
    size: int = 0
    age: float = field(default=math.inf, compare=False)

    @property
    def held(self) -> bool:
        """Tell whether the lease has a holder."""
        return self.lease in HELD


class LeaseStore(Protocol):
    """Leases on named blobs. Every method may raise ``StoreFailure``, and waits no longer than the caller allows."""

    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        """Take the lease for ``duration`` seconds (15 to 60) under our own id; return the blob's ETag.

        A second request with an id that holds the lease succeeds and restarts the lease's clock.
        """

    async def renew(self, name: str, lease_id: str) -> str:
        """Restart the lease's clock; return the id *in the reply*, which the caller compares with its own (A-1)."""

    async def release(self, name: str, lease_id: str) -> None:
        """End the lease, so that the next request for the lease succeeds."""

    async def evict(self, name: str, whose: str, etag: str) -> None:
        """Release the lease of another process by its id, if the blob has this ETag (judged first)."""

    async def break_(self, name: str, etag: str | None = None, after: int | None = 0) -> int:
        """Break any holder's lease on the blob, to end in ``after`` seconds (0 to 60); return the seconds left.

        From now on the lease can't be renewed. With None the lease lasts as long as without a renewal; an endless lease
        ends at once. A later call can only bring the end nearer. With an ETag, only if the blob has it (judged first).
        """

    async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:
        """Make an empty blob with this metadata, and its container where missing; return the blob's state.

        None: the blob existed, and nothing was changed.
        """

    async def read(self, name: str) -> BlobState:
        """Read ETag, lease state and metadata."""

    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        """Replace the metadata under the lease if the blob has this ETag; return the new one."""

    async def aclose(self) -> None:
        """Let go of connections. The store can't be used afterwards."""


class Content(NamedTuple):
    """State and content of a lock's blob from one request, with the service's clock (seconds since 1970)."""

    blob: BlobState
    body: bytes
    at: float | None = None


@runtime_checkable
class ContentStore(Protocol):
    """Requests that keep state in a lock's blob. Every method is one request, and may raise ``StoreFailure``."""

    async def put(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str, body: bytes) -> str:
        """Replace content and metadata under the lease if the blob has this ETag; return the new one."""

    async def get(self, name: str, lease_id: str | None, most: int) -> Content:
        """Read content and metadata, with a lease id only under that lease; of more than ``most`` bytes no content."""


class NoteStore(Protocol):
    """Requests that keep numbers in a container. Every method is one request, and may raise ``StoreFailure``."""

    async def note(self, name: str, metadata: Mapping[str, str]) -> None:
        """Make an empty blob with this metadata, or replace the blob."""

    async def noted(self, name: str) -> Mapping[str, str]:
        """Read the metadata."""

    async def remove(self, name: str) -> None:
        """Delete the blob."""

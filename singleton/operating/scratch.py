"""Scratch blobs for ``doctor``: requests that name a missing right, and the results of checks."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from singleton.locking.holder import answered
from singleton.operating.container import keeping_of
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from singleton.stores.lock_keeping import LockKeeping
    from singleton.stores.protocol import LeaseStore

CheckOutcome = Literal["ok", "note", "failed", "unknown"]

PERIOD: Final = 15
"""Seconds of a lease on a scratch blob."""
_CONTAINERS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a check. ``note``: locks work, with a remark. ``unknown``: the check could not be made.

    ``failed``: the service answers otherwise than locks rely on.
    """

    check: str
    outcome: CheckOutcome
    said: str


class CheckEnded(Exception):
    """The end of a check with another outcome than ``ok``: see ``Finding``."""

    def __init__(self, outcome: CheckOutcome, said: str) -> None:
        super().__init__(said)
        self.outcome: CheckOutcome = outcome


@dataclass(frozen=True, slots=True)
class ServiceRequest:
    """A request by its name in Azure's REST reference, the right of an identity, and the permission of a SAS."""

    name: str
    right: str
    letter: str


_LEASE: Final = ServiceRequest("Lease Blob", f"data action {_CONTAINERS}/blobs/write", "w")
MAKE: Final = ServiceRequest("Create Container", f"action {_CONTAINERS}/write", "c, for containers")
CREATE: Final = ServiceRequest("Put Blob", f"data action {_CONTAINERS}/blobs/write", "c or w")
LIST: Final = ServiceRequest("List Blobs", f"data action {_CONTAINERS}/blobs/read", "l")
DELETE: Final = ServiceRequest("Delete Blob", f"data action {_CONTAINERS}/blobs/delete", "d")
_REQUESTS: Final = {
    "create": CREATE,
    "acquire": _LEASE,
    "renew": _LEASE,
    "release": _LEASE,
    "shorten": _LEASE,
    "write": ServiceRequest("Set Blob Metadata", f"data action {_CONTAINERS}/blobs/write", "w"),
    "read": ServiceRequest("Get Blob Properties", f"data action {_CONTAINERS}/blobs/read", "r"),
    "page": LIST,
    "erase": DELETE,
}


class Forbidden(StoreFailure):
    """A request that this identity, key or SAS may not make."""

    def __init__(self, request: ServiceRequest, failure: StoreFailure) -> None:
        super().__init__(failure.status, failure.code, failure.detail, source=failure.source)
        self.request = request
        self.why = str(failure)

    def __str__(self) -> str:
        needed = f"it needs the {self.request.right}; of a SAS, the permission {self.request.letter}"
        return f"{self.request.name} is denied ({self.why}): {needed}"


class _Naming:
    """A store whose denied requests raise ``Forbidden``, with the missing right."""

    def __init__(self, store: object) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        send = getattr(self._store, name)

        async def request(*arguments: object) -> Any:
            try:
                return await send(*arguments)
            except StoreFailure as failure:
                if failure.meaning != "denied":
                    raise
                raise Forbidden(_REQUESTS[name], failure) from failure

        return request


class ScratchBlobs:
    """Scratch blobs in a container, and expectations of the answers."""

    def __init__(self, store: LeaseStore, prefix: str) -> None:
        self.itself = store
        self.store = cast("LeaseStore", _Naming(store))
        self.keeping = cast("LockKeeping", _Naming(keeping_of(store)))
        self.prefix = prefix
        self.mine, self.other = str(uuid.uuid4()), str(uuid.uuid4())

    async def blob(self, name: str) -> str:
        """Make a blob; return the blob's name."""
        made = f"{self.prefix}{name}"
        await answered(lambda: self.store.create(made))
        return made

    async def leased(self, name: str) -> str:
        """Make a blob with the lease ``mine``; return the blob's name."""
        made = await self.blob(name)
        await self.store.acquire(made, self.mine, PERIOD)
        return made

    async def etag(self, name: str) -> str:
        """Return the ETag of a blob."""
        return (await self.store.read(name)).etag

    async def refused(self, pending: Awaitable[object], what: str, *expected: str) -> None:
        """Expect one of these meanings or codes. ``CheckEnded``: carried out, or refused for another reason."""
        try:
            await pending
        except StoreFailure as failure:
            if failure.meaning in expected or failure.code in expected:
                return
            if failure.meaning in ("denied", "transient"):
                raise
            raise CheckEnded(
                "failed", f"{what}: answered with {failure}, not with {' or '.join(expected)}"
            ) from failure
        raise CheckEnded("failed", f"{what}: it was not refused")

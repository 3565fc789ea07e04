"""The checks of ``doctor``: has whoever asks the rights that locks need, and what does the account do beside?

A check sends requests of locks, on scratch blobs beneath a prefix, and looks at the answers. No lock of the app is
touched. A request that is denied names the missing right. Whether the service does what locks rely on, such as one
lease at a time, is tried by ``singleton-sim pilot``.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar, cast

from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.stores.azure_blob import AzureBlobLeaseStore, done, judged
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from azure.storage.blob.aio import ContainerClient

    from singleton.stores.lock_keeping import BlobStore

CheckOutcome = Literal["ok", "note", "failed", "unknown"]

_PERIOD: Final = 15
"""Seconds of a lease on a scratch blob."""
_SKEW: Final = 30.0
"""Seconds by which clocks may differ before it is said. Locks don't compare clocks; signatures do, at 15 minutes."""
_REFUSED: Final = 15 * 60.0
_CONTAINERS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of a check. ``note``: locks work, with a remark. ``unknown``: the check could not be made."""

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
_MAKE: Final = ServiceRequest("Create Container", f"action {_CONTAINERS}/write", "c, for containers")
_CREATE: Final = ServiceRequest("Put Blob", f"data action {_CONTAINERS}/blobs/write", "c or w")
_LIST: Final = ServiceRequest("List Blobs", f"data action {_CONTAINERS}/blobs/read", "l")
_DELETE: Final = ServiceRequest("Delete Blob", f"data action {_CONTAINERS}/blobs/delete", "d")
_REQUESTS: Final = {
    "create": _CREATE,
    "acquire": _LEASE,
    "renew": _LEASE,
    "release": _LEASE,
    "break_": _LEASE,
    "write": ServiceRequest("Set Blob Metadata", f"data action {_CONTAINERS}/blobs/write", "w"),
    "read": ServiceRequest("Get Blob Properties", f"data action {_CONTAINERS}/blobs/read", "r"),
    "page": _LIST,
    "drop": _DELETE,
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


class _ScratchBlobs(NamedTuple):
    """Where scratch blobs are made: the container, as it is and as denied requests name their right, and the prefix."""

    itself: BlobStore
    store: BlobStore
    prefix: str


_OPERATORS: Final = (_LIST, _DELETE)
"""What no lock needs: to list and sweep locks, and to note the failures of a deferred message."""


async def _rights(scratch: _ScratchBlobs) -> str:
    """Rights: create, lease, write, read, list, break and delete.

    Raises:
        CheckEnded: a right for locks is missing (failed), or one that only ``list``, ``sweep`` and ``"defer"`` need.
    """
    name, mine = f"{scratch.prefix}rights", str(uuid.uuid4())
    denied: dict[ServiceRequest, Forbidden] = {}

    async def tried(pending: Awaitable[_T]) -> _T | None:
        """Return the answer, or None. What follows a request that was denied may be refused for the want of it."""
        try:
            return await pending
        except Forbidden as forbidden:
            denied.setdefault(forbidden.request, forbidden)
        except StoreFailure as failure:
            if not denied or failure.meaning == "transient":
                raise
        return None

    await tried(answered(lambda: scratch.store.create(name)))
    etag = await tried(scratch.store.acquire(name, mine, _PERIOD)) or '"0x0"'
    if (seen := await tried(scratch.store.read(name))) is not None:
        etag = seen.etag
    etag = await tried(scratch.store.write(name, mine, {"SingletonEpoch": "1"}, etag)) or etag
    await tried(scratch.store.renew(name, mine))
    await tried(scratch.store.page(scratch.prefix))
    await tried(scratch.store.break_(name))
    await tried(scratch.store.release(name, mine))
    await tried(scratch.store.drop(name, etag))
    said = "; ".join(map(str, denied.values()))
    if any(request not in _OPERATORS for request in denied):
        raise CheckEnded("failed", said)
    if denied:
        raise CheckEnded("note", f"locks work, but not all that an operator does: {said}")
    return "create, lease, write, read, list, break and delete are allowed"


async def _clock(scratch: _ScratchBlobs) -> str:
    """This machine's clock and the service's."""
    sent = time.time()
    page = await scratch.store.page(scratch.prefix)
    apart = page.at + 0.5 - (sent + time.time()) / 2  # the service's has whole seconds
    said = f"this machine's clock is {abs(apart):.0f} s {'behind' if apart > 0 else 'ahead of'} the service's"
    if abs(apart) >= _REFUSED:
        raise CheckEnded("failed", f"{said}: from 15 minutes on the service refuses signed requests. Set the clock")
    if abs(apart) > _SKEW:
        raise CheckEnded("note", f"{said}: locks still work, but at 15 minutes or more the service refuses requests")
    return "this machine's clock is the service's, within a second or two" if abs(apart) < 2 else said


async def _hierarchy(scratch: _ScratchBlobs) -> str:
    if (await judged(_azure(scratch).get_account_information())).get("is_hns_enabled"):
        raise CheckEnded("note", "hierarchical namespace: a sweep leaves empty folders behind; locks work the same")
    return "no hierarchical namespace"


async def _versions(scratch: _ScratchBlobs) -> str:
    blob = _azure(scratch).get_blob_client(f"{scratch.prefix}traits")
    if (await judged(blob.upload_blob(b"", overwrite=True))).get("version_id"):
        raise CheckEnded(
            "note",
            "versioning is on: each acquired lock leaves a version behind, which costs money; add a lifecycle rule "
            "that deletes them",
        )
    return "no versioning"


async def _soft_delete(scratch: _ScratchBlobs) -> str:
    container, name = _azure(scratch), f"{scratch.prefix}traits"  # the blob of the check of versions
    await judged(container.get_blob_client(name).delete_blob())
    pages = container.list_blobs(name_starts_with=name, include=["deleted"]).by_page()
    kept = [blob async for blob in await judged(anext(pages)) if blob.name == name and blob.deleted]
    if kept:
        days = kept[0].remaining_retention_days or "some"
        raise CheckEnded("note", f"soft delete is on: what a sweep deletes is kept, and paid for, for {days} days")
    return "no soft delete"


def _azure(scratch: _ScratchBlobs) -> ContainerClient:
    if not isinstance(scratch.itself, AzureBlobLeaseStore):
        raise CheckEnded("unknown", "can't be seen from here: it is not an Azure account")
    return scratch.itself.container


Check: TypeAlias = "Callable[[_ScratchBlobs], Coroutine[None, None, str]]"

_CHECKS: Final[dict[str, Check]] = {
    "rights": _rights,
    "clock": _clock,
    "hierarchy": _hierarchy,
    "versions": _versions,
    "soft delete": _soft_delete,
}
MAY_BE_HIDDEN: Final = ("hierarchy", "versions", "soft delete")


_UNKNOWN: Final = (
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "AuthorizationFailure",
)
"""Codes of an answer to a client that the service does not know, or from a network that is shut out: not a matter of a
single missing right."""


async def examine(store: BlobStore, prefix: str) -> list[Finding]:
    """Go through the checks on scratch blobs beneath the prefix.

    Raises:
        StorageError: the storage does not answer, or does not know the client.
    """
    scratch = _ScratchBlobs(store, cast("BlobStore", _Naming(store)), prefix)
    return [await _run(name, check, scratch) for name, check in _CHECKS.items()]


async def _run(name: str, check: Check, scratch: _ScratchBlobs) -> Finding:
    try:
        return Finding(check=name, outcome="ok", said=await check(scratch))
    except CheckEnded as ended:
        return Finding(check=name, outcome=ended.outcome, said=str(ended))
    except StoreFailure as failure:
        if name in MAY_BE_HIDDEN:
            return Finding(check=name, outcome="unknown", said=f"can't be seen from here ({failure})")
        if _is_no_answer(failure):
            raise storage_error(scratch.prefix, failure, what="scratch blobs") from failure
        if isinstance(failure, Forbidden):
            return Finding(check=name, outcome="unknown", said=f"can't be tried: {failure.request.name} is denied")
        return Finding(check=name, outcome="failed", said=f"the storage refuses a request: {failure}")


def _is_no_answer(failure: StoreFailure) -> bool:
    """Tell whether a failure says nothing of the account: no answer came, or the client is unknown to the service."""
    stranger = failure.status == 401 or failure.code in _UNKNOWN
    return stranger or failure.meaning in ("transient", "deleting")


async def prepare(store: BlobStore, seconds: float) -> None:
    """Make the container.

    ``seconds``: for which an answer is asked for, all tries together.

    Raises:
        Forbidden: that is not allowed.
        StorageError: the storage does not answer, or does not know the client.
    """
    if not isinstance(store, AzureBlobLeaseStore):
        return
    container = store.container
    try:
        await answered(
            lambda: done(store.judged(container.create_container()), "ContainerAlreadyExists"),
            call=seconds,
            answer=seconds,
        )
    except StoreFailure as failure:
        if failure.meaning != "denied" or _is_no_answer(failure):
            raise storage_error(container.container_name, failure, what="container") from failure
        raise Forbidden(_MAKE, failure) from failure


async def clean_up(store: BlobStore, prefix: str, *, container: bool) -> None:
    """Delete the scratch blobs, or their whole container. A blob that is still leased loses its lease first.

    Raises:
        StoreFailure: something was left behind, and why.
    """
    if container and isinstance(store, AzureBlobLeaseStore):
        gone = "ContainerNotFound", "ContainerBeingDeleted"
        await done(store.judged(store.container.delete_container()), *gone)
        return
    for blob in (await store.page(prefix)).entries:
        if blob.held:
            await store.break_(blob.name)
        await store.drop(blob.name, blob.etag)

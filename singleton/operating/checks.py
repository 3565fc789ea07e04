"""The checks of ``doctor``: can locks rely on this account?

A check sends requests of locks, on scratch blobs beneath a prefix, and looks at the answers. No lock of the app is
touched. A check that lacks a right is left out.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from singleton.locking.acquisition import storage_error
from singleton.locking.holder import answered
from singleton.operating.container import keeping_of
from singleton.operating.scratch import (
    DELETE,
    LIST,
    MAKE,
    PERIOD,
    CheckEnded,
    Finding,
    Forbidden,
    ScratchBlobs,
    ServiceRequest,
)
from singleton.stores.azure_blob import AzureBlobLeaseStore, done, judged
from singleton.stores.lock_keeping import IN_USE
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from azure.storage.blob.aio import ContainerClient

    from singleton.stores.protocol import LeaseStore

_STOPS: Final = PERIOD * 14 / 15
"""When the holder of such a lease stops by its own clock."""
_EARLY: Final = _STOPS - 0.3
_LATE: Final = 17.0
_SKEW: Final = 30.0
"""Seconds by which clocks may differ before it is said. Locks don't compare clocks; signatures do, at 15 minutes."""
_REFUSED: Final = 15 * 60.0

_T = TypeVar("_T")

_OPERATORS: Final = (LIST, DELETE)
"""What no lock needs: to list and sweep locks, and to note the failures of a deferred message."""


async def _rights(scratch: ScratchBlobs) -> str:
    """Rights: create, lease, write, read, list, break and delete.

    Raises:
        CheckEnded: a right for locks is missing (failed), or one that only ``list``, ``sweep`` and ``"defer"`` need.
    """
    name, mine = f"{scratch.prefix}rights", scratch.mine
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

    await tried(scratch.blob("rights"))
    etag = await tried(scratch.store.acquire(name, mine, PERIOD)) or '"0x0"'
    if (seen := await tried(scratch.store.read(name))) is not None:
        etag = seen.etag
    etag = await tried(scratch.store.write(name, mine, {"SingletonEpoch": "1"}, etag)) or etag
    await tried(scratch.store.renew(name, mine))
    await tried(scratch.keeping.page(scratch.prefix))
    await tried(scratch.keeping.shorten(name, 0))
    await tried(scratch.store.release(name, mine))
    await tried(scratch.keeping.erase(name, etag))
    said = "; ".join(map(str, denied.values()))
    if any(request not in _OPERATORS for request in denied):
        raise CheckEnded("failed", said)
    if denied:
        raise CheckEnded("note", f"locks work, but not all that an operator does: {said}")
    return "create, lease, write, read, list, break and delete are allowed"


async def _exclusion(scratch: ScratchBlobs) -> str:
    """Leases exclude: one id has it, and asking again with that id is no second time."""
    name = await scratch.leased("exclusion")
    await scratch.refused(scratch.store.acquire(name, scratch.other, PERIOD), "a second lease", "held")
    await scratch.store.acquire(name, scratch.mine, PERIOD)
    await scratch.refused(scratch.store.renew(name, scratch.other), "a renewal with another id", "lost")
    await scratch.refused(scratch.store.release(name, scratch.other), "a release with another id", "lost")
    await scratch.store.create(name)
    await scratch.refused(scratch.store.acquire(name, scratch.other, PERIOD), "a lease after making it again", "held")
    return "one lease at a time; the same id may ask again; making the blob again keeps its lease"


async def _fence(scratch: ScratchBlobs) -> str:
    """Writes are fenced: the service refuses those under a lease that is gone."""
    name = await scratch.leased("fence")
    etag = await scratch.etag(name)
    await scratch.refused(scratch.store.write(name, scratch.other, {}, etag), "a write with another id", "lost")
    await scratch.store.release(name, scratch.mine)
    await scratch.refused(scratch.store.write(name, scratch.mine, {}, etag), "a write after the release", "lost")
    return "a write under a lease that is gone is refused"


async def _conditions(scratch: ScratchBlobs) -> str:
    """Conditions count: a stamp, a break and a delete on another ETag change nothing."""
    name = await scratch.leased("conditions")
    old = await scratch.etag(name)
    await scratch.store.write(name, scratch.mine, {"One": "1"}, old)
    await scratch.refused(scratch.store.write(name, scratch.mine, {"One": "2"}, old), "a stale write", "changed")
    await scratch.refused(scratch.keeping.shorten(name, 0, old), "a stale break", "changed")
    await scratch.store.release(name, scratch.mine)
    await scratch.refused(scratch.keeping.erase(name, old), "a stale delete", "changed")
    return "writes, breaks and deletes on an old ETag are refused"


async def _etags(scratch: ScratchBlobs) -> str:
    """Leases leave ETag and Last-Modified alone; metadata changes the ETag."""
    name = await scratch.blob("etags")
    before = await scratch.store.read(name)
    replied = await scratch.store.acquire(name, scratch.mine, PERIOD)
    await scratch.store.renew(name, scratch.mine)
    await scratch.store.release(name, scratch.mine)
    await scratch.store.acquire(name, scratch.mine, PERIOD)
    await scratch.keeping.shorten(name, 0)
    after = await scratch.store.read(name)
    if (before.etag, before.modified) != (after.etag, after.modified) or replied != before.etag:
        raise CheckEnded("failed", "a lease operation changed the ETag or Last-Modified")
    await scratch.store.acquire(name, scratch.mine, PERIOD)
    if await scratch.store.write(name, scratch.mine, {"One": "1"}, after.etag) == after.etag:
        raise CheckEnded("failed", "writing metadata did not change the ETag")
    return "leases leave the ETag alone, writing changes it: a stamp needs no read"


async def _deletes(scratch: ScratchBlobs) -> str:
    """A leased blob can't be deleted without its lease."""
    name = await scratch.leased("deletes")
    etag = await scratch.etag(name)
    await scratch.refused(scratch.keeping.erase(name, etag), "deleting a leased blob", IN_USE)
    await scratch.store.release(name, scratch.mine)
    await scratch.keeping.erase(name, etag)
    return "deleted only while nobody has the lease: sweeping is safe"


async def _breaks(scratch: ScratchBlobs) -> str:
    """A break without a period leaves the rest of the lease, and only ever shortens it."""
    name = await scratch.leased("breaks")
    rest = await scratch.keeping.shorten(name, None)
    if not PERIOD - 5 <= rest <= PERIOD:
        raise CheckEnded("failed", f"a break without a period leaves {rest} s of a lease of {PERIOD} s")
    await scratch.refused(scratch.store.renew(name, scratch.mine), "a renewal of a broken lease", "lost")
    await scratch.refused(scratch.store.acquire(name, scratch.other, PERIOD), "a lease before the end", "held")
    if await scratch.keeping.shorten(name, 5) > 5 or await scratch.keeping.shorten(name, 30) > 5:
        raise CheckEnded("failed", "a break does not shorten what is left")
    await scratch.keeping.shorten(name, 0)
    await scratch.store.acquire(name, scratch.other, PERIOD)
    return "the rest of the lease runs out, it can't be renewed, and a shorter notice shortens it"


async def _clock(scratch: ScratchBlobs) -> str:
    """This machine's clock and the service's."""
    await scratch.blob("clock")
    sent = time.time()
    page = await scratch.keeping.page(scratch.prefix)
    apart = page.at + 0.5 - (sent + time.time()) / 2  # the service's has whole seconds
    said = f"this machine's clock is {abs(apart):.0f} s {'behind' if apart > 0 else 'ahead of'} the service's"
    if abs(apart) >= _REFUSED:
        raise CheckEnded("failed", f"{said}: from 15 minutes on the service refuses signed requests. Set the clock")
    if abs(apart) > _SKEW:
        raise CheckEnded("note", f"{said}: locks still work, but at 15 minutes or more the service refuses requests")
    return "this machine's clock is the service's, within a second or two" if abs(apart) < 2 else said


async def _expiry(scratch: ScratchBlobs) -> str:
    """A lease ends after its period, by our clock, and not before."""
    name = await scratch.blob("expiry")
    clock = asyncio.get_running_loop().time
    sent = clock()
    await scratch.store.acquire(name, scratch.mine, PERIOD)
    granted = clock()
    await asyncio.sleep(sent + _EARLY - clock())
    while True:
        asked = clock()
        try:
            await scratch.store.acquire(name, scratch.other, PERIOD)
        except StoreFailure as failure:
            if failure.meaning != "held":
                raise
        else:
            break
        if asked > granted + _LATE:
            raise CheckEnded("failed", f"a lease of {PERIOD} s has not ended after {asked - granted:.1f} s")
        await asyncio.sleep(0.1)
    if asked - sent < _STOPS:
        raise CheckEnded(
            "failed", f"a lease of {PERIOD} s was given away within {clock() - sent:.2f} s, before its holder stops"
        )
    return f"a lease of {PERIOD} s was free for others after {clock() - sent:.1f} s"


async def _renewal_of_the_expired(scratch: ScratchBlobs) -> str:
    """An expired lease is not renewed under another id."""
    name = await scratch.leased("expired")
    await asyncio.sleep(PERIOD + 0.5)
    try:
        replied = await scratch.store.renew(name, scratch.other)
    except StoreFailure as failure:
        if failure.meaning != "lost":
            raise
        return "an expired lease is not renewed under another id"
    if replied != scratch.mine:
        raise CheckEnded("failed", "an expired lease was renewed under another id")
    raise CheckEnded(
        "note",
        "the storage emulator renews an expired lease under any id (Azurite#2352); locks check the reply, so they "
        "still work",
    )


async def _hierarchy(scratch: ScratchBlobs) -> str:
    if (await judged(_azure(scratch).get_account_information())).get("is_hns_enabled"):
        raise CheckEnded("note", "hierarchical namespace: a sweep leaves empty folders behind; locks work the same")
    return "no hierarchical namespace"


async def _versions(scratch: ScratchBlobs) -> str:
    blob = _azure(scratch).get_blob_client(f"{scratch.prefix}traits")
    if (await judged(blob.upload_blob(b"", overwrite=True))).get("version_id"):
        raise CheckEnded(
            "note",
            "versioning is on: each acquired lock leaves a version behind, which costs money; add a lifecycle rule "
            "that deletes them",
        )
    return "no versioning"


async def _soft_delete(scratch: ScratchBlobs) -> str:
    container, name = _azure(scratch), f"{scratch.prefix}traits"  # the blob of the check of versions
    await judged(container.get_blob_client(name).delete_blob())
    pages = container.list_blobs(name_starts_with=name, include=["deleted"]).by_page()
    kept = [blob async for blob in await judged(anext(pages)) if blob.name == name and blob.deleted]
    if kept:
        days = kept[0].remaining_retention_days or "some"
        raise CheckEnded("note", f"soft delete is on: what a sweep deletes is kept, and paid for, for {days} days")
    return "no soft delete"


def _azure(scratch: ScratchBlobs) -> ContainerClient:
    if not isinstance(scratch.itself, AzureBlobLeaseStore):
        raise CheckEnded("unknown", "can't be seen from here: it is not an Azure account")
    return scratch.itself.container


Check: TypeAlias = "Callable[[ScratchBlobs], Coroutine[None, None, str]]"

CHECKS: Final[dict[str, Check]] = {
    "rights": _rights,
    "exclusion": _exclusion,
    "fencing": _fence,
    "conditions": _conditions,
    "ETags": _etags,
    "deletes": _deletes,
    "breaks": _breaks,
    "clock": _clock,
    "hierarchy": _hierarchy,
    "versions": _versions,
    "soft delete": _soft_delete,
}
SLOW: Final[dict[str, Check]] = {"expiry": _expiry, "renewal after expiry": _renewal_of_the_expired}
MAY_BE_HIDDEN: Final = ("hierarchy", "versions", "soft delete")


_UNKNOWN: Final = (
    "AuthenticationFailed",
    "InvalidAuthenticationInfo",
    "NoAuthenticationInformation",
    "AuthorizationFailure",
)
"""Codes of an answer to a client that the service does not know, or from a network that is shut out: not a matter of a
single missing right."""


async def examine(store: LeaseStore, prefix: str, *, quick: bool = False) -> AsyncIterator[Finding]:
    """Go through the checks on scratch blobs beneath the prefix; checks that wait for a lease's end come last, at once.

    ``quick`` leaves out the checks that wait.

    Raises:
        StorageError: the storage does not answer, or does not know the client.
    """
    scratch = ScratchBlobs(store, prefix)
    for name, check in CHECKS.items():
        yield await _run(name, check, scratch)
    if not quick:
        slow = [asyncio.ensure_future(_run(name, check, scratch)) for name, check in SLOW.items()]
        try:
            for found in await asyncio.gather(*slow):
                yield found
        finally:
            for each in slow:
                each.cancel()


async def _run(name: str, check: Check, scratch: ScratchBlobs) -> Finding:
    try:
        return Finding(check=name, outcome="ok", said=await check(scratch))
    except CheckEnded as ended:
        return Finding(check=name, outcome=ended.outcome, said=str(ended))
    except StoreFailure as failure:
        if name in MAY_BE_HIDDEN:
            return Finding(check=name, outcome="unknown", said=f"can't be seen from here ({failure})")
        if is_no_answer(failure):
            raise storage_error(scratch.prefix, failure, what="scratch blobs") from failure
        if isinstance(failure, Forbidden):
            return Finding(check=name, outcome="unknown", said=f"can't be tried: {failure.request.name} is denied")
        return Finding(check=name, outcome="failed", said=f"the storage refuses a request: {failure}")


def is_no_answer(failure: StoreFailure) -> bool:
    """Tell whether a failure says nothing of the account: no answer came, or the client is unknown to the service."""
    stranger = failure.status == 401 or failure.code in _UNKNOWN
    return stranger or failure.meaning in ("transient", "deleting")


async def prepare(store: LeaseStore, seconds: float) -> None:
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
        if failure.meaning != "denied" or is_no_answer(failure):
            raise storage_error(container.container_name, failure, what="container") from failure
        raise Forbidden(MAKE, failure) from failure


async def clean_up(store: LeaseStore, prefix: str, *, container: bool) -> None:
    """Delete the scratch blobs, or their whole container. A blob that is still leased loses its lease first.

    Raises:
        StoreFailure: something was left behind, and why.
    """
    if container and isinstance(store, AzureBlobLeaseStore):
        gone = "ContainerNotFound", "ContainerBeingDeleted"
        await done(store.judged(store.container.delete_container()), *gone)
        return
    keeping = keeping_of(store)
    for blob in (await keeping.page(prefix)).entries:
        if blob.held:
            await keeping.shorten(blob.name, 0)
        await keeping.erase(blob.name, blob.etag)

"""The checks of ``doctor``: each makes the requests that locks make, on scratch blobs, and looks at the answers."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final, TypeAlias

from singleton.operating.patient import PERIOD, Hidden, Strange, Wrong
from singleton.operating.rights import rights
from singleton.stores.azure_blob import AzureBlobLeaseStore
from singleton.stores.lock_keeping import IN_USE
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from singleton.operating.patient import Patient

_STOPS: Final = PERIOD * 14 / 15
"""When the holder of such a lease stops by its own clock."""
_EARLY: Final = _STOPS - 0.3
_LATE: Final = 17.0
_SKEW: Final = 30.0
"""Seconds by which clocks may differ before it is said. Locks don't compare clocks; signatures do, at 15 minutes."""


async def _exclusion(patient: Patient) -> str:
    """Leases exclude: one id has it, and asking again with that id is no second time."""
    name = await patient.leased("exclusion")
    await patient.refused(patient.store.acquire(name, patient.other, PERIOD), "a second lease", "held")
    await patient.store.acquire(name, patient.mine, PERIOD)
    await patient.refused(patient.store.renew(name, patient.other), "a renewal with another id", "lost")
    await patient.refused(patient.store.release(name, patient.other), "a release with another id", "lost")
    await patient.store.create(name)
    await patient.refused(patient.store.acquire(name, patient.other, PERIOD), "a lease after making it again", "held")
    return "one lease at a time; the same id may ask again; making the blob again keeps its lease"


async def _fence(patient: Patient) -> str:
    """Writes are fenced: the service refuses those under a lease that is gone."""
    name = await patient.leased("fence")
    etag = await patient.etag(name)
    await patient.refused(patient.store.write(name, patient.other, {}, etag), "a write with another id", "lost")
    await patient.store.release(name, patient.mine)
    await patient.refused(patient.store.write(name, patient.mine, {}, etag), "a write after the release", "lost")
    return "a write under a lease that is gone is refused"


async def _conditions(patient: Patient) -> str:
    """Conditions count: a stamp, a break and a delete on another ETag change nothing."""
    name = await patient.leased("conditions")
    old = await patient.etag(name)
    await patient.store.write(name, patient.mine, {"One": "1"}, old)
    await patient.refused(patient.store.write(name, patient.mine, {"One": "2"}, old), "a stale write", "changed")
    await patient.refused(patient.keeping.shorten(name, 0, old), "a stale break", "changed")
    await patient.store.release(name, patient.mine)
    await patient.refused(patient.keeping.erase(name, old), "a stale delete", "changed")
    return "writes, breaks and deletes on an old ETag are refused"


async def _etags(patient: Patient) -> str:
    """Leases leave ETag and Last-Modified alone; metadata changes the ETag."""
    name = await patient.blob("etags")
    before = await patient.store.read(name)
    replied = await patient.store.acquire(name, patient.mine, PERIOD)
    await patient.store.renew(name, patient.mine)
    await patient.store.release(name, patient.mine)
    await patient.store.acquire(name, patient.mine, PERIOD)
    await patient.keeping.shorten(name, 0)
    after = await patient.store.read(name)
    if (before.etag, before.modified) != (after.etag, after.modified) or replied != before.etag:
        raise Wrong("a lease operation changed the ETag or Last-Modified")
    await patient.store.acquire(name, patient.mine, PERIOD)
    if await patient.store.write(name, patient.mine, {"One": "1"}, after.etag) == after.etag:
        raise Wrong("writing metadata did not change the ETag")
    return "leases leave the ETag alone, writing changes it: a stamp needs no read"


async def _deletes(patient: Patient) -> str:
    """A leased blob can't be deleted without its lease."""
    name = await patient.leased("deletes")
    etag = await patient.etag(name)
    await patient.refused(patient.keeping.erase(name, etag), "deleting a leased blob", IN_USE)
    await patient.store.release(name, patient.mine)
    await patient.keeping.erase(name, etag)
    return "deleted only while nobody has the lease: sweeping is safe"


async def _breaks(patient: Patient) -> str:
    """A break without a period leaves the rest of the lease, and only ever shortens it."""
    name = await patient.leased("breaks")
    rest = await patient.keeping.shorten(name, None)
    if not PERIOD - 5 <= rest <= PERIOD:
        raise Wrong(f"a break without a period leaves {rest} s of a lease of {PERIOD} s")
    await patient.refused(patient.store.renew(name, patient.mine), "a renewal of a broken lease", "lost")
    await patient.refused(patient.store.acquire(name, patient.other, PERIOD), "a lease before the end", "held")
    if await patient.keeping.shorten(name, 5) > 5 or await patient.keeping.shorten(name, 30) > 5:
        raise Wrong("a break does not shorten what is left")
    await patient.keeping.shorten(name, 0)
    await patient.store.acquire(name, patient.other, PERIOD)
    return "the rest of the lease runs out, it can't be renewed, and a shorter notice shortens it"


async def _clock(patient: Patient) -> str:
    """This machine's clock and the service's."""
    await patient.blob("clock")
    sent = time.time()
    page = await patient.keeping.page(patient.prefix)
    apart = page.at + 0.5 - (sent + time.time()) / 2  # the service's has whole seconds
    said = f"this machine's clock is {abs(apart):.0f} s {'behind' if apart > 0 else 'ahead of'} the service's"
    if abs(apart) > _SKEW:
        raise Strange(f"{said}: locks still work, but at 15 minutes or more the service refuses requests")
    return "this machine's clock is the service's, within a second or two" if abs(apart) < 2 else said


async def _expiry(patient: Patient) -> str:
    """A lease ends after its period, by our clock, and not before."""
    name = await patient.blob("expiry")
    clock = asyncio.get_running_loop().time
    sent = clock()
    await patient.store.acquire(name, patient.mine, PERIOD)
    granted = clock()
    await asyncio.sleep(sent + _EARLY - clock())
    while True:
        asked = clock()
        try:
            await patient.store.acquire(name, patient.other, PERIOD)
        except StoreFailure as failure:
            if failure.meaning != "held":
                raise
        else:
            break
        if asked > granted + _LATE:
            raise Wrong(f"a lease of {PERIOD} s has not ended after {asked - granted:.1f} s")
        await asyncio.sleep(0.1)
    if asked - sent < _STOPS:
        raise Wrong(f"a lease of {PERIOD} s was given away within {clock() - sent:.2f} s, before its holder stops")
    return f"a lease of {PERIOD} s was free for others after {clock() - sent:.1f} s"


async def _renewal_of_the_expired(patient: Patient) -> str:
    """An expired lease is not renewed under another id."""
    name = await patient.leased("expired")
    await asyncio.sleep(PERIOD + 0.5)
    try:
        replied = await patient.store.renew(name, patient.other)
    except StoreFailure as failure:
        if failure.meaning != "lost":
            raise
        return "an expired lease is not renewed under another id"
    if replied != patient.mine:
        raise Wrong("an expired lease was renewed under another id")
    raise Strange(
        "the storage emulator renews an expired lease under any id (Azurite#2352); locks check the reply, so they "
        "still work"
    )


async def _hierarchy(patient: Patient) -> str:
    from singleton.stores.azure_container import is_hierarchical

    if await is_hierarchical(_azure(patient).container):
        raise Strange("hierarchical namespace: a sweep leaves empty folders behind; locks work the same")
    return "no hierarchical namespace"


async def _versions(patient: Patient) -> str:
    from singleton.stores.azure_container import keeps_versions

    if await keeps_versions(_azure(patient).container, f"{patient.prefix}traits"):
        raise Strange(
            "versioning is on: each acquired lock leaves a version behind, which costs money; add a lifecycle rule "
            "that deletes them"
        )
    return "no versioning"


async def _soft_delete(patient: Patient) -> str:
    from singleton.stores.azure_container import keeps_deleted

    days = await keeps_deleted(_azure(patient).container, f"{patient.prefix}traits")
    if days is not None:
        raise Strange(f"soft delete is on: what a sweep deletes is kept, and paid for, for {days or 'some'} days")
    return "no soft delete"


def _azure(patient: Patient) -> AzureBlobLeaseStore:
    if not isinstance(patient.itself, AzureBlobLeaseStore):
        raise Hidden("it is not an Azure account")
    return patient.itself


Check: TypeAlias = "Callable[[Patient], Coroutine[None, None, str]]"

CHECKS: Final[dict[str, Check]] = {
    "rights": rights,
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

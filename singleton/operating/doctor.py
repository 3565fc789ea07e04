"""Does this account do what our locks rely on? Each check makes the requests that locks make, and looks at the answers.

The blobs are scratch ones, beneath one prefix; no lock of the app is touched.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from singleton.locking.holder import answered
from singleton.operating.keeping import keeping_of
from singleton.stores.azure_blob import AzureBlobLeaseStore
from singleton.stores.keeping import IN_USE
from singleton.stores.protocol import StoreFailure

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine

    from singleton.stores.keeping import LockKeeping
    from singleton.stores.protocol import LeaseStore

Outcome = Literal["ok", "note", "failed", "unknown"]

_PERIOD: Final = 15
_STOPS: Final = _PERIOD * 14 / 15
"""When the holder of such a lease stops by its own clock."""
_EARLY: Final = _STOPS - 0.3
_LATE: Final = 17.0
_SKEW: Final = 30.0
"""Seconds by which clocks may differ before it is said. Locks don't compare clocks; signatures do, at 15 minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a check found. ``note``: locks work, but something is to be known. ``unknown``: it could not be seen."""

    check: str
    outcome: Outcome
    said: str


class Wrong(Exception):
    """The service answers otherwise than locks rely on."""


class Strange(Exception):
    """Something is to be known of the account, though locks work."""


class Patient:
    """Scratch blobs in a container, and what is expected of the answers about them."""

    def __init__(self, store: LeaseStore, prefix: str) -> None:
        self.store = store
        self.keeping: LockKeeping = keeping_of(store)
        self.prefix = prefix
        self.mine, self.other = str(uuid.uuid4()), str(uuid.uuid4())

    async def blob(self, name: str) -> str:
        """Make a blob; return its name."""
        made = f"{self.prefix}{name}"
        await answered(lambda: self.store.create(made))
        return made

    async def leased(self, name: str) -> str:
        """Make a blob under a lease of mine; return its name."""
        made = await self.blob(name)
        await self.store.acquire(made, self.mine, _PERIOD)
        return made

    async def etag(self, name: str) -> str:
        """Return its ETag."""
        return (await self.store.read(name)).etag

    async def refused(self, pending: Awaitable[object], what: str, *expected: str) -> None:
        """Expect a failure with one of these meanings or codes.

        Raises:
            Wrong: it was carried out, or refused for another reason.
        """
        try:
            await pending
        except StoreFailure as failure:
            if failure.meaning in expected or failure.code in expected:
                return
            if failure.meaning in ("denied", "transient"):
                raise
            raise Wrong(f"{what}: answered with {failure}, not with {' or '.join(expected)}") from failure
        raise Wrong(f"{what}: it was not refused")


async def _rights(patient: Patient) -> str:
    """Rights: create, lease, write, read, list, break and delete."""
    name = await patient.blob("rights")
    await patient.store.acquire(name, patient.mine, _PERIOD)
    etag = await patient.etag(name)
    await patient.store.write(name, patient.mine, {"SingletonEpoch": "1"}, etag)
    await patient.store.renew(name, patient.mine)
    await patient.keeping.page(patient.prefix)
    await patient.keeping.shorten(name, 0)
    await patient.store.release(name, patient.mine)
    await patient.keeping.erase(name, await patient.etag(name))
    return "create, lease, write, read, list, break and delete are allowed"


async def _exclusion(patient: Patient) -> str:
    """Leases exclude: one id has it, and asking again with that id is no second time."""
    name = await patient.leased("exclusion")
    await patient.refused(patient.store.acquire(name, patient.other, _PERIOD), "a second lease", "held")
    await patient.store.acquire(name, patient.mine, _PERIOD)
    await patient.refused(patient.store.renew(name, patient.other), "a renewal with another id", "lost")
    await patient.refused(patient.store.release(name, patient.other), "a release with another id", "lost")
    await patient.store.create(name)
    await patient.refused(patient.store.acquire(name, patient.other, _PERIOD), "a lease after making it again", "held")
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
    replied = await patient.store.acquire(name, patient.mine, _PERIOD)
    await patient.store.renew(name, patient.mine)
    await patient.store.release(name, patient.mine)
    await patient.store.acquire(name, patient.mine, _PERIOD)
    await patient.keeping.shorten(name, 0)
    after = await patient.store.read(name)
    if (before.etag, before.modified) != (after.etag, after.modified) or replied != before.etag:
        raise Wrong("a lease operation changed the ETag or Last-Modified")
    await patient.store.acquire(name, patient.mine, _PERIOD)
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
    if not _PERIOD - 5 <= rest <= _PERIOD:
        raise Wrong(f"a break without a period leaves {rest} s of a lease of {_PERIOD} s")
    await patient.refused(patient.store.renew(name, patient.mine), "a renewal of a broken lease", "lost")
    await patient.refused(patient.store.acquire(name, patient.other, _PERIOD), "a lease before the end", "held")
    if await patient.keeping.shorten(name, 5) > 5 or await patient.keeping.shorten(name, 30) > 5:
        raise Wrong("a break does not shorten what is left")
    await patient.keeping.shorten(name, 0)
    await patient.store.acquire(name, patient.other, _PERIOD)
    return "the rest of the lease runs out, it can't be renewed, and a shorter notice shortens it"


async def _clock(patient: Patient) -> str:
    """This machine's clock and the service's."""
    await patient.blob("clock")
    sent = time.time()
    page = await patient.keeping.page(patient.prefix)
    apart = page.at + 0.5 - (sent + time.time()) / 2  # the service's has whole seconds
    said = f"this machine's clock is {abs(apart):.0f} s {'behind' if apart > 0 else 'ahead of'} the service's"
    if abs(apart) > _SKEW:
        raise Strange(f"{said}: locks don't mind, but from 15 minutes on requests are refused")
    return "this machine's clock is the service's, within a second or two" if abs(apart) < 2 else said


async def _expiry(patient: Patient) -> str:
    """A lease ends after its period, by our clock, and not before."""
    name = await patient.blob("expiry")
    clock = asyncio.get_running_loop().time
    sent = clock()
    await patient.store.acquire(name, patient.mine, _PERIOD)
    granted = clock()
    await asyncio.sleep(sent + _EARLY - clock())
    while True:
        asked = clock()
        try:
            await patient.store.acquire(name, patient.other, _PERIOD)
        except StoreFailure as failure:
            if failure.meaning != "held":
                raise
        else:
            break
        if asked > granted + _LATE:
            raise Wrong(f"a lease of {_PERIOD} s has not ended after {asked - granted:.1f} s")
        await asyncio.sleep(0.1)
    if asked - sent < _STOPS:
        raise Wrong(f"a lease of {_PERIOD} s was given away within {clock() - sent:.2f} s, before its holder stops")
    return f"a lease of {_PERIOD} s was free for others after {clock() - sent:.1f} s"


async def _renewal_of_the_expired(patient: Patient) -> str:
    """An expired lease is not renewed under another id."""
    name = await patient.leased("expired")
    await asyncio.sleep(_PERIOD + 0.5)
    try:
        replied = await patient.store.renew(name, patient.other)
    except StoreFailure as failure:
        if failure.meaning != "lost":
            raise
        return "an expired lease is not renewed under another id"
    if replied != patient.mine:
        raise Wrong("an expired lease was renewed under another id")
    raise Strange("the storage emulator renews an expired lease under any id (Azurite#2352); locks compare the reply")


async def _hierarchy(patient: Patient) -> str:
    from singleton.stores.azure_traits import is_hierarchical

    if await is_hierarchical(_azure(patient).container):
        raise Strange("hierarchical namespace: a sweep leaves empty folders behind; else locks work the same")
    return "no hierarchical namespace"


async def _versions(patient: Patient) -> str:
    from singleton.stores.azure_traits import keeps_versions

    if await keeps_versions(_azure(patient).container, f"{patient.prefix}traits"):
        raise Strange("versioning is on: each stamp leaves a version behind, which costs; let a rule delete them")
    return "no versioning"


async def _soft_delete(patient: Patient) -> str:
    from singleton.stores.azure_traits import keeps_deleted

    days = await keeps_deleted(_azure(patient).container, f"{patient.prefix}traits")
    if days is not None:
        raise Strange(f"soft delete is on: what a sweep deletes is kept for {days or 'some'} days, and paid for")
    return "no soft delete"


def _azure(patient: Patient) -> AzureBlobLeaseStore:
    if not isinstance(patient.store, AzureBlobLeaseStore):
        raise StoreFailure(detail="not an Azure account")
    return patient.store


Check: TypeAlias = "Callable[[Patient], Coroutine[None, None, str]]"

_CHECKS: Final[dict[str, Check]] = {
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
_SLOW: Final[dict[str, Check]] = {"expiry": _expiry, "renewal after expiry": _renewal_of_the_expired}
_MAY_BE_HIDDEN: Final = ("hierarchy", "versions", "soft delete")


async def examine(store: LeaseStore, prefix: str, *, quick: bool = False) -> AsyncIterator[Finding]:
    """Go through the checks on scratch blobs beneath the prefix; those that wait for a lease's end come last, at once.

    ``quick`` leaves these out. Where rights are missing, nothing else is tried.
    """
    patient = Patient(store, prefix)
    for name, check in _CHECKS.items():
        found = await _run(name, check, patient)
        yield found
        if name == "rights" and found.outcome == "failed":
            return
    if not quick:
        slow = [asyncio.ensure_future(_run(name, check, patient)) for name, check in _SLOW.items()]
        try:
            for found in await asyncio.gather(*slow):
                yield found
        finally:
            for each in slow:
                each.cancel()


async def _run(name: str, check: Check, patient: Patient) -> Finding:
    try:
        return Finding(check=name, outcome="ok", said=await check(patient))
    except Wrong as wrong:
        return Finding(check=name, outcome="failed", said=str(wrong))
    except Strange as strange:
        return Finding(check=name, outcome="note", said=str(strange))
    except StoreFailure as failure:
        hidden = name in _MAY_BE_HIDDEN
        said = f"can't be seen from here ({failure})" if hidden else f"the storage answers {failure}"
        return Finding(check=name, outcome="unknown" if hidden else "failed", said=said)


async def clean_up(store: LeaseStore, prefix: str, *, container: bool) -> None:
    """Delete the scratch blobs, or their whole container. What is still leased ends its lease first.

    Raises:
        StoreFailure: something was left behind, and why.
    """
    if container and isinstance(store, AzureBlobLeaseStore):
        from singleton.stores.azure_traits import drop

        await drop(store.container)
        return
    keeping = keeping_of(store)
    for blob in (await keeping.page(prefix)).entries:
        if blob.held:
            await keeping.shorten(blob.name, 0)
        await keeping.erase(blob.name, blob.etag)

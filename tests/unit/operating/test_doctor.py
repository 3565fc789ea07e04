"""The examination of an account: what it finds where the service does as documented, and where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from singleton.base.errors import StorageDenied, StorageUnavailable
from singleton.operating.checks import clean_up, examine
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.operating.scratch import Finding

HIDDEN = {"hierarchy", "versions", "soft delete", "clock"}
"""What a model in memory can't show."""


def examined(store: MemoryLeaseStore, *, leave: bool = False) -> dict[str, Finding]:
    async def run() -> dict[str, Finding]:
        found = {finding.check: finding async for finding in examine(store, "scratch/")}
        if not leave:
            await clean_up(store, "scratch/", container=True)
        return found

    return run_virtual(run())


def test_the_service_as_documented_is_healthy_and_nothing_is_left() -> None:
    store = MemoryLeaseStore()
    found = examined(store)
    assert {finding.outcome for check, finding in found.items() if check not in HIDDEN} == {"ok"}
    assert found["expiry"].said.endswith(("after 15.0 s", "after 15.1 s"))
    assert store.names() == []


class _AnyIdRenews(MemoryLeaseStore):
    """As Azurite (A-1)."""

    async def renew(self, name: str, lease_id: str) -> str:
        blob = self._blob(name)
        if (await self.read(name)).lease == "expired":
            return blob.lease_id or ""
        return await super().renew(name, lease_id)


class _EarlyEnd(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        etag = await super().acquire(name, lease_id, duration)
        self._blobs[name].expires -= 3
        return etag


class _LateEnd(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        etag = await super().acquire(name, lease_id, duration)
        self._blobs[name].expires += 10
        return etag


class _LeasesTouch(MemoryLeaseStore):
    async def renew(self, name: str, lease_id: str) -> str:
        self._blobs[name].etag = self._etag()
        return await super().renew(name, lease_id)


class _TwoLeases(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        self._blobs[name].lease_id = None
        return await super().acquire(name, lease_id, duration)


class _UnfencedWrites(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:  # noqa: ARG002
        blob = self._blob(name)
        if blob.etag != etag:
            raise StoreFailure(412, "ConditionNotMet")
        blob.metadata, blob.etag = dict(metadata), self._etag()
        return blob.etag


class _BreaksAtOnce(MemoryLeaseStore):
    async def shorten(self, name: str, after: int | None, etag: str | None = None) -> int:
        return await super().shorten(name, 0 if after is None else after, etag)


class _DeletesWhatIsLeased(MemoryLeaseStore):
    async def erase(self, name: str, etag: str) -> None:
        if self._blob(name).etag != etag:
            raise StoreFailure(412, "ConditionNotMet")
        self.delete(name)


@pytest.mark.parametrize(
    ("kind", "check", "outcome"),
    [
        (_AnyIdRenews, "renewal after expiry", "note"),
        (_EarlyEnd, "expiry", "failed"),
        (_LateEnd, "expiry", "failed"),
        (_LeasesTouch, "ETags", "failed"),
        (_TwoLeases, "exclusion", "failed"),
        (_UnfencedWrites, "fencing", "failed"),
        (_BreaksAtOnce, "breaks", "failed"),
        (_DeletesWhatIsLeased, "deletes", "failed"),
    ],
)
def test_a_service_that_does_otherwise_is_found_out(kind: type[MemoryLeaseStore], check: str, outcome: str) -> None:
    assert examined(kind())[check].outcome == outcome


class _Denying(MemoryLeaseStore):
    """One that denies some requests."""

    def __init__(self, denied: tuple[str, ...], failure: StoreFailure) -> None:
        super().__init__()

        async def deny(*_: object) -> NoReturn:
            raise failure

        for name in denied:
            setattr(self, name, deny)


DENIED = StoreFailure(403, "AuthorizationPermissionMismatch")
BLOBS = "Microsoft.Storage/storageAccounts/blobServices/containers/blobs"


@pytest.mark.parametrize(
    ("denied", "outcome", "said", "not_tried"),
    [
        (("erase",), "note", f"Delete Blob is denied (403 {DENIED.code}): it needs the data action {BLOBS}/delete", 2),
        (("page",), "note", f"List Blobs is denied (403 {DENIED.code}): it needs the data action {BLOBS}/read", 1),
        (("write",), "failed", f"it needs the data action {BLOBS}/write; of a SAS, the permission w", 3),
        (("create",), "failed", "Put Blob is denied", 9),
        (("acquire", "renew", "release", "shorten"), "failed", "Lease Blob is denied", 8),
    ],
)
def test_a_missing_right_is_named_and_what_it_is_not_needed_for_is_examined(
    denied: tuple[str, ...], outcome: str, said: str, not_tried: int
) -> None:
    found = examined(_Denying(denied, DENIED), leave=True)
    assert found["rights"].outcome == outcome
    assert said in found["rights"].said
    untried = [each for each in found.values() if each.check not in HIDDEN - {"clock"} and each.outcome == "unknown"]
    assert len(untried) == not_tried
    assert all("is denied" in each.said for each in untried)
    assert not any(each.outcome == "failed" for each in found.values() if each.check not in ("rights", "clock"))


def test_all_rights_that_are_missing_are_named_at_once() -> None:
    said = examined(_Denying(("create", "acquire", "read", "erase", "shorten"), DENIED), leave=True)["rights"].said
    for request in ("Put Blob", "Lease Blob", "Get Blob Properties", "Delete Blob"):
        assert f"{request} is denied" in said


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (StoreFailure(detail="no answer in time"), StorageUnavailable),
        (StoreFailure(503, "ServerBusy"), StorageUnavailable),
        (StoreFailure(403, "AuthenticationFailed"), StorageDenied),
        (StoreFailure(403, "AuthorizationFailure"), StorageDenied),
        (StoreFailure(401, None), StorageDenied),
    ],
)
def test_storage_that_does_not_answer_or_does_not_know_us_is_no_finding(
    failure: StoreFailure, error: type[Exception]
) -> None:
    with pytest.raises(error):
        examined(_Denying(("create", "acquire", "page"), failure), leave=True)

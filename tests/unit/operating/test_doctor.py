"""The examination of an account: what it finds where the service does as documented, and where it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from singleton.operating.doctor import Finding, clean_up, examine
from singleton.stores.memory import MemoryLeaseStore
from singleton.stores.protocol import NOTHING, BlobState, StoreFailure
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Mapping

HIDDEN = {"hierarchy", "versions", "soft delete", "clock"}
"""What a model in memory can't show."""


def examined(store: MemoryLeaseStore) -> dict[str, Finding]:
    async def run() -> dict[str, Finding]:
        found = {finding.check: finding async for finding in examine(store, "scratch/")}
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


def test_without_rights_nothing_else_is_tried() -> None:
    class Denied(MemoryLeaseStore):
        async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:  # noqa: ARG002
            raise StoreFailure(403, "AuthorizationPermissionMismatch")

    found = examined(Denied())
    assert list(found) == ["rights"]
    assert found["rights"].outcome == "failed"

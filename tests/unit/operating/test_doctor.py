"""The examination of an account: rights, and what can't be seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

import pytest

from singleton.base.errors import StorageDenied, StorageUnavailable
from singleton.operating.checks import clean_up, examine
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from singleton.operating.checks import Finding

HIDDEN = {"hierarchy", "versions", "soft delete", "clock"}
"""What a model in memory can't show."""


def examined(store: MemoryLeaseStore, *, leave: bool = False) -> dict[str, Finding]:
    async def run() -> dict[str, Finding]:
        found = {finding.check: finding for finding in await examine(store, "scratch/")}
        if not leave:
            await clean_up(store, "scratch/", container=True)
        return found

    return run_virtual(run())


def test_the_service_as_documented_is_healthy_and_nothing_is_left() -> None:
    store = MemoryLeaseStore()
    found = examined(store)
    assert {finding.outcome for check, finding in found.items() if check not in HIDDEN} == {"ok"}
    assert store.names() == []


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
        (("drop",), "note", f"Delete Blob is denied (403 {DENIED.code}): it needs the data action {BLOBS}/delete", 0),
        (("page",), "note", f"List Blobs is denied (403 {DENIED.code}): it needs the data action {BLOBS}/read", 1),
        (("write",), "failed", f"it needs the data action {BLOBS}/write; of a SAS, the permission w", 0),
        (("create",), "failed", "Put Blob is denied", 0),
        (("acquire", "renew", "release", "break_"), "failed", "Lease Blob is denied", 0),
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
    said = examined(_Denying(("create", "acquire", "read", "drop", "break_"), DENIED), leave=True)["rights"].said
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

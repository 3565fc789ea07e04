"""What each answer of the blob service means for a lock, by error code, and which error its caller gets."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING

import pytest

from singleton.base.errors import StorageDenied, StorageError, StorageUnavailable
from singleton.locking.acquisition import storage_error
from singleton.locking.lease import as_failure
from singleton.stores.protocol import Meaning, StoreFailure

if TYPE_CHECKING:
    from singleton.base.kinds import LossReason

# status, code, meaning, why a hold that hears it is over
TABLE: list[tuple[int | None, str | None, Meaning, LossReason | None]] = [
    # Leases (the service's own table of lease errors).
    (409, "LeaseAlreadyPresent", "held", None),
    (409, "LeaseIsBreakingAndCannotBeAcquired", "held", None),
    (409, "LeaseIdMismatchWithLeaseOperation", "lost", "stolen"),
    (412, "LeaseIdMismatchWithBlobOperation", "lost", "stolen"),
    (409, "LeaseIsBrokenAndCannotBeRenewed", "lost", "broken"),
    (409, "LeaseIsBreakingAndCannotBeChanged", "lost", "broken"),
    (409, "LeaseNotPresentWithLeaseOperation", "lost", "expired"),
    (412, "LeaseNotPresentWithBlobOperation", "lost", "expired"),
    (412, "LeaseLost", "lost", "expired"),
    (409, "LeaseLost", "lost", "expired"),
    # Blobs and containers that are not there.
    (404, "BlobNotFound", "missing", "blob gone"),
    (404, "ContainerNotFound", "missing", "blob gone"),
    (404, "ResourceNotFound", "missing", "blob gone"),
    (409, "ContainerBeingDeleted", "deleting", "blob gone"),
    (409, "BlobBeingDeleted", "deleting", "blob gone"),
    # Credentials and permissions (B12).
    (401, None, "denied", None),
    (401, "InvalidAuthenticationInfo", "denied", None),
    (401, "NoAuthenticationInformation", "denied", None),
    (403, None, "denied", None),
    (403, "AuthenticationFailed", "denied", None),
    (403, "AuthorizationFailure", "denied", None),
    (403, "AuthorizationPermissionMismatch", "denied", None),
    (403, "AuthorizationSourceIPMismatch", "denied", None),
    (403, "InsufficientAccountPermissions", "denied", None),
    (403, "AccountIsDisabled", "denied", None),
    (403, "KeyBasedAuthenticationNotPermitted", "denied", None),
    # Requests that can't ever work.
    (400, None, "refused", None),
    (400, "InvalidHeaderValue", "refused", None),
    (400, "InvalidResourceName", "refused", None),
    (400, "OutOfRangeInput", "refused", None),
    (405, "UnsupportedHttpVerb", "refused", None),
    (409, "BlobImmutableDueToPolicy", "refused", None),
    (409, "PublicAccessNotPermitted", "refused", None),
    (411, "MissingContentLengthHeader", "refused", None),
    (412, "ConditionNotMet", "changed", None),
    (412, "InfiniteLeaseDurationRequired", "refused", None),
    (412, "LeaseIdMissing", "refused", None),
    (413, "RequestBodyTooLarge", "refused", None),
    (416, None, "refused", None),
    # No word about the lease: ask again (B1, B2). Without a code, something in between has answered.
    (404, None, "transient", None),
    (409, None, "transient", None),
    (None, None, "transient", None),
    (408, None, "transient", None),
    (408, "RequestTimeout", "transient", None),
    (429, None, "transient", None),
    (429, "TooManyRequests", "transient", None),
    (500, None, "transient", None),
    (500, "InternalError", "transient", None),
    (500, "OperationTimedOut", "transient", None),
    (502, None, "transient", None),
    (503, None, "transient", None),
    (503, "ServerBusy", "transient", None),
    (504, None, "transient", None),
    (507, None, "transient", None),
    (200, None, "transient", None),
    (302, None, "transient", None),
]


@pytest.mark.parametrize(("status", "code", "meaning", "loss"), TABLE)
def test_each_status_and_code_has_one_meaning(
    status: int | None, code: str | None, meaning: Meaning, loss: LossReason | None
) -> None:
    failure = StoreFailure(status, code)
    assert failure.meaning == meaning
    assert failure.loss == loss


@pytest.mark.parametrize(
    "code", sorted({code for _, code, meaning, _ in TABLE if code and meaning in ("held", "lost")})
)
@pytest.mark.parametrize("status", [409, 412, 400])
def test_a_lease_code_counts_whatever_status_it_comes_with(code: str, status: int) -> None:
    """Service, emulator and SDK disagree about 409 and 412; the code says what happened."""
    expected = next(meaning for _, known, meaning, _ in TABLE if known == code)
    assert StoreFailure(status, code).meaning == expected


def test_only_a_definitive_answer_ends_a_hold() -> None:
    for _, _, meaning, loss in TABLE:
        assert (loss is not None) == (meaning in ("lost", "missing", "deleting"))


def test_an_unknown_code_is_judged_by_its_status() -> None:
    for status, meaning in (
        (409, "refused"),
        (403, "denied"),
        (404, "missing"),
        (503, "transient"),
        (429, "transient"),
    ):
        assert StoreFailure(status, "BrandNewCode").meaning == meaning


ERRORS = {"denied": StorageDenied, "refused": StorageError, "transient": StorageUnavailable}


@pytest.mark.parametrize(("status", "code", "meaning", "_"), TABLE)
def test_the_callers_error_names_lock_status_code_and_cause(
    status: int | None, code: str | None, meaning: Meaning, _: LossReason | None
) -> None:
    failure = StoreFailure(status, code, "so it said")
    error = storage_error("locks/a", failure)
    assert type(error) is ERRORS.get(meaning, StorageUnavailable)
    assert (error.lock, error.status, error.code) == ("locks/a", status, code)
    assert error.__cause__ is failure
    for part in ("locks/a", code or "", str(status or ""), "so it said"):
        assert part in str(error)


def test_a_failure_reads_as_what_the_service_said() -> None:
    assert str(StoreFailure(409, "LeaseAlreadyPresent")) == "409 LeaseAlreadyPresent"
    assert str(StoreFailure(400, None, "lease duration 5")) == "400 lease duration 5"
    assert str(StoreFailure()) == "no answer"
    assert str(StoreFailure(detail="ConnectionRefusedError")) == "ConnectionRefusedError"


def _as_tblib(failure: StoreFailure) -> StoreFailure:
    """Copy as tblib does, which Dask installs for all exceptions of a process: ``__init__`` is not called."""
    again = StoreFailure.__new__(StoreFailure)
    again.args = failure.args
    again.__dict__.update(failure.__dict__)
    return again


@pytest.mark.parametrize("clone", [copy.copy, lambda failure: pickle.loads(pickle.dumps(failure)), _as_tblib])  # noqa: S301 - ours
def test_a_failure_survives_copying(clone: object) -> None:
    assert callable(clone)
    failure = clone(StoreFailure(503, "ServerBusy", "slow down", 4.0))
    assert (failure.status, failure.code, failure.detail, failure.retry_after) == (503, "ServerBusy", "slow down", 4.0)
    assert failure.meaning == "transient"


def test_whatever_else_a_store_raises_says_nothing_about_the_lease() -> None:
    failure = StoreFailure(404, "BlobNotFound")
    assert as_failure(failure) is failure
    for error in (TimeoutError(), ValueError("what?"), RuntimeError("closed"), KeyError("x"), ConnectionResetError()):
        assert as_failure(error).meaning == "transient"
        assert as_failure(error).loss is None
    assert "what?" in str(as_failure(ValueError("what?")))

"""The specification's live cases on Azurite (X-12): what the lock does to real blobs, and what others see of it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.exceptions import HttpResponseError
from azure.storage.blob import BlobClient, BlobLeaseClient, BlobServiceClient, ContainerClient

from singleton import AsyncLockClient, LockClient, LockNotAcquired, SingletonOptions
from singleton.dotnet.webjobs import WebJobsLayout

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def options(container_name: str) -> SingletonOptions:
    return SingletonOptions(container=container_name)


@pytest.fixture
def locks(connection_string: str, options: SingletonOptions) -> Iterator[LockClient]:
    with LockClient(connection_string, options=options) as client:
        yield client


@pytest.fixture
def container(connection_string: str, container_name: str) -> Iterator[ContainerClient]:
    """The container as anybody sees it; it does not exist yet."""
    with BlobServiceClient.from_connection_string(connection_string, retry_total=0) as service:
        yield service.get_container_client(container_name)


def occupied(container: ContainerClient, name: str, seconds: int = 15) -> BlobLeaseClient:
    """Let somebody else have the lease."""
    with contextlib.suppress(HttpResponseError):
        container.create_container()
    blob = container.get_blob_client(name)
    with contextlib.suppress(HttpResponseError):
        blob.upload_blob(b"", overwrite=False)
    return blob.acquire_lease(seconds)


def refused_with(request: Any) -> str:
    """Return the service's error code for a request that is to fail."""
    with pytest.raises(HttpResponseError) as caught:
        request()
    code = caught.value.error_code  # type: ignore[attr-defined]
    return str(getattr(code, "value", code))


def state(blob: BlobClient) -> tuple[str, str]:
    lease = blob.get_blob_properties().lease
    return str(lease.state), str(lease.status)


# --- the blob -------------------------------------------------------------------------------------------------------


def test_blob_and_container_are_made_where_missing_empty_and_kept(
    locks: LockClient, container: ContainerClient
) -> None:
    """W-46, W-54, W-55, M-19, S-1, S-7: and neither is deleted by a release."""
    assert not container.exists()
    for name in ("job", "another"):
        with locks.lock(name):
            pass
        blob = container.get_blob_client(name)
        properties = blob.get_blob_properties()
        assert (properties.size, str(properties.blob_type)) == (0, "BlobType.BLOCKBLOB")
        assert state(blob) == ("available", "unlocked")


def test_the_lease_is_the_holds_and_others_are_refused(locks: LockClient, container: ContainerClient) -> None:
    """W-60, M-27: with its id the lease can be changed and the blob written; without, nothing can."""
    with locks.lock("job") as hold:
        blob = container.get_blob_client("job")
        assert refused_with(lambda: blob.acquire_lease(15)) == "LeaseAlreadyPresent"
        assert refused_with(lambda: blob.set_blob_metadata({})) == "LeaseIdMissing"
        blob.set_blob_metadata({"mine": "1", **blob.get_blob_properties().metadata}, lease=hold.lease_id)
        lease = BlobLeaseClient(blob, lease_id=hold.lease_id)
        other = str(uuid.uuid4())
        lease.change(other)
        assert lease.id == other
        lease.release()


@pytest.mark.parametrize("kind", ["block", "page", "append"])
def test_a_blob_that_is_there_already_is_locked_of_whatever_type(
    locks: LockClient, container: ContainerClient, kind: str
) -> None:
    """M-21: its content and metadata stay."""
    container.create_container()
    blob = container.get_blob_client("job")
    if kind == "block":
        blob.upload_blob(b"content", metadata={"Mine": "1"})
    elif kind == "page":
        blob.create_page_blob(512, metadata={"Mine": "1"})
    else:
        blob.create_append_blob(metadata={"Mine": "1"})
    before = blob.download_blob().readall()
    with locks.lock("job", owner="me") as hold:
        assert hold.token
        with locks.try_lock("job") as none:
            assert none is None
        assert state(blob) == ("leased", "locked")
    found = {key.lower(): value for key, value in blob.get_blob_properties().metadata.items()}
    assert (found["mine"], found["functioninstance"]) == ("1", "me")
    assert blob.download_blob().readall() == before


def test_a_lease_on_the_container_does_not_stop_locking(locks: LockClient, container: ContainerClient) -> None:
    """M-20."""
    container.create_container()
    lease = container.acquire_lease(15)
    with locks.lock("job") as hold:
        assert hold.token
    lease.release()


AWKWARD = {
    "nothing": "",
    "2000 letters": "a" * 2000,
    "a slash at its end": "a/",
    "a backslash at its end": "a\\",
    "254 segments": "/".join("a" * 254),
    "254 segments by backslashes": "\\".join("a" * 254),
    "254 slashes": "/" * 254,
    "254 backslashes": "\\" * 254,
    "a thousand backslashes": "\\" * 1000,
    "a dot at its end": "a.",
}


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_any_text_makes_a_name_that_can_be_locked(locks: LockClient, container: ContainerClient, text: str) -> None:
    """M-13, M-46: by `safe_name`; a scope of a function needs none of it."""
    name = locks.safe_name(text)
    with locks.lock(name):
        assert [blob.name for blob in container.list_blobs()] == [name]
        with locks.try_lock(name) as none:
            assert none is None


@pytest.mark.parametrize("text", ["x\\3", "x/3"])
def test_a_backslash_and_a_slash_are_one_blob_in_the_layout_of_webjobs(
    container: ContainerClient, locks: LockClient, text: str
) -> None:
    """M-14, W-43: the name that is sent has slashes, as .NET sends it."""
    name = WebJobsLayout().lock("myapp", "Ship", [text])
    assert name == "locks/myapp/Host.Functions.Ship.x/3"
    with locks.lock(name):
        assert state(container.get_blob_client("locks/myapp/Host.Functions.Ship.x/3")) == ("leased", "locked")


# --- waiting --------------------------------------------------------------------------------------------------------


def test_asking_once_ends_at_once(locks: LockClient, container: ContainerClient) -> None:
    """W-64: within a second and a half, and on a busy machine long before the lease ends."""
    occupied(container, "job").release()
    lease = occupied(container, "job")
    began = time.monotonic()
    with pytest.raises(LockNotAcquired):
        locks.acquire("job", timeout=0)
    with locks.try_lock("job") as none:
        assert none is None
    assert time.monotonic() - began < 10
    lease.release()


def test_a_time_out_names_the_lock_and_the_time(locks: LockClient, container: ContainerClient) -> None:
    """W-65."""
    lease = occupied(container, "job")
    with pytest.raises(LockNotAcquired, match=re.escape("lock 'job' was not acquired within 0:00:01: ")):
        locks.acquire("job", timeout=1)
    lease.release()


# --- renewal, release, owner ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fencing", [True, False], ids=["with tokens", "without"])
async def test_what_takes_a_lease_to_be_seen(
    connection_string: str, container: ContainerClient, options: SingletonOptions, fencing: bool
) -> None:
    """W-63, W-70, W-77 to W-79, M-55, S-4, at once: each waits for a lease of 15 s."""
    async with AsyncLockClient(connection_string, options=options.replace(fencing_tokens=fencing)) as locks:
        await asyncio.to_thread(container.create_container)

        async def it_is_had_when_the_others_lease_lapses() -> None:
            began = time.monotonic()
            await asyncio.to_thread(occupied, container, "lapses")
            hold = await locks.acquire("lapses", timeout=60)
            assert time.monotonic() - began > 14.9
            await locks.release(hold)

        async def renewals_outlive_the_period() -> None:
            async with locks.lock("renewed") as hold:
                blob = container.get_blob_client("renewed")
                await asyncio.sleep(16)
                code = await asyncio.to_thread(refused_with, lambda: blob.acquire_lease(15))
                assert code == "LeaseAlreadyPresent"
                hold.raise_if_lost()
            assert state(blob) == ("available", "unlocked")

        async def what_somebody_else_took_is_left_to_them() -> None:
            hold = await locks.acquire("taken")
            blob = container.get_blob_client("taken")
            await asyncio.to_thread(BlobLeaseClient(blob).break_lease, 0)
            theirs = await asyncio.to_thread(blob.acquire_lease, 60)
            assert await hold.lost in ("stolen", "broken")
            await locks.release(hold)  # raises nothing
            assert state(blob) == ("leased", "locked")
            await asyncio.to_thread(theirs.release)

        async with asyncio.TaskGroup() as together:
            together.create_task(it_is_had_when_the_others_lease_lapses())
            together.create_task(renewals_outlive_the_period())
            together.create_task(what_somebody_else_took_is_left_to_them())


def test_after_a_release_others_can_have_it_at_once(locks: LockClient, container: ContainerClient) -> None:
    """W-77, W-83: also after an error in the block."""
    blob = container.get_blob_client("job")
    with contextlib.suppress(KeyError), locks.lock("job"):
        raise KeyError
    lease = blob.acquire_lease(15)
    lease.release()


def test_a_blob_that_is_gone_is_no_error_at_its_release(locks: LockClient, container: ContainerClient) -> None:
    """W-78: 404."""
    hold = locks.acquire("job")
    container.get_blob_client("job").delete_blob(lease=hold.lease_id)
    locks.release(hold)
    assert not container.get_blob_client("job").exists()


def test_what_somebody_else_has_meanwhile_is_left_to_them_by_a_release(
    locks: LockClient, container: ContainerClient
) -> None:
    """W-78: 409, before the loss is even known. Nor is a lease that was broken an error."""
    blob = container.get_blob_client("job")
    hold = locks.acquire("job")
    BlobLeaseClient(blob).break_lease(0)
    theirs = blob.acquire_lease(15)
    locks.release(hold)
    assert state(blob) == ("leased", "locked")
    theirs.release()
    hold = locks.acquire("job")
    BlobLeaseClient(blob).break_lease(0)
    locks.release(hold)
    with locks.try_lock("job") as free:
        assert free is not None


async def test_a_release_whose_caller_is_cancelled_is_carried_out(
    connection_string: str, container: ContainerClient, options: SingletonOptions
) -> None:
    """W-79 lets the lease lapse; ours is given back (B9). W-80: nor does it matter who was cancelled before."""
    async with AsyncLockClient(connection_string, options=options) as locks:
        hold = await locks.acquire("job")
        release = asyncio.create_task(locks.release(hold))
        await asyncio.sleep(0)
        release.cancel()
        await asyncio.wait({release})
        async with locks.lock("job", timeout=60) as second:
            assert second is not hold
    assert await asyncio.to_thread(state, container.get_blob_client("job")) == ("available", "unlocked")


def test_the_owner_is_read_from_the_blob(locks: LockClient, container: ContainerClient) -> None:
    """W-57, W-81: nobody, where container or blob is missing or the lease is free, whatever stands on the blob."""
    assert locks.holder("job") is None
    with locks.lock("job", owner="instance-1"):
        metadata = container.get_blob_client("job").get_blob_properties().metadata
        assert metadata["FunctionInstance"] == "instance-1"
        found = locks.holder("job")
        assert found is not None
        assert found.owner == "instance-1"
    assert container.get_blob_client("job").get_blob_properties().metadata["FunctionInstance"] == "instance-1"
    assert locks.holder("job") is None
    lease = occupied(container, "by-others")
    other = locks.holder("by-others")
    assert other is not None
    assert other.owner is None
    lease.release()

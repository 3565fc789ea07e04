"""Hosts of .NET as they meet us in storage: the requests of their lock managers, one by one, by the plain SDK."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.blob import BlobLeaseClient, BlobServiceClient

if TYPE_CHECKING:
    from pathlib import Path

    from azure.storage.blob import BlobClient

FREE = ("available", "expired", "broken")


class Journal:
    """Who was inside and when, by all processes of a test: one line a write, on the machine's clock."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, what: str, who: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{time.monotonic_ns()} {what} {who}\n")

    def entries(self) -> list[tuple[int, str, str]]:
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return sorted((int(at), what, who) for at, what, who in (line.split() for line in lines))

    def overlaps(self) -> list[str]:
        """Return each entry by somebody while somebody else was inside."""
        inside: set[str] = set()
        found = []
        for _, what, who in self.entries():
            if what == "enter":
                if inside:
                    found.append(f"{who} entered with {', '.join(inside)} inside")
                inside.add(who)
            else:
                inside.discard(who)
        return found


class WebJobsHost:
    """``BlobLeaseDistributedLockManager``: W-45, W-52 to W-60, W-78."""

    period = 15

    def __init__(self, connection_string: str) -> None:
        self._service = BlobServiceClient.from_connection_string(connection_string, retry_total=0)
        self._container = self._service.get_container_client("azure-webjobs-hosts")

    def close(self) -> None:
        self._container.close()
        self._service.close()

    def blob(self, lock_id: str) -> BlobClient:
        return self._container.get_blob_client(f"locks/{lock_id}".strip("/"))  # the .NET client cuts slashes off

    def try_lock(self, lock_id: str, owner: str | None) -> BlobLeaseClient | None:
        blob = self.blob(lock_id)
        lease = self._try_acquire(blob)
        if lease is not None and owner:
            with suppress(ResourceNotFoundError):
                metadata = {**(blob.get_blob_properties().metadata or {}), "FunctionInstance": owner}
                blob.set_blob_metadata(metadata, lease=lease)
        return lease

    def lock(self, lock_id: str, owner: str | None, polling: float) -> BlobLeaseClient:
        while (lease := self.try_lock(lock_id, owner)) is None:
            time.sleep(polling)
        return lease

    def release(self, lease: BlobLeaseClient) -> None:
        with suppress(ResourceNotFoundError, ResourceExistsError):
            lease.release()

    def owner(self, lock_id: str) -> str | None:
        """W-81."""
        try:
            properties = self.blob(lock_id).get_blob_properties()
        except ResourceNotFoundError:
            return None
        if properties.lease.state == "available" and properties.lease.status == "unlocked":
            return None
        return (properties.metadata or {}).get("FunctionInstance")

    def _try_acquire(self, blob: BlobClient) -> BlobLeaseClient | None:
        with suppress(ResourceNotFoundError):
            if blob.get_blob_properties().lease.state not in FREE:
                return None
        for _ in range(2):
            try:
                lease = BlobLeaseClient(blob)
                lease.acquire(self.period)
            except ResourceNotFoundError:
                self._create(blob)
            except ResourceExistsError:
                return None
            else:
                return lease
        return None

    def _create(self, blob: BlobClient) -> None:
        for _ in range(2):
            try:
                blob.upload_blob(b"", overwrite=False)
            except ResourceNotFoundError:
                with suppress(ResourceExistsError):
                    self._container.create_container()
            except HttpResponseError as error:
                if error.status_code not in (409, 412):
                    raise
                return
            else:
                return


class DequeueableHost:
    """``DistributedLockManager`` of Dequeueable: D-18, D-24 to D-28."""

    period = 60

    def __init__(self, connection_string: str, container: str) -> None:
        self._service = BlobServiceClient.from_connection_string(connection_string, retry_total=0)
        self._container = self._service.get_container_client(container)

    def close(self) -> None:
        self._container.close()
        self._service.close()

    def blob(self, value: str) -> BlobClient:
        return self._container.get_blob_client(value)

    def try_lock(self, value: str) -> BlobLeaseClient | None:
        blob = self.blob(value)
        try:
            if self._state(blob) not in (None, *FREE):
                return None
            lease = BlobLeaseClient(blob)
            lease.acquire(self.period)
        except HttpResponseError:
            return None
        return lease

    def lock(self, value: str, polling: float) -> BlobLeaseClient:
        while (lease := self.try_lock(value)) is None:
            time.sleep(polling)
        return lease

    def renew(self, lease: BlobLeaseClient, value: str) -> None:
        assert self._state(self.blob(value)) == "leased", "the lease is not active anymore"
        lease.renew()

    def release(self, lease: BlobLeaseClient) -> None:
        with suppress(ResourceNotFoundError, ResourceExistsError):
            lease.release()

    def _state(self, blob: BlobClient) -> str | None:
        try:
            return str(blob.get_blob_properties().lease.state)
        except ResourceNotFoundError:
            pass
        try:
            blob.upload_blob(b"")
        except ResourceNotFoundError:
            with suppress(ResourceExistsError):
                self._container.create_container()
            blob.upload_blob(b"")
        except HttpResponseError as error:
            if error.status_code not in (409, 412):
                raise
        return None

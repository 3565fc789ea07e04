"""Names of locks on a real service: different parts lease different blobs, whatever is in them (B11, M-13, M-14)."""

from __future__ import annotations

import uuid

from azure.storage.blob import BlobServiceClient

from singleton.layouts.blob_name import lock_name
from singleton.settings.connection import resolve_blob_account

SCOPES = (
    *("42", "a.b", "a/b", "a\\b", "a%2Fb", "a%2fb", "A/B", "..", ".", "/", "//", "../x", "~x", "a b", "a+b", "a?b#c"),
    *("é", "e\u0301", "😀", "\ud83d", "\u202e", "\x00", "\n", "x" * 300, "x" * 301, "/" * 300, "locks/hid/ship.42"),
)


def test_each_hostile_scope_has_a_blob_of_its_own(connection_string: str, container_name: str) -> None:
    account = resolve_blob_account(connection_string, {})
    assert account.connection_string
    names = [lock_name("hid", "ship", [scope]) for scope in SCOPES]
    names += [lock_name("hid", "", [scope], level="host") for scope in SCOPES]
    with BlobServiceClient.from_connection_string(account.connection_string, retry_total=0) as service:
        container = service.create_container(container_name)
        for name in names:
            blob = container.get_blob_client(name)
            blob.upload_blob(b"", overwrite=False)  # refused if another scope made it
            blob.acquire_lease(15, lease_id=str(uuid.uuid4()))  # refused if another scope has it
        assert {blob.name for blob in container.list_blobs()} == set(names)
    assert len(set(names)) == 2 * len(SCOPES)

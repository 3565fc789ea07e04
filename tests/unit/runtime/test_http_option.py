"""How requests travel is said by an option, and is no part of which lock it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from singleton import LockClient, LockNotAcquired, SingletonOptions
from singleton.runtime.accounts.stores import open_container
from singleton.settings.accounts import GivenClients, LockContainer
from singleton.settings.connection import StorageAccount
from singleton.stores.azure_blob import AzureBlobLeaseStore
from singleton.stores.direct_blob import DirectBlobStore
from tests.support.lock_thread import LockThread, a_job, an_app, call

if TYPE_CHECKING:
    from pathlib import Path

NOWHERE = StorageAccount("AccountName=a;AccountKey=a2V5;BlobEndpoint=http://127.0.0.1:1/a")


@pytest.fixture(autouse=True)
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    an_app(tmp_path, monkeypatch)


async def test_the_sdk_is_used_where_it_is_asked_for_or_clients_are_brought_along() -> None:
    from azure.storage.blob.aio import ContainerClient

    def make(container: str) -> ContainerClient:
        return ContainerClient("http://127.0.0.1:1/a", container, credential="a2V5")

    ways = {
        "direct": open_container(NOWHERE, "locks"),
        "sdk": open_container(NOWHERE, "locks", "sdk"),
        "clients": open_container(GivenClients(make), "locks", "direct"),
    }
    for store in ways.values():
        await store.aclose()
    kinds = {way: type(store) for way, store in ways.items()}
    assert kinds == {"direct": DirectBlobStore, "sdk": AzureBlobLeaseStore, "clients": AzureBlobLeaseStore}


def test_a_client_and_a_function_say_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__http", "sdk")
    monkeypatch.setenv("AzureFunctionsJobHost__singleton__container", "a-function")
    with LockThread() as thread:
        call(a_job("sync"))
        with LockClient(options=SingletonOptions(container="a-client", http="sdk")).lock("job"):
            pass
        with LockClient(options=SingletonOptions(container="another")).lock("job"):
            pass
        said = {place.container: place.http for place in thread.places}
    assert said == {"a-client": "sdk", "a-function": "sdk", "another": "direct"}


def test_it_is_the_same_lock_and_the_same_store_either_way() -> None:
    assert LockContainer(NOWHERE, "locks", "sdk") == LockContainer(NOWHERE, "locks")
    with (
        LockThread() as thread,
        LockClient(options=SingletonOptions(http="sdk")).lock("job"),
        pytest.raises(LockNotAcquired),
        LockClient().lock("job", timeout=0),
    ):
        pytest.fail("two are inside")
    assert len(thread.places) == 1

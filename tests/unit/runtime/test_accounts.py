"""Stores as they are opened from settings, or from what a user brings along: the SDK never asks twice."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from azure.core.credentials import AccessToken
from azure.core.exceptions import ServiceRequestError

from singleton.runtime.accounts.stores import open_queue, open_through_sdk
from singleton.settings.accounts import GivenAccount
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from tests.support.transport import NoTransport

if TYPE_CHECKING:
    from collections.abc import Callable


URL = "https://shop.blob.core.windows.net"
QUEUES = "https://shop.queue.core.windows.net"
KEY = "AccountName=shop;AccountKey=bm90IGEga2V5;DefaultEndpointsProtocol=https;EndpointSuffix=core.windows.net"


class Nowhere(NoTransport):
    """A transport on which no request gets through, and that counts them."""

    def __init__(self) -> None:
        self.sent = 0

    async def send(self, request: Any, **_: Any) -> Any:
        self.sent += 1
        raise ServiceRequestError(f"{request.method} did not get through")


class Credential:
    """A user's own."""

    async def get_token(self, *_: str, **__: Any) -> AccessToken:
        return AccessToken("token", int(time.time()) + 3600)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(
    "account",
    [
        StorageAccount(connection_string=KEY),
        StorageAccount(account_url=f"{URL}/?sig=x"),
        GivenAccount(URL, Credential()),
    ],
    ids=["a connection string", "a URL with a signature", "a credential of the user's"],
)
def test_an_acquire_is_one_request_whoever_gave_the_account(account: StorageAccount | GivenAccount) -> None:
    def sent(transport: Nowhere) -> Any:
        return open_through_sdk(account, "locks", transport=transport)

    assert _requests(sent, lambda store: store.acquire("job", "00000000-0000-4000-8000-000000000000", 15)) == 1


@pytest.mark.parametrize(
    "account",
    [StorageAccount(connection_string=KEY), StorageAccount(account_url=f"{QUEUES}/?sig=x")],
    ids=["a connection string", "a URL with a signature"],
)
def test_a_message_is_deleted_by_one_request(account: StorageAccount) -> None:
    def opened(transport: Nowhere) -> Any:
        return open_queue(account, "orders", transport=transport)

    assert _requests(opened, lambda queue: queue.delete("1", "receipt")) == 1


def _requests(opened: Callable[[Nowhere], Any], ask: Callable[[Any], Any]) -> int:
    """Return how many requests an attempt makes where none gets through."""

    async def attempt() -> int:
        transport = Nowhere()
        store = opened(transport)
        with pytest.raises(StoreFailure):
            await asyncio.wait_for(ask(store), 5.0)
        await store.aclose()
        return transport.sent

    return asyncio.run(attempt())

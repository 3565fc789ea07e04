"""What the Azure store makes of the rarer errors of the SDK, and of names."""

from __future__ import annotations

import pytest
from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError

from singleton.stores.azure_blob import AzureBlobLeaseStore, judged
from singleton.stores.protocol import StoreFailure


async def failing(error: Exception) -> None:
    raise error


async def test_a_credential_that_gets_no_token_is_a_denial_and_no_trouble_on_the_way() -> None:
    """azure-identity raises it without a response: there was no request to the storage."""
    with pytest.raises(StoreFailure) as caught:
        await judged(failing(ClientAuthenticationError("no managed identity here")))
    assert (caught.value.status, caught.value.meaning) == (401, "denied")


async def test_a_connection_that_fails_says_nothing_about_the_lease() -> None:
    with pytest.raises(StoreFailure) as caught:
        await judged(failing(ServiceRequestError("connection reset")))
    assert (caught.value.status, caught.value.meaning, caught.value.loss) == (None, "transient", None)


async def test_a_blob_s_name_is_sent_as_it_is_and_its_client_is_kept() -> None:
    class Container:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def get_blob_client(self, name: str) -> object:
            self.asked.append(name)
            return object()

    container = Container()
    store = AzureBlobLeaseStore(container)  # type: ignore[arg-type]
    clients = {name: store._client(name) for name in ("locks/App/Ship", "locks/app/ship")}
    assert container.asked == ["locks/App/Ship", "locks/app/ship"]
    assert store._client("locks/App/Ship") is clients["locks/App/Ship"]
    many = [store._client(f"locks/{number}") for number in range(400)]
    assert store._client("locks/399") is many[-1], "the newest are kept"

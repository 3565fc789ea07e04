"""Listing, breaking and deleting on Azurite, as on the model (tests/conformance/test_memory_keeping.py)."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

import pytest

from singleton.runtime.accounts.stores import open_container
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from tests.conformance import keeping_suite

if TYPE_CHECKING:
    from tests.conformance.keeping_suite import Scenario


@pytest.mark.parametrize("scenario", keeping_suite.SCENARIOS, ids=lambda each: each.__name__)
async def test_azurite(scenario: Scenario, connection_string: str, container_name: str) -> None:
    async with aclosing(open_container(StorageAccount(connection_string), container_name)) as store:
        await scenario(keeping_suite.Container(store))


async def test_a_container_that_is_missing_is_told(connection_string: str, container_name: str) -> None:
    async with aclosing(open_container(StorageAccount(connection_string), container_name)) as store:
        with pytest.raises(StoreFailure) as caught:
            await store.page("")
        assert (caught.value.status, caught.value.code) == (404, "ContainerNotFound")

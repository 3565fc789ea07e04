"""The model lists, breaks and deletes as Azurite does (tests/integration/test_azurite_keeping.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.conformance import keeping_suite
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from tests.conformance.keeping_suite import Scenario


@pytest.mark.parametrize("scenario", keeping_suite.SCENARIOS, ids=lambda each: each.__name__)
def test_the_model(scenario: Scenario) -> None:
    async def run() -> None:
        await scenario(keeping_suite.Container(MemoryLeaseStore()))

    run_virtual(run())

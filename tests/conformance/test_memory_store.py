"""The model of the service passes the suite that Azurite passes too (tests/integration/test_azurite_conformance.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.conformance.store_suite import StoreConformance
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Coroutine


class TestMemoryLeaseStore(StoreConformance):
    def setup_method(self) -> None:
        self.service = MemoryLeaseStore()

    def open_store(self) -> MemoryLeaseStore:
        return self.service

    def run_scenario(self, scenario: Coroutine[Any, Any, None]) -> None:
        run_virtual(scenario)

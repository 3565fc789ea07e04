"""The locks of one process and their stores: how they end."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from singleton.process.registry import Place, Registry
from singleton.settings.connection import StorageAccount
from singleton.stores.memory import MemoryLeaseStore
from tests.support.world import now, virtual

if TYPE_CHECKING:
    import pytest


class _Store(MemoryLeaseStore):
    """One whose closing takes some time, or fails."""

    def __init__(self, seconds: float, *, fails: bool = False) -> None:
        super().__init__()
        self.closed_at: float | None = None
        self._seconds = seconds
        self._fails = fails

    async def aclose(self) -> None:
        if self._fails:
            raise OSError("the session is broken")
        await asyncio.sleep(self._seconds)
        self.closed_at = now()


@virtual
async def test_a_store_that_hangs_keeps_no_other_open_and_nobody_for_long() -> None:
    stores = {"hangs": _Store(1e9), "quick": _Store(0.0), "slow": _Store(1.0), "slow, too": _Store(1.0)}
    registry = _registry_of(stores)
    await registry.aclose()
    assert now() <= 2.0
    assert [store.closed_at for store in stores.values()] == [None, 0.0, 1.0, 1.0]


@virtual
async def test_a_store_that_fails_to_close_keeps_no_other_open(caplog: pytest.LogCaptureFixture) -> None:
    stores = {"fails": _Store(0.0, fails=True), "slow": _Store(1.0)}
    await _registry_of(stores).aclose()
    assert stores["slow"].closed_at == 1.0
    assert "the session is broken" in caplog.text


def _registry_of(stores: dict[str, _Store]) -> Registry:
    registry = Registry(lambda place: stores[place.container], random.Random(1))
    for container in stores:
        registry.store(Place(StorageAccount("UseDevelopmentStorage=true"), container))
    return registry

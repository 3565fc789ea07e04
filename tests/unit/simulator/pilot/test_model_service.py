"""A service over HTTP that answers as documented has no finding, and one that is broken has."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from simulator.pilot.assumptions import try_assumptions
from simulator.pilot.both_ways import compare_both_ways, live_both_ways
from simulator.pilot.pilot_time import PilotTime
from simulator.pilot.traffic import PilotRequests
from singleton.runtime.accounts.stores import open_container, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.support.model_service import model_service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from simulator.checks.findings import Finding
    from simulator.pilot.both_ways import Lived
    from simulator.pilot.traffic import StoreWay
    from singleton.stores.azure_blob import AzureBlobLeaseStore
    from singleton.stores.direct_blob import DirectBlobStore


class _WritesHaveNoCondition(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        known = self._blobs[name].etag if name in self._blobs else etag
        return await super().write(name, lease_id, metadata, known)


async def _try(kind: type[MemoryLeaseStore]) -> tuple[tuple[Finding, ...], list[Lived]]:
    async with model_service(kind) as connection:
        account, time = StorageAccount(connection), PilotTime(60.0)
        requests = PilotRequests(time)

        def opened(way: StoreWay) -> DirectBlobStore | AzureBlobLeaseStore:
            return requests.watch(open_container(account, "pilot", way), way)

        tried = await try_assumptions(partial(opened, "direct"), "direct", time, slow=False)
        operator = open_through_sdk(account, "pilot")
        lived, unseen = await live_both_ways(opened, operator, time, many=30, timed=0, seed=3)
        assert not unseen
        return tried.findings, lived


@pytest.mark.parametrize("kind", [MemoryLeaseStore, _WritesHaveNoCondition])
def test_a_service_as_documented_has_no_finding_and_a_broken_one_has(kind: type[MemoryLeaseStore]) -> None:
    tried, lived = asyncio.run(_try(kind))
    ways, model = compare_both_ways(lived, 0)
    assert not ways.findings, "both ways ask the same service"
    told = {finding.kind for finding in (*tried, *model.findings)}
    assert told == ({"violation"} if kind is _WritesHaveNoCondition else set())

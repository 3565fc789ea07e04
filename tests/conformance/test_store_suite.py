"""The suite for stores that singleton.testing ships: what it finds, and how it is run."""

from __future__ import annotations

import asyncio
import unittest
from typing import TYPE_CHECKING, Any

import pytest

from simulator.pilot.assumed.lease_table import TABLE
from simulator.pilot.assumed.scenarios import QUICK
from singleton.stores.protocol import NOTHING, BlobState, StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore
from tests.conformance.store_suite import StoreConformance
from tests.support.virtual import run_virtual

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

IN_TIME = "test_leases_end_and_are_prolonged_as_documented"
TESTS = [name for name in dir(StoreConformance) if name.startswith("test_")]


class _TakesWhatIsHeld(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        if (await self.read(name)).lease == "leased":
            await self.break_(name)
        return await super().acquire(name, lease_id, duration)


class _AsksOnceOnly(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        if (await self.read(name)).lease == "leased":
            raise StoreFailure(409, "LeaseAlreadyPresent")
        return await super().acquire(name, lease_id, duration)


class _NeverEnds(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        return await super().acquire(name, lease_id, -1 if 15 <= duration <= 60 else duration)


class _RenewsForAnybody(MemoryLeaseStore):
    async def renew(self, name: str, lease_id: str) -> str:
        blob = self._blobs.get(name)
        owner = blob.lease_id if blob and (await self.read(name)).lease == "expired" else None
        return await super().renew(name, owner or lease_id)


class _RenewalsDoNothing(MemoryLeaseStore):
    async def renew(self, name: str, lease_id: str) -> str:
        before = self._blobs[name].expires if name in self._blobs else 0.0
        reply = await super().renew(name, lease_id)
        self._blobs[name].expires = before
        return reply


class _WritesWhateverIsThere(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        return await super().write(name, lease_id, metadata, self._blobs[name].etag if name in self._blobs else etag)


class _WritesProlong(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        written = await super().write(name, lease_id, metadata, etag)
        await super().renew(name, lease_id)
        return written


class _ReleasesForAnybody(MemoryLeaseStore):
    async def release(self, name: str, lease_id: str) -> None:
        await super().release(name, self._blob(name).lease_id or lease_id)


class _WritesForAnybody(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        return await super().write(name, self._blob(name).lease_id or lease_id, metadata, etag)


class _KeepsOldMetadata(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        return await super().write(name, lease_id, {**(await self.read(name)).metadata, **metadata}, etag)


class _ForgetsWhenMadeAgain(MemoryLeaseStore):
    async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:
        self._blobs.pop(name, None)
        return await super().create(name, metadata)


class _LeasesChangeTheETag(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        await super().acquire(name, lease_id, duration)
        etag = self._blobs[name].etag = self._etag()
        return etag


class _IgnoresCase(MemoryLeaseStore):
    async def create(self, name: str, metadata: Mapping[str, str] = NOTHING) -> BlobState | None:
        return await super().create(name.lower(), metadata)

    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        return await super().acquire(name.lower(), lease_id, duration)

    async def read(self, name: str) -> BlobState:
        return await super().read(name.lower())


BROKEN = [
    (_TakesWhatIsHeld, "test_acquire_other_on_leased"),
    (_AsksOnceOnly, "test_asking_again_with_the_same_id_succeeds"),
    (_NeverEnds, IN_TIME),
    (_RenewsForAnybody, IN_TIME),
    (_RenewalsDoNothing, IN_TIME),
    (_WritesWhateverIsThere, "test_a_write_of_a_blob_that_has_changed_since_is_refused_and_changes_nothing"),
    (_WritesProlong, IN_TIME),
    (_ReleasesForAnybody, "test_release_other_on_leased"),
    (_WritesForAnybody, "test_write_other_on_leased"),
    (_KeepsOldMetadata, "test_metadata_is_replaced_as_a_whole_and_read_back_as_written"),
    (_ForgetsWhenMadeAgain, "test_making_a_blob_again_keeps_its_lease_and_metadata"),
    (_LeasesChangeTheETag, "test_lease_requests_leave_the_etag_alone"),
    (_IgnoresCase, "test_names_of_all_kinds_make_blobs_of_their_own"),
]


class Suite(StoreConformance):
    """The suite for one of these stores."""

    kind: type[MemoryLeaseStore] = MemoryLeaseStore

    def __init__(self) -> None:
        self.service = self.kind()

    def open_store(self) -> MemoryLeaseStore:
        return self.service

    def run_scenario(self, scenario: Coroutine[Any, Any, None]) -> None:
        run_virtual(scenario)


def suite_for(store: type[MemoryLeaseStore], **attributes: object) -> type[Suite]:
    return type("SuiteFor", (Suite,), {"kind": store, **attributes})


def test_it_has_a_test_for_each_scenario_and_each_request_on_each_state() -> None:
    assert len(TESTS) == len(QUICK) + len([row for row in TABLE if row.start != "expired"]) + 1 > 40
    assert all(getattr(StoreConformance, name).__name__ == name for name in TESTS)


@pytest.mark.parametrize(("store", "found_by"), BROKEN)
def test_it_finds_what_is_wrong_with_a_store(store: type[MemoryLeaseStore], found_by: str) -> None:
    getattr(Suite(), found_by)()
    with pytest.raises((AssertionError, BaseExceptionGroup, StoreFailure)):
        getattr(suite_for(store)(), found_by)()


def test_a_known_divergence_passes_under_its_name_only_while_it_is_there() -> None:
    getattr(suite_for(_RenewsForAnybody, divergences={"A-1"})(), IN_TIME)()
    with pytest.raises(BaseExceptionGroup) as caught:
        getattr(suite_for(MemoryLeaseStore, divergences={"A-1"})(), IN_TIME)()
    assert "renew-other-on-expired is answered as documented" in str(caught.value.exceptions)


def test_a_store_that_was_not_named_is_asked_for() -> None:
    with pytest.raises(NotImplementedError, match=r"StoreConformance must define open_store\(\)"):
        StoreConformance().test_read_other_on_leased()  # type: ignore[attr-defined]


class _OnAClockOfItsOwn(StoreConformance):
    """A service that does not know the loop's time."""

    def __init__(self) -> None:
        self.service = MemoryLeaseStore()
        self.service._begin = lambda _: self.now  # type: ignore[assignment,method-assign]
        self.now = 0.0
        self.alarms: list[tuple[float, asyncio.Event]] = []

    def open_store(self) -> MemoryLeaseStore:
        return self.service

    async def wait(self, seconds: float) -> None:
        """Let the clock go on to the first who waits, when all do."""
        due = self.now + seconds, asyncio.Event()
        self.alarms.append(due)
        while not due[1].is_set():
            await asyncio.sleep(0.001)
            if self.alarms and due == (first := min(self.alarms, key=lambda alarm: alarm[0])):
                self.alarms.remove(first)
                self.now = first[0]
                first[1].set()


def test_a_clock_of_ones_own_saves_the_wait() -> None:
    getattr(_OnAClockOfItsOwn(), IN_TIME)()


def test_it_is_at_home_in_unittest() -> None:
    class Case(StoreConformance, unittest.TestCase):
        def setUp(self) -> None:
            self.service = MemoryLeaseStore()

        def open_store(self) -> MemoryLeaseStore:
            return self.service

    result = unittest.TestResult()
    unittest.TestSuite(Case(name) for name in TESTS if name != IN_TIME).run(result)
    assert result.testsRun == len(TESTS) - 1
    assert result.wasSuccessful()

"""The memory store is held to a service: the same random histories on it and on Azurite, compared answer by answer.

What is compared: status and error code of each request, and the blob's lease state, metadata and whether its ETag
changed after it. A difference passes only under a name of ``DIVERGENCES``; there the documentation is with the model.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.pilot.assumed.histories import (
    CALLS,
    DIVERGENCES,
    DURATIONS,
    IDS,
    OTHER_CODE,
    PERIODS,
    Ask,
    Comparison,
    RealBlob,
    ServiceAnswer,
    compare,
    live,
    random_rounds,
)
from singleton.runtime.accounts.stores import open_container, open_through_sdk
from singleton.settings.connection import StorageAccount
from singleton.stores.protocol import StoreFailure
from singleton.testing.storage.memory_store import MemoryLeaseStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    from singleton.stores.protocol import LeaseStore

BLOBS: Final = 180
ROUNDS: Final = 6
APART: Final = 6.0
"""Seconds between rounds: neither 15 nor 21 s after a request of one round is there another round."""
SEED: Final = 7


class _ExpiredLeasesCantBeRenewed(MemoryLeaseStore):
    async def renew(self, name: str, lease_id: str) -> str:
        if (await self.read(name)).lease == "expired":
            raise StoreFailure(409, "LeaseIdMismatchWithLeaseOperation")
        return await super().renew(name, lease_id)


class _ExpiredLeasesCanBeWritten(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        if (await self.read(name)).lease == "expired" and self._blobs[name].lease_id == lease_id:
            return self.edit(name, metadata)
        return await super().write(name, lease_id, metadata, etag)


class _WritesHaveNoCondition(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        blob = self._blobs.get(name)
        return await super().write(name, lease_id, metadata, etag if blob is None else blob.etag)


class _WritesProlong(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        written = await super().write(name, lease_id, metadata, etag)
        await super().renew(name, lease_id)
        return written


class _EveryLeaseLasts15Seconds(MemoryLeaseStore):
    async def acquire(self, name: str, lease_id: str, duration: int) -> str:
        return await super().acquire(name, lease_id, min(duration, 15))


class _RenewalsDoNothing(MemoryLeaseStore):
    async def renew(self, name: str, lease_id: str) -> str:
        before = self._blobs[name].expires if name in self._blobs else 0.0
        reply = await super().renew(name, lease_id)
        self._blobs[name].expires = before
        return reply


class _BreaksAreImmediate(MemoryLeaseStore):
    async def break_(self, name: str, etag: str | None = None, after: int | None = 0) -> int:
        return await super().break_(name, etag, 0 if after is None or after <= 60 else after)


class _EditsKeepEndedLeases(MemoryLeaseStore):
    def edit(self, name: str, metadata: Mapping[str, str]) -> str:
        blob = self._blobs.get(name)
        kept = None if blob is None else (blob.lease_id, blob.breaks)
        etag = super().edit(name, metadata)
        if blob is not None and kept is not None:
            blob.lease_id, blob.breaks = kept
        return etag


class _MetadataIsMerged(MemoryLeaseStore):
    async def write(self, name: str, lease_id: str, metadata: Mapping[str, str], etag: str) -> str:
        old = dict(self._blobs[name].metadata) if name in self._blobs else {}
        return await super().write(name, lease_id, {**old, **metadata}, etag)


WRONG_MODELS = (
    _ExpiredLeasesCantBeRenewed,
    _ExpiredLeasesCanBeWritten,
    _WritesHaveNoCondition,
    _WritesProlong,
    _EveryLeaseLasts15Seconds,
    _RenewalsDoNothing,
    _BreaksAreImmediate,
    _EditsKeepEndedLeases,
    _MetadataIsMerged,
)
"""Models with one error each: a comparison that lets one pass is blind."""

ASKS = st.builds(
    Ask,
    call=st.sampled_from(CALLS),
    who=st.integers(0, len(IDS) - 1),
    duration=st.sampled_from(sorted(set(DURATIONS))),
    period=st.sampled_from(sorted(set(PERIODS), key=str)),
    text=st.sampled_from(["", "1", "a b"]),
    stale=st.sampled_from([False, False, False, True]),
)


@pytest.mark.slow
def test_histories_in_which_leases_end_are_the_same_on_azurite_and_on_the_model(
    connection_string: str, container_name: str
) -> None:
    rng = random.Random(SEED)
    histories = [random_rounds(rng, ROUNDS) for _ in range(BLOBS)]
    answers = asyncio.run(_ask_in_lock_step(connection_string, container_name, histories))
    pairs = [(list(itertools.chain(*rounds)), given) for rounds, given in zip(histories, answers, strict=True)]
    compared = [compare(*pair) for pair in pairs]
    assert not [each.differs for each in compared if each.differs]
    _enough(compared)
    for wrong in WRONG_MODELS:
        assert any(compare(*pair, wrong).differs for pair in pairs), f"{wrong.__name__} passes for the service"


async def _ask_in_lock_step(
    connection_string: str, container_name: str, histories: list[list[list[Ask]]]
) -> list[list[ServiceAnswer]]:
    """Ask all blobs in each round; between the rounds time passes for all of them."""
    account = StorageAccount(connection_string=connection_string)
    store, operator = open_container(account, container_name), open_through_sdk(account, container_name)
    try:
        await store.create("locks/first")
        begin = asyncio.get_running_loop().time()
        times = [begin + APART * number for number in range(ROUNDS)]
        blobs = [RealBlob(store, operator, f"locks/{number}") for number in range(BLOBS)]
        line = asyncio.Semaphore(4)
        return await asyncio.gather(*(live(*each, times, line) for each in zip(blobs, histories, strict=True)))
    finally:
        await store.aclose()
        await operator.aclose()


def _enough(compared: list[Comparison]) -> None:
    """A comparison that compares little proves little."""
    assert sum(each.unsure for each in compared) < BLOBS / 4, "this machine is too slow to tell when requests arrive"
    assert sum(each.compared for each in compared) > BLOBS * 4
    reached = {(state, str(call)) for each in compared for state, call, _ in each.reached}
    states = ("missing", "available", "leased", "breaking", "broken", "expired")
    missed = [
        pair for pair in itertools.product(states, ("acquire", "renew", "release", "write")) if pair not in reached
    ]
    assert len(missed) <= 2, missed
    excused = {name for each in compared for name in each.excused}
    assert "A-1" in excused, "an expired lease was never renewed for somebody else"
    assert excused <= set(DIVERGENCES) - {OTHER_CODE}


def test_requests_in_any_order_get_the_same_answers_from_azurite_and_from_the_model(
    connection_string: str, container_name: str
) -> None:
    """No time passes here, so Hypothesis can shrink what it finds. Both ways to the service get the same answers."""
    numbers = itertools.count()
    with asyncio.Runner() as runner:
        account = StorageAccount(connection_string=connection_string)
        store, operator = open_container(account, container_name), open_through_sdk(account, container_name)
        sdk = open_through_sdk(account, container_name)

        async def ask_all(asks: list[Ask], way: LeaseStore) -> list[ServiceAnswer]:
            blob = RealBlob(way, operator, f"locks/{next(numbers)}")
            return [await blob.ask(ask) for ask in asks]

        @settings(max_examples=60)
        @given(st.lists(ASKS, min_size=1, max_size=12), st.booleans())
        def check(asks: list[Ask], made: bool) -> None:
            history = [Ask(call="create"), Ask(call="acquire"), *asks] if made else asks
            direct, through_sdk = (runner.run(ask_all(history, way)) for way in (store, sdk))
            outcome = compare(history, direct)
            assert outcome.differs is None, outcome.differs
            assert OTHER_CODE not in outcome.excused
            assert direct == through_sdk

        runner.run(store.create("locks/first"))
        try:
            check()
        finally:
            for opened in (store, operator, sdk):
                runner.run(opened.aclose())

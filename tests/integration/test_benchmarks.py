"""The contestants of the benchmarks do what their names say: calls counted on the wire."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from benchmarks import bench_storage, ours

if TYPE_CHECKING:
    from simulator.azurite.server import Azurite

OURS = {
    ours.ASYNC: 2,
    ours.SYNC: 2,
    ours.GUARDED: 2,
    ours.GUARDED_ASYNC: 2,
    ours.NEW: 3,
    ours.WEBJOBS: 3,
    ours.WEBJOBS_NEW: 4,
    ours.AFTER_OTHERS: 4,
    ours.HANDED_OVER: 2 / 50,
    ours.REFUSED: 1,
    ours.THROUGH_SDK: 2,
}
OTHERS = {
    "acquire and release": 2,
    "Dequeueable's three calls": 3,
    "WebJobs' five calls": 5,
    "make, acquire and release": 3,
    "WebJobs' seven calls of a new value": 7,
}


def test_a_cycle_of_each_has_as_many_calls_as_the_page_says(azurite: Azurite) -> None:
    loop = asyncio.new_event_loop()
    try:
        calls = bench_storage.calls_of(loop, azurite)
    finally:
        loop.close()
    own = {name: count for name, count in calls.items() if name in OURS}
    assert own == {name: OURS[name] for name in own}
    assert OURS.keys() - own.keys() <= {ours.THROUGH_SDK}
    others = {name: count for name, count in calls.items() if name not in OURS}
    assert len(others) == 14
    assert all(count == OTHERS[name.rpartition(", ")[0]] for name, count in others.items()), others

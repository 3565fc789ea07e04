"""The verdict is tested by broken locks: each gets the finding that it must get, and no right one is accused.

They are broken in the product, as an installed lock may be. Here they run in virtual worlds without faults; the verdict
reads what was written down, as it does after a run of real hosts, and hears nothing of the oracle. Those that only real
hosts show, and right apps: ``python -m tests.broken``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from simulator.checks.verdict import judge
from simulator.virtual.oracle.oracle import Oracle
from simulator.virtual.search.world_scenario import WorldScenario
from tests.broken.locks import BROKEN

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict
    from tests.broken.breaking import Broken

SEEDS: Final = range(2, 40)
HERE: Final = [lock for lock in BROKEN.values() if lock.workload]


@pytest.fixture(autouse=True)
def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the oracle, which would end the world at the first harm."""
    monkeypatch.setattr(Oracle, "blame", lambda *_: None)


def verdict_of(seed: int, workload: str) -> Verdict:
    return judge(WorldScenario(seed=seed, hosts=3, workload=workload).run().records)


def findings(lock: Broken) -> list[str]:
    """Return what is found in the first world in which it is found."""
    told: list[str] = []
    for seed in (lock.seed, *SEEDS):
        told = [*verdict_of(seed, lock.workload).violations]
        if any(lock.says in text for text in told):
            return told
    return told


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.planted
@pytest.mark.parametrize("lock", HERE, ids=lambda lock: lock.name)
def test_a_broken_lock_gets_its_finding(lock: Broken, monkeypatch: pytest.MonkeyPatch) -> None:
    lock.breaks(monkeypatch)
    told = findings(lock)
    assert any(lock.says in text for text in told), told


@pytest.mark.parametrize(
    "workload", ["mutex", "keys", "chain", "skip", "mixed", "queue", "leader", "semaphore", "defer"]
)
def test_the_right_lock_is_not_accused(workload: str) -> None:
    assert [verdict_of(seed, workload).violations for seed in range(1, 6)] == [()] * 5

"""How scenarios are drawn: a story that was found must not change because there is one more kind of world."""

from __future__ import annotations

from collections import Counter

import pytest

from simulator.virtual.faults import KINDS
from simulator.virtual.search.world_scenario import WorldScenario
from tests.worlds import WORKLOADS


def drawn(seed: int, *workloads: str) -> WorldScenario:
    return WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS), workloads=workloads)


@pytest.mark.parametrize("many", range(1, len(WORKLOADS)))
def test_one_more_workload_changes_no_scenario_but_those_that_it_takes_over(many: int) -> None:
    for seed in range(100):
        before, after = drawn(seed, *WORKLOADS[:many]), drawn(seed, *WORKLOADS[: many + 1])
        assert after.workload == WORKLOADS[many] or after == before


def test_every_workload_has_its_share() -> None:
    shares = Counter(drawn(seed, *WORKLOADS).workload for seed in range(200 * len(WORKLOADS)))
    assert set(shares) == set(WORKLOADS)
    assert min(shares.values()) > 150
    assert max(shares.values()) < 250


def test_a_single_workload_is_the_one_that_is_drawn() -> None:
    assert {drawn(seed, "chain").workload for seed in range(20)} == {"chain"}

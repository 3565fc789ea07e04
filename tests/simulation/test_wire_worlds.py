"""The shipped HTTP client in virtual worlds, whose networks forget idle connections without a word."""

from __future__ import annotations

from typing import Final

import pytest

from simulator.virtual.search.exploration import Exploration
from simulator.virtual.search.world_scenario import WorldScenario
from tests.support.mutants import Mutant, applied

PLAN: Final = Exploration(scenarios=30, hosts=4, kinds=("forgotten connections",), workloads=("wires",), seed=1)
CLIENT: Final = "stores.http.connections"
MUTANTS: Final = [
    Mutant("older connections are used after a silence", CLIENT, " and since > self._silence and", " and"),
    Mutant("a time-out is no silence", CLIENT, "task.cancelling() < cancellations", "False"),
]


def test_forgotten_connections_cost_no_hold() -> None:
    forgotten = 0
    for index in range(PLAN.scenarios // 2):
        run = PLAN.scenario(index).run()
        assert not run.violations, f"scenario {index + 1}"
        forgotten += run.reached["idle connections forgotten"]
    assert forgotten > 20


def test_a_world_with_the_shipped_client_is_the_same_each_time_and_survives_a_file() -> None:
    first = PLAN.scenario(3)
    again = WorldScenario.from_dict(first.to_dict())
    assert again == first
    assert again.run().history == first.run().history


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_worlds_find_a_client_that_trusts_old_connections(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(PLAN.scenario(index).run().violations for index in range(PLAN.scenarios))

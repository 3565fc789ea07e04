"""The shipped HTTP client in virtual worlds, whose networks forget idle connections without a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest

from simulator.virtual.search.exploration import Exploration
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.shipped_client import HostConnections, VirtualConnection
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


def test_a_host_that_closes_an_idle_connection_has_not_waited_in_vain_and_may_use_the_others() -> None:
    loop = SimpleNamespace(time=lambda: 20.0, call_soon=lambda *_: None)
    protocol: Any = SimpleNamespace(loop=loop, connection_lost=None)
    connections = HostConnections()
    transport: Any = None
    idle, waits = (VirtualConnection(connections, transport, protocol) for _ in range(2))
    assert connections.forget() == 2
    idle.abort()
    assert not connections.knows
    waits._answering = SimpleNamespace(cancel=lambda: None)  # type: ignore[assignment]
    waits.abort()
    assert connections.knows


@pytest.mark.planted
@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_worlds_find_a_client_that_trusts_old_connections(mutant: Mutant) -> None:
    with applied(mutant):
        assert any(PLAN.scenario(index).run().violations for index in range(PLAN.scenarios))

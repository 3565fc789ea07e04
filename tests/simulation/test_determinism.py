"""A seed is a world: the same history, to the bit, whoever runs it, and another for another seed."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from simulator.virtual.faults import KINDS
from simulator.virtual.faults.wire_faults import OF_WIRES
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.registry import workload as workload_of
from simulator.virtual.worlds.world import World
from tests.simulation.planting import ROOT
from tests.worlds import NAMED, WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path

HISTORIES = """
import tests.worlds
from simulator.virtual.faults import KINDS
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.runtime import prepare_process
prepare_process()
print(*(WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS)).run().history for seed in range(8)))
"""


def scenario(seed: int, workload: str = "mixed") -> WorldScenario:
    return WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS), workloads=(workload,))


EXPLORED = """
from dataclasses import replace
from simulator.virtual.search.exploration import Exploration, explore
from simulator.virtual.faults import KINDS
from tests.worlds import WORKLOADS

if __name__ == "__main__":
    for jobs in (1, 2):
        plan = Exploration(scenarios=25, hosts=4, kinds=tuple(KINDS), workloads=WORKLOADS, seed=9, jobs=jobs)
        print(replace(explore(plan, lambda _: None), elapsed=0.0))
"""


@pytest.mark.parametrize("workload", WORKLOADS + NAMED)
def test_the_same_seed_is_the_same_history(workload: str) -> None:
    for seed in range(2):
        planned = replace(scenario(seed, workload), wire=seed == 1)
        first, again = planned.run(), planned.run()
        assert first == again
        assert first.records


def test_the_wire_of_a_world_is_drawn_after_all_else() -> None:
    for seed in range(30):
        by_chance, over_it, without = (
            WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS), wire=wire) for wire in (None, True, False)
        )
        assert by_chance in (over_it, without)
        of_wires = [fault for fault in over_it.faults if OF_WIRES in fault.of]
        others = tuple(fault for fault in over_it.faults if fault not in of_wires)
        assert replace(over_it, wire=False, faults=others) == without
    wired = [WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS)).wire for seed in range(300)]
    assert 70 < sum(wired) < 130


def test_another_seed_is_another_history() -> None:
    assert len({scenario(seed).run().history for seed in range(20)}) == 20


def test_another_fault_is_another_history() -> None:
    seed = next(seed for seed in range(50) if len(scenario(seed).faults) > 1)
    planned = scenario(seed)
    assert planned.run().history != planned.without(0).run().history


@pytest.mark.parametrize("workload", WORKLOADS)
def test_nothing_outside_hosts_sets_a_variable_that_all_of_it_would_see(workload: str) -> None:
    planned = scenario(3, workload)
    world = World(planned.seed, planned.hosts, planned.faults, wire=True)
    workload_of(workload).start(world)
    world.run()
    assert len(world.loop.nobody) == 0


@pytest.mark.process
def test_the_hashes_of_texts_have_no_part_in_it() -> None:
    told = set()
    for hash_seed in ("0", "4242"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", HISTORIES]
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=250)
        told.add(result.stdout)
    here = [WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS)).run().history for seed in range(8)]
    assert told == {" ".join(here) + "\n"}


@pytest.mark.process
def test_two_processes_see_what_one_sees(tmp_path: Path) -> None:
    (tmp_path / "explored.py").write_text(EXPLORED)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(tmp_path / "explored.py")]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=250)
    one, two = result.stdout.splitlines()
    assert one == two
    assert "scenarios=25" in one
    assert "broken=None" in one


def test_a_history_does_not_depend_on_the_worlds_before_it() -> None:
    alone = scenario(5).run().history
    for seed in range(5):
        scenario(seed).run()
    assert scenario(5).run().history == alone

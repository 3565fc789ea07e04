"""From a scenario that breaks a promise to the smallest one that still does."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from simulator.virtual.faults import Lasting

if TYPE_CHECKING:
    from simulator.virtual.search.world_scenario import WorldScenario
    from simulator.virtual.worlds.outcome import Run

MOST_RUNS: Final = 150
_MOST_SECONDS: Final = 30.0
"""Seconds of a processor for all runs together: worlds that get stuck take long."""


def shrink(scenario: WorldScenario, run: Run) -> tuple[WorldScenario, Run]:
    """Drop faults and hosts, then shorten and round what is left, as long as the same check finds something.

    A run that breaks no promise is as small as can be.
    """
    if not run.violations:
        return scenario, run
    check = run.violations[0].check
    ends = time.process_time() + _MOST_SECONDS
    steps = iter(_simpler(scenario))
    for _ in range(MOST_RUNS):
        smaller = next(steps, None)
        if smaller is None or time.process_time() >= ends:
            break
        outcome = smaller.run()
        if any(violation.check == check for violation in outcome.violations):
            scenario, run, steps = smaller, outcome, iter(_simpler(smaller))
    return scenario, run


def _simpler(scenario: WorldScenario) -> list[WorldScenario]:
    """Return the scenarios one step simpler, the boldest steps first."""
    steps = [replace(scenario, faults=())] if len(scenario.faults) > 1 else []
    steps += [scenario.without(index) for index in range(len(scenario.faults))]
    if scenario.hosts > 1 and all(fault.host < scenario.hosts - 1 for fault in scenario.faults):
        steps.append(replace(scenario, hosts=scenario.hosts - 1))
    for index, fault in enumerate(scenario.faults):
        if isinstance(fault, Lasting) and fault.seconds > 1:
            steps.append(scenario.without(index, replace(fault, seconds=round(fault.seconds / 2, 1))))
        if fault.at != round(fault.at):
            steps.append(scenario.without(index, replace(fault, at=float(round(fault.at)))))
    return steps

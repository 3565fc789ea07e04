"""When the faults are over everybody gets his turn, and nothing is left: the checks of that find bugs of that kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from simulator.virtual.faults import KINDS
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.registry import workload
from simulator.virtual.worlds.world import World
from tests.support.mutants import Mutant, applied

if TYPE_CHECKING:
    from simulator.virtual.oracle.evidence import Violation

BUGS = {
    "starved": Mutant(
        "after an attempt without an answer nobody asks again",
        "locking.lock",
        "min(failure.retry_after, self._timing.poll_max) if failure.retry_after else 0.0",
        "1e6 if failure.status is None else 0.0",
    ),
    "does not close": Mutant(
        "closing waits for somebody who never comes",
        "locking.lock",
        "        self.refuse()\n        if (server",
        "        self.refuse()\n        await asyncio.Event().wait()\n        if (server",
    ),
    "task left behind": Mutant(
        "who asks starts a task and forgets it",
        "locking.line",
        "        self._waiters[waiter] = None\n",
        "        self._waiters[waiter] = None\n        loop.create_task(asyncio.sleep(1e6))\n",
    ),
    "cancellation swallowed": Mutant(
        "a cancelled caller is given what it waited for",
        "functions.guard",
        "                    result = await body()\n",
        "                    try:\n"
        "                        result = await body()\n"
        "                    except __import__('asyncio').CancelledError:\n"
        "                        result = None\n",
    ),
}


def found(seed: int) -> list[Violation]:
    """Return all that the oracle finds in a world that goes on to its end."""
    planned = WorldScenario.draw(seed, hosts=4, kinds=tuple(KINDS), workloads=("mixed", "keys"))
    world = World(planned.seed, planned.hosts, planned.faults)
    world.ends_when_broken = False
    workload(planned.workload).start(world)
    return list(world.run().violations)


@pytest.mark.parametrize("check", BUGS)
def test_a_bug_of_that_kind_is_told_by_that_check(check: str) -> None:
    with applied(BUGS[check]):
        assert any(check in {violation.check for violation in found(seed)} for seed in range(60))


def test_all_work_ends_within_two_minutes_and_twice_its_length_after_the_last_fault() -> None:
    """The bound that docs/guarantees.md states, and by which ``starved`` judges."""
    for seed in range(25):
        planned = WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS))
        world = World(planned.seed, planned.hosts, planned.faults)
        workload(planned.workload).start(world)
        run = world.run()
        healed = max((fault.ends for fault in planned.faults), default=0.0)
        ended = [record.t for record in run.records if record.event == "invocation_ended"]
        assert not run.violations
        assert max(ended, default=0.0) <= healed + 120.0 + 2 * world.work

"""Worlds that are explored only by name break no promise; what makes them worth exploring does happen in them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from simulator.virtual.faults import KINDS
from simulator.virtual.search.exploration import Exploration


@pytest.mark.parametrize(
    ("workload", "number", "worth"),
    [
        ("outbox", 20, {"messages sent": 200, "messages given up": 12, "stale relay refused": 1}),
        (
            "ordered",
            7,
            {"messages handled": 50, "messages put aside": 15, "keys stopped": 2, "consumers that died": 2},
        ),
        ("rows", 10, {"rows claimed again": 15, "stale claimer refused": 10}),
        ("images", 20, {"images of a process": 20, "epochs put back": 15, "holds without a stamp": 70}),
        ("wires", 10, {"idle connections forgotten": 8}),
        ("limits", 10, {"bodies": 150, "invocation: LockNotAcquired": 5}),
        ("nested", 20, {"nested: lost before the body": 100, "nested: lost in the body": 20, "nested: ok": 70}),
    ],
)
def test_whatever_strikes_no_promise_is_broken(workload: str, number: int, worth: dict[str, int]) -> None:
    plan = Exploration(scenarios=number, hosts=5, kinds=tuple(KINDS), workloads=(workload,), seed=1)
    reached = Counter[str]()
    for index in range(number):
        run = plan.scenario(index).run()
        assert not run.violations, f"scenario {index + 1}"
        reached.update(run.reached)
    assert {name: reached[name] for name, least in worth.items() if reached[name] < least} == {}


@pytest.mark.process
def test_exploring_what_is_not_named_needs_no_sqlalchemy_and_no_queues() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = sys.modules['azure.storage.queue'] = None\n"
        "from simulator.virtual.search.exploration import Exploration\n"
        "from simulator.virtual.search.story_report import promises\n"
        "from tests.worlds import WORKLOADS\n"
        "Exploration(scenarios=1, hosts=2, kinds=(), workloads=WORKLOADS, seed=1).scenario(0).run()\n"
        "print(promises()['stale relay'])"
    )
    shown = subprocess.check_output([sys.executable, "-c", code], text=True)
    assert shown.startswith("the database took something")

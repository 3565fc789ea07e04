"""What the fleet writes of a nemesis is in the history, and judges, boards and reports read it there."""

from __future__ import annotations

import math

from simulator.history.historian import read_history
from simulator.history.outages import Strike
from tests.support.journals import TIMER, Story


def test_a_fault_is_in_the_history_with_its_times_and_its_hits() -> None:
    story = Story()
    number = story.fault(3.0, 9.0, "partition", "host-1", "host-2", way="requests", seconds=6.0, hits=12)
    history = read_history(story.end(20.0))
    assert history.faults == [
        Strike(
            id=number,
            kind="partition",
            hosts=("host-1", "host-2"),
            way="requests",
            aim="holder",
            what="a partition",
            start=1003.0,
            end=1009.0,
            seconds=6.0,
            hits=12,
        )
    ]


def test_a_fault_that_nobody_has_ended_lasts() -> None:
    story = Story()
    story.fault(3.0, None, "break", "host-1", lock=TIMER)
    (fault,) = read_history(story.end(20.0)).faults
    assert (fault.end, fault.lock) == (math.inf, TIMER)


def test_a_kind_that_is_not_known_is_no_known_kind() -> None:
    story = Story()
    story.fault(3.0, 4.0, "earthquake", "host-1")
    assert read_history(story.end(20.0)).faults[0].kind == "unknown"


def test_the_end_of_faults_restarts_and_drains_are_in_the_history() -> None:
    story = Story()
    story.add(3.0, "host-2", "host_draining", holds=[{"lock": TIMER, "function": "import_eligibility", "owner": "x"}])
    story.add(13.0, "host-2", "host_exited", code=0, expected=True)
    story.add(14.0, "host-2.2", "host_restarted", after="host-2")
    story.fleet(15.0, "healed")
    history = read_history(story.end(20.0))
    assert [(drain.t, drain.host, drain.holds[0].lock) for drain in history.drains] == [(1003.0, "host-2", TIMER)]
    assert history.restarted == {"host-2.2": "host-2"}
    assert history.healed == 1015.0


def test_a_run_without_a_nemesis_has_no_faults_and_is_not_healed() -> None:
    history = read_history(Story().end(20.0))
    assert (history.faults, history.healed, history.restarted, history.drains) == ([], None, {}, [])

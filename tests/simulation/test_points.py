"""Every point once: whatever strikes one request or one step of a small world breaks no promise."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
from click import UsageError
from click.testing import CliRunner

from simulator.cli import cli
from simulator.virtual.faults.point_faults import NumberedRequest, NumberedStep
from simulator.virtual.search.points import Look, census, every_point, struck
from simulator.virtual.search.story_report import tell
from simulator.virtual.search.world_scenario import WorldScenario
from simulator.virtual.worlds.registry import small, workload
from tests.simulation.bugs import bug
from tests.worlds import WORKLOADS

if TYPE_CHECKING:
    from pathlib import Path

assert WORKLOADS, "the small worlds of the tests are registered, too"


def calm(name: str, seed: int = 1) -> WorldScenario:
    return WorldScenario(seed=seed, hosts=workload(name).small, workload=name)


@pytest.mark.parametrize(
    ("name", "look"),
    [
        *product(small(), ("calm", "cancel", "kill")),
        *product([name for name in small() if name != "small-leader"], ["fates"]),  # those of a leader take seconds
    ],
)
def test_a_strike_at_any_point_breaks_no_promise(name: str, look: Look) -> None:
    for scenario in struck(calm(name), look):
        run = scenario.run()
        assert not run.violations, "\n".join(tell(scenario, run))


@pytest.mark.parametrize("name", small())
def test_the_calls_of_a_small_world_run_and_the_world_is_small(name: str) -> None:
    counted = census(calm(name))
    assert counted.run.reached["bodies"] >= 2
    assert 8 <= counted.many_requests <= 80
    assert 20 <= len(counted.steps) <= 160
    assert {step.host for step, _ in counted.steps} >= {0, 1}


def test_a_point_that_is_not_reached_is_a_finding() -> None:
    scenario = calm("small-take")
    first = census(scenario).requests[0]
    for never in (replace(first, number=999), replace(first, call="break_"), replace(first, host=1 - first.host)):
        assert [each.check for each in replace(scenario, faults=(never,)).run().violations] == ["point not reached"]
    for number, call in ((999, ""), (1, "nobody's")):
        step = NumberedStep(at=0.0, host=0, number=number, act="cancel", call=call)
        assert [each.check for each in replace(scenario, faults=(step,)).run().violations] == ["point not reached"]


def test_up_to_its_point_a_world_is_the_world_that_was_counted() -> None:
    scenario = calm("small-hand-over", seed=2)
    last = census(scenario).requests[-1]
    run = replace(scenario, faults=(last,)).run()
    told = [each for each in run.records if each.event == "fault"]
    assert [(each.t, each.fields["words"]) for each in told] == [(last.at, last.words())]


def test_the_story_of_a_point_names_it(tmp_path: Path) -> None:
    fault = NumberedRequest(at=0.0, host=0, number=2, call="acquire", fate="deleted")
    assert fault.words() == "request 2, host-0's acquire, arrives where an operator has just deleted the blob"
    late = replace(fault, fate="late", seconds=20.0)
    assert late.words() == "request 2, host-0's acquire, arrives 20 s late"
    step = NumberedStep(at=0.0, host=1, number=7, act="cancel", call="host-1/0")
    assert step.words() == "before step 7, one of host-1, host-1/0 is cancelled"


def test_a_lock_client_is_closed_at_each_step_of_its_calls() -> None:
    acts = [fault for world in struck(calm("small-client"), "close") for fault in world.faults]
    by_client = [fault for fault in acts if isinstance(fault, NumberedStep) and fault.act == "close client"]
    assert len(by_client) == len(acts) / 2
    assert by_client[0].words() == "before step 1, one of host-0, the lock client of host-0/0/0/0 is closed"
    run = replace(calm("small-client"), faults=(by_client[3],)).run()
    assert not run.violations
    assert run.reached["use: LockClosed"] == 1


def test_storage_that_is_slow_from_a_request_on_leaves_nothing_leased_where_a_host_closes() -> None:
    slow = next(each for each in struck(calm("small-hand-over"), "lasting") if "3 s late" in each.faults[0].words())
    closed = struck(slow, "close")
    assert {type(each.faults[1]) for each in closed} == {NumberedStep}
    assert all(each.faults[1].at > slow.faults[0].at for each in closed)
    assert not any(each.run().violations for each in closed)


def test_pairs_strike_a_request_and_a_later_one() -> None:
    first = struck(calm("small-take"), "fates")[0]
    pairs = struck(first, "pairs")
    assert all(len(pair.faults) == 2 for pair in pairs)
    numbers = {tuple(fault.number for fault in pair.faults if isinstance(fault, NumberedRequest)) for pair in pairs}
    assert all(one < another for one, another in numbers)
    assert not pairs[0].run().violations


def test_the_plan_counts_each_point_once() -> None:
    plan = every_point(["small-take", "small-lose"], looks=("fates", "kill"), orders=2)
    worlds = [plan.scenario(index) for index in range(plan.scenarios)]
    assert len(set(worlds)) == len(worlds)
    handed_out = [range(start, end) for _, start, end in plan.chunks()]
    assert [number for each in handed_out for number in each] == list(range(plan.scenarios))
    part, start, _ = list(plan.chunks())[-1]
    assert part.scenario(start) == plan.scenario(start)


def explored(*options: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["explore", "--all", "--jobs", "1", *options], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.output


def test_the_command_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.virtual.search.points.LOOKS", ("calm", "kill"))
    file = tmp_path / "points.json"
    options = ("--workload", "small-take", "--progress", str(file))
    code, said = explored(*options)
    total = every_point(["small-take"], looks=("calm", "kill")).scenarios
    assert (code, f"{total} of {total} points, 0 findings, " in said) == (0, True)
    kept = json.loads(file.read_text())
    file.write_text(json.dumps({**kept, "done": total - 2}))
    code, said = explored(*options)
    assert f"Taken up at {total - 2} of {total} points" in said
    assert f"{total} of {total} points, 0 findings, " in said
    file.write_text(json.dumps({**kept, "plan": "of other code"}))
    assert "Taken up" not in explored(*options)[1]


def test_the_command_tells_a_finding_as_a_story_that_can_be_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("simulator.virtual.search.points.LOOKS", ("cancel", "fates"))
    story = tmp_path / "story.json"
    with bug("lost reply not asked again"):
        code, said = explored(
            *("--workload", "small-take", "--seed", "5"),
            *("--progress", str(tmp_path / "points.json"), "--story", str(story)),
        )
        again = CliRunner().invoke(cli, ["replay", str(story)], standalone_mode=False)
    assert code == 1
    assert "1 finding" in said
    assert "BROKEN" in said
    assert again.return_value == 1
    assert "the same as recorded" in again.output


def test_what_means_nothing_for_points_is_refused() -> None:
    for option, value in (("--scenarios", "5"), ("--faults", "crash"), ("--hosts", "2")):
        with pytest.raises(UsageError, match=f"--all can't be used with {option}"):
            explored(option, value)
    with pytest.raises(UsageError, match="'mutex' is unknown"):
        explored("--workload", "mutex")

"""What is found is kept: a story in a file is the same story when it is read, on this Python to the bit."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from simulator.virtual.faults import KINDS
from simulator.virtual.search.exploration import load_story, save_story
from simulator.virtual.search.world_scenario import WorldScenario
from tests.simulation.bugs import bug

if TYPE_CHECKING:
    from pathlib import Path

GOOD: dict[str, Any] = {"format": 1, "seed": 1, "hosts": 2, "workload": "mutex", "faults": []}


def changed(**fields: object) -> str:
    return json.dumps({**GOOD, **fields})


def fault(**fields: object) -> str:
    return changed(faults=[{"kind": "one message", "at": 1.0, **fields}])


@pytest.mark.parametrize("seed", range(6))
def test_a_story_that_was_saved_is_the_same_when_it_is_replayed(seed: int, tmp_path: Path) -> None:
    planned = WorldScenario.draw(seed, hosts=5, kinds=tuple(KINDS))
    run = planned.run()
    save_story(tmp_path / "story.json", planned, run)
    story = load_story(tmp_path / "story.json")
    assert story.scenario == planned
    assert story.history == run.history == story.scenario.run().history


def test_a_broken_promise_is_broken_again(tmp_path: Path) -> None:
    planned = WorldScenario.draw(1_000_000, hosts=5, kinds=tuple(KINDS), workloads=("mixed",))
    with bug("token not increased"):
        run = planned.run()
        save_story(tmp_path / "story.json", planned, run)
        again = load_story(tmp_path / "story.json").scenario.run()
    assert run.violations == again.violations != ()
    assert json.loads((tmp_path / "story.json").read_text())["broken"][0] == run.violations[0].check


def test_another_python_s_story_is_replayed_and_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "story.json"
    file.write_text(changed(python="3.9", history="0123456789abcdef"))
    story = load_story(file)
    assert story.history is None
    assert not story.scenario.run().violations


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "is no story"),
        ("{}", "is no story of singleton-sim explore (format 1)"),
        (changed(format=2), "format 1"),
        (json.dumps({"format": 1, "seed": 1}), "needs 'hosts'"),
        (changed(seed="x"), "seed 'x'"),
        (changed(hosts=0), "hosts from 1 to 50"),
        (changed(hosts=51), "hosts from 1 to 50"),
        (changed(workload="mutes"), "workload 'mutes' is unknown: it must be one of mutex"),
        (changed(faults={}), "faults must be a list"),
        (changed(faults=[1]), "faults must be a list of objects"),
        (changed(faults=[{"kind": "crsh", "at": 1.0}]), "fault kind 'crsh' is unknown"),
        (changed(faults=[{"kind": "crash"}]), "fault 'crash'"),
        (changed(faults=[{"kind": "crash", "at": 1.0, "host": 2}]), "strikes host 2, but there are only 2"),
        (fault(at="soon"), "at is 'soon', which is no float"),
        (fault(host=0.5), "host is 0.5, which is no int"),
        (fault(host=True), "host is True, which is no int"),
        (fault(fate="eaten"), "fate is 'eaten': it must be one of request lost"),
        (fault(colour="red"), "colour"),
    ],
)
def test_a_file_that_is_no_story_says_what_is_wrong(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "story.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="story") as caught:
        load_story(file)
    assert str(file) in str(caught.value)
    assert words in str(caught.value)


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="No such file"):
        load_story(tmp_path / "story.json")

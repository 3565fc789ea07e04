"""Stories that were found with a bug planted are kept: they pass without it, and show it when it is back.

``python -m tests.simulation.story_maker`` makes them.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.virtual.search.exploration import load_story
from simulator.virtual.search.story_report import tell
from tests.simulation.bugs import bug

STORIES = sorted(Path(__file__).with_name("stories").glob("*.json"))


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_a_kept_story_breaks_no_promise_of_the_code_as_it_is(file: Path) -> None:
    scenario = load_story(file).scenario
    run = scenario.run()
    assert not run.violations, "\n".join(tell(scenario, run))


@pytest.mark.parametrize("file", STORIES, ids=lambda file: file.stem)
def test_a_kept_story_shows_its_bug(file: Path) -> None:
    kept = json.loads(file.read_text(encoding="utf-8"))
    story = load_story(file)
    if story.history is None:
        pytest.skip("it was made by another Python: its callbacks run in another order")
    with bug(kept["bug"]):
        found = story.scenario.run().violations
    assert kept["broken"][0] in {violation.check for violation in found}


def test_kept_stories_are_small_and_of_many_kinds() -> None:
    kept = [json.loads(file.read_text(encoding="utf-8")) for file in STORIES]
    assert len(kept) >= 10
    assert all(len(story["faults"]) <= 3 for story in kept)
    assert len({fault["kind"] for story in kept for fault in story["faults"]}) >= 5
    assert len({story["broken"][0] for story in kept}) >= 5

"""Where to look for what is broken: each check's moments, and the sentences that have none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.checks.verdict import judge
from simulator.report.timeline.build import build_timeline
from tests.support.journals import TIMER, Story, good_story, key_lock

if TYPE_CHECKING:
    from simulator.report.timeline.timeline import Timeline


def timeline(story: Story) -> Timeline:
    records = story.end(40.0)
    return build_timeline(records, judge(records))


def test_an_overlap_is_a_trouble_with_its_moment_and_its_lock() -> None:
    story = Story(singleton=False)
    story.body("host-1", 1, 3, held=False)
    story.body("host-2", 2, 4, held=False)
    line = timeline(story)
    (both,) = line.overlaps
    assert (both.lock, both.start, both.end, both.hosts, both.caught) == (TIMER, 2.0, 3.0, ("host-1", "host-2"), False)
    told = {trouble.check: trouble for trouble in line.troubles if trouble.check != "guards"}
    assert told["overlaps"].text == "host-1 and host-2 are both inside import_eligibility for 1.00 s"
    assert (told["overlaps"].at, told["overlaps"].end, told["overlaps"].lock) == (2.0, 3.0, TIMER)
    bare = [trouble.text for trouble in line.troubles if trouble.check == "guards"]
    assert bare[0] == "host-1 runs import_eligibility without holding import_eligibility"


def test_each_body_without_a_lock_has_its_moment() -> None:
    story = Story(singleton=False)
    for number in range(3):
        story.body("host-1", number, number + 0.5, key_lock("a"), held=False)
    bare = [trouble for trouble in timeline(story).troubles if trouble.check == "guards"]
    assert [(each.at, each.end, each.host, each.lock, each.function) for each in bare] == [
        (number, number + 0.5, "host-1", key_lock("a"), "ship") for number in range(3)
    ]


def test_each_invocation_that_met_no_guard_has_its_moment() -> None:
    story = Story()
    for number in range(2):
        story.add(number, "host-2", "invocation_started", function="ship", invocation=f"i{number}")
        story.add(number + 0.5, "host-2", "invocation_ended", function="ship", invocation=f"i{number}", outcome="ok")
    past = [trouble for trouble in timeline(story).troubles if trouble.check == "guards"]
    assert [(each.at, each.end, each.text) for each in past] == [
        (number, number + 0.5, "host-2 runs ship, which does not pass through its guard") for number in range(2)
    ]


def test_a_sentence_on_a_function_without_moments_stays_beside_the_moments_of_others() -> None:
    story = Story()
    story.body("host-1", 1, 2, held=False)
    for call in ("i1", "i2"):
        story.add(3, "host-2", "invocation_started", function="ship", invocation=call)
        story.add(4, "host-2", "invocation_ended", function="ship", invocation=call, outcome="ok")
    story.skip("host-3", 5, key_lock("a"))
    story.records[-1].fields["invocation"] = story.records[-4].fields["invocation"] = "of another name"  # type: ignore[index]
    told = [(each.at, each.function) for each in timeline(story).troubles if each.check == "guards"]
    assert (1.0, "import_eligibility") in told
    assert (None, "ship") in told


def test_a_body_outside_its_hold_has_its_moment() -> None:
    story = Story()
    story.lock(1, "host-1", "waiting", key_lock("a"), "o")
    story.lock(2, "host-1", "acquired", key_lock("a"), "o", token=1)
    story.lock(2, "host-1", "body_started", key_lock("a"), "o", token=1)
    story.lock(3, "host-1", "released", key_lock("a"), "o", token=1)
    story.lock(4, "host-1", "body_ended", key_lock("a"), "o", token=1, reason="ok")
    (late,) = [trouble for trouble in timeline(story).troubles if trouble.check == "witnessed"]
    assert (late.at, late.end, late.text) == (2.0, 4.0, "host-1 runs ship under ship.a after it gave it back")


def test_every_sentence_of_a_violated_verdict_is_among_the_troubles() -> None:
    story = good_story()
    story.add(30, "host-3", "worker_exited", worker=1, reason="functionTimeout")
    story.sent(30, "lost one")
    line = timeline(story)
    assert {"activity", "messages"} <= {trouble.check for trouble in line.troubles}
    assert any("functionTimeout" in trouble.text for trouble in line.troubles)

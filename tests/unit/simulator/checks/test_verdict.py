"""The verdict of made-up journals: a good run holds, and each thing that can go wrong is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from simulator.checks.findings import violation
from simulator.checks.reports import report_checks
from simulator.checks.verdict import judge
from simulator.history.facts import History
from simulator.history.journal import Record
from simulator.report.words import summary
from tests.support.journals import TIMER, Story, good_story, key_lock

if TYPE_CHECKING:
    from collections.abc import Callable


def test_a_run_in_which_all_went_well_holds() -> None:
    verdict = judge(good_story().end(30))
    assert verdict.verdict == "holds"
    assert verdict.holds
    assert verdict.reasons == ()
    assert verdict.sections == 6
    assert verdict.locks == 3
    assert verdict.overlaps == ()
    assert verdict.kills == 1
    assert verdict.seed == 7
    assert verdict.duration == pytest.approx(30)


def test_the_order_in_which_the_journals_are_given_does_not_matter() -> None:
    records = good_story().end(30)
    by_host = sorted(records, key=lambda record: record.host, reverse=True)
    assert judge(by_host).to_dict() == judge(records).to_dict()


def test_no_records_prove_nothing() -> None:
    verdict = judge([])
    assert verdict.verdict == "unproven"
    assert "no guarded body ran: there is nothing to judge" in verdict.reasons


def test_a_function_that_never_ran_is_told_once_also_where_its_host_does_not_run_it() -> None:
    story = good_story()
    story.add(0.2, "host-1", "function", name="audit", guarded=True)
    story.add(0.2, "host-1", "function", name="export", guarded=True, idle="it is disabled by an app setting")
    told = [line.text for line in summary(judge(story.end(30))) if "audit" in line.text or "export" in line.text]
    assert told == [
        "not exercised: audit (): nothing triggered it during the run",
        "not exercised: export (): it is disabled by an app setting",
    ]


def two_hosts_inside(story: Story) -> None:
    story.body("host-1", 6.0, 8.0, token=5)
    story.body("host-3", 7.0, 9.0, token=6)


def one_host_twice_inside(story: Story) -> None:
    story.body("host-1", 6.0, 8.0, token=5)
    story.body("host-1", 7.0, 9.0, token=6)


def inside_while_the_victim_still_was(story: Story) -> None:
    story.body("host-3", 4.2, 4.3, key_lock("a"), token=3, message="m9")


def a_body_without_its_lock(story: Story) -> None:
    story.body("host-1", 6.0, 8.0, held=False)


def past_the_guard(story: Story) -> None:
    story.add(6, "host-1", "invocation_started", function="ship", invocation="i", message="m9")
    story.add(7, "host-1", "invocation_ended", function="ship", invocation="i", outcome="ok")


def token_repeated(story: Story) -> None:
    story.body("host-1", 6.0, 6.5, token=1)


def token_smaller(story: Story) -> None:
    story.body("host-1", 6.0, 6.5, token=9)
    story.body("host-3", 7.0, 7.5, token=8)


def message_lost(story: Story) -> None:
    story.sent(6, "m9")


def message_deleted_though_it_failed(story: Story) -> None:
    story.sent(6, "m9")
    story.received(6.1, "host-1", "m9")
    story.body("host-1", 6.2, 6.3, key_lock("c"), token=1, message="m9", outcome="error")
    story.completed(6.4, "host-1", "m9")


def message_stuck(story: Story) -> None:
    story.sent(6, "m9")
    story.fleet(29, "queue_left", queue="orders", ready=1, invisible=0, ids=["m9"])


def message_stuck_invisibly(story: Story) -> None:
    story.sent(6, "m9")
    story.received(6.1, "host-2", "m9")
    story.fleet(29, "queue_left", queue="orders", ready=0, invisible=1, ids=[])


def message_twice_without_a_kill(story: Story) -> None:
    story.message("m9", "host-1", 6.0, 6.5, key="c", token=1)
    story.received(7, "host-3", "m9", 2)
    story.body("host-3", 7, 7.5, key_lock("c"), token=2, message="m9")
    story.completed(7.6, "host-3", "m9")


def message_twice_at_once(story: Story) -> None:
    story.message("m9", "host-1", 6.0, 6.5, key="c", token=1)
    story.body("host-3", 6.6, 6.7, key_lock("c"), token=2, message="m9", asked=6.3)


def message_poisoned_by_the_lock(story: Story) -> None:
    poison(story, "LockLost: the lease ran out", "LockLost")


def message_poisoned_by_the_storage(story: Story) -> None:
    poison(story, "StorageUnavailable: no answer", "StorageUnavailable")


def message_poisoned_without_a_failure(story: Story) -> None:
    story.sent(6, "m9")
    story.received(6.1, "host-1", "m9")
    story.add(6.5, "host-1", "message_poisoned", queue="orders", id="m9")


def poison(story: Story, error: str, blames: str = "") -> None:
    story.sent(6, "m9")
    for delivery in range(5):
        t = 6.1 + delivery
        story.received(t, "host-1", "m9", delivery + 1)
        story.add(t, "host-1", "invocation_started", function="ship", invocation=f"p{t}", message="m9")
        story.add(
            t + 0.1,
            "host-1",
            "invocation_ended",
            function="ship",
            invocation=f"p{t}",
            outcome="error",
            error=error,
            blames=blames,
        )
    story.add(11.5, "host-1", "message_poisoned", queue="orders", id="m9")


def host_crashes(story: Story) -> None:
    story.add(6, "host-3", "host_exited", code=-11, expected=False)


def host_fails(story: Story) -> None:
    story.add(6, "host-3", "host_error", message="no such module")


VIOLATIONS: list[tuple[Callable[[Story], None], str]] = [
    (two_hosts_inside, "1 overlap: two bodies of one lock ran at the same time; the longest for 1.00 s"),
    (one_host_twice_inside, "on host-1 and host-1"),
    (inside_while_the_victim_still_was, "1 overlap"),
    (a_body_without_its_lock, "1 guarded body ran without holding the lock"),
    (past_the_guard, "1 invocation of 'ship' succeeded without passing through its guard"),
    (token_repeated, "1 fencing token out of order; the first on import_eligibility: host-1 got 1 after host-1"),
    (token_smaller, "host-3 got 8 after host-1 had got 9"),
    (message_lost, "1 message lost"),
    (message_deleted_though_it_failed, "1 message lost"),
    (message_stuck, "1 message stuck"),
    (message_stuck_invisibly, "1 message stuck"),
    (message_twice_without_a_kill, "1 message ran twice although nobody had been killed"),
    (message_twice_at_once, "1 message ran in two invocations at the same time"),
    (message_poisoned_by_the_lock, "1 message poisoned from 'orders' by the lock's own failure (LockLost)"),
    (message_poisoned_by_the_storage, "by the lock's own failure (StorageUnavailable)"),
    (message_poisoned_without_a_failure, "1 message poisoned from 'orders' without one failed invocation"),
    (host_crashes, "host-3 ended by itself with exit code -11"),
    (host_fails, "host-3 failed: no such module"),
]


@pytest.mark.parametrize(("spoil", "reason"), VIOLATIONS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_goes_wrong_is_found(spoil: Callable[[Story], None], reason: str) -> None:
    story = good_story()
    spoil(story)
    verdict = judge(story.end(30))
    assert verdict.verdict == "violated"
    assert any(reason in text for text in verdict.reasons), verdict.reasons


def test_calls_that_can_not_tell_their_id_are_counted() -> None:
    """An async body whose binding is called ``context`` knows no invocation id: its lock's events have none."""
    story = good_story()
    lock = key_lock("c")
    for start in (6.0, 7.0):
        story.add(start, "host-1", "invocation_started", function="ship", invocation=f"i{start}", message=f"m{start}")
        for kind in ("waiting", "acquired", "body_started", "body_ended", "released"):
            story.lock(start + 0.1, "host-1", kind, lock, "", token=int(start))
        story.add(start + 0.2, "host-1", "invocation_ended", function="ship", invocation=f"i{start}", outcome="ok")
    assert judge(story.end(30)).verdict == "holds"
    past_the_guard(story)
    reasons = judge(story.end(30)).reasons
    assert reasons == ("1 invocation of 'ship' succeeded without passing through its guard",)


def test_without_the_lock_every_body_is_unprotected_and_no_failover_is_measured() -> None:
    story = Story(kill=1, singleton=False)
    story.body("host-1", 1, 3, held=False)
    story.body("host-2", 2, None, held=False)
    story.kill(4, "host-2", TIMER)
    verdict = judge(story.end(10))
    assert verdict.verdict == "violated"
    assert len(verdict.overlaps) == 1
    assert verdict.failovers == ()
    assert not verdict.singleton
    assert verdict.reasons == (
        (
            "1 overlap: two bodies of one lock ran at the same time; the longest for 1.00 s, of import_eligibility, "
            "on host-1 and host-2"
        ),
        "2 guarded bodies ran without holding the lock (--no-singleton)",
    )


def story_without_bodies() -> Story:
    return Story()


def story_without_guards() -> Story:
    story = Story()
    for number, record in enumerate(story.records):
        if record.event == "function":
            story.records[number] = Record(record.t, record.host, record.event, {**record.fields, "guarded": False})
    return story


def story_with_a_kill_too_few() -> Story:
    story = Story(kill=2)
    story.body("host-1", 1, 2)
    return story


def story_with_idle_messages() -> Story:
    story = Story()
    story.body("host-1", 1, 2)
    poison(story, "KeyError: 'price'")
    return story


def story_with_a_host_too_few() -> Story:
    story = Story()
    story.body("host-1", 1, 2)
    story.records[:] = [r for r in story.records if (r.host, r.event) != ("host-3", "host_ready")]
    return story


def interrupted_story() -> Story:
    story = Story()
    story.message("m1", "host-1", 1, 2)
    story.sent(3, "m2")
    story.fleet(4, "run_ended", interrupted=True)
    return story


@pytest.mark.parametrize(
    ("story", "reason"),
    [
        (story_without_bodies, "no guarded body ran"),
        (story_without_guards, "no function of this app has @singleton"),
        (story_with_a_kill_too_few, "2 kills asked for, 0 done"),
        (story_with_idle_messages, "none of the 1 message sent was processed"),
        (story_with_a_host_too_few, "only 2 of 3 hosts became ready"),
    ],
)
def test_a_run_that_shows_too_little_is_unproven(story: Callable[[], Story], reason: str) -> None:
    verdict = judge(story().end(30))
    assert verdict.verdict == "unproven"
    assert any(reason in text for text in verdict.reasons), verdict.reasons


@pytest.mark.parametrize(
    ("error", "blames", "hinted"), [("KeyError: 'price'", "", True), ("LockLost: expired", "LockLost", False)]
)
def test_other_bodies_are_asked_for_where_the_bodies_failed_and_not_the_lock(
    error: str, blames: str, *, hinted: bool
) -> None:
    story = Story()
    story.body("host-1", 1, 2)
    poison(story, error, blames=blames)
    reasons = judge(story.end(30)).reasons
    assert any("none of the 1 message sent was processed" in text for text in reasons)
    assert any("Perhaps they need other bodies" in text for text in reasons) == hinted


def test_other_bodies_are_not_asked_for_where_calls_were_refused() -> None:
    story = Story()
    story.body("host-1", 1, 2)
    poison(story, "OutputError: output '$return'")
    failed = [record for record in story.records if record.event == "invocation_ended" and record.get("error")]
    for call in failed:
        story.lock(call.t - 1000, "host-1", "contended", key_lock("a"), call.text("invocation"), reason="skip")
    assert not any("Perhaps they need other bodies" in text for text in judge(story.end(30)).reasons)


def test_a_run_that_is_broken_off_is_unproven_and_its_open_messages_are_neither_lost_nor_stuck() -> None:
    verdict = judge(interrupted_story().records)
    assert verdict.verdict == "unproven"
    assert verdict.interrupted
    assert (verdict.messages.completed, verdict.messages.open) == (1, 1)
    assert (verdict.messages.lost, verdict.messages.stuck) == (0, 0)


def test_what_hosts_remark_is_told_once() -> None:
    story = good_story()
    for host in ("host-1", "host-3"):
        story.add(0.3, host, "note", message="function 'web' is indexed but not run: its httpTrigger is not driven")
    verdict = judge(story.end(30))
    assert verdict.holds
    assert verdict.notes == ("function 'web' is indexed but not run: its httpTrigger is not driven",)


def test_the_json_form_is_plain_and_has_the_documented_keys() -> None:
    story = good_story()
    two_hosts_inside(story)
    data = judge(story.end(30)).to_dict()
    assert json.loads(json.dumps(data)) == data
    page = (Path(__file__).parents[4] / "docs" / "fake-host.md").read_text("utf-8")
    documented = page.split("## The JSON of a run")[1].split("\n## ")[0]
    for name in data:
        assert name in documented
    for nested in (data["overlaps"][0], data["overlaps"][0]["first"], data["failovers"][0], data["messages"]):
        for name in nested:
            assert name in documented
    assert data["overlap_count"] == len(data["overlaps"]) == 1
    assert data["verdict"] == "violated"


def test_hosts_and_functions_are_reported() -> None:
    verdict = judge(good_story().end(30))
    assert [(h.name, h.pid, h.ended, h.bodies, h.skipped) for h in verdict.hosts] == [
        ("host-1", 101, "stopped", 3, 0),
        ("host-2", 102, "killed", 1, 1),
        ("host-3", 103, "stopped", 2, 0),
    ]
    assert [(f.name, f.invocations, f.bodies, f.skipped) for f in verdict.functions] == [
        ("import_eligibility", 2, 1, 1),
        ("ship", 5, 5, 0),
    ]


def test_json_counts_all_overlaps_and_tells_of_the_first_fifty() -> None:
    story = Story(hosts=12, singleton=False)
    for number in range(1, 13):
        story.body(f"host-{number}", number / 10, 5, held=False)
    data = judge(story.end(9)).to_dict()
    assert (data["overlap_count"], len(data["overlaps"]), data["caught_count"]) == (66, 50, 0)


def test_what_a_check_without_a_row_in_the_report_finds_is_not_lost() -> None:
    with pytest.raises(AssertionError, match="findings of \\['new'\\] would be lost"):
        report_checks(History(), {"new": [violation("two at once")]})

"""The timeline of a run: lanes, leases, marks, messages, and where to look for what is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from simulator.checks.verdict import judge
from simulator.history.journal import Record
from simulator.report.timeline.build import build_timeline
from tests.support.journals import TIMER, Story, good_story, key_lock

if TYPE_CHECKING:
    from simulator.history.leases import Lease
    from simulator.report.timeline.timeline import Timeline


def timeline(story: Story, end: float = 40.0, **more: Any) -> Timeline:
    records = story.end(end)
    return build_timeline(records, judge(records), **more)


def leases(line: Timeline, lock: str = TIMER) -> list[Lease]:
    return [lease for lease in line.leases if lease.lock == lock]


def near(spans: list[float]) -> list[float]:
    return [round(t, 3) for t in spans]


def test_times_count_from_the_start_of_the_run_and_every_host_and_lock_has_a_lane() -> None:
    line = timeline(good_story())
    assert line.duration == 40.0
    assert [lane.name for lane in line.hosts] == ["host-1", "host-2", "host-3"]
    assert [(lane.label, lane.function) for lane in line.locks] == [
        ("import_eligibility", "import_eligibility"),
        ("ship.a", "ship"),
        ("ship.b", "ship"),
    ]
    first = line.bodies[0]
    assert (first.host, first.start, first.end, first.ending, first.held) == ("host-1", 1.0, 2.0, "ok", True)


def test_the_measure_of_the_storage_is_no_host() -> None:
    story = good_story()
    story.add(3, "storage", "machine_slow", measures=[[1.0, 0.4]])
    assert [lane.name for lane in timeline(story).hosts] == ["host-1", "host-2", "host-3"]


def test_a_host_that_was_killed_lives_until_then_and_is_marked() -> None:
    line = timeline(good_story())
    (life,) = line.hosts[1].lives
    assert (round(life.start, 3), life.end, life.ended, life.pid) == (0.1, 4.5, "killed", 102)
    (kill,) = [mark for mark in line.marks if mark.kind == "kill"]
    assert (kill.at, kill.hosts, kill.lock) == (4.5, ("host-2",), key_lock("a"))
    assert kill.what == "host-2 (pid 100) is killed while it holds ship.a"


def test_a_host_that_is_started_again_keeps_its_lane() -> None:
    story = good_story()
    story.add(6, "host-2.2", "host_restarted", after="host-2")
    story.add(6.5, "host-2.2", "host_started", pid=7)
    story.add(8, "host-2.3", "host_restarted", after="host-2.2")
    line = timeline(story)
    assert [lane.name for lane in line.hosts] == ["host-1", "host-2", "host-3"]
    assert [(life.name, round(life.start, 3)) for life in line.hosts[1].lives] == [
        ("host-2", 0.1),
        ("host-2.2", 6.0),
        ("host-2.3", 8.0),
    ]


def test_hosts_that_said_nothing_have_a_lane_too_and_ten_comes_after_two() -> None:
    line = timeline(Story(hosts=2), hosts=["host-10", "host-2"])
    assert [lane.name for lane in line.hosts] == ["host-1", "host-2", "host-10"]


def test_a_lease_is_granted_renewed_and_released() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, 20.0, token=1)
    story.lease(8.5, "host-1", "renew")
    story.lease(16, "host-1", "renew")
    story.lease(20.1, "host-1", "release")
    (lease,) = leases(timeline(story))
    assert (lease.start, round(lease.end, 3), lease.ending, lease.seen) == (1.0, 20.1, "released", True)
    assert near(lease.renewed) == [8.5, 16.0]
    assert round(lease.expires, 3) == 31.0
    assert round(lease.deadline, 3) == 30.0


def test_a_seat_is_no_lock_and_has_neither_a_lane_nor_a_lease() -> None:
    story = Story()
    story.body("host-1", 1, 3, token=1)
    for lock in (TIMER, f"{TIMER}~next"):
        story.lease(0.9, "host-1", "acquire", lock, status=201)
    line = timeline(story)
    assert [lane.lock for lane in line.locks] == [TIMER]
    assert [lease.lock for lease in line.leases] == [TIMER]


def test_a_lease_whose_renewals_fail_expires_with_its_deadline_before() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, 30.0, token=1)
    story.lease(8.5, "host-1", "renew", status=500)
    story.lease(12, "host-1", "renew", status=None)
    story.lease(31, "host-2", "acquire", status=409)
    story.lease(32, "host-1", "release", status=409)
    line = timeline(story)
    (lease,) = leases(line)
    assert (lease.end, lease.ending, near(lease.refused)) == (16.0, "expired", [8.5, 12.0])
    (deadline,) = [mark for mark in line.marks if mark.kind == "deadline"]
    assert (round(deadline.at, 3), deadline.hosts, deadline.lock) == (15.0, ("host-1",), TIMER)


def test_an_expired_lease_that_nobody_took_can_be_renewed() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, 21.0, token=1)
    story.lease(17, "host-1", "renew")
    story.lease(21, "host-1", "release")
    (lease,) = leases(timeline(story))
    assert (lease.end, lease.ending) == (21.0, "released")


def test_the_lease_of_a_killed_host_goes_on_until_it_expires_and_no_deadline_is_told() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, None, token=1)
    story.kill(3, "host-1", TIMER)
    story.lease(17, "host-2", "acquire", status=201)
    story.body("host-2", 17.0, 18.0, token=2)
    story.lease(18, "host-2", "release")
    line = timeline(story)
    assert [(each.host, each.end, each.ending) for each in leases(line)] == [
        ("host-1", 16.0, "expired"),
        ("host-2", 18.0, "released"),
    ]
    assert not [mark for mark in line.marks if mark.kind == "deadline"]


def test_a_release_whose_reply_was_lost_ended_the_lease_if_another_got_it_at_once() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, 4.0, token=1)
    story.lease(4, "host-1", "release", status=None)
    story.lease(5, "host-2", "acquire", status=201)
    story.body("host-2", 5.0, 6.0, token=2)
    story.lease(6, "host-2", "release")
    told = [(each.host, each.end, each.ending) for each in leases(timeline(story))]
    assert told == [("host-1", 4.0, "released"), ("host-2", 6.0, "released")]


def test_there_is_no_deadline_for_a_host_that_gave_its_lock_up_before_though_its_release_was_refused() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, 4.0, token=1)
    story.lease(4, "host-1", "release", status=503)
    story.lease(17, "host-2", "acquire", status=409)
    line = timeline(story)
    assert [each.ending for each in leases(line)] == ["expired"]
    assert not [mark for mark in line.marks if mark.kind == "deadline"]


def test_an_operator_breaks_a_lease_at_once_or_slowly_and_another_may_take_it() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, 6.0, token=1)
    story.fleet(3, "operator", action="break", lock=TIMER)
    story.lease(4, "host-2", "acquire", status=201)
    story.body("host-2", 4.0, 9.0, token=2)
    story.lease(7, "host-3", "acquire", status=201)
    story.lease(8, "host-3", "release")
    line = timeline(story)
    assert [(each.host, each.end, each.ending) for each in leases(line)] == [
        ("host-1", 3.0, "broken"),
        ("host-2", 7.0, "taken"),
        ("host-3", 8.0, "released"),
    ]
    (mark,) = [mark for mark in line.marks if mark.kind == "operator"]
    assert mark.what == "an operator: break import_eligibility"


def test_where_no_request_was_seen_leases_are_concluded_from_the_holds() -> None:
    line = timeline(good_story())
    assert [(each.host, each.start, each.end, each.ending, each.seen) for each in leases(line, key_lock("a"))] == [
        ("host-1", 1.0, 2.0, "released", False),
        ("host-2", 4.0, 19.5, "expired", False),
        ("host-1", 20.0, 20.5, "released", False),
        ("host-3", 25.0, 25.5, "released", False),
    ]


def test_a_journal_without_releases_ends_leases_with_their_holds() -> None:
    story = Story()
    story.lease(1, "host-1", "acquire", status=201)
    story.body("host-1", 1.0, 2.0, token=1)
    (lease,) = leases(timeline(story))
    assert (lease.end, lease.ending, lease.seen) == (2.0, "released", True)


def test_a_virtual_world_tells_what_the_service_answered() -> None:
    records = [
        Record(0.0, "world", "run_started", {"rough": True}),
        Record(1.0, "host-0", "request", {"call": "acquire", "name": "key-0", "answer": "ok", "until": 16.0}),
        Record(8.0, "host-0", "request", {"call": "renew", "name": "key-0", "answer": "ok", "until": 23.0}),
        Record(9.0, "host-0", "request", {"call": "read", "name": "key-0", "answer": "ok", "until": 23.0}),
        Record(9.5, "host-0", "request", {"call": "renew", "name": "key-0", "answer": "lost"}),
        Record(40.0, "host-1", "request", {"call": "acquire", "name": "key-0", "answer": "409", "until": None}),
    ]
    line = build_timeline(records, judge(records[:1]))
    (lease,) = leases(line, "key-0")
    assert (lease.start, lease.renewed, lease.refused, lease.end, lease.ending) == (
        1.0,
        [8.0],
        [9.5],
        23.0,
        "expired",
    )
    assert line.calls["host-0"] == {"acquire a lease": 1, "renew a lease": 2, "read a blob": 1}


@pytest.mark.parametrize(
    ("action", "end", "ending"),
    [
        ("break_", 5.0, "broken"),
        ("steal", 5.0, "broken"),
        ("delete", 5.0, "broken"),
        ("break slowly", 15.0, "broken"),
        ("label", 16.0, "expired"),
    ],
)
def test_what_an_operator_of_a_virtual_world_does_ends_a_lease(action: str, end: float, ending: str) -> None:
    granted = {"call": "acquire", "name": "key-0", "lease": "a", "answer": "ok", "until": 16.0}
    records = [
        Record(0.0, "world", "run_started", {"rough": True}),
        Record(1.0, "host-0", "request", granted),
        Record(5.0, "world", "operator", {"action": action, "lock": "key-0"}),
        Record(40.0, "world", "run_ended"),
    ]
    (lease,) = leases(build_timeline(records, judge(records[:1])), "key-0")
    assert (lease.end, lease.ending) == (end, ending)


def test_a_lease_that_expires_with_the_last_record_has_expired_and_one_that_is_being_broken_then_is_open() -> None:
    granted = {"call": "acquire", "name": "key-0", "lease": "a", "answer": "ok", "until": 16.0}
    records = [
        Record(0.0, "world", "run_started", {"rough": True}),
        Record(1.0, "host-0", "request", granted),
        Record(1.0, "host-0", "request", {**granted, "name": "key-1", "until": 60.0}),
        Record(14.0, "world", "operator", {"action": "break slowly", "lock": "key-1"}),
        Record(16.0, "world", "run_ended"),
    ]
    line = build_timeline(records, judge(records[:1]))
    assert [(lease.end, lease.ending) for lease in line.leases] == [(16.0, "expired"), (16.0, "open")]


def test_a_fault_lasts_until_it_ends_and_tells_its_kill_only_once() -> None:
    story = good_story()
    about = {"hosts": ["host-1"], "lock": TIMER, "way": "both", "aim": "holder", "seconds": 20}
    story.fleet(4.49, "fault", id=1, kind="kill", hosts=["host-2"], lock=key_lock("a"), what="host-2 is killed")
    story.fleet(4.49, "fault_ended", id=1, hits=0)
    story.fleet(7, "fault", id=2, kind="partition", what="host-1 is cut off for 20 s, both ways", **about)
    story.fleet(27, "fault_ended", id=2, hits=13)
    story.fleet(30, "fault", id=3, kind="delay", hosts=[], what="all requests are late")
    story.fleet(35, "healed")
    line = timeline(story)
    faults = [(mark.id, mark.fault, mark.at, mark.end, mark.hits) for mark in line.marks if mark.kind == "fault"]
    assert [(number, kind, round(at, 3), round(end, 3), hits) for number, kind, at, end, hits in faults] == [
        (1, "kill", 4.49, 4.49, 0),
        (2, "partition", 7.0, 27.0, 13),
        (3, "delay", 30.0, 40.0, 0),
    ]
    assert not [mark for mark in line.marks if mark.kind == "kill"]
    assert [mark.at for mark in line.marks if mark.kind == "healed"] == [35.0]


def test_a_pause_and_a_loss_are_marked() -> None:
    story = Story()
    owner = story.body("host-1", 1.0, 30.0, token=1, outcome="lost")
    story.add(2, "host-1", "pause", holds=[])
    story.add(25, "host-1", "resume")
    story.lock(25.1, "host-1", "lost", TIMER, owner, reason="expired")
    line = timeline(story)
    told = [(mark.kind, round(mark.at, 3), round(mark.end, 3), mark.what) for mark in line.marks]
    assert told[0] == ("pause", 2.0, 25.0, "host-1 stands still for 23.0 s")
    assert told[-1] == ("lost", 25.1, 25.1, "host-1 learns that it has lost import_eligibility (expired)")


def test_a_takeover_has_its_bound_and_a_handover_both_sides() -> None:
    line = timeline(good_story(), 40)
    (over,) = line.takeovers
    assert (over.victim, over.by, over.at, over.taken, over.bound, over.state) == (
        "host-2", "host-1", 4.5, 20.0, 24.5, "in time",
    )  # fmt: skip
    assert [(each.giver, each.taker, each.since, each.at) for each in line.handovers if each.lock == key_lock("a")] == [
        ("host-1", "host-2", 2.0, 4.0),
        ("host-2", "host-1", 4.5, 20.0),
        ("host-1", "host-3", 20.5, 25.0),
    ]


def test_a_message_is_followed_from_its_sending_to_its_end() -> None:
    line = timeline(good_story())
    again = next(message for message in line.messages if message.id == "m3")
    assert (again.queue, again.key, round(again.sent, 3), again.state) == ("orders", "a", 3.8, "completed")
    assert [(round(t, 3), host) for t, host in again.received] == [(3.9, "host-2"), (24.5, "host-3")]
    assert (round(again.done or 0, 3), again.dequeued) == (25.6, 2)


def test_requests_to_the_storage_are_the_last_count_of_each_process() -> None:
    story = Story()
    story.add(1, "host-1", "storage_calls", pid=1, calls={"renew a lease": 1})
    story.add(2, "host-1", "storage_calls", pid=1, calls={"renew a lease": 2, "read a blob": 1})
    story.add(3, "host-1", "storage_calls", pid=2, calls={"renew a lease": 5})
    story.lease(4, "host-1", "renew")
    story.lease(4, "host-2", "acquire")
    line = timeline(story)
    assert line.calls == {"host-1": {"renew a lease": 7, "read a blob": 1}, "host-2": {"acquire a lease": 1}}


def test_the_records_behind_a_body_are_lines_without_what_errors_say() -> None:
    story = Story()
    owner = story.body("host-1", 1, 2, token=5, outcome="error")
    story.add(3, "host-1", "call_raised", invocation=owner, error="ValueError: AccountKey=c2VjcmV0;")
    line = timeline(story)
    texts = [note.text for note in line.notes if note.owner == owner]
    assert texts == [
        "invocation started, function import_eligibility",
        "waiting",
        "acquired, token 5",
        "body started, token 5",
        "body ended, reason error, token 5",
        "released, token 5",
        "invocation ended, outcome error",
        "call raised, error ValueError",
    ]


def test_each_check_says_what_it_looked_at() -> None:
    checks = {check.name: check for check in judge(good_story().end(40)).checks}
    assert checks["overlaps"].looked_at == {"guarded bodies": 6, "locks": 3}
    assert checks["failovers"].looked_at == {"kills": 1, "locks of the killed": 1}
    assert checks["messages"].looked_at == {"messages sent": 4, "deliveries": 5}
    assert not any(check.violated for check in checks.values())
    story = Story(singleton=False)
    story.body("host-1", 1, 3, held=False)
    story.body("host-2", 2, 4, held=False)
    story.add(5, "host-2.2", "host_restarted", after="host-2")
    story.add(6, "host-2.2", "host_started", pid=9)
    checks = {check.name: check for check in judge(story.end(9)).checks}
    assert checks["activity"].looked_at["hosts"] == 3
    assert checks["liveness"].looked_at["hosts started again"] == 1
    broken = [check.name for check in checks.values() if check.violated]
    assert broken == ["overlaps", "guards"]

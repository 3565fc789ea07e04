"""The board: what the fleet is at now, as its records tell it."""

from __future__ import annotations

import pytest

from simulator.checks.verdict import judge
from simulator.report.board import Board
from tests.support.journals import TIMER, Story, good_story, key_lock


def board(story: Story, until: float = 1e9) -> Board:
    now = Board()
    for record in sorted(story.records, key=lambda record: record.t):
        if record.t - 1000 <= until:
            now.take(record)
    return now


def texts(now: Board) -> list[str]:
    return [event.text for event in now.events]


def done(now: Board) -> tuple[int, int]:
    return len(now.sent()), sum(bool(message.completed) for message in now.sent())


def test_who_is_inside_and_who_waits_is_known_at_any_time() -> None:
    story = good_story()
    now = board(story, 1.5)
    assert {(body.host, body.lock, body.token) for body in now.inside()} == {
        ("host-1", TIMER, 1),
        ("host-1", key_lock("a"), 1),
    }
    now = board(story, 10)
    assert [(wait.lock, wait.host) for wait in now.waiting()] == [(key_lock("a"), "host-1")]
    assert now.inside() == []


def test_a_kill_empties_its_host_and_orphans_its_locks_until_somebody_takes_them_over() -> None:
    story = good_story()
    now = board(story, 10)
    assert now.hosts["host-2"] == "killed"
    assert not any(key[0] == "host-2" and bodies for key, bodies in now.bodies.items())
    (orphan,) = [row for row in now.locks() if row.orphaned is not None]
    assert (orphan.lock, orphan.holder, orphan.waiting) == (key_lock("a"), "host-2", 1)
    assert "host-2 (pid 100) killed while it held ship.a" in texts(now)
    now = board(story, 20.1)
    assert [text for text in texts(now) if "over after" in text] == ["host-1 took ship.a over after 15.5 s"]
    assert all(row.orphaned is None for row in now.locks())


def test_a_take_over_is_told_with_the_seconds_of_the_verdict_those_of_the_grant_on_the_network() -> None:
    story = Story(kill=1)
    story.body("host-1", 1, None, key_lock("a"), token=1)
    story.kill(2, "host-1", key_lock("a"))
    story.lease(17.5, "host-2", "acquire", key_lock("a"), lease="theirs", period=15, took=0.01)
    story.body("host-2", 18.4, 19, key_lock("a"), token=2, asked=3)
    assert [text for text in texts(board(story, 20)) if "over after" in text] == [
        "host-2 took ship.a over after 15.5 s"
    ]
    (failover,) = judge(story.end(30)).failovers
    assert failover.main is not None
    assert failover.main.seconds == pytest.approx(15.5)


def test_messages_under_way_are_counted_by_key() -> None:
    story = Story()
    story.message("m1", "host-1", 1, 2)
    story.sent(3, "m2", "b")
    story.sent(3, "m3", "b")
    now = board(story)
    assert now.under_way() == {("orders", "b"): 2}
    assert done(now) == (3, 1)


def test_a_message_that_is_done_before_its_sending_was_noted_is_not_under_way() -> None:
    now = Board()
    story = Story()
    story.completed(1, "host-1", "m")
    story.sent(1.1, "m")
    for record in story.records:
        now.take(record)
    assert not now.under_way()


def test_an_output_to_a_queue_that_nobody_here_reads_is_no_message_under_way() -> None:
    story = Story()
    story.message("m1", "host-1", 1, 2)
    story.add(2, "host-1", "message_sent", queue="shipped", id="out-1", function="ship")
    now = board(story)
    assert done(now) == (1, 1)
    assert not now.under_way()


def test_poison_is_told_once_a_queue_and_then_by_tens() -> None:
    story = Story()
    for number in range(30):
        story.add(number, "host-1", "message_poisoned", queue="orders", id=f"m{number}")
    story.add(31, "host-2", "message_poisoned", queue="credits", id="c1")
    assert [text for text in texts(board(story)) if "poisoned" in text] == [
        "host-1: a message of orders was poisoned",
        "host-1: 10 messages of orders are poisoned by now",
        "host-2: a message of credits was poisoned",
    ]


def test_an_overlap_is_told_at_once() -> None:
    story = Story(singleton=False)
    story.body("host-1", 1, 3, held=False)
    story.body("host-2", 2, 4, held=False)
    now = board(story)
    assert len(now.overlapped) == 1
    assert "OVERLAP: host-2 entered import_eligibility with host-1 inside" in texts(now)


def test_all_hosts_ready_is_told_once() -> None:
    now = Board()
    for name in ("host-1", "host-2", "host-3"):
        assert now.state(name) == "starting"
    for record in Story().records:
        now.take(record)
    assert texts(now) == ["3 hosts ready"]
    assert set(now.hosts.values()) == {"ready"}


def test_a_host_that_ends_by_itself_is_told() -> None:
    story = Story()
    story.body("host-1", 1, None)
    story.add(2, "host-1", "host_exited", code=1, expected=False)
    now = board(story)
    assert now.hosts["host-1"] == "failed"
    assert "host-1 ended by itself with exit code 1" in texts(now)


def test_a_wait_that_failed_is_a_wait_no_more() -> None:
    story = Story()
    story.add(1, "host-1", "invocation_started", function="ship", invocation="i")
    story.lock(1, "host-1", "waiting", key_lock("a"), "i")
    story.add(
        2, "host-1", "invocation_ended", function="ship", invocation="i", outcome="error", error="StorageDenied: x"
    )
    now = board(story)
    assert now.waiting() == []
    assert [call.ending for call in now.history.invocations] == ["error"]


def test_requests_are_under_way_until_they_are_answered_and_ports_are_told() -> None:
    story = Story()
    story.add(0.4, "host-1", "http_port", port=8080, url="http://127.0.0.1:8080/api", functions=["ship"])
    for name in ("r1", "r2"):
        story.add(1, "host-1", "request_sent", request=name, function="ship", source="http/ship", key="a")
    story.add(2, "host-1", "request_answered", request="r1", status=200)
    now = board(story)
    assert now.under_way() == {("http/ship", "a"): 1}
    assert now.history.traffic.ports == {"host-1": 8080}
    assert "host-1 serves 1 HTTP function on http://127.0.0.1:8080/api" in texts(now)


def test_each_fault_is_told_once_and_an_end_and_a_return() -> None:
    story = Story(faults=["kill", "partition"])
    story.add(3, "host-2", "fault", id=1, kind="kill", hosts=["host-2"], what="host-2 is killed")
    story.kill(3, "host-2")
    story.add(4, "host-2.2", "host_restarted", after="host-2")
    story.fleet(5, "healed")
    said = [text for text in texts(board(story)) if "ready" not in text]
    assert said == [
        "host-2 is killed",
        "host-2 is started again as host-2.2",
        "all faults are undone: now everybody must get their turn",
    ]


def test_two_inside_after_a_fault_has_ended_the_hold_of_one_are_no_overlap() -> None:
    for faults, told, overlaps in ((["partition"], True, 0), ([], True, 1), (["partition"], False, 1)):
        story = Story(faults=faults)
        lock = key_lock("a")
        story.lock(1, "host-1", "acquired", lock, "one", token=1)
        story.lock(1, "host-1", "body_started", lock, "one", token=1)
        if told:
            story.lock(2, "host-1", "lost", lock, "one", reason="expired")
        story.lock(3, "host-2", "acquired", lock, "two", token=2)
        story.lock(3, "host-2", "body_started", lock, "two", token=2)
        assert len(board(story).overlapped) == overlaps


def test_two_inside_after_an_operator_broke_the_lease_are_no_overlap() -> None:
    for broken, overlaps in ((True, 0), (False, 1)):
        story = Story(faults=["break"])
        lock = key_lock("a")
        story.lock(1, "host-1", "acquired", lock, "one", token=1)
        story.lock(1, "host-1", "body_started", lock, "one", token=1)
        if broken:
            story.fleet(2, "operator", lock=lock, action="break")
        story.lock(3, "host-2", "acquired", lock, "two", token=2)
        story.lock(3, "host-2", "body_started", lock, "two", token=2)
        assert len(board(story).overlapped) == overlaps

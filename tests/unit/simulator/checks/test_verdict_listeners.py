"""The verdict on listeners: bodies of one host may overlap, those of two may not; take-overs within their own bound."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from simulator.checks.verdict import judge
from simulator.history.journal import Record
from simulator.report.board import Board
from tests.support.journals import Story, key_lock

if TYPE_CHECKING:
    from simulator.checks.verdict import Verdict

LOCK = "locks/shared/watch~listener"


class Watch(Story):
    """Three hosts with a function that one of them listens for: leases of 15 s, attempts each 20 s."""

    def __init__(self, *, rough: bool = False, **guard: Any) -> None:
        super().__init__(rough=rough)
        for number in (1, 2, 3):
            told = {"guarded": True, "mode": "listener", "lease": 15, "poll": 20, "listener": {"lease": 15, "poll": 20}}
            about = {"trigger": "timer", "tick": 5, **told, **guard}
            self.add(0.25, f"host-{number}", "function", name="watch", **about)

    def process(self, t: float, host: str, kind: str, **fields: Any) -> None:
        """Tell of a process: that it wants to listen, does, or does no longer."""
        self.lock(t, host, kind, LOCK, "", function="watch", mode="listener", **fields)

    def run(self, host: str, start: float, end: float | None, owner: str, *, token: int = 1) -> None:
        """Tell of one invocation whose body ran."""
        self.add(start, host, "invocation_started", function="watch", invocation=owner)
        about = {"function": "watch", "mode": "listener", "token": token}
        self.lock(start, host, "body_started", LOCK, owner, **about)
        if end is not None:
            self.lock(end, host, "body_ended", LOCK, owner, reason="ok", **about)
            self.add(end, host, "invocation_ended", function="watch", invocation=owner, outcome="ok")

    def left_alone(self, host: str, t: float, owner: str) -> None:
        """Tell of one invocation that was skipped, because another host listens."""
        self.add(t, host, "invocation_started", function="watch", invocation=owner)
        self.lock(t, host, "contended", LOCK, owner, function="watch", mode="listener", reason="skip")
        self.add(t, host, "invocation_ended", function="watch", invocation=owner, outcome="ok")

    def die(self, t: float, host: str, *others: str) -> None:
        """Tell of a kill, for the first of the other locks that the host had, if it had any."""
        hold = {"lock": LOCK, "function": "watch", "owner": "a", "token": 1, "mode": "listener"}
        more = [{"lock": lock, "function": "ship", "owner": "x", "token": 1} for lock in others]
        self.records.append(Record(1000 + t, host, "kill", {"host": host, "pid": 100, "holds": [*more, hold]}))


def led(**guard: Any) -> Watch:
    """Begin a story in which host-1 listens and the two others want to."""
    story = Watch(**guard)
    for number in (1, 2, 3):
        story.process(1.0 + number / 10, f"host-{number}", "waiting")
    story.process(1.15, "host-1", "acquired", token=1)
    return story


def verdict(story: Watch, end: float = 60.0) -> Verdict:
    return judge(story.end(end))


def test_bodies_of_the_host_that_listens_may_overlap() -> None:
    story = led()
    for number in range(5):
        story.run("host-1", 2.0 + number / 10, 4.0, f"inv-{number}")
    story.left_alone("host-2", 3.0, "inv-9")
    found = verdict(story)
    assert found.holds, found.reasons
    assert (found.sections, found.locks, len(found.overlaps)) == (5, 1, 0)


def test_bodies_of_two_hosts_may_not() -> None:
    story = led()
    story.run("host-1", 2.0, 6.0, "a")
    story.process(3.0, "host-2", "acquired", token=2)
    story.run("host-2", 3.0, 4.0, "b", token=2)
    found = verdict(story)
    assert found.verdict == "violated"
    assert [(each.first.host, each.second.host) for each in found.overlaps] == [("host-1", "host-2")]


def test_a_body_on_a_host_that_does_not_listen_ran_without_the_lock() -> None:
    story = led()
    story.run("host-2", 2.0, 3.0, "a")
    assert any("ran without holding the lock" in reason for reason in verdict(story).reasons)


def test_a_token_may_be_shown_again_by_its_host_and_by_no_other() -> None:
    story = led()
    story.run("host-1", 2.0, 3.0, "a")
    story.run("host-1", 4.0, 5.0, "b")
    assert verdict(story).tokens.increasing
    story = led()
    story.run("host-1", 2.0, 3.0, "a")
    story.process(4.0, "host-2", "acquired", token=2)
    story.run("host-2", 4.0, 5.0, "b", token=1)
    assert not verdict(story).tokens.increasing


def killed_at_ten(elected: float | None) -> Watch:
    story = led()
    story.run("host-1", 9.0, None, "a")
    story.die(10.0, "host-1")
    for second in range(11, 45):
        if elected is None or second < elected:
            story.left_alone("host-2", float(second), f"late-{second}")
    if elected is not None:
        story.process(elected, "host-3", "acquired", token=2)
        story.run("host-3", elected + 1, elected + 2, "b", token=2)
    return story


def test_a_take_over_has_the_lease_and_a_recovery_interval_whatever_the_invocations_of_others() -> None:
    found = verdict(killed_at_ten(44.0))
    assert found.holds, found.reasons
    (failover,) = found.failovers
    assert failover.main is not None
    assert (failover.main.by, failover.main.lease, failover.main.bound) == ("host-3", 15.0, 35.0)


def test_a_take_over_after_that_is_late() -> None:
    assert any("was taken over after 37.0 s" in reason for reason in verdict(killed_at_ten(47.0)).reasons)


def test_no_take_over_at_all_is_a_violation() -> None:
    assert any("was never taken over" in reason for reason in verdict(killed_at_ten(None)).reasons)


def test_a_listener_that_was_killed_and_not_followed_before_the_run_ended_is_said_not_to_have_changed_hosts() -> None:
    def killed() -> Watch:
        story = led()
        story.run("host-1", 2.0, 4.0, "a")
        story.body("host-1", 5, None, key_lock("a"), token=1)
        story.die(10, "host-1", key_lock("a"))
        story.body("host-2", 16, 18, key_lock("a"), token=2, asked=9)
        return story

    found = verdict(killed(), 24)
    assert found.holds, found.reasons
    assert "no hand-over of 'watch' was seen" in found.untried
    followed = killed()
    followed.process(25, "host-2", "acquired", token=2)
    assert "no hand-over of 'watch' was seen" not in verdict(followed, 30).untried


def test_where_two_locks_guard_one_body_it_is_counted_once() -> None:
    story = led(mode="function")
    story.run("host-1", 2.0, 4.0, "a")
    inner = {"function": "watch", "token": 1}
    for t, kind in ((2.1, "waiting"), (2.2, "acquired"), (2.2, "body_started"), (3.9, "body_ended"), (3.9, "released")):
        story.lock(t, "host-1", kind, "locks/shared/watch.7", "a", **inner)
    found = verdict(story)
    assert found.holds, found.reasons
    assert (found.sections, found.locks) == (1, 2)
    assert {host.name: host.bodies for host in found.hosts}["host-1"] == 1


def board_after(records: list[Record]) -> Board:
    board = Board()
    for record in sorted(records, key=lambda record: record.t):
        board.take(record)
    return board


def test_the_live_view_shows_who_listens_and_sees_no_overlap_within_its_host() -> None:
    story = led()
    story.run("host-1", 2.0, None, "a")
    story.run("host-1", 3.0, None, "b")
    board = board_after(story.records)
    assert board.overlapped == []
    assert [(now.holder, now.waiting) for now in board.locks() if now.lock == LOCK] == [("host-1", 2)]
    story.run("host-2", 4.0, None, "c")
    assert len(board_after(story.records).overlapped) == 1


def test_the_live_view_shows_a_listener_between_its_bodies_too_and_its_take_over() -> None:
    story = led()
    board = board_after(story.records)
    assert [now.holder for now in board.locks() if now.lock == LOCK] == ["host-1"]
    story.die(10.0, "host-1")
    story.process(30.0, "host-2", "acquired", token=2)
    board = board_after(story.records)
    assert sum("over after" in event.text for event in board.events) == 1
    assert [now.holder for now in board.locks() if now.lock == LOCK] == ["host-2"]


def test_a_thread_that_was_told_that_its_listeners_lease_is_lost_can_not_be_ended() -> None:
    for told, reasons in ((True, 0), (False, 1)):
        story = led(rough=True, **{"async": False})
        story.run("host-1", 5, None, "a")
        if told:
            story.process(19, "host-1", "lost", reason="expired", token=1)
        story.process(21, "host-2", "acquired", token=2)
        story.run("host-2", 22, 23, "b", token=2)
        story.lock(30, "host-1", "body_ended", LOCK, "a", reason="lost", function="watch", mode="listener", token=1)
        overlaps = [text for text in judge(story.end(40)).violations if "ran at the same time" in text]
        assert len(overlaps) == reasons


@pytest.mark.parametrize(
    ("trigger", "policy", "reason", "found"),
    [
        *[("timer", "wait", "raise", 1), ("timer", "wait", "skip", 0), ("timer", "raise", "raise", 0)],
        *[("queue", "wait", "skip", 1), ("queue", "wait", "defer", 0), ("queue", "raise", "raise", 0)],
        *[("http", "wait", "skip", 1), ("http", "wait", "raise", 0)],
    ],
)
def test_the_trigger_says_what_becomes_of_an_invocation_where_another_process_listens(
    trigger: str, policy: str, reason: str, found: int
) -> None:
    story = led(on_contention=policy, trigger=trigger)
    story.run("host-1", 5, 6, "a")
    story.add(7, "host-2", "invocation_started", function="watch", invocation="b")
    story.lock(7, "host-2", "contended", LOCK, "b", function="watch", mode="listener", reason=reason)
    story.add(7, "host-2", "invocation_ended", function="watch", invocation="b", outcome="ok")
    assert sum(f"gave up ({reason}), though" in text for text in judge(story.end(40)).violations) == found

"""What declarations say in numbers: kept at least, held at most, so many at once, so many that wait."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import Verdict, judge
from simulator.report.board import Board
from tests.support.journals import Story, key_lock

LOCK = key_lock("a")


def verdict_of(story: Story) -> Verdict:
    story.fleet(60, "run_ended")
    return judge(story.records)


def a_story(**declared: Any) -> Story:
    return Story(hosts=3).know(**declared)


def has(verdict: Verdict, *words: str) -> bool:
    return any(all(word in text for word in words) for text in verdict.violations)


# --- so many at once --------------------------------------------------------------------------------------------------


def three_inside(story: Story) -> Story:
    for number in range(3):
        story.body(f"host-{number + 1}", 5 + number, 15 + number, LOCK)
    return story


def test_as_many_as_the_limit_are_no_overlap() -> None:
    verdict = verdict_of(three_inside(a_story(at_once=3)))
    assert verdict.overlaps == ()
    assert not has(verdict, "at the same time")


def test_one_more_than_the_limit_is() -> None:
    verdict = verdict_of(three_inside(a_story(at_once=2)))
    assert len(verdict.overlaps) == 1
    assert has(verdict, "1 overlap: more than 2 bodies of one semaphore ran at the same time")


def test_without_a_limit_two_are_one_too_many() -> None:
    assert len(verdict_of(three_inside(a_story())).overlaps) == 3


def test_the_board_tells_of_one_too_many_and_of_no_other() -> None:
    for limit, told in ((3, 0), (2, 1), (1, 2)):
        board = Board()
        for record in sorted(three_inside(a_story(at_once=limit)).records, key=lambda record: record.t):
            board.take(record)
        assert len(board.overlapped) == told


def test_whoever_is_refused_while_others_have_the_other_slots_shows_no_late_take_over() -> None:
    """The dead host's slot is free at 25; it is got at 36, when somebody asks again."""
    for limit, late in ((2, False), (1, True)):
        story = a_story(at_once=limit, on_contention="skip")
        story.body("host-1", 5, None, LOCK)
        story.kill(10, "host-1", LOCK)
        story.skip("host-2", 27, LOCK)
        story.body("host-3", 36, 37, LOCK)
        (failover,) = verdict_of(story).failovers
        assert failover.ok is not late


# --- at least ---------------------------------------------------------------------------------------------------------


def test_a_lock_that_is_got_again_too_soon_was_not_kept() -> None:
    story = a_story(at_least=20)
    story.body("host-1", 5, 6, LOCK)
    story.body("host-2", 15, 16, LOCK)
    assert has(verdict_of(story), "the lock of 'ship' was got again after 10.0 s, though at_least is 20 s")
    story.fleet(8, "fault", id=1, kind="break", lock=LOCK)
    assert not has(verdict_of(story), "at_least")


def test_a_lock_that_is_got_when_its_time_has_come_was_kept_and_nobody_is_blamed_meanwhile() -> None:
    story = a_story(at_least=20)
    story.body("host-1", 5, 6, LOCK)
    story.body("host-2", 25.5, 26, LOCK, asked=7)
    verdict = verdict_of(story)
    assert not has(verdict, "at_least")
    assert not has(verdict, "was free for")
    story = Story(hosts=3)
    story.body("host-1", 5, 6, LOCK)
    story.body("host-2", 25.5, 26, LOCK, asked=7)
    assert has(verdict_of(story), "was free for 18.5 s while host-2 waited for it")


@pytest.mark.parametrize("broken", [True, False])
def test_who_is_handed_a_lease_that_was_broken_unknown_to_its_process_keeps_nothing(*, broken: bool) -> None:
    story = a_story(at_least=5)
    story.body("host-1", 5, 6, LOCK)
    if broken:
        story.fleet(6.5, "fault", id=1, kind="break", lock=LOCK)
    story.body("host-1", 10, 11, LOCK)
    story.body("host-2", 11.2, 12, LOCK)
    assert has(verdict_of(story), "was got again after 1.2 s, though at_least is 5 s") is not broken


def test_of_a_semaphore_each_slot_is_kept() -> None:
    story = a_story(at_least=20, at_once=2)
    for start in (5, 6):
        story.body("host-1", start, start + 0.5, LOCK)
    story.body("host-2", 26, 27, LOCK)
    assert not has(verdict_of(story), "at_least")
    story = a_story(at_least=20, at_once=2)
    for start in (5, 6, 15):
        story.body("host-1", start, start + 0.5, LOCK)
    assert has(verdict_of(story), "was got again after 10.0 s, though at_least is 20 s")


def test_whose_process_ended_can_keep_nothing() -> None:
    story = a_story(at_least=20)
    story.body("host-1", 5, 6, LOCK)
    story.add(8, "host-1", "host_exited", expected=True, code=0)
    story.body("host-2", 15, 16, LOCK)
    assert not has(verdict_of(story), "at_least")


# --- at most ----------------------------------------------------------------------------------------------------------


def a_long_body(story: Story, *, lost: float | None, end: float = 30.0, reason: str = "too long") -> str:
    owner = "inv-long"
    story.add(5, "host-1", "invocation_started", function="ship", invocation=owner)
    for kind in ("waiting", "acquired", "body_started"):
        story.lock(5, "host-1", kind, LOCK, owner)
    if lost is not None:
        story.lock(lost, "host-1", "lost", LOCK, owner, reason=reason)
    story.lock(end, "host-1", "body_ended", LOCK, owner, reason="ok" if lost is None else "lost")
    story.lock(end, "host-1", "released", LOCK, owner)
    ended = {"outcome": "error", "error": "LockLost: too long", "blames": "LockLost"}
    story.add(
        end, "host-1", "invocation_ended", function="ship", invocation=owner, **(ended if lost else {"outcome": "ok"})
    )
    return owner


def test_a_body_that_is_told_in_time_fails_by_its_own_doing() -> None:
    story = a_story(max_hold=10)
    a_long_body(story, lost=15.1, end=15.3)
    verdict = verdict_of(story)
    assert not has(verdict, "max_hold")
    assert not has(verdict, "which nothing in this run caused")


def test_a_body_that_is_told_long_before_is_told_without_a_cause() -> None:
    story = a_story(max_hold=10)
    a_long_body(story, lost=8, end=8.3, reason="expired")
    assert has(verdict_of(story), "failed with LockLost, which nothing in this run caused")


def test_a_body_that_nobody_tells_is_held_for_too_long() -> None:
    story = a_story(max_hold=10)
    a_long_body(story, lost=None)
    assert has(verdict_of(story), "a body of 'ship' ran for 25.0 s, though max_hold is 10 s, and was not told in time")


def test_whoever_gets_in_beside_a_body_that_was_told_is_no_overlap_and_before_it_was_told_he_is() -> None:
    story = a_story(max_hold=10)
    a_long_body(story, lost=15.1, end=40)
    story.body("host-2", 30, 31, LOCK)
    verdict = verdict_of(story)
    assert verdict.overlaps == ()
    assert "1 body went on after max_hold had ended its hold, and others got in" in verdict.notes
    story = a_story(max_hold=10)
    a_long_body(story, lost=15.1, end=40)
    story.body("host-2", 14, 14.5, LOCK)
    assert len(verdict_of(story).overlaps) == 1


@pytest.mark.parametrize(
    ("limit", "hosts", "overlaps"), [(1, "1", 1), (1, "2", 0), (2, "2 1", 0), (2, "2 3", 0), (2, "1 1", 1)]
)
def test_the_process_of_a_body_that_was_told_lets_nobody_else_in(limit: int, hosts: str, overlaps: int) -> None:
    story = a_story(max_hold=10, at_once=limit)
    a_long_body(story, lost=15.1, end=40)
    for number, host in enumerate(hosts.split()):
        story.body(f"host-{host}", 30 + number, 35, LOCK)
    assert len(verdict_of(story).overlaps) == overlaps


@pytest.mark.parametrize(("host", "accused"), [("host-1", False), ("host-2", True)])
def test_who_waits_in_the_process_of_a_body_that_was_told_waits_for_its_end(host: str, *, accused: bool) -> None:
    story = a_story(max_hold=10)
    a_long_body(story, lost=15.1, end=50)
    story.body(host, 51, 52, LOCK, asked=10)
    assert has(verdict_of(story), "was free for") == accused


@pytest.mark.parametrize(("released", "overlaps"), [(None, 0), (15.2, 1), (30.5, 0)])
def test_a_lease_that_is_given_back_under_a_body_that_is_held_for_too_long_lets_nobody_in_rightly(
    released: float | None, overlaps: int
) -> None:
    story = a_story(max_hold=10)
    story.lease(4.9, "host-1", "acquire", LOCK, status=201, lease="1")
    a_long_body(story, lost=15.1, end=40)
    if released is not None:
        story.lease(released, "host-1", "release", LOCK, lease="1")
    story.body("host-2", 30, 31, LOCK)
    assert len(verdict_of(story).overlaps) == overlaps


# --- so many that wait ------------------------------------------------------------------------------------------------


def some_wait(story: Story, number: int, *, until: float = 20.0) -> None:
    story.body("host-1", 5, until, LOCK)
    for each in range(number):
        story.body("host-2", until + each, until + each + 0.5, LOCK, asked=6 + each / 10)


def refused(story: Story, t: float, reason: str = "raise") -> None:
    story.skip("host-2", t, LOCK, reason=reason)


def test_no_more_wait_than_may() -> None:
    story = a_story(max_waiting=3)
    some_wait(story, 3)
    assert not has(verdict_of(story), "max_waiting")
    story = a_story(max_waiting=2)
    some_wait(story, 3)
    assert has(verdict_of(story), "3 invocations of one process waited for ship.a at a time, though max_waiting is 2")


def test_in_a_run_that_measures_the_machine_a_short_wait_counts_unless_the_machine_was_slow() -> None:
    for measured, slow, found in ((False, False, False), (True, False, True), (True, True, False)):
        story = a_story(max_waiting=2)
        story.add(0.1, "host-2", "host_started", measures=measured)
        some_wait(story, 3, until=8)
        if slow:
            story.add(8, "host-2", "machine_slow", measures=[(1, 0.9), (1, 0.9)])
        assert has(verdict_of(story), "though max_waiting is 2") is found


# --- what a policy is told --------------------------------------------------------------------------------------------


def a_policy(told: int | None, *, waiter: str = "host-2", until: float = 20.0, **known: Any) -> Verdict:
    """One caller waits from second 7 on; the policy of another is asked at second 12."""
    story = a_story(on_contention="custom", **known)
    story.add(0.1, "host-2", "host_started", measures=True)
    story.body("host-1", 5, until, LOCK)
    for owner, t, host, waiting in (("first", 6.0, waiter, 0), ("second", 12.0, "host-2", told)):
        about = {"invocation": owner, "function": "ship"}
        story.add(t, host, "invocation_started", **about)
        story.lock(t, host, "waiting", LOCK, owner, worker=1)
        more = {} if waiting is None else {"waiting": waiting}
        story.add(t + 0.1, host, "policy_answered", answer="wait", **about, **more)
        end = until + 0.1 if owner == "first" else until + 2
        story.lock(end, host, "acquired", LOCK, owner, worker=1)
        story.lock(end + 0.1, host, "released", LOCK, owner, worker=1)
        story.add(end + 0.2, host, "invocation_ended", outcome="ok", **about)
    return verdict_of(story)


def test_a_policy_is_told_of_those_who_wait_in_its_process() -> None:
    text = (
        "the policy of 'ship' was told 1 time that fewer others wait than did: the first 0 on host-2 at 12.1 s, where "
        "1 waited"
    )
    assert text in a_policy(0).violations
    assert not has(a_policy(1), "the policy of")
    assert not has(a_policy(None), "the policy of")
    assert not has(a_policy(0, waiter="host-3"), "the policy of")


def test_who_got_the_lock_meanwhile_perhaps_waited_no_more() -> None:
    assert not has(a_policy(0, until=12.2), "the policy of")


def test_none_may_wait_where_the_number_is_nought() -> None:
    story = a_story(max_waiting=0)
    some_wait(story, 1)
    assert has(verdict_of(story), "1 invocation of one process waited for ship.a at a time, though max_waiting is 0")


def test_who_is_refused_met_as_many_that_waited() -> None:
    story = a_story(max_waiting=2)
    some_wait(story, 2)
    refused(story, 10)
    verdict = verdict_of(story)
    assert not has(verdict, "gave up")
    assert not has(verdict, "failed with LockNotAcquired")
    story = a_story(max_waiting=2)
    some_wait(story, 1)
    refused(story, 10)
    assert has(verdict_of(story), "1 invocation of 'ship' gave up (raise)")


def test_it_is_refused_as_it_was_declared() -> None:
    story = a_story(max_waiting=1, when_full="defer")
    some_wait(story, 1)
    refused(story, 10, "raise")
    assert has(verdict_of(story), "gave up (raise), though on_contention='wait' does not allow that")


def test_who_is_refused_with_fewer_waiting_than_max_waiting_is_told_of_that_rule() -> None:
    story = a_story(max_waiting=2, when_full="skip")
    some_wait(story, 1)
    refused(story, 10, "skip")
    said = (
        "gave up (skip), though on_contention='wait' does not allow that, and when_full='skip' only while 2 others "
        "wait (max_waiting)"
    )
    assert has(verdict_of(story), said)

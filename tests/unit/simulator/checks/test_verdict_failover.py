"""Failovers: measured from the kill, against lease + poll for those who wait and lease + tick for timers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.checks.deadlines import SLACK
from simulator.checks.verdict import judge
from simulator.history.historian import read_history
from simulator.real.settle import outstanding
from tests.support.journals import TIMER, Story, key_lock

LOCK = key_lock("a")


def killed(at: float = 10.0, lock: str = LOCK, **setup: Any) -> Story:
    story = Story(kill=1, **setup)
    story.body("host-1", at - 1, None, lock, token=1)
    story.kill(at, "host-1", lock)
    return story


def test_a_waiter_has_lease_and_poll() -> None:
    story = killed()
    story.body("host-2", 26, 27, LOCK, token=2, asked=9.5)
    verdict = judge(story.end(40))
    (failover,) = verdict.failovers
    over = failover.main
    assert verdict.verdict == "holds"
    assert over is not None
    assert (failover.host, failover.ok) == ("host-1", True)
    assert failover.at == pytest.approx(10)
    assert (over.by, over.state, over.wanted, over.token, over.token_after) == ("host-2", "in time", 0, None, 2)
    assert over.seconds == pytest.approx(16)
    assert over.bound == pytest.approx(20)


@given(st.floats(0.01, 40), st.floats(0.0, 39))
def test_whoever_waits_must_get_it_within_lease_and_poll_of_the_later_of_kill_and_demand(
    taken: float, asked: float
) -> None:
    asked = min(asked, taken)
    story = killed()
    story.body("host-2", 10 + taken, 10 + taken + 1, LOCK, token=2, asked=10 + asked)
    over = judge(story.end(60)).failovers[0].main
    assert over is not None
    bound = max(15, asked) + 5
    assert over.bound == pytest.approx(bound)
    assert over.wanted == pytest.approx(asked)
    if abs(taken - bound - SLACK) > 1e-6:
        assert over.ok == (taken <= bound + SLACK)


def test_a_take_over_past_the_bound_is_a_violation() -> None:
    story = killed()
    story.body("host-2", 32, 33, LOCK, token=2, asked=9.5)
    verdict = judge(story.end(40))
    assert verdict.verdict == "violated"
    assert "ship.a, which host-1 held when it was killed, was taken over after 22.0 s; 20.0 s were allowed" in (
        verdict.reasons
    )


def test_a_lock_that_is_wanted_and_never_taken_over_is_a_violation() -> None:
    story = killed()
    story.lock(9, "host-2", "waiting", LOCK, "patient", function="ship")
    verdict = judge(story.end(40))
    assert verdict.verdict == "violated"
    assert any("was never taken over, though it was wanted" in text for text in verdict.reasons)


def test_a_lock_that_is_wanted_when_the_run_ends_too_early_is_unproven() -> None:
    story = killed()
    story.lock(9, "host-2", "waiting", LOCK, "patient", function="ship")
    verdict = judge(story.end(21))
    assert verdict.verdict == "unproven"
    assert any("was not taken over before the run ended" in text for text in verdict.reasons)


def test_a_lock_that_nobody_asks_for_again_is_unproven() -> None:
    verdict = judge(killed().end(60))
    assert verdict.verdict == "unproven"
    assert any("was not asked for again" in text for text in verdict.reasons)
    assert verdict.failovers[0].main is not None
    assert verdict.failovers[0].main.state == "unwanted"


@pytest.mark.parametrize("by_http", [True, False])
@pytest.mark.parametrize("refused", [True, False])
def test_nobody_repeats_a_request_by_http_whose_host_died_so_the_run_need_not_show_its_failover(
    *, by_http: bool, refused: bool
) -> None:
    story = Story(kill=1)
    story.body("host-2", 1, 2)
    for host, owner in (("host-1", "cut"), *([("host-2", "refused")] if refused else [])):
        about = {"request": owner} if by_http else {}
        story.add(9, host, "invocation_started", function="ship", invocation=owner, **about)
        story.lock(9, host, "waiting", LOCK, owner)
    story.lock(9, "host-1", "acquired", LOCK, "cut", token=1)
    story.lock(9, "host-1", "body_started", LOCK, "cut", token=1)
    story.kill(10, "host-1", LOCK)
    if refused:  # before the lease is over
        story.lock(11, "host-2", "contended", LOCK, "refused", reason="conflict")
        story.add(11, "host-2", "invocation_ended", function="ship", invocation="refused", outcome="ok")
    story.know(on_contention="conflict")
    waits = outstanding(read_history(story.records), 0)
    verdict = judge(story.end(60))
    untold = "no failover of 'ship.a' was seen: only requests by HTTP locked it, which nobody repeats"
    assert (verdict.verdict, waits) == (("holds", []) if by_http else ("unproven", ["the failover of host-1"]))
    assert (untold in verdict.untried) is by_http


def test_a_kill_of_a_host_that_held_nothing_is_unproven() -> None:
    story = Story(kill=1)
    story.body("host-2", 1, 2)
    story.kill(10, "host-1")
    verdict = judge(story.end(40))
    assert verdict.verdict == "unproven"
    assert any("host-1 held nothing when it was killed" in text for text in verdict.reasons)
    assert verdict.to_dict()["failovers"][0]["lock"] is None


def test_the_victim_itself_is_no_taker() -> None:
    story = killed()
    story.lock(10.0, "host-1", "acquired", LOCK, "ghost", token=5)
    assert judge(story.end(60)).failovers[0].main.by is None  # type: ignore[union-attr]


def test_a_timer_that_skips_has_lease_and_tick() -> None:
    def failover(taken: float) -> str:
        story = killed(lock=TIMER)
        for tick in (11, 16, 21, 26):
            story.add(tick, "host-2", "tick", function="import_eligibility", due=tick)
            story.skip("host-2", tick)
        story.add(taken, "host-2", "tick", function="import_eligibility", due=taken)
        story.body("host-2", taken, taken + 0.5, TIMER, token=2)
        over = judge(story.end(70)).failovers[0].main
        assert over is not None
        assert over.bound == pytest.approx(20)
        return over.state

    assert failover(29.5) == "in time"
    assert failover(31.6) == "late"


@pytest.mark.parametrize(("mode", "state"), [("listener", "in time"), ("function", "late")])
def test_a_tick_that_a_listeners_guard_around_refuses_asks_for_no_lock_below(mode: str, state: str) -> None:
    story = killed(lock=TIMER)
    story.lock(5, "host-2", "waiting", f"{TIMER}~listener", "", mode=mode, worker=1, function="import_eligibility")
    for tick in range(11, 41, 5):
        story.add(tick, "host-2", "tick", function="import_eligibility", due=tick)
    story.body("host-2", 41, 41.5, TIMER, token=2)
    over = judge(story.end(70)).failovers[0].main
    assert over is not None
    assert over.state == state


def test_a_timer_that_is_refused_after_the_lease_has_ended_is_late() -> None:
    story = killed(lock=TIMER)
    story.skip("host-2", 12)
    story.skip("host-2", 26.6)
    story.body("host-2", 28.5, 29, TIMER, token=2)
    over = judge(story.end(70)).failovers[0].main
    assert over is not None
    assert over.state == "late"
    assert over.bound == pytest.approx(16.6)


def test_being_refused_while_the_taker_gets_it_is_no_complaint() -> None:
    story = killed(lock=TIMER)
    story.skip("host-3", 27.1)
    story.body("host-2", 27.2, 28, TIMER, token=2, asked=27.0)
    story.add(27, "host-2", "tick", function="import_eligibility", due=27)
    over = judge(story.end(70)).failovers[0].main
    assert over is not None
    assert over.bound == pytest.approx(20)


def test_being_refused_while_the_lease_still_runs_allows_what_a_later_demand_allows() -> None:
    story = killed()
    story.skip("host-2", 11, LOCK)
    story.body("host-2", 40, 41, LOCK, token=2)
    over = judge(story.end(50)).failovers[0].main
    assert over is not None
    assert over.state == "in time"


def test_a_wait_that_was_given_up_early_is_no_claim() -> None:
    story = killed()
    story.lock(11, "host-2", "waiting", LOCK, "brief", function="ship")
    story.lock(14, "host-2", "contended", LOCK, "brief", function="ship", reason="timeout")
    story.body("host-3", 45, 46, LOCK, token=2, asked=44.9)
    over = judge(story.end(60)).failovers[0].main
    assert over is not None
    assert over.state == "in time"
    assert over.bound == pytest.approx(39.9)


def test_a_second_victim_that_waited_may_have_been_given_the_lease_unseen() -> None:
    story = killed(hosts=4)
    story.lock(9, "host-2", "waiting", LOCK, "doomed", function="ship")
    story.body("host-3", 41, 42, LOCK, token=3, asked=9)
    story.kill(24, "host-2", TIMER)
    first = judge(story.end(60)).failovers[0].main
    assert first is not None
    assert first.bound == pytest.approx(24 - 10 + 15 + 5)
    assert first.state == "in time"


def test_a_second_victim_changes_no_bound_that_was_kept() -> None:
    story = killed(hosts=4)
    story.lock(9, "host-2", "waiting", LOCK, "doomed", function="ship")
    story.kill(15, "host-2", TIMER)
    story.body("host-3", 26, 27, LOCK, token=3, asked=9)
    first = judge(story.end(60)).failovers[0].main
    assert first is not None
    assert first.bound == pytest.approx(20)


def test_what_the_victim_held_besides_is_measured_too_but_need_not_be_wanted() -> None:
    story = Story(kill=1)
    story.body("host-1", 9, None, LOCK, token=1)
    story.body("host-1", 9, None, key_lock("b"), token=1)
    story.kill(10, "host-1", LOCK, key_lock("b"))
    story.body("host-2", 20, 21, LOCK, token=2, asked=10)
    verdict = judge(story.end(60))
    (failover,) = verdict.failovers
    assert [over.state for over in failover.overs[1:]] == ["unwanted"]
    assert failover.ok
    assert verdict.verdict == "holds"


def test_what_the_victim_held_besides_must_not_be_late() -> None:
    story = Story(kill=1)
    story.body("host-1", 9, None, LOCK, token=1)
    story.body("host-1", 9, None, key_lock("b"), token=1)
    story.kill(10, "host-1", LOCK, key_lock("b"))
    story.body("host-2", 20, 21, LOCK, token=2, asked=10)
    story.body("host-2", 40, 41, key_lock("b"), token=2, asked=10)
    verdict = judge(story.end(60))
    assert not verdict.failovers[0].ok
    assert verdict.verdict == "violated"


def test_with_the_platforms_timer_lock_a_timer_counts_from_the_first_tick_of_another_host() -> None:
    story = killed(lock=TIMER, same_app=True)
    story.add(50, "host-2", "tick", function="import_eligibility", due=50)
    story.body("host-2", 50.1, 51, TIMER, token=2)
    over = judge(story.end(70)).failovers[0].main
    assert over is not None
    assert over.state == "in time"
    assert over.bound == pytest.approx(40)


def killed_in_a_slot() -> Story:
    story = Story(kill=1).know(at_once=2, several=True)
    story.body("host-1", 9, None, f"{LOCK}/slot-0", owner="x")
    story.kill(10, "host-1", LOCK)
    return story


def test_a_slot_is_taken_over_by_who_gets_that_slot() -> None:
    story = killed_in_a_slot()
    story.body("host-2", 11, 12, f"{LOCK}/slot-1")
    verdict = judge(story.end(60))
    assert [over.state for over in verdict.failovers[0].overs] == ["unwanted"]
    assert "no failover of 'ship.a' was seen: the other slots were enough" in verdict.untried
    assert not any("its failover is not measured" in text for text in verdict.reasons)
    story.body("host-3", 27, 28, f"{LOCK}/slot-0")
    (over,) = judge(story.end(60)).failovers[0].overs
    assert (over.state, over.by) == ("in time", "host-3")
    assert over.seconds == pytest.approx(17)


def test_who_waits_for_a_slot_until_a_dead_hosts_is_free_must_get_it_in_time() -> None:
    story = killed_in_a_slot()
    story.body("host-2", 9, 40, f"{LOCK}/slot-1")
    story.body("host-3", 35, 36, f"{LOCK}/slot-0", asked=12)
    assert [over.state for over in judge(story.end(60)).failovers[0].overs] == ["late"]


def test_three_kills_give_three_failovers_in_their_order() -> None:
    story = Story(hosts=5, kill=3)
    for number, at in enumerate((10, 14, 18), start=1):
        lock = key_lock("abc"[number - 1])
        story.body(f"host-{number}", at - 1, None, lock, token=1)
        story.kill(at, f"host-{number}", lock)
        story.body("host-5", at + 16, at + 17, lock, token=2, asked=at)
    verdict = judge(story.end(60))
    assert [failover.host for failover in verdict.failovers] == ["host-1", "host-2", "host-3"]
    assert all(failover.ok for failover in verdict.failovers)
    assert verdict.verdict == "holds"

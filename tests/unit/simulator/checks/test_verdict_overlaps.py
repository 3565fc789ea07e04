"""Overlaps, against a brute-force oracle: every two bodies of one lock that shared some time, and no others."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.checks.exclusion import overlapping
from simulator.checks.verdict import Verdict, judge
from simulator.history.facts import History, Section
from simulator.history.historian import read_history
from tests.support.journals import TIMER, Story, key_lock


def section(lock: str, start: float, length: float) -> Section:
    return Section(
        lock=lock, function="f", host="host-1", owner=f"{start}", token=None, start=start, end=start + length
    )


sections = st.lists(
    st.builds(section, st.sampled_from(["a", "b"]), st.integers(0, 30).map(float), st.integers(0, 8).map(float)),
    max_size=25,
)


def shares_time(first: Section, second: Section) -> bool:
    """Cut time into instants of a quarter: two bodies overlap if some instant lies within both."""
    if first.lock != second.lock:
        return False
    instants = [quarter / 4 for quarter in range(160)]
    return any(
        first.start < instant + 0.125 < first.end and second.start < instant + 0.125 < second.end
        for instant in instants
    )


@given(sections.map(lambda members: [m for m in members if m.end > m.start]))
def test_exactly_the_pairs_that_share_an_instant_overlap(members: list[Section]) -> None:
    found = {frozenset((id(first), id(second))) for first, second in overlapping(members)}
    expected = {frozenset((id(a), id(b))) for a, b in combinations(members, 2) if shares_time(a, b)}
    assert found == expected


@given(sections)
def test_each_pair_is_found_once_and_the_earlier_body_comes_first(members: list[Section]) -> None:
    pairs = overlapping(members)
    assert len({frozenset((id(first), id(second))) for first, second in pairs}) == len(pairs)
    for first, second in pairs:
        assert first is not second
        assert first.lock == second.lock
        assert first.start <= second.start < first.end


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=20))
def test_bodies_one_after_the_other_never_overlap(steps: list[tuple[int, int]]) -> None:
    members, now = [], 0.0
    for gap, length in steps:
        members.append(section("a", now + gap, length))
        now += gap + length
    assert overlapping(members) == []


def test_a_body_that_starts_when_the_other_ends_does_not_overlap() -> None:
    story = Story()
    story.body("host-1", 1, 2, token=1)
    story.body("host-2", 2, 3, token=2)
    assert judge(story.end(5)).overlaps == ()


def test_a_body_of_no_length_in_the_midst_of_another_overlaps() -> None:
    story = Story()
    story.body("host-1", 1, 3, token=1)
    story.body("host-2", 2, 2, token=2)
    assert len(judge(story.end(5)).overlaps) == 1


def test_different_locks_never_overlap() -> None:
    story = Story()
    story.body("host-1", 1, 3, key_lock("a"))
    story.body("host-2", 2, 4, key_lock("b"))
    assert judge(story.end(5)).overlaps == ()


def test_functions_that_share_a_lock_exclude_one_another() -> None:
    story = Story()
    for host, function, start in (("host-1", "ship", 1), ("host-2", "bill", 2)):
        story.lock(start, host, "acquired", "locks/shared/~orders", function, function=function)
        story.lock(start, host, "body_started", "locks/shared/~orders", function, function=function)
        story.lock(start + 3, host, "body_ended", "locks/shared/~orders", function, function=function, reason="ok")
    (overlap,) = judge(story.end(9)).overlaps
    assert (overlap.first.function, overlap.second.function) == ("ship", "bill")
    assert overlap.at == pytest.approx(2)
    assert overlap.seconds == pytest.approx(2)


def test_a_killed_host_is_inside_until_its_death_and_no_longer() -> None:
    def overlaps(start: float) -> int:
        story = Story()
        story.body("host-1", 1, None, token=1)
        story.kill(4, "host-1", TIMER)
        story.body("host-2", start, start + 1, token=2)
        return len(judge(story.end(20)).overlaps)

    assert overlaps(3.9) == 1
    assert overlaps(4.1) == 0


def test_a_body_that_never_ended_is_inside_until_the_run_ends() -> None:
    story = Story()
    story.body("host-1", 1, None, token=1)
    story.body("host-2", 8, 9, token=2)
    (overlap,) = judge(story.end(10)).overlaps
    assert overlap.first.ending == "open"


def test_a_body_that_lost_its_lock_still_counts_as_inside() -> None:
    story = Story()
    story.body("host-1", 1, 6, token=1, owner="slow", outcome="lost")
    story.lock(4, "host-1", "lost", TIMER, "slow", reason="expired")
    story.body("host-2", 5, 7, token=2)
    verdict = judge(story.end(9))
    (overlap,) = verdict.overlaps
    assert overlap.first.ending == "lost"
    assert "1 hold lost (expired)" in verdict.notes


def test_the_longest_overlap_comes_first() -> None:
    story = Story()
    story.body("host-1", 1, 2)
    story.body("host-2", 1.5, 2.5)
    story.body("host-1", 10, 20)
    story.body("host-2", 12, 18)
    overlaps = judge(story.end(30)).overlaps
    assert [round(overlap.seconds, 3) for overlap in overlaps] == [6, 0.5]


def late_waker(ending: str) -> Verdict:
    story = Story()
    story.body("host-1", 1.0, 40.0, key_lock("a"), token=1, outcome=ending)
    story.add(2.0, "host-1", "pause")
    story.add(39.9, "host-1", "resume")
    story.body("host-2", 17.0, 18.0, key_lock("a"), token=2)
    return judge(story.end(50))


def test_a_host_that_woke_inside_its_body_and_was_told_was_caught() -> None:
    verdict = late_waker("lost")
    assert (verdict.overlaps, len(verdict.caught)) == ((), 1)
    assert verdict.holds
    assert "1 body woke after a pause without the lock, and ended as lost" in verdict.notes
    assert verdict.to_dict()["caught_count"] == 1


def test_with_failover_others_get_in_sooner_while_a_host_stands_still() -> None:
    def told(failover: float | None, slept_for: float) -> Verdict:
        story = Story().know(failover=failover)
        story.body("host-1", 1.0, 40.0, key_lock("a"), token=1, outcome="lost")
        story.add(17.0 - slept_for, "host-1", "pause")
        story.add(39.9, "host-1", "resume")
        story.body("host-2", 17.0, 18.0, key_lock("a"), token=2)
        return judge(story.end(50))

    assert (told(3.0, 3.2).overlaps, len(told(3.0, 3.2).caught)) == ((), 1)
    assert len(told(None, 3.2).overlaps) == 1  # who waits for the lease can't be in yet
    assert len(told(3.0, 0.3).overlaps) == 1


def test_a_host_that_woke_inside_its_body_and_went_on_as_if_nothing_were_is_an_overlap() -> None:
    verdict = late_waker("ok")
    assert (len(verdict.overlaps), verdict.caught) == (1, ())
    assert verdict.verdict == "violated"


def test_without_a_pause_an_overlap_is_no_better_for_having_been_told() -> None:
    story = Story()
    story.body("host-1", 1.0, 40.0, key_lock("a"), token=1, outcome="lost")
    story.body("host-2", 17.0, 18.0, key_lock("a"), token=2)
    assert judge(story.end(50)).verdict == "violated"


def test_pauses_that_were_asked_for_and_did_not_happen_prove_nothing() -> None:
    story = Story(pause=2)
    story.body("host-1", 1.0, 2.0)
    story.add(1.5, "host-1", "pause")
    verdict = judge(story.end(50))
    assert (verdict.verdict, verdict.pauses) == ("unproven", 1)
    assert "2 pauses asked for, 1 done: no further host was caught holding a lock" in verdict.reasons


@pytest.mark.parametrize(("looked", "paused", "blind"), [(3.1, False, 0), (2.0, False, 1), (2.0, True, 0)])
def test_who_starts_an_orchestration_has_looked_after_the_start_before(
    looked: float, *, paused: bool, blind: int
) -> None:
    story = Story()
    of = {"of": "instance", "name": "nightly"}
    for host, times in (("host-1", (1.0, 2.5)), ("host-2", (looked, 3.5))):
        for what, t in zip(("get_status", "start_new"), times, strict=True):
            number = f"{host}-{what}"
            story.add(t, host, "pattern_asked", number=number, what=what, id=host, **of)
            story.add(t + 0.5, host, "pattern_answered", number=number)
    if paused:
        story.add(2.6, "host-2", "pause")
        story.add(3.0, "host-2", "resume")
    found = [text for text in judge(story.end(9)).violations if "1 start of the orchestration 'nightly'" in text]
    assert len(found) == blind


def worker_story() -> Story:
    story = Story()
    story.lock(1.0, "host-1", "acquired", TIMER, "call-1", token=1, worker=1)
    story.lock(1.0, "host-1", "body_started", TIMER, "call-1", token=1, worker=1)
    return story


def test_a_worker_that_ended_ends_its_bodies_and_no_others_and_the_run_does_not_hold() -> None:
    story = worker_story()
    story.add(2, "host-1", "worker_exited", worker=2, reason="exit code 7", timeout=False)
    story.add(3, "host-1", "worker_exited", worker=1, reason="functionTimeout", timeout=True)
    history = read_history(story.records)
    assert [(body.end, body.ending) for body in history.sections] == [(1003, "crashed")]
    assert [(end.worker, end.cut) for end in history.worker_ends] == [(2, 0), (1, 1)]
    violations = judge(story.end(30)).violations
    assert "a worker of host-1 ended 1 time, and cut 1 guarded body short: functionTimeout" in violations


@pytest.mark.parametrize(("paused", "accused"), [((20, 38), False), ((1, 5), True), (None, True)])
def test_a_worker_whose_host_stood_still_had_less_than_its_time(
    paused: tuple[float, float] | None, *, accused: bool
) -> None:
    story = worker_story().know(limit=30)
    for t, event in zip(paused or (), ("pause", "resume"), strict=False):
        story.add(t, "host-1", event)
    story.add(40, "host-1", "worker_exited", worker=1, reason="functionTimeout", timeout=True)
    verdict = judge(story.end(60))
    assert any("a worker of host-1 ended" in text for text in verdict.violations) == accused
    assert any("as host-1 had stood still" in text for text in verdict.notes) != accused


def test_the_end_of_a_worker_tells_for_what_its_invocation_took_too_long() -> None:
    story = Story()
    story.add(1, "host-1", "invocation_started", function="import_eligibility", invocation="call-1")
    story.lock(1, "host-1", "waiting", TIMER, "call-1")
    story.lock(26, "host-1", "acquired", TIMER, "call-1", token=1, worker=1)
    story.add(26, "host-1", "body_entered", function="import_eligibility", invocation="call-1", run="1", worker=1)
    story.add(31, "host-1", "worker_exited", worker=1, reason="functionTimeout", timeout=True)
    error = {"outcome": "error", "error": "FunctionTimeoutException: it took 30 s"}
    story.add(31, "host-1", "invocation_ended", function="import_eligibility", invocation="call-1", **error)
    said = "functionTimeout (it waited for its lock for 25.0 s, and its body ran for 5.0 s)"
    assert any(said in text for text in judge(story.end(60)).violations)


def test_under_a_listeners_lock_the_bodies_of_two_workers_of_a_host_overlap() -> None:
    story = Story()
    for worker, start in ((1, 1.0), (2, 2.0)):
        about = {"mode": "listener", "worker": worker, "token": worker}
        story.lock(start, "host-1", "acquired", TIMER, "", **about)
        story.lock(start, "host-1", "body_started", TIMER, f"call-{worker}", **about)
    for worker in (1, 2):
        story.lock(3, "host-1", "body_ended", TIMER, f"call-{worker}", mode="listener", worker=worker)
    assert len(judge(story.end(30)).overlaps) == 1


def test_an_invocation_that_could_not_be_named_has_passed_its_guard_all_the_same() -> None:
    story = Story()
    story.add(1, "host-1", "invocation_started", function="import_eligibility", invocation="call-1")
    for kind in ("acquired", "body_started", "body_ended", "released"):
        story.lock(2, "host-1", kind, TIMER, "", token=1)
    story.add(3, "host-1", "invocation_ended", function="import_eligibility", invocation="call-1", outcome="ok")
    assert not any("passing through" in text for text in judge(story.end(30)).violations)


def test_an_operators_break_of_a_slot_is_one_of_its_semaphore() -> None:
    body = section("locks/x", 10.0, 5.0)
    history = History(operated=[(8.0, "locks/x/slot-3"), (8.0, "locks/y")])
    assert history.operated_before(body, 10.0)
    assert not history.operated_before(section("locks/z", 10.0, 5.0), 10.0)

"""Fencing tokens: strictly increasing per lock, in the order in which the lock was got."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from simulator.checks.verdict import judge
from tests.support.journals import TIMER, Story, key_lock


def run(*tokens: int | None, lock: str = TIMER) -> Story:
    story = Story()
    for number, token in enumerate(tokens):
        story.body(f"host-{number % 3 + 1}", number + 1, number + 1.5, lock, token=token)
    return story


@given(st.lists(st.integers(0, 2**53) | st.none(), max_size=12))
def test_tokens_increase_exactly_if_their_sorted_set_is_their_list(tokens: list[int | None]) -> None:
    verdict = judge(run(*tokens).end(100))
    issued = [token for token in tokens if token is not None]
    assert verdict.tokens.issued == len(issued)
    assert verdict.tokens.increasing == (issued == sorted(set(issued)))


def test_each_lock_has_its_own_order() -> None:
    story = run(5, 6, lock=key_lock("a"))
    story.body("host-1", 10, 11, key_lock("b"), token=1)
    tokens = judge(story.end(20)).tokens
    assert tokens.increasing
    assert (tokens.issued, tokens.locks) == (3, 2)


def test_a_regression_says_who_got_what_after_whom() -> None:
    (regression,) = judge(run(4, 3).end(20)).tokens.regressions
    assert (regression.host, regression.token) == ("host-2", 3)
    assert (regression.before_host, regression.before) == ("host-1", 4)


def test_tokens_in_the_wrong_order_of_bodies_are_found_too() -> None:
    story = Story()
    story.lock(1, "host-1", "acquired", TIMER, "one", token=1)
    story.lock(2, "host-2", "acquired", TIMER, "two", token=2)
    story.lock(3, "host-2", "body_started", TIMER, "two", token=2)
    story.lock(4, "host-2", "body_ended", TIMER, "two", token=2, reason="ok")
    story.lock(5, "host-1", "body_started", TIMER, "one", token=1)
    story.lock(6, "host-1", "body_ended", TIMER, "one", token=1, reason="ok")
    verdict = judge(story.end(9))
    (regression,) = verdict.tokens.regressions
    assert regression.seen == "body"
    assert verdict.verdict == "violated"


def test_tokens_of_locks_without_a_guarded_body_are_compared_too() -> None:
    story = Story()
    for t, token in ((1, 7), (2, 7)):
        story.lock(t, "host-1", "acquired", "locks/shared/by-hand", f"{t}", token=token)
    (regression,) = judge(story.end(9)).tokens.regressions
    assert (regression.seen, regression.token, regression.before) == ("acquired", 7, 7)


def test_runs_without_tokens_are_no_regression() -> None:
    assert judge(run(None, None).end(9)).tokens.increasing


def late(ending: str) -> Story:
    """A host is stopped between the answer of the storage and the record of it, for longer than its lease."""
    story = Story()
    story.add(1.5, "host-1", "pause")
    story.body("host-2", 17.0, 18.0, token=2)
    story.add(20.0, "host-1", "resume")
    story.body("host-1", 20.1, 20.2, token=1, asked=1.0, outcome=ending)
    return story


def test_a_host_that_stood_still_may_say_late_that_it_got_the_lock_if_it_is_told_that_it_lost_it() -> None:
    verdict = judge(late("lost").end(50))
    assert verdict.tokens.increasing
    assert verdict.holds


def test_a_host_that_stood_still_must_not_work_with_its_old_token() -> None:
    assert not judge(late("ok").end(50)).tokens.increasing

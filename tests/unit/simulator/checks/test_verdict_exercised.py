"""What the run did not reach is said: a promise that was not put to the test is not shown."""

from __future__ import annotations

import pytest

from simulator.checks.verdict import judge
from simulator.report.words import headline
from tests.support.journals import TIMER, Story, key_lock


def story(policy: str = "wait") -> Story:
    """A run in which two hosts work one after the other for long, and nobody meets a taken lock."""
    story = Story(policy=policy)
    story.body("host-1", 1, 9, key_lock("a"), token=1)
    story.body("host-2", 10, 11, key_lock("a"), token=2)
    story.lease(8.5, "host-1", "renew", key_lock("a"))
    story.skip("host-2", 3.1, TIMER)
    story.body("host-1", 3, 4, TIMER, token=1)
    return story


def untried(story: Story) -> list[str]:
    verdict = judge(story.end(30))
    assert verdict.holds, verdict.reasons
    return [*verdict.untried]


def test_a_policy_that_nobody_needed_is_named() -> None:
    assert untried(story()) == ["no invocation of ship had to wait"]
    assert untried(story("skip")) == ["no invocation of ship was skipped"]
    assert untried(story("defer")) == ["no invocation of ship was deferred"]
    assert untried(story("custom")) == ["no invocation of ship met a lock that was taken"]


def test_a_wait_for_a_lock_that_another_has_is_seen() -> None:
    waited = story()
    waited.body("host-3", 11.1, 12, key_lock("a"), token=3, asked=10.1)
    assert untried(waited) == []
    assert judge(waited.records).exercised.waits == 1


def test_locks_of_lock_clients_are_named_as_nobody_judges_them() -> None:
    waited = story()
    waited.body("host-3", 11.1, 12, key_lock("a"), token=3, asked=10.1)
    waited.lock(12, "host-1", "acquired", "copies/slot-1", "me", mode="semaphore")
    assert untried(waited) == ["1 lock of lock clients was not judged: 'copies'"]
    assert headline(judge(waited.records)).text.startswith("HOLDS, as far as it was tried: 1 lock of lock clients")
    waited.lock(13, "host-1", "acquired", "stock", "me", mode="lock")
    assert untried(waited) == ["2 locks of lock clients were not judged: the first 'copies'"]


def test_a_function_that_never_ran_is_named() -> None:
    alone = Story()
    alone.body("host-1", 1, 9, TIMER, token=1)
    alone.lease(8.5, "host-1", "renew", TIMER)
    alone.body("host-2", 10, 11, TIMER, token=2)
    alone.skip("host-3", 2, TIMER)
    assert untried(alone) == ["ship never ran"]


def test_a_lock_that_never_changed_hosts_is_named() -> None:
    alone = Story()
    alone.body("host-1", 1, 9, key_lock("a"), token=1)
    alone.lease(8.5, "host-1", "renew", key_lock("a"))
    alone.body("host-1", 10, 11, key_lock("a"), token=2, asked=8)
    alone.skip("host-2", 3.1, TIMER)
    alone.body("host-1", 3, 4, TIMER, token=1)
    assert untried(alone) == ["no lock went from one host to another"]


@pytest.mark.parametrize(("at", "status"), [(8.5, 412), (8.5, None), (9.5, 200)])
def test_a_renewal_that_was_refused_or_came_after_the_hold_is_none(at: float, status: int | None) -> None:
    alone = Story()
    alone.body("host-1", 1, 9, TIMER, token=1)
    alone.lease(at, "host-1", "renew", TIMER, status=status)
    assert "no renewal was seen (bodies take 8 s at most)" in untried(alone)


def test_a_run_without_the_lock_shows_nothing_and_says_nothing_of_it() -> None:
    bare = Story(singleton=False)
    bare.body("host-1", 1, 2, TIMER, held=False)
    assert judge(bare.end(30)).untried == ()

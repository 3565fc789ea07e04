"""A lease is given back in time: after ``at_least``, and when nobody in its process knows of the grant."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.checks.verdict import judge
from tests.support.journals import Story, key_lock, plain

A = key_lock("a")


def said(story: Story) -> list[str]:
    return plain(judge(story.end(60)).violations)


def kept(released: float | None, **event: float) -> Story:
    """A body ends at second 2, with ``at_least`` of 10 s from second 1 on; `host-2` waits from second 3 on."""
    story = Story().know(at_least=10)
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="one", took=0.0)
    story.body("host-1", 1, 2, A, token=1)
    story.body("host-1", 1, 2, key_lock("b"))
    story.lease(2, "host-1", "release", key_lock("b"), lease="two", took=0.0)  # the journal tells of releases
    for name, t in event.items():
        story.add(t, "host-1", name, expected=True)
    if released is not None:
        story.lease(released, "host-1", "release", A, lease="one", took=0.0)
        story.body("host-2", released + 3, released + 4, A, token=2, asked=3.0)
    return story


def test_a_lock_is_kept_for_at_least_and_no_longer() -> None:
    assert said(kept(11.2)) == []
    assert said(kept(25.0)) == ["ship.a was kept by host-1 for 14.0 s longer than at_least=10"]
    assert "ship.a was kept by host-1 for 49.0 s longer than at_least=10" in said(kept(None))


@pytest.mark.parametrize("event", ["host_stopping", "host_exited", "pause"])
def test_a_process_that_ends_or_stands_still_keeps_no_lock(event: str) -> None:
    assert event != "host_stopping" or said(kept(None, host_stopping=0.5)) == []  # a waiter may get it afterwards
    for t in (8, 12):
        assert said(kept(None, **{event: t})) == []


@pytest.mark.parametrize(("got", "found"), [(23.5, 0), (31.0, 1)])
def test_a_lock_that_a_process_keeps_as_it_is_told_to_end_is_leased_a_lease_longer(got: float, found: int) -> None:
    story = kept(None, host_stopping=8)
    story.body("host-2", got, got + 1, A, token=2, asked=3.0)
    assert sum("was free for" in text for text in said(story)) == found


def test_a_lock_that_is_handed_on_in_its_process_is_not_given_back() -> None:
    story = Story().know(at_least=10)
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="one", took=0.0)
    story.body("host-1", 1, 2, A, token=1)
    story.body("host-1", 11.1, 12, A, token=2, asked=3.0)
    story.lease(21.2, "host-1", "release", A, lease="one", took=0.0)
    assert said(story) == []


@pytest.mark.parametrize(
    ("released", "end", "why", "found"),
    [
        (8.2, 8, "too long", ""),
        (None, 8, "too long", "7.9"),  # until the lease lapses
        (14.0, 8, "too long", "6.0"),
        (None, 8, "expired", "7.9"),
        (None, 8, "stolen", ""),
        (None, 17, "too long", ""),
    ],
)
def test_a_lock_that_is_lost_is_released_as_its_body_ends(
    released: float | None, end: float, why: str, found: str
) -> None:
    story = Story().know(max_hold=4)
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="one", took=0.0)
    story.body("host-1", 1, end, A, outcome="error", owner="i")
    story.lock(5, "host-1", "lost", A, "i", reason=why)
    if released is not None:
        story.lease(released, "host-1", "release", A, lease="one", took=0.0)
    left = [text.partition("host-1, ")[2].partition(" s ")[0] for text in said(story) if "left to lapse" in text]
    assert left == [found] * bool(found)


@pytest.mark.parametrize("got", [9.0, 15.5])
def test_a_lock_that_is_lost_is_free_from_its_release_on(got: float) -> None:
    story = Story().know(max_hold=4)
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="one", took=0.0)
    story.body("host-1", 1, 6, A, outcome="error", owner="i", token=1)
    story.lock(5, "host-1", "lost", A, "i", reason="too long")
    story.lease(6.1, "host-1", "release", A, lease="one", took=0.0)
    story.body("host-2", got, got + 1, A, token=2, asked=3.0)
    free = [text for text in said(story) if "was free for" in text]
    assert free == ["ship.a was free for 9.4 s while host-2 waited for it"] * (got > 12)


def test_a_journal_of_an_older_run_tells_of_no_release() -> None:
    story = Story().know(at_least=10)
    story.lease(0.9, "host-1", "acquire", A, status=201, lease="one", took=0.0)
    story.body("host-1", 1, 2, A)
    assert said(story) == []


DOUBT = (
    "host-1 was granted the lease of ship.a by an answer that got lost, and neither asked for the same lease again nor "
    "gave the lease back for {} s"
)


def doubtful(*later: tuple[float, str, str], granted: bool = True, ends: str = "") -> list[str]:
    """The answer to a request for a lease is lost at second 2: what `host-1` asks for later, under which lease id."""
    story = Story(faults=["lose"])
    story.fault(1.5, 5.0, "lose", "host-1")
    if granted:
        story.fleet(1.9, "lease_granted", blob=f"/account/container/{A}", lease="one")
    story.lease(2, "host-1", "acquire", A, status=None, lease="one", period=15, took=0.1)
    for t, action, lease in later:
        story.lease(t, "host-1", action, A, status=409, lease=lease, took=0.0)
    if ends:
        story.add(2.2, "host-1", ends, expected=True)
    story.body("host-1", 18, 19, A, asked=1.0)
    story.fleet(59, "healed")
    return [text for text in said(story) if "an answer that got lost" in text]


@pytest.mark.parametrize("action", ["acquire", "release"])
def test_who_lost_an_answer_asks_for_the_same_lease_again_or_gives_the_lease_back(action: str) -> None:
    assert doubtful((4, action, "one")) == []
    assert doubtful((4, action, "two")) == [DOUBT.format("14.9")]  # until the lease lapses
    assert doubtful((9, action, "one")) == [DOUBT.format("7.0")]
    assert doubtful((4, action, "two"), granted=False) == []


@pytest.mark.parametrize("event", ["host_stopping", "host_exited", "pause"])
def test_a_process_that_ends_or_stands_still_asks_for_no_lease_again(event: str) -> None:
    assert doubtful(ends=event) == []


def test_whose_lease_nobody_waits_for_is_not_known() -> None:
    story: Any = Story()
    story.fleet(1.9, "lease_granted", blob=f"/account/container/{A}", lease="one")
    story.lease(2, "host-1", "acquire", A, status=None, lease="one", period=15, took=0.1)
    assert said(story) == []

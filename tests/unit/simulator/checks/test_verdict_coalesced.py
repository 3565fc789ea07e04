"""An invocation that left for a waiter: a body of its lock begins later, or the waiter waits still."""

from __future__ import annotations

from simulator.checks.verdict import judge
from tests.support.journals import Story, key_lock, plain

A, B = key_lock("a"), key_lock("b")
ALONE = (
    "1 invocation of 'ship' ended as coalesced, and no body of its lock began later, nor did another invocation wait: "
    "on_contention='coalesce' promises a body after each"
)


def left(
    *,
    waits: bool = False,
    later: float | None = None,
    lock: str = A,
    keys: tuple[str, str] = ("a", "a"),
    also: str | None = None,
) -> list[str]:
    """Return what is found where an invocation left at 5, while a body ran from 3 to 8.

    ``keys``: what the app has declared for those that left, and for those that wait or run. ``also``: the older key of
    those that left.
    """
    story = Story()
    story.know(on_contention="coalesce", timeout=20)
    mine, theirs = (dict[str, str | None](function=key) for key in keys)
    mine |= {"also": also} if also is not None else {}
    story.body("host-1", 3, 8, A, keys=theirs)
    calls = (("waits", 4.0, theirs), ("leaves", 5.0, mine)) if waits else (("leaves", 5.0, mine),)
    for owner, t, expected in calls:
        story.add(t, "host-2", "invocation_started", function="ship", invocation=owner)
        story.add(t, "host-2", "expected", invocation=owner, keys=expected)
        story.lock(t, "host-2", "waiting", A, owner)
    story.lock(5.1, "host-2", "coalesced", A, "leaves")
    if later is not None:
        story.body("host-2", later, later + 1, lock, keys=theirs)
    return [text for text in plain(judge(story.end(40)).violations) if "coalesced" in text or "gave up" in text]


def test_a_body_that_begins_later_is_what_was_promised() -> None:
    assert left(waits=True, later=9) == []
    assert left(later=9) == []


def test_an_invocation_that_left_for_nobody_is_found() -> None:
    assert left() == [ALONE]
    assert left(later=9, lock=B, keys=("a", "b")) == [ALONE]


def test_bodies_and_waiters_of_another_key_are_none_for_it_though_the_product_gave_both_one_lock() -> None:
    assert left(later=9, keys=("a", "b")) == [ALONE]
    assert left(waits=True, keys=("a", "b")) == [ALONE]


def test_a_body_or_a_waiter_under_the_older_name_is_one_for_an_invocation_with_both() -> None:
    assert left(later=9, lock=B, keys=("a", "b"), also="b") == []
    assert left(waits=True, keys=("a", "b"), also="b") == []
    assert left(later=9, lock=B, keys=("a", "b"), also="c") == [ALONE]


def test_a_waiter_who_waits_at_the_end_of_the_run_is_no_fault() -> None:
    assert left(waits=True) == []


def test_a_waiter_waits_for_as_long_as_it_takes() -> None:
    story = Story()
    story.know(on_contention="coalesce")
    story.lock(1, "host-2", "waiting", A, "waits")
    story.body("host-1", 2, 30, A)
    story.lock(30.5, "host-2", "acquired", A, "waits")
    story.lock(30.5, "host-2", "body_started", A, "waits")
    story.lock(31, "host-2", "body_ended", A, "waits", reason="ok")
    story.lock(31, "host-2", "released", A, "waits")
    assert [text for text in plain(judge(story.end(40)).violations) if "waited" in text] == []
